"""A conversation that has read more than its address may know says the same there, however its turns end (ADR 0021)."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from bot.access.labelling import least_above
from bot.commands.conversation import STOPPED
from bot.sessions.inbox import QueueMode
from bot.sessions.log.events import EventType
from bot.tools.base import ToolContext, ToolServices
from bot.worker.finish import DENIED_HERE
from channels.messages import Address, OutboundKind, Signal
from policy.labels import PUBLIC, Label, Level, parse
from tests.bot.kit import Probe, TextArguments, bang, document, eventually, parts
from tests.bot.rooms import CHATS, TEAM, talking, team
from tests.people import principal

pytestmark = pytest.mark.anyio

READ = bang("read_file", path="confidential/pipeline.md")
SPAWN = bang("sessions_spawn", task="hello")
LOW = {**CHATS["team"], "inbound": "PUBLIC"}
DESK = Address("room", "desk")
DESKS = {"desk": {"channel": "room", "chat": "desk", "clearance": "PUBLIC"}}
ANN_AT_THE_DESK = {
    "principals": {
        "owner": principal("console:owner"),
        "ann": principal("room:ann", "room:desk", role="admin", clearance="CONFIDENTIAL"),
        "mel": principal("room:mel", role="member", clearance="PUBLIC"),
    },
}


@pytest.mark.parametrize("spawned", [0, 1, 3])
@pytest.mark.parametrize("shared", [True, False])
async def test_what_other_sessions_send_is_answered_in_silence(tmp_path: Path, spawned: int, *, shared: bool) -> None:
    rooms = team("ann", "eve")
    address, chats = (TEAM, {"team": LOW}) if shared else (DESK, {})
    async with talking(tmp_path, rooms, chats=chats, recipients=DESKS) as people:
        await people.say("ann", "\n".join([READ, *([SPAWN] * spawned)]), address)
        (state,) = [one async for one in people.app.store.sessions.states() if one.lineage is None]

        async def all_heard() -> bool:
            inputs = [
                one for one in await people.app.store.sessions.events(state.sid) if one.type is EventType.USER_MESSAGE
            ]
            return len(inputs) == 1 + spawned

        await eventually(all_heard)
        await people.settled(address)
        assert len(rooms.heard(address)) == 1
        signals = [one for at, one in rooms.signals if at == address]
        # The one turn that is shown may be over before it was shown to go on.
        assert signals.count(Signal.DONE) == 1
        assert signals.count(Signal.WORKING) <= 1


@pytest.mark.parametrize("shared", [True, False])
async def test_no_read_up_by_how_turns_end(tmp_path: Path, *, shared: bool) -> None:
    """An answer that is withheld, one with a card, too many steps, and no answer at all: each says the same."""
    rooms = team("ann", "eve")
    address, chats = (TEAM, {"team": LOW}) if shared else (DESK, {})
    rule = {"id": "no-cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "BLOCK"}
    asks = {"id": "asks", "hook": "PRE_OUTPUT", "pattern": "please-ask", "action": "REQUIRE_APPROVAL"}
    endings = (READ, "4111 1111 1111 1111", "please ask", "\n".join([bang("current_time")] * 9), "!no_such_tool {")
    sections: dict[str, object] = {
        "chats": chats,
        "recipients": DESKS,
        "rules": [rule, asks],
        "patterns": {"please-ask": "please ask"},
        "blocks": {"limits": {"model_steps": 4}},
    }
    async with talking(tmp_path, rooms, serve=True, parts=None, **sections) as people:
        for text in endings:
            await people.say("ann", text, address)
        heard = rooms.heard(address)
        assert len(heard) == len(endings)
        assert len(set(heard)) == 1
        assert (heard[0] == DENIED_HERE) is shared
        assert shared or "`/reset`" in heard[0]


@pytest.mark.parametrize("shared", [True, False])
async def test_no_read_up_by_whether_an_agent_asks_elsewhere(tmp_path: Path, *, shared: bool) -> None:
    """A turn that waits for an answer, which was asked for in private, looks at home like one that is over."""
    worlds = list[tuple[Counter[str], list[str]]]()
    for text in ("hello", bang("ask_user", question="Which?")):
        rooms = team("ann", "eve")
        address, chats = (TEAM, {"team": LOW}) if shared else (DESK, {})
        here = Address("room", "team", recipient="eve") if shared else address
        eve = {"eve": principal("room:eve", role="member", clearance="PUBLIC")}
        people_known = {**ANN_AT_THE_DESK["principals"], **eve}
        folder = tmp_path / str(len(worlds))
        await asyncio.to_thread(folder.mkdir)
        async with talking(folder, rooms, chats=chats, recipients=DESKS, principals=people_known) as people:
            await people.say("ann", READ, address)
            await people.say("ann", text, address)
            asked = [one.address for one in rooms.sent if one.kind is OutboundKind.QUESTION]
            assert asked == ([] if text == "hello" else [Address("room", "ann")])
            told = list[str]()
            for command in ("status", "questions", "approvals", "queue", "why", "agents", "sessions", "history"):
                await people.send("eve" if shared else "ann", f"/{command}", address)
                told.append(rooms.heard(here)[-1])
            await people.say("ann", "/stop", address)
            worlds.append((Counter(rooms.heard(address)), told))
    assert worlds[0] == worlds[1]


async def test_each_message_of_a_turn_is_told_of(tmp_path: Path) -> None:
    """How many turns they come to depends on how long the one before takes, which the model chooses."""
    rooms = team("ann", "eve")
    async with talking(tmp_path, rooms, chats={"team": LOW}) as people:
        await people.say("ann", READ)
        for text in ("one", "two", "three"):
            await people.send("ann", text)
        await people.settled()
        assert rooms.heard(TEAM) == [DENIED_HERE] * 4


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("mode", list(QueueMode))
async def test_a_stop_answers_each_message_once(tmp_path: Path, mode: QueueMode, *, shared: bool) -> None:
    """Which of them a turn has taken in by then cannot be told, nor how many wait."""
    rooms = team("ann", "eve")
    address, chats = (TEAM, {"team": LOW}) if shared else (DESK, {})
    goes_on = asyncio.Event()

    async def slow(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> None:
        await goes_on.wait()

    given = parts(Probe("slow", does=slow))
    async with talking(tmp_path, rooms, chats=chats, recipients=DESKS, parts=given) as people:
        await people.say("ann", READ, address)
        await people.say("ann", f"/queue {mode}", address)
        before = len(rooms.heard(address))
        for text in (bang("slow"), "one", "two"):
            await people.send("ann", text, address)
        await people.send("ann", "/stop", address)
        goes_on.set()
        await people.settled(address)

        async def all_told() -> bool:
            return len(rooms.heard(address)) >= before + 3 + (not shared)

        await eventually(all_told)
        told = Counter(rooms.heard(address)[before:])
        assert told.pop(STOPPED, 0) == (not shared)
        assert told == {rooms.heard(address)[0]: 3}


@pytest.mark.parametrize("level", ["INTERNAL", "CONFIDENTIAL"])
async def test_an_asker_who_may_not_know_is_told_of_the_least(tmp_path: Path, level: str) -> None:
    """Which rule refuses a higher level is not theirs to learn."""
    rooms = team("ann", "eve")
    rule = {"id": "high", "hook": "AGENT_INVOCATION", "when": "taint_level >= CONFIDENTIAL", "action": "BLOCK"}
    eve = principal("room:eve", role="member", clearance="PUBLIC")
    people_known = {**ANN_AT_THE_DESK["principals"], "eve": eve}
    async with talking(tmp_path, rooms, chats={"team": LOW}, principals=people_known, rules=[rule]) as people:
        path = "internal/handbook.md" if level == "INTERNAL" else "confidential/pipeline.md"
        await people.say("ann", bang("read_file", path=path))
        await people.say("eve", "and what did it say?")
        (told,) = rooms.alone("eve")
        assert "high" not in told
        assert "You can: " in told


def test_the_least_label_above_a_clearance() -> None:
    known = document(compartments=["hr", "legal"])
    assert least_above(known, PUBLIC, parse("RESTRICTED")) == Label(Level.INTERNAL)
    assert least_above(known, parse("CONFIDENTIAL{hr}"), known.top) == Label(Level.RESTRICTED)
    assert least_above(known, parse("RESTRICTED{hr}"), known.top) == Label(PUBLIC.level, frozenset({"legal"}))
    strange = Label(PUBLIC.level, frozenset({"gone"}))
    assert least_above(known, known.top, strange) == strange
