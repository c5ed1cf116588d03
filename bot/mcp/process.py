"""A server that is a process of ours: messages are lines on its standard input and output.

The client library's own transport is not used: it bounds no line, hands most of the environment on, and logs unparsable
lines. The process has a session of its own, so that it is ended with all its children. A watch of a few bytes of shell
ends it when Lockgate is killed before it could do so.
"""

import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

Received = MemoryObjectReceiveStream[SessionMessage | Exception]
Sent = MemoryObjectSendStream[SessionMessage]

Note = Callable[[str, str], None]
"""Take a complaint, or a line of error output; the other is empty."""

LONGEST: Final = 4_000_000
"""Bytes of the longest message that a server may send."""

_INHERITED: Final = ("PATH", "HOME")
_GRACE: Final = 2.0
"""Seconds that a server has to end once its input is closed, and again once it was asked to."""

_POLL: Final = 0.01
_TAIL: Final = 2_000
_GARBAGE: Final = 100
"""Lines that are not messages after which a server is given up; careless servers print a few."""

_WATCH: Final = 'read -r _; sleep 2; kill -s KILL -- "-$0"'
"""Waits until its input ends, which is when Lockgate does, and ends the rest of the group given as its name."""


def environment(own: Mapping[str, str], inherited: Mapping[str, str]) -> dict[str, str]:
    """Return a server's environment: the paths of programs and its home, and the configured variables."""
    return {**{name: inherited[name] for name in _INHERITED if name in inherited}, **own}


@asynccontextmanager
async def open_process(
    command: list[str], env: Mapping[str, str], note: Note, ended: Callable[[], None]
) -> AsyncGenerator[tuple[Received, Sent]]:
    """Start a server and yield the streams of its messages; in the end it is gone, with all it started.

    `ended` is called when its messages end, because the process did or because it sent invalid ones. `note` gets the
    fault of its messages, or its error output.

    Raises OSError: it cannot be started.
    """
    server = await anyio.open_process(command, env=env, start_new_session=True)
    watch: Process | None = None
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        watch = await _watch(server.pid)
        async with anyio.create_task_group() as tasks:
            # All three were opened with pipes.
            tasks.start_soon(_receive, cast("ByteReceiveStream", server.stdout), incoming, note, ended)
            tasks.start_soon(_send, cast("ByteSendStream", server.stdin), outgoing)
            tasks.start_soon(_listen, cast("ByteReceiveStream", server.stderr), note)
            try:
                yield received, sent
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            for stream in (incoming, received, sent, outgoing):
                await stream.aclose()
            await _end(server)
            if watch is not None:
                _signal(watch.pid, signal.SIGKILL)
                await watch.aclose()


async def _watch(pid: int) -> Process:
    quiet = subprocess.DEVNULL
    return await anyio.open_process(
        ["/bin/sh", "-c", _WATCH, str(pid)],
        stdin=subprocess.PIPE,
        stdout=quiet,
        stderr=quiet,
        env={"PATH": os.defpath},
        start_new_session=True,
    )


async def _receive(
    output: ByteReceiveStream,
    messages: MemoryObjectSendStream[SessionMessage | Exception],
    note: Note,
    ended: Callable[[], None],
) -> None:
    rest, garbage = b"", 0
    try:
        while garbage <= _GARBAGE:
            *lines, rest = (rest + await output.receive()).split(b"\n")
            if len(rest) > LONGEST or any(len(line) > LONGEST for line in lines):
                note(f"it sent a message of more than {LONGEST} bytes", "")
                return
            for line in filter(bytes.strip, lines):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    garbage += 1
                    note("it wrote a line to its standard output that is not a message", "")
                else:
                    await messages.send(SessionMessage(message))
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        note("it ended", "")
    finally:
        messages.close()
        ended()


async def _send(stdin: ByteSendStream, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(text.encode() + b"\n")


async def _listen(errors: ByteReceiveStream, note: Note) -> None:
    tail = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            tail = (tail + await errors.receive())[-_TAIL:]
            lines = tail.decode(errors="replace").split("\n")
            note("", next((line.strip() for line in reversed(lines) if line.strip()), ""))


async def _end(server: Process) -> None:
    """End a server as the protocol says: close its input, wait, tell it, wait, kill its whole group."""
    if server.stdin is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await server.stdin.aclose()
    if not await _gone(server):
        _signal(server.pid, signal.SIGTERM)
        await _gone(server)
    _signal(server.pid, signal.SIGKILL)
    await server.aclose()


async def _gone(server: Process) -> bool:
    """Wait a while for a server to end; its children may hold its pipes longer, so they tell nothing."""
    with anyio.move_on_after(_GRACE):
        while server.returncode is None:  # noqa: ASYNC110 - waiting for it also waits for pipes its children hold
            await anyio.sleep(_POLL)
    return server.returncode is not None


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
