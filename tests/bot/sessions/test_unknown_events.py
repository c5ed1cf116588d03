"""A log with events of types that this version does not know: it is shown, and its session works on.

A later version wrote them, and an older one reads them after a rollback. They reach the log as that version's would, by
the store; what is known of them here is a name, an actor and a label.
"""

import asyncio
import json
from pathlib import Path

import pytest

from bot.cli.sessions import show_session
from bot.config.load import load_config
from bot.sessions.log.event_types import AgentMessage, UnknownEvent
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.models import Write
from bot.tools import catalogue
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import Scripted, bang, note, parts, policy
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

INTERNAL = parse("INTERNAL")
DIRTY = parse("INTERNAL~")
HIGH = parse("CONFIDENTIAL")
REACTION = UnknownEvent("chat.reaction", {"emoji": "👍", "count": 3, "to": {"seq": 4}})


def reaction(label: Label = INTERNAL, *, visibility: Visibility = Visibility.USER, name: str = "") -> NewEvent:
    """Return an event that entered the context of a later version."""
    body = UnknownEvent(name, {}) if name else REACTION
    return NewEvent("owner", label, body, visibility, admitted=True, turn="t")


async def planted(person: Person, *events: NewEvent) -> None:
    """Put events into a session's log, as a worker of another version does."""
    store = person.app.store.sessions
    claim = await store.claim(person.sid, "another-version", idle=True)
    assert claim is not None
    await store.record(claim, Write(person.app.ids.op(), claim.state.seq, events=events, release=True))


async def test_it_is_listed_with_its_name_and_label_and_nothing_of_what_it_holds(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await planted(owner, reaction(), reaction(visibility=Visibility.INTERNAL, name="agent.dream"))
        shown = await owner.say("/history")
        assert ". owner, unknown event, INTERNAL, " in shown
        assert "\n    chat.reaction\n" in shown
        assert "👍" not in shown
        assert "agent.dream" not in shown
        told = await owner.say(bang("sessions_history", session_id=owner.sid))
        assert '"what": "unknown event", "label": "INTERNAL", "text": "chat.reaction"' in told
        assert "agent.dream" not in await owner.say("/history")


async def test_its_label_gates_it_as_any_other(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner", clearance="INTERNAL")}
    async with running(tmp_path, policy(principals=people)) as owner:
        await owner.say("hello")
        held = NewEvent("gate", HIGH, UnknownEvent("item.sealed", {"text": "secret"}), Visibility.USER, turn="t")
        await planted(owner, held)
        for command in ("/history", "/export"):
            assert "item.sealed" not in await owner.say(command)


async def test_an_export_keeps_it_verbatim(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await planted(owner, reaction())
        lines = [json.loads(line) for line in (await owner.say("/export")).splitlines()]
        (entry,) = [line for line in lines if line.get("type") == "chat.reaction"]
        assert (entry["body"], entry["label"], entry["actor"]) == (dict(REACTION.fields), "INTERNAL", "owner")


async def test_an_operator_is_shown_it_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(tmp_path, embedded=True) as owner:
        await owner.say("hello")
        await planted(owner, reaction(), reaction(visibility=Visibility.INTERNAL, name="agent.dream"))
        place = {"LOCKGATE_DATA_DIR": str(tmp_path / "data")}
        config = await asyncio.to_thread(load_config, tmp_path / "config.yaml", place, catalogue.ARGUMENTS)
        capsys.readouterr()
        await show_session(config, owner.sid, as_json=False)
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "chat.reaction" in line]
        assert line.split()[-3:] == ["INTERNAL", "unknown", "event"]
        await show_session(config, owner.sid, as_json=True)
        told = json.loads(capsys.readouterr().out)["events"]
        assert [one["type"] for one in told][-2:] == ["chat.reaction", "agent.dream"]
        assert told[-2]["body"] == REACTION.fields


async def test_its_session_works_on_and_the_model_reads_nothing_of_it(tmp_path: Path) -> None:
    model = Scripted("one", "two", "three")
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("hello")
        await planted(owner, reaction())
        # It counts for the taint: law `taint_is_the_fold`.
        assert (await owner.state()).taint == INTERNAL
        assert "two" in await owner.say("and now")
    # Another process reads the log from its beginning.
    async with running(tmp_path, parts=parts(model=model)) as owner:
        assert "three" in await owner.say("once more")
        assert (await owner.state()).taint == INTERNAL
        assert [answer.text for answer in bodies(await owner.events(), AgentMessage)] == ["one", "two", "three"]
        for command in ("/status", "/taint", "/why", "/sessions", "/agents", "/queue"):
            assert "Something went wrong" not in await owner.say(command)
    assert "chat.reaction" not in model.read()
    assert "👍" not in model.read()


async def test_what_it_brought_into_the_context_does_not_command(tmp_path: Path) -> None:
    """An UNTRUSTED one is asked about like any other, and so are words of somebody that it names."""
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await planted(owner, reaction(parse("PUBLIC~")))
        assert "untrusted_cannot_command" in await owner.say(note("guest", "hi"))
        await owner.say("/reset confirm")
        await owner.say("hello again")
        other = UnknownEvent("chat.reaction", {"authors": ["mel"]})
        await planted(owner, NewEvent("mel", PUBLIC, other, Visibility.USER, admitted=True, turn="t"))
        assert "others_cannot_command" in await owner.say(note("guest", "hi"))


async def test_a_recap_leaves_it_out(tmp_path: Path) -> None:
    model = Scripted("one", "THE RECAP")
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("hello")
        await planted(owner, reaction(DIRTY))
        assert "THE RECAP" in await owner.say("/summarize")
        assert "chat.reaction" not in model.read()
        # It is labelled with all that the session has read, whatever that was.
        assert (await owner.events())[-1].label == DIRTY
