"""What each thing came from, followed back by hand from what was said, and what each event is given."""

import asyncio
import json
from pathlib import Path
from typing import TypeVar

import pytest

from bot.files import locations
from bot.files.port import Found
from bot.sessions.log.event_types import (
    AgentMessage,
    AgentThinking,
    ItemHeld,
    ToolCall,
    ToolResult,
    TurnStarted,
    UserMessage,
)
from bot.sessions.log.events import Event
from bot.sessions.refs import CallRef, EventsRef, FileRef, HeldRef, InputRef, Ref
from policy.labels import PUBLIC
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

_Body = TypeVar("_Body")


def call(tool: str, **arguments: object) -> str:
    return f"!{tool} {json.dumps(arguments)}"


def bodies(log: tuple[Event, ...], kind: type[_Body]) -> list[tuple[Event, _Body]]:
    return [(event, event.body) for event in log if isinstance(event.body, kind)]


def at(log: tuple[Event, ...], ref: Ref) -> tuple[Event, ...]:
    """Return the events that a reference names in the session's own log."""
    match ref:
        case EventsRef(first, last, ""):
            return tuple(event for event in log if first <= event.seq <= last)
        case CallRef(name, _):
            return tuple(event for event, made in bodies(log, ToolCall) if made.call == name)
        case _:
            return ()


async def said_last(owner: Person) -> tuple[Ref, ...]:
    """Return what the newest answer came from."""
    return (await owner.app.store.outbox.deliveries(owner.sid))[-1].refs


async def test_an_answer_is_followed_back_to_the_file_and_to_the_message_that_had_it_written(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(call("write_file", path="workspace/tides.txt", text="high at nine"))
        await owner.say(call("read_file", path="workspace/tides.txt"))
        log = await owner.events()
        (answer,) = at(log, (await said_last(owner))[0])
        assert isinstance(answer.body, AgentMessage)
        (context,) = answer.refs
        (read, result) = bodies(at(log, context), ToolResult)[-1]
        assert (result.tool, result.text) == ("read_file", "high at nine")
        reading, file, written_by = read.refs
        ((asked, reads),) = bodies(at(log, reading), ToolCall)
        assert (reads.tool, asked.seq < read.seq) == ("read_file", True)
        # The file's side file names the call that wrote it; the result of that call has no digest of the text.
        (wrote, _) = bodies(log, ToolResult)[0]
        assert isinstance(file, FileRef)
        assert [type(ref) for ref in wrote.refs] == [CallRef]
        place = locations.workspace(owner.sid, 1, "tides.txt")
        (writer,) = await asyncio.to_thread(owner.app.files.origin, Found(place, PUBLIC))
        assert writer == written_by == CallRef(bodies(log, ToolCall)[0][1].call, owner.sid)
        ((written, _),) = bodies(at(log, writer), ToolCall)
        ((thought, _),) = bodies(at(log, written.refs[0]), AgentThinking)
        ((message, first),) = bodies(at(log, thought.refs[0]), UserMessage)
        assert "high at nine" in first.text
        assert [type(ref) for ref in message.refs] == [InputRef]
        assert bodies(log, TurnStarted)[0][0].refs == (EventsRef(message.seq, message.seq),)
        assert all(event.refs for event in log[1:])


async def test_what_is_held_is_followed_to_its_call_and_from_the_call_that_refers_to_it(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(call("write_file", path="workspace/secret.txt", text="the tide turns"))
        await owner.say(call("read_file", path="workspace/secret.txt", _hold=True))
        ((event, held),) = bodies(await owner.events(), ItemHeld)
        await owner.say(call("write_file", path="workspace/copy.txt", text={"$ref": held.ref}))
        log = await owner.events()
        (read, _) = bodies(log, ToolResult)[1]
        assert [type(ref) for ref in event.refs] == [CallRef, FileRef, CallRef]
        # What it came from stands with what is held, and not with what stands in its place.
        assert read.refs == (event.refs[0], HeldRef(held.ref))
        (copied, _) = bodies(log, ToolCall)[-1]
        assert HeldRef(held.ref) in copied.refs
        assert all(one.refs for one in log[1:])


async def test_a_result_is_followed_into_the_background_session_and_back_to_its_task(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(call("sessions_spawn", task="say what the tide does"))
        reported = await reports(owner)
        (answer,) = [ref for ref in reported.refs if isinstance(ref, EventsRef)]
        child = await owner.app.store.sessions.events(answer.session)
        ((told, _),) = bodies(at(child, EventsRef(answer.first, answer.last)), AgentMessage)
        ((task, _),) = bodies(at(child, told.refs[0]), UserMessage)
        (_, came) = task.refs
        assert isinstance(came, CallRef)
        assert came.session == owner.sid
        ((_, spawned),) = bodies(at(await owner.events(), came), ToolCall)
        assert spawned.tool == "sessions_spawn"


async def reports(owner: Person) -> Event:
    """Wait for what a background session reports."""
    while True:
        await owner.settled()
        for event, message in bodies(await owner.events(), UserMessage):
            if message.origin is not None:
                return event
