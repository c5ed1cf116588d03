"""Stories of answers that count for longer: for a conversation, until a time, and taken back."""

import json
import re
from pathlib import Path

import pytest

from channels.messages import Address
from tests.bot.kit import bang, note, policy
from tests.chaos.stepped_clock import SteppedClock
from tests.harness import Person, running
from tests.journeys import test_slack
from tests.journeys.machine import Machine
from tests.journeys.test_telegram import call, config, hears
from tests.people import principal
from tests.sim.slack import slack
from tests.sim.telegram import telegram

_GUEST = {"channel": "console", "chat": "guest", "clearance": "INTERNAL~"}
_OTHER = {**_GUEST, "chat": "other"}


def _asked(shown: str) -> str:
    """Return the id of the newest question that is shown."""
    return re.findall(r"`/approve ([0-9a-z-]+)", shown)[-1]


@pytest.mark.anyio
async def test_a_question_answered_for_this_conversation(tmp_path: Path) -> None:
    """Ann lets her agent write to a guest, with any words, for this conversation: it asks no more, but for the rest."""
    config = policy(recipients={"guest": _GUEST, "other": _OTHER})
    async with running(tmp_path, config) as ann:
        await ann.say(bang("read_file", path="public/welcome.md"))
        shown = await ann.say(note("guest", "one"))
        assert "up to 10 calls of `message`" in shown
        assert "any words, by any author, in `text`" in shown
        name = _asked(shown)
        assert f"For this conversation: `/approve {name} conversation`" in shown
        assert f"For 1 hour: `/approve {name} until 1h`" in shown
        shown = await ann.say(f"/approve {name} conversation")
        await ann.settled()
        assert f"Grant {name} counts until this conversation is reset" in shown
        assert "→ guest: one" in ann.shown
        shown = await ann.say(note("guest", "two, of other words"))
        assert "→ guest: two, of other words" in shown
        assert "/approve" not in shown, "nobody was asked"
        listed = await ann.say("/grants")
        assert "8 left" in listed
        assert f"`/grants revoke {name}`" in listed
        told = await ann.say(
            f"/simulate message {json.dumps({'channel': 'console', 'recipient': 'guest', 'text': 'x'})}"
        )
        assert f"Grant {name} covers it." in told
        shown = await ann.say(note("other", "three"))
        assert "`/approve" in shown, "another recipient is asked about"
        await ann.say(f"/deny {_asked(shown)}")
        await ann.settled()
        rows = [row.body for row in await ann.app.store.audit.records(ann.sid)]
        assert [row["uses"] for row in rows if row.get("approval") == name] == [10]
        assert [row["verdict"] for row in rows if row.get("grant") == name] == ["ALLOW"]
        await ann.say("/reset confirm")
        rows = [row.body for row in await ann.app.store.audit.records(ann.sid)]
        assert [row["why"] for row in rows if row.get("what") == "ended"] == ["reset"]
        assert "No grants cover further calls." in await ann.say("/grants")
        await ann.say(bang("read_file", path="public/welcome.md"))
        assert "`/approve" in await ann.say(note("guest", "four")), "the grant ended with the conversation"


@pytest.mark.anyio
async def test_a_grant_is_used_up_and_another_is_revoked(tmp_path: Path) -> None:
    """Ten calls are covered and the eleventh is asked about; a grant that is taken back covers none."""
    async with running(tmp_path, policy(recipients={"guest": _GUEST})) as ann:
        await ann.say(bang("read_file", path="public/welcome.md"))
        name = _asked(await ann.say(note("guest", "call 1.")))
        await ann.say(f"/approve {name} until 2h")
        await ann.settled()
        await ann.say("\n".join(note("guest", f"call {number}.") for number in range(2, 12)))
        assert [f"→ guest: call {number}." in ann.shown for number in range(1, 12)] == [True] * 10 + [False]
        assert "No grants cover further calls." in await ann.say("/grants")
        rows = [row.body for row in await ann.app.store.audit.records(ann.sid)]
        assert [row["why"] for row in rows if row.get("what") == "ended"] == ["used_up"]
        again = _asked(await ann.say("/approvals"))
        assert again != name
        await ann.say(f"/approve {again} until 2h")
        await ann.settled()
        assert "→ guest: call 11." in ann.shown
        assert "covers no call any more" in await ann.say(f"/grants revoke {again}")
        assert "`/approve" in await ann.say(note("guest", "call 12."))
        gone = await ann.say(f"/grants revoke {again}")
        assert "There is nothing of that name here. `/grants` lists those that count" in gone
        rows = [row.body for row in await ann.app.store.audit.records(ann.sid)]
        assert [row["grant"] for row in rows if row.get("what") == "revoked"] == [again]


def test_a_grant_at_the_console_that_the_operator_takes_back(machine: Machine) -> None:
    """`yes conversation` answers for the files of a folder; `lockgate sessions` lists the grant and revokes it."""
    write = bang("write_file", path="confidential/one.md", text="mine")
    first = machine.chat(bang("read_file", path="confidential/pipeline.md"), write, "yes conversation")
    assert 'any file of `"confidential/"` in `path`' in first.out
    assert "counts until this conversation is reset" in first.out
    other = machine.chat(bang("write_file", path="confidential/two.md", text="other words"))
    assert "/approve" not in other.out
    assert (machine.data / "files/confidential/two.md").read_text() == "other words"
    (session,) = json.loads(machine.run("sessions", "list", "--json").out)
    (grant,) = json.loads(machine.run("sessions", "grants", session["id"], "--json").out)
    assert (grant["tool"], grant["left"], grant["until"]) == ("write_file", 8, "reset")
    assert "no such grant" in machine.run("sessions", "revoke", session["id"], "none").err
    assert "covers no call any more" in machine.run("sessions", "revoke", session["id"], grant["grant"]).out
    assert json.loads(machine.run("sessions", "grants", session["id"], "--json").out) == []
    last = machine.chat(bang("write_file", path="confidential/three.md", text="x"), "yes for ever", "no")
    assert "May `write_file` run" in last.out
    assert not (machine.data / "files/confidential/three.md").exists()


@pytest.mark.anyio
async def test_words_that_are_no_answer_give_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, policy(recipients={"guest": _GUEST})) as ann:
        await ann.say(bang("read_file", path="public/welcome.md"))
        name = _asked(await ann.say(note("guest", "one")))
        for words, told in (
            ("for ever", "is not `conversation` or `until`"),
            ("until", "is not `conversation` or `until` with a time, such as `until 2h`"),
            ("until soon", "is not a time"),
            ("until 9d", "within 7 days from now, `until 7d` is the longest"),
            ("until 2001-01-01", "within 7 days"),
        ):
            assert told in (await ann.say(f"/approve {name} {words}", wait=False))
        assert "→ guest" not in ann.shown
        assert "No grants cover further calls." in await ann.say("/grants", wait=False)
        assert "/grants [revoke ID]" in await ann.say("/grants all", wait=False)


@pytest.mark.anyio
async def test_a_grant_of_another_person_is_found_by_them_alone(tmp_path: Path) -> None:
    """A rule lets an admin's word count for longer: she gives it from her own chat, and takes it back."""
    asks = {"id": "look", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}
    text = policy(
        principals={
            "owner": principal("console:owner"),
            "ada": principal("console:ada", role="admin", clearance="INTERNAL"),
            "mel": principal("console:mel", role="member", clearance="INTERNAL"),
        },
        recipients={name: {**_GUEST, "chat": name} for name in ("guest", "ada", "mel")},
        rules=[{**asks, "may_be_granted": True}],
    )
    async with running(tmp_path, text) as ann:
        ada, mel = (Person(ann.app, ann.output, Address("console", name), f"console:{name}") for name in ("ada", "mel"))
        name = _asked(await ann.say(note("guest", "one")))
        assert "has to answer" in await ann.say(f"/approve {name} conversation", wait=False)
        await ada.say(f"/approve {name} conversation", wait=False)
        await ann.settled()
        assert "→ guest: two" in await ann.say(note("guest", "two"))
        assert name in await ada.say("/grants")
        assert "No grants cover further calls." in await mel.say("/grants")
        assert "nothing of that name" in (await mel.say(f"/grants revoke {name}")).lower()
        await ada.say(f"/grants revoke {name}")
        assert "has to answer" in await ann.say(note("guest", "three"))


@pytest.mark.anyio
async def test_a_rule_that_does_not_say_so_is_answered_once(tmp_path: Path) -> None:
    asks = {"id": "look", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}
    people = {"owner": principal("console:owner"), "ada": principal("console:ada", role="admin", clearance="INTERNAL")}
    text = policy(
        principals=people, recipients={name: {**_GUEST, "chat": name} for name in ("guest", "ada")}, rules=[asks]
    )
    async with running(tmp_path, text) as ann:
        ada = Person(ann.app, ann.output, Address("console", "ada"), "console:ada")
        shown = await ann.say(note("guest", "one"))
        assert "Approve: `/approve" in shown
        assert "worst case" not in shown
        name = _asked(shown)
        assert "approved once only" in await ada.say(f"/approve {name} conversation", wait=False)
        assert "→ guest" not in ann.shown
        await ada.say(f"/approve {name}", wait=False)
        await ann.settled()
        assert "→ guest: one" in ann.shown


@pytest.mark.anyio
async def test_a_grant_by_a_button_that_expires(tmp_path: Path) -> None:
    """Ann presses "For 1 hour": the next message passes unasked, and the one after two hours does not."""
    clock = SteppedClock(tmp_path)
    async with telegram() as server:
        ann, ben = server.user("Ann"), server.user("Ben")
        text = json.loads(config(server, ann, ben=(ben, "member", "INTERNAL")))
        text["policy"]["recipients"] = {"ben": {"channel": "telegram", "chat": str(ben.id), "clearance": "INTERNAL"}}
        ben.says(None, "/whoami")
        machine = Machine(tmp_path)
        async with machine.listening(json.dumps(text), {"BOT_TOKEN": server.token, **clock.environment}):
            await hears(server, ben.private, "You are ben")
            ann.says(None, call("read_file", path="public/welcome.md"))
            await hears(server, ann.private, "read_file:")
            ann.says(None, call("message", channel="telegram", recipient="ben", text="one"))
            asked = await hears(server, ann.private, "An answer for longer allows, in the worst case")
            assert "any words, by any author" in asked
            (question,) = [shown for shown in ann.private.shows if shown.buttons]
            ann.presses(question, "For 1 hour")
            await hears(server, ben.private, "one")
            await server.until(lambda: bool(re.search(r": approved by \w+, until \S+ \S+ UTC", question.text)), 40)
            ann.says(None, call("message", channel="telegram", recipient="ben", text="two"))
            await hears(server, ben.private, "two")
            assert sum("May `message` run" in said for said in ann.private.said) == 1
            if not clock.there:
                return
            clock.step(2 * 60 * 60)
            before = len(ann.private.said)
            ann.says(None, call("message", channel="telegram", recipient="ben", text="three"))
            await server.until(lambda: any("May `message` run" in said for said in ann.private.said[before:]), 40)
            assert not any("three" in said for said in ben.private.said)


@pytest.mark.anyio
async def test_a_question_answered_for_this_conversation_on_slack(tmp_path: Path) -> None:
    """Ann presses "For this conversation"; the next message passes, until she takes the grant back."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        settings = test_slack.config(server, ann, ben=(ben, "member", "INTERNAL"))
        place = {"channel": "slack", "workspace": server.team.id, "chat": ben.dm().id, "clearance": "INTERNAL"}
        settings["policy"]["recipients"] = {"bens-chat": place}
        async with test_slack.listening(Machine(tmp_path), server, settings):
            await ann.says(ann.dm(), call("read_file", path="public/welcome.md"))
            await test_slack.hears(server, ann.dm(), "read_file:")
            await ann.says(ann.dm(), call("message", channel="slack", recipient="bens-chat", text="one"))
            await test_slack.hears(server, ann.dm(), "An answer for longer allows, in the worst case")
            (question,) = [each for each in ann.dm().messages if test_slack.buttons(each)]
            keys = [key for block in question.blocks for key in block.get("elements", ()) if "value" in key]
            (longer,) = [key for key in keys if key["text"]["text"] == "For this conversation"]
            await ann.presses(question, str(longer["action_id"]))
            await test_slack.hears(server, ben.dm(), "one")
            await ann.says(ann.dm(), call("message", channel="slack", recipient="bens-chat", text="two"))
            await test_slack.hears(server, ben.dm(), "two")
            await ann.says(ann.dm(), "!grants")
            listed = await test_slack.hears(server, ann.dm(), " left, ")
            assert "8 left" in listed
            name = str(longer["value"]).split()[1]
            await ann.says(ann.dm(), f"!grants revoke {name}")
            await test_slack.hears(server, ann.dm(), "covers no call any more")
            await ann.says(ann.dm(), call("message", channel="slack", recipient="bens-chat", text="three"))
            await server.until(lambda: sum("May `message` run" in text for text in test_slack.said(ann.dm())) > 1, 40)
            assert not any("three" in text for text in test_slack.said(ben.dm()))
