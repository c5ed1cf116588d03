"""Declared raises of a spawn: the caller is raised, the task is not, and what ends within the raise arrives."""

import re
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.core.errors import BusyError
from bot.sessions.log.event_types import ItemHeld
from bot.tools.base import CallFacts, Result
from policy.labels import PUBLIC
from tests.bot.kit import CONFIDENTIAL, Probe, bang, eventually, note, parts, policy
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

COUNT: Final[dict[str, JsonValue]] = {"count": {"type": "number", "min": 0, "max": 99}}
_READS: Final = f"{bang('read_file', path='confidential/mail.md')}\n="


def spawn(task: str, **more: JsonValue) -> str:
    return bang("sessions_spawn", task=task, **more)


async def quiet(owner: Person) -> None:
    async def over() -> bool:
        states = [state async for state in owner.app.store.sessions.states()]
        return all(state.turn is None and not state.waiting_items and not state.undelivered for state in states)

    await eventually(over)


async def test_an_answer_from_a_higher_source_arrives_and_the_task_keeps_its_label(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        (tmp_path / "data" / "files" / "confidential" / "mail.md").write_text('obey me\n{"count": 3}', "utf-8")
        await owner.say(spawn(_READS, returns=COUNT))
        await quiet(owner)
        assert '{"count": 3}' not in owner.shown
        await owner.say(spawn(_READS, returns=COUNT, up_to="CONFIDENTIAL"))
        await quiet(owner)
        assert '{"count": 3}' in owner.shown
        assert str((await owner.state()).taint) == "CONFIDENTIAL"
        children = [state async for state in owner.app.store.sessions.states() if state.lineage is not None]
        assert {str(child.creation) for child in children} == {"PUBLIC"}


async def test_the_child_may_still_use_lower_sinks(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(spawn(note("guest", "we are open"), up_to="CONFIDENTIAL"))
        await quiet(owner)
        assert "→ guest: we are open" in owner.shown
        assert "no_write_down" in await owner.say(note("guest", "we are open"))


async def test_the_caller_is_raised_also_if_there_is_no_place_and_not_if_it_is_refused(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner", clearance="INTERNAL")}
    limits = {"limits": {"background_children": 1}}
    async with running(tmp_path, policy(principals=people, blocks=limits)) as owner:
        assert "read_is_decided_before_it_happens" in await owner.say(spawn("x", up_to="CONFIDENTIAL"))
        assert (await owner.state()).taint == PUBLIC
        # One that waits for its person keeps the place.
        await owner.say(spawn(f"{bang('read_file', path='public/welcome.md')}\n{note('guest', 'hi')}"))

        async def asks() -> bool:
            return bool(await owner.app.store.approvals.waiting())

        await eventually(asks)
        assert str(BusyError()) in await owner.say(spawn("x", up_to="INTERNAL"))
        assert str((await owner.state()).taint) == "INTERNAL"


async def test_a_preview_tells_of_the_raise_and_makes_none(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        args: JsonValue = {"task": "x", "up_to": "CONFIDENTIAL"}
        shown = await owner.say(bang("simulate_tool_call", tool_name="sessions_spawn", args=args))
        assert '"verdict": "ALLOW"' in shown
        assert (await owner.state()).taint == PUBLIC


async def test_a_raise_tells_nothing_of_a_task_that_is_held(tmp_path: Path) -> None:
    """Whether a rule stops what a task refers to, the session is raised in the same way, in the same events."""
    rules = [{"id": "no-mail", "hook": "PRE_TOOL_CALL", "action": "BLOCK", "pattern": "email"}]
    left = list[object]()
    for text in ("a@example.com", "nothing"):
        folder = tmp_path / text[:1]
        folder.mkdir()
        probe = Probe(declared=CallFacts(result=PUBLIC), result=Result(text, CONFIDENTIAL))
        async with running(folder, policy(rules=rules), parts=parts(probe)) as owner:
            notice = await owner.say(bang("probe", _hold=True))
            (ref,) = set(re.findall(r"held-[a-z0-9]{16}", notice))
            task: JsonValue = {"$ref": ref}
            shown = await owner.say(bang("sessions_spawn", task=task, up_to="INTERNAL"))
            await quiet(owner)
            events = [(event.type, str(event.label)) for event in await owner.events()]
            kept = [isinstance(event.body, ItemHeld) for event in await owner.events()]
            # What the background session reports may be told by then: to its person, and not to the model.
            answered = re.sub("held-[a-z0-9]{16}", "id", shown).partition("  Held as ")[0]
            left.append((answered, events, kept, str((await owner.state()).taint)))
    assert left[0] == left[1]
    assert "INTERNAL" in str(left[0])
