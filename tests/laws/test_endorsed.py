"""Law 9 for bounded answers: what nobody was asked about depends on no more bits of what was read than were counted."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.delegation.structured_result import millibits
from bot.sessions.background.delegation import FieldKind, ResultField
from bot.sessions.log.event_types import ItemHeld, ToolOutcome, ToolResult, UserMessage
from bot.sessions.messages import Endorsed
from channels.messages import Address
from tests.bot.kit import BOUND_MESSAGE, bang, eventually, note, policy
from tests.events import bodies
from tests.harness import Person, running

_EXAMPLES = settings(max_examples=6, phases=[Phase.explicit, Phase.reuse, Phase.generate])
_FIELDS: Final[dict[str, tuple[JsonValue, ResultField]]] = {
    "flag": ({"type": "boolean"}, ResultField("flag", FieldKind.BOOLEAN)),
    "digit": ({"type": "number", "min": 0, "max": 9}, ResultField("digit", FieldKind.NUMBER, (), "0", "9", "1")),
    "four": ({"type": "number", "min": 0, "max": 9999}, ResultField("four", FieldKind.NUMBER, (), "0", "9999", "1")),
    "much": (
        {"type": "number", "min": 0, "max": 10**9},
        ResultField("much", FieldKind.NUMBER, (), "0", "1000000000", "1"),
    ),
}
_ANSWERS: Final[dict[str, tuple[JsonValue, JsonValue]]] = {
    "flag": (True, False),
    "digit": (3, "no number"),
    "four": (1234, 9876),
    "much": (123456789, 987654321),
}
_HELD: Final = '"answer": "held"'


def _asks(name: str, page: str = "page.md") -> str:
    """Return a call that has a background session answer with a field that a page chooses."""
    task = f"{bang('read_file', path=f'public/{page}')}\n="
    return bang("sessions_spawn", task=task, returns={name: _FIELDS[name][0]})


async def _write(folder: Path, name: str, which: int = 0, page: str = "page.md") -> None:
    text = json.dumps({name: _ANSWERS[name][which]})
    await asyncio.to_thread((folder / "data" / "files" / "public" / page).write_text, text, "utf-8")


async def _quiet(owner: Person) -> None:
    """Wait until all background sessions ended and were heard."""

    async def over() -> bool:
        states = [state async for state in owner.app.store.sessions.states()]
        return all(state.turn is None and not state.waiting_items and not state.undelivered for state in states)

    await eventually(over)


async def _heard(owner: Person) -> list[str]:
    """Return the answers that entered the conversation as endorsed."""
    messages = bodies(await owner.events(), UserMessage)
    return [message.text for message in messages if message.origin is not None and message.origin.endorsed]


async def _ran(folder: Path, names: list[str], which: int) -> tuple[list[str], list[bool], int]:
    """Ask for these fields at once; return what was endorsed, which answers were to be held, and how many are."""
    async with running(folder, policy(tools=BOUND_MESSAGE, blocks={"limits": {"background_children": 6}})) as owner:
        for number, name in enumerate(names):
            await _write(folder, name, which, f"{number}.md")
        shown = await owner.say("\n".join(_asks(name, f"{number}.md") for number, name in enumerate(names)))
        await _quiet(owner)
        told = [_HELD in line for line in shown.splitlines() if '"accepted"' in line]
        heard, held = await _heard(owner), await owner.app.store.delegation.held(owner.sid)
        # Whatever was endorsed, the conversation is TRUSTED, so this is done unasked; what was not did not enter it.
        assert "→ guest: hi" in await owner.say(note("guest", "hi"))
        return heard, told, len(held)


@_EXAMPLES
@example(["four"] * 6)
@example(["much", "much", "flag"])
@given(st.lists(st.sampled_from(tuple(_FIELDS)), min_size=1, max_size=5))
def test_untrusted_cannot_command_beyond_the_bits_counted(names: list[str]) -> None:
    """Two runs differ in what pages say. What is endorsed fits the budget, and which answers are tells nothing."""

    async def law() -> None:
        runs = list[tuple[list[str], list[bool], int]]()
        for which in (0, 1):
            with TemporaryDirectory() as folder:
                runs.append(await _ran(Path(folder), names, which))
        (heard, told, held), (others, *rest) = runs
        assert [told, held] == rest
        assert len(heard) == len(others) == len(names) - held
        endorsed = [name for name, beyond in zip(names, told, strict=True) if not beyond]
        assert sum(millibits((_FIELDS[name][1],)) for name in endorsed) <= 40_000

    asyncio.run(law())


async def _inspected(folder: Path, names: list[str], which: int) -> tuple[list[Endorsed], list[bool]]:
    """Ask for these fields of held pages at once; return what was endorsed, and which answers entered."""
    async with running(folder, policy(tools=BOUND_MESSAGE)) as owner:
        for number, name in enumerate(names):
            await _write(folder, name, which, f"{number}.md")
            await owner.say(bang("read_file", path=f"public/{number}.md", _hold=True))
        refs = [held.ref for held in bodies(await owner.events(), ItemHeld)]
        fields: list[dict[str, JsonValue]] = [{name: _FIELDS[name][0]} for name in names]
        asked = zip(refs, fields, strict=True)
        await owner.say("\n".join(bang("inspect", refs=[ref], question="Which?", returns=one) for ref, one in asked))
        told = {one.call: one for one in bodies(await owner.events(), ToolResult) if one.tool == "inspect"}
        entered = [told[call].outcome is ToolOutcome.OK for call in sorted(told)]
        assert "→ guest: hi" in await owner.say(note("guest", "hi"))
        return [one for result in told.values() for one in result.endorsed], entered


@_EXAMPLES
@example(["four"] * 6)
@example(["much", "much", "flag"])
@given(st.lists(st.sampled_from(tuple(_FIELDS)), min_size=1, max_size=5))
def test_untrusted_cannot_command_by_inspections_beyond_the_bits_counted(names: list[str]) -> None:
    """Two runs differ in what held pages say. What is endorsed fits, and which answers enter tells nothing."""

    async def law() -> None:
        runs = list[list[bool]]()
        for which in (0, 1):
            with TemporaryDirectory() as folder:
                endorsed, entered = await _inspected(Path(folder), names, which)
                assert len(endorsed) == sum(entered)
                assert sum(one.millibits for one in endorsed) <= 40_000
                runs.append(entered)
        assert runs[0] == runs[1]
        assert any(runs[0])

    asyncio.run(law())


def _below(number: int, sends: int) -> str:
    """Return what a grandchild does: it sends its parent messages, and then reports."""
    return "\n".join((bang("sessions_send", session_id="parent", content=f"{number}"),) * sends) or "nothing"


@_EXAMPLES
@example(3, 0, "four")
@example(1, 3, "flag")
@given(st.integers(0, 3), st.integers(0, 2), st.sampled_from(("flag", "digit", "four")))
def test_untrusted_cannot_command_by_more_answers(children: int, sends: int, name: str) -> None:
    """However many turns what is below a session has it take, its parent hears the one answer that was charged."""

    async def law() -> None:
        with TemporaryDirectory() as folder:
            async with running(
                Path(folder), policy(tools=BOUND_MESSAGE, blocks={"limits": {"background_children": 6}})
            ) as owner:
                await _write(Path(folder), name)
                spawns = [bang("sessions_spawn", task=_below(number, sends)) for number in range(children)]
                task = "\n".join((*spawns, bang("read_file", path="public/page.md"), "="))
                await owner.say(bang("sessions_spawn", task=task, returns={name: _FIELDS[name][0]}))
                await _quiet(owner)
                assert len(await _heard(owner)) == 1
                assert (len(await owner.app.store.delegation.held(owner.sid)) > 0) == (children > 0)
                # It stays TRUSTED, so this is done unasked.
                assert "→ guest: hi" in await owner.say(note("guest", "hi"))

    asyncio.run(law())


@_EXAMPLES
@example(["four", "four", "four"], 30)
@given(st.lists(st.sampled_from(("flag", "digit", "four")), min_size=1, max_size=3), st.integers(5, 40))
def test_untrusted_cannot_command_by_several_conversations(names: list[str], bits: int) -> None:
    """Several conversations send one what they heard; what it is TRUSTED with fits what it may endorse itself."""

    async def law() -> None:
        with TemporaryDirectory() as folder:
            async with running(
                Path(folder), policy(tools=BOUND_MESSAGE, blocks={"limits": {"endorsed_bits": bits}})
            ) as owner:
                await owner.say("hello")
                for number, name in enumerate(names):
                    await _write(Path(folder), name, page=f"{number}.md")
                    desk = Person(owner.app, owner.output, Address("console", f"desk{number}"))
                    await desk.say(_asks(name, f"{number}.md"))
                    await _quiet(owner)
                    await desk.say(bang("sessions_send", session_id=owner.sid, content=f"heard {name}"))
                    await _quiet(owner)
                origins = [message.origin for message in bodies(await owner.events(), UserMessage)]
                heard = (one for origin in origins if origin is not None for one in origin.endorsed)
                entered = {(one.run, one.millibits) for one in heard}
                assert sum(millibits for _, millibits in entered) <= bits * 1000
                assert "→ guest: hi" in await owner.say(note("guest", "hi"))

    asyncio.run(law())


@asynccontextmanager
async def _one_answer(folder: Path) -> AsyncGenerator[tuple[Person, Person]]:
    """Let the owner have used up all that may be endorsed by one answer; there is another conversation, `desk`."""
    async with running(folder, policy(tools=BOUND_MESSAGE, blocks={"limits": {"endorsed_bits": 14}})) as owner:
        await _write(folder, "four")
        desk = Person(owner.app, owner.output, Address("console", "desk"))
        await desk.say("hello")
        await owner.say(_asks("four"))
        await _quiet(owner)
        yield owner, desk


@pytest.mark.anyio
async def test_an_answer_that_comes_back_is_charged_once(tmp_path: Path) -> None:
    async with _one_answer(tmp_path) as (owner, desk):
        for number in range(2):
            await owner.say(bang("sessions_send", session_id=desk.sid, content=f"heard {number}"))
            await desk.say(bang("sessions_send", session_id=owner.sid, content=f"back {number}"))
            await _quiet(owner)
        assert not await owner.app.store.delegation.held(owner.sid)
        assert not await owner.app.store.delegation.held(desk.sid)
        assert len(await _heard(desk)) == 2
        assert len(await _heard(owner)) == 3


@pytest.mark.anyio
async def test_an_untrusted_text_is_not_charged(tmp_path: Path) -> None:
    async with _one_answer(tmp_path) as (owner, desk):
        await owner.say(bang("read_file", path="public/page.md"))
        await owner.say(bang("sessions_send", session_id=desk.sid, content="heard"))
        await _quiet(owner)
        assert str((await desk.state()).taint) == "PUBLIC~"
        assert not await owner.app.store.delegation.held(desk.sid)


@pytest.mark.anyio
async def test_a_persons_message_begins_the_count_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await _write(tmp_path, "much")
        for _ in range(3):
            assert _HELD not in await owner.say(_asks("much"))
            await _quiet(owner)
        assert len(await _heard(owner)) == 3
        both = await owner.say(f"{_asks('much')}\n{_asks('much')}")
        assert both.count(_HELD) == 1


@pytest.mark.anyio
async def test_a_childs_child_is_counted_where_its_tree_began(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await _write(tmp_path, "much")
        shown = await owner.say(f"{bang('sessions_spawn', task=_asks('much'))}\n{_asks('four')}")
        await _quiet(owner)
        below = [state async for state in owner.app.store.sessions.states() if state.lineage is not None]
        beyond = {state.lineage.depth for state in below if state.lineage is not None and state.lineage.beyond}
        endorsed = {state.lineage.depth for state in below if state.lineage is not None and state.lineage.endorsed}
        # Whichever came first has the room: together they are more than may be.
        assert len(beyond) == len(endorsed) == 1
        assert beyond != endorsed
        assert (_HELD in shown) == (1 in beyond)
        assert all(state.lineage.root == owner.sid for state in below if state.lineage is not None)


@pytest.mark.anyio
async def test_a_question_lists_what_was_endorsed(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await _write(tmp_path, "four")
        await owner.say(_asks("four"))
        await _quiet(owner)
        await owner.say(bang("read_file", path="public/page.md"))
        shown = await owner.say(note("guest", "hi"))
        (child,) = [state.sid async for state in owner.app.store.sessions.states() if state.lineage is not None]
        assert "May `message` run" in shown
        assert f'- `{{"four": 1234}}` (session {child})' in shown


@pytest.mark.anyio
@pytest.mark.parametrize("tool, named", [("session_status", True), ("sessions_list", False)])
async def test_what_is_told_of_an_untrusted_session_is_untrusted(tmp_path: Path, tool: str, *, named: bool) -> None:
    """How much it did, whether it ended and what it waits for may have been chosen by what it has read."""
    async with running(tmp_path) as owner:
        # One that waits for its person is listed; one that was heard is not any more.
        task = f"{bang('read_file', path='public/welcome.md')}\n{note('guest', 'hi')}"
        await owner.say(bang("sessions_spawn", task=task, returns={"four": _FIELDS["four"][0]}))

        async def asks() -> bool:
            return bool(await owner.app.store.approvals.waiting())

        await eventually(asks)
        (child,) = [state.sid async for state in owner.app.store.sessions.states() if state.lineage is not None]
        assert str((await owner.state()).taint) == "PUBLIC"
        shown = await owner.say(bang(tool, session_id=child) if named else bang(tool))
        assert child in shown
        assert str((await owner.state()).taint) == "PUBLIC~"
