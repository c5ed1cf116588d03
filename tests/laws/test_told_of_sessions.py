"""Law 9 for what is told of other sessions: what UNTRUSTED data has one do reaches a TRUSTED session as UNTRUSTED."""

import asyncio
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from bot.tools.sending import OVER, UNTRUSTED_TARGET
from bot.tools.sessions import NONE
from channels.messages import Address
from tests.bot.kit import bang, eventually, policy
from tests.harness import Person, running

if TYPE_CHECKING:
    from pydantic import JsonValue

_EXAMPLES = settings(max_examples=6, phases=[Phase.explicit, Phase.reuse, Phase.generate])
_PAGE: Final = bang("read_file", path="public/welcome.md")
_RISE: Final = bang("read_file", path="confidential/pipeline.md")
_SHARED: Final = policy(blocks={"limits": {"simulations_per_minute": 10_000}})


def _about(sid: str) -> dict[str, str]:
    """Return the calls by which a session may learn of another one."""
    send: dict[str, JsonValue] = {"session_id": sid, "content": "x"}
    return {
        "send": bang("sessions_send", **send),
        "status": bang("session_status", session_id=sid),
        "history": bang("sessions_history", session_id=sid),
        "list": bang("sessions_list"),
        "one": bang("sessions_list", limit=1),
        "tasks": bang("sessions_list", kind="task"),
        "own": bang("session_status"),
        "simulate": bang("simulate_tool_call", tool_name="sessions_send", args=send),
    }


_ASKS: Final = tuple(_about(""))


def _at(owner: Person, chat: str) -> Person:
    return Person(owner.app, owner.output, Address("console", chat))


def _told(shown: str, sid: str) -> str:
    """Return what was told, without what differs between any two runs."""
    return re.sub(r"\d{13}|receipt-\w+|\b(?:[a-z2-7]{16}){1,2}\b", "?", shown.replace(sid, "SID"))


async def _child(owner: Person, *lines: str) -> str:
    """Have a background session do this, and return its id once it has ended."""
    shown = await owner.say(bang("sessions_spawn", task="\n".join(lines)))
    (sid,) = re.findall(r'"session_id": "(\w+)"', shown)

    async def ended() -> bool:
        state = await owner.app.store.sessions.state(sid)
        return state is not None and state.ended_at > 0 and not state.undelivered

    await eventually(ended)
    return sid


async def _ran(folder: Path, asks: list[str], *first: str, rises: bool) -> tuple[str, bool]:
    """Return what a conversation is told of another one that did this and then rose or not, and if it is UNTRUSTED."""
    async with running(folder, _SHARED) as owner:
        desk = _at(owner, "desk")
        for line in ("hello", *first, *((_RISE,) if rises else ())):
            await desk.say(line)
        calls = _about(desk.sid)
        shown = [await owner.say(calls[ask]) for ask in asks]
        return _told("".join(shown), desk.sid), (await owner.state()).taint.untrusted


def _two(asks: list[str], *first: str) -> list[tuple[str, bool]]:
    found = list[tuple[str, bool]]()
    for rises in (False, True):
        with TemporaryDirectory() as folder:
            found.append(asyncio.run(_ran(Path(folder), asks, *first, rises=rises)))
    return found


@_EXAMPLES
@example(["send"])
@example(["list"])
@example(["one", "tasks"])
@example(["status"])
@example(["history"])
@example(["simulate"])
@given(st.lists(st.sampled_from(_ASKS), min_size=1, max_size=3))
def test_untrusted_cannot_command_by_rising_out_of_sight(asks: list[str]) -> None:
    """A page has a session rise or not: whoever is told the difference is UNTRUSTED, and so in both runs."""
    (stayed, first), (rose, second) = _two(asks, _PAGE)
    assert first is second
    assert first or stayed == rose


@_EXAMPLES
@given(st.lists(st.sampled_from(_ASKS), min_size=1, max_size=3, unique=True))
def test_what_a_trusted_session_does_taints_nobody_who_asks(asks: list[str]) -> None:
    """A TRUSTED session rose because its person or its model said so: that is no word of UNTRUSTED data."""
    (_, stayed), (_, rose) = _two(asks)
    assert (stayed, rose) == (False, False)


@pytest.mark.anyio
async def test_trusted_children_leave_their_parent_trusted(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        sid = await _child(owner, "hello")
        calls = _about(sid)
        for ask in _ASKS:
            await owner.say(calls[ask])
        await owner.say(bang("session_status", session_id="nobody"))
        assert OVER in await owner.say(calls["send"])
        assert not (await owner.state()).taint.untrusted


@pytest.mark.anyio
@pytest.mark.parametrize("ask", [ask for ask in _ASKS if ask != "simulate"])
@pytest.mark.parametrize("lines", [(_PAGE,), (_PAGE, _RISE)])
async def test_untrusted_cannot_command_by_how_a_child_ends(tmp_path: Path, ask: str, lines: tuple[str, ...]) -> None:
    async with running(tmp_path) as owner:
        # Somewhere else than in its parent, which hears its report.
        sid = await _child(_at(owner, "desk"), *lines)
        await owner.say("hello")
        shown = await owner.say(_about(sid)[ask])
        assert (await owner.state()).taint.untrusted is (ask != "own")
        if ask == "send":
            assert (NONE if _RISE in lines else OVER) in shown


@pytest.mark.anyio
async def test_a_simulation_tells_nothing_of_an_untrusted_target(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        desk = _at(owner, "desk")
        await desk.say(_PAGE)
        assert UNTRUSTED_TARGET in await owner.say(_about(desk.sid)["simulate"])
        assert not (await owner.state()).taint.untrusted
        await owner.say(_PAGE)
        # It knows as much by now as the call would make it.
        assert UNTRUSTED_TARGET not in await owner.say(_about(desk.sid)["simulate"])


@pytest.mark.anyio
async def test_a_receipt_is_as_trusted_as_its_target_wherever_that_is(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        desk = _at(owner, "desk")
        await desk.say("hello")
        (receipt,) = re.findall(r"receipt-\w+", await owner.say(_about(desk.sid)["send"]))
        await desk.say(_PAGE)
        await desk.say(_RISE)
        shown = await owner.say(bang("session_status", receipt=receipt))
        assert json.loads(shown.split("session_status: ", 1)[1])["status"] == "accepted"
        assert (await owner.state()).taint.untrusted


@pytest.mark.anyio
async def test_who_may_read_nothing_untrusted_is_told_a_constant(tmp_path: Path) -> None:
    """A rule keeps UNTRUSTED data out of the context: then nothing is sent and nothing told, wherever the target is."""
    rule: dict[str, object] = {"id": "clean", "hook": "POST_TOOL_RESPONSE", "action": "BLOCK", "when": "item_untrusted"}
    rule |= {"tools": ["session*"]}
    told = list[list[str]]()
    for rises in (False, True):
        folder = tmp_path / str(rises)
        folder.mkdir()
        async with running(folder, policy(rules=[rule])) as owner:
            desk = _at(owner, "desk")
            for line in ("hello", _PAGE, *((_RISE,) if rises else ())):
                await desk.say(line)
            told.append([_told(await owner.say(call), desk.sid) for call in _about(desk.sid).values()])
            assert not (await owner.state()).taint.untrusted
            assert not [one for one in await owner.app.store.outbox.deliveries(owner.sid) if "session" in one.address]
    assert told[0] == told[1]
    assert NONE in told[0][0]
