"""What a storm over two machines is made of, without one: its plan, its network, and what is found of its files."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from bot.sessions.log.event_types import EventBody, ToolCall, ToolOutcome, ToolResult
from bot.sessions.log.events import Event, Visibility
from policy.labels import PUBLIC, Label, parse
from tests.chaos.machines.balancer import balancer, closed, served
from tests.chaos.machines.files import LeftChat, files_seen
from tests.chaos.machines.network import HERE, Door, network
from tests.chaos.machines.plan import LOSSY, STORE_FAULTS, MachineFault, MachineSize, machine_plan
from tests.chaos.storm_laws import Checked
from tests.sim.ports import free_port

pytestmark = pytest.mark.anyio

_SOON = 0.3


@asynccontextmanager
async def _echo(answer: bytes = b"") -> AsyncGenerator[int]:
    """Answer each request with itself, or with the same each time, at a port of its own."""

    async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(answer or data)

    async with served(come) as port:
        yield port


async def test_places_that_are_apart_hear_nothing_of_one_another_until_they_are_joined() -> None:
    async with _echo() as port:
        doors = [
            Door(host, free_port(), port, "server0", caller) for host, caller in (("127.0.2.1", "north"), (HERE, ""))
        ]
        with network(doors, {"127.0.1.2": "server1"}) as wires:
            north = await asyncio.open_connection(doors[0].host, doors[0].port)
            other = await asyncio.open_connection(HERE, doors[1].port, local_addr=("127.0.1.2", 0))
            for reader, writer in (north, other):
                writer.write(b"before")
                assert await reader.read(100) == b"before"
            wires.part({"server0": ["server1"]})
            for _, writer in (north, other):
                writer.write(b"meanwhile")
            assert await other[0].read(100) == b"meanwhile"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(north[0].read(100), _SOON)
            wires.part({})
            assert await north[0].read(100) == b"meanwhile"
            for _, writer in (north, other):
                await closed(writer)


async def test_a_translated_door_tells_its_own_host() -> None:
    async with _echo(b"the primary is at 127.0.0.1") as port:
        door = Door("127.0.3.1", free_port(), port, "sentinel0", "south", translated=True)
        with network([door], {}):
            reader, writer = await asyncio.open_connection(door.host, door.port)
            writer.write(b"?")
            assert await reader.read(100) == b"the primary is at 127.0.3.1"
            await closed(writer)


async def test_a_balancer_leaves_out_who_does_not_listen() -> None:
    async with _echo(b"one") as port, balancer([free_port(), port]) as front:
        for _ in range(3):
            reader, writer = await asyncio.open_connection(HERE, front)
            writer.write(b"?")
            assert await reader.read(100) == b"one"
            await closed(writer)


def test_a_seed_repeats_a_plan_that_has_all_kinds_of_faults() -> None:
    size = MachineSize(inputs=40)
    plan = machine_plan(3, size)
    assert plan == machine_plan(3, size)
    assert plan != machine_plan(4, size)
    assert {one.kind for one in plan.faults} == set(MachineFault)
    assert set(STORE_FAULTS) > LOSSY
    assert len({one.name for one in plan.inputs}) == 40


def _events(*bodies: tuple[EventBody, Label], turn: str) -> tuple[Event, ...]:
    return tuple(
        Event(seq, 0, 1, "agent", label, body, Visibility.USER, admitted=True, turn=turn)
        for seq, (body, label) in enumerate(bodies, 1)
    )


def _calls(machine: str, tool: str, text: str, label: Label, turn: str) -> tuple[Event, ...]:
    """Return the log of a turn that takes a step on a machine, which reads something of a label, and calls a tool."""
    path = "harbour/board-0.md"
    told = {"path": path, **({"text": text} if tool == "write_file" else {})}
    return _events(
        (ToolCall("s", "step", {}), PUBLIC),
        (ToolResult("s", "step", f"answer-0-0; at {machine}", ToolOutcome.OK), label),
        (ToolCall("c", tool, told), PUBLIC),
        (ToolResult("c", tool, "done" if tool == "write_file" else text, ToolOutcome.OK), label),
        turn=turn,
    )


@pytest.mark.parametrize(
    "read_at, violated",
    [("INTERNAL", set[str]()), ("CONFIDENTIAL~", set[str]()), ("PUBLIC", {"stored_things_keep_their_label"})],
)
def test_a_file_that_is_read_below_the_label_of_its_writer_is_found(read_at: str, violated: set[str]) -> None:
    found = Checked()
    seen = files_seen(
        (
            LeftChat(0, _calls("north", "write_file", "written-0-0;", parse("INTERNAL"), "t1")),
            LeftChat(1, _calls("south", "read_file", "written-0-0;", parse(read_at), "t2")),
        ),
        found,
    )
    assert {one.partition(":")[0] for one in found.violations} == violated
    assert (seen.written, seen.read, seen.shared, seen.other) == (1, 1, 1, 1)
    assert seen.turns == {"north": 1, "south": 1}


def test_a_file_of_a_session_that_is_not_found_is_told() -> None:
    found = Checked()
    path = {"path": "workspace/a.md"}
    events = _events(
        (ToolCall("w", "write_file", {**path, "text": "written-0-0;"}), PUBLIC),
        (ToolResult("w", "write_file", "done", ToolOutcome.OK), PUBLIC),
        (ToolCall("r", "read_file", path), PUBLIC),
        (ToolResult("r", "read_file", "there is no such file", ToolOutcome.FAILED), PUBLIC),
        turn="t1",
    )
    files_seen((LeftChat(0, events),), found)
    assert {one.partition(":")[0] for one in found.violations} == {"files_are_found_everywhere"}
