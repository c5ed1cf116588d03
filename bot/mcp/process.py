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
from functools import partial
from typing import Final, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from mcp.types.jsonrpc import JSONRPCError, JSONRPCResponse

from bot.mcp.answers import (
    CHATTER,
    LONGEST,
    PATIENCE,
    STOPPED,
    TOO_LONG,
    WRONG_TYPES,
    SentRequests,
    fault,
    looks_like_one,
    malformed,
)

Received = MemoryObjectReceiveStream[SessionMessage | Exception]
Sent = MemoryObjectSendStream[SessionMessage]

Note = Callable[[str, str], None]
"""Take a complaint, or a line of error output; the other is empty."""

_INHERITED: Final = ("PATH", "HOME")
_GRACE: Final = 2.0
"""Seconds that a server has to end once its input is closed, and again once it was asked to."""

_POLL: Final = 0.01
_TAIL: Final = 2_000
ENDED: Final = "it ended"
NO_MESSAGE: Final = "it wrote a line to its standard output that is not a message"
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
            asked, stdout = SentRequests(), cast("ByteReceiveStream", server.stdout)
            tasks.start_soon(partial(_receive, stdout, incoming, asked, note=note, ended=ended))
            tasks.start_soon(_send, cast("ByteSendStream", server.stdin), outgoing, asked)
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


class _Reader:
    """Makes messages of a server's lines, and errors of the lines that should have been one."""

    def __init__(
        self, messages: MemoryObjectSendStream[SessionMessage | Exception], asked: SentRequests, note: Note
    ) -> None:
        self._messages = messages
        self._asked = asked
        self._note = note
        self._garbage = 0
        self._heard = self._chatted = False

    def patience(self, rest: bytes) -> float | None:
        """Return how long the server may be silent now, None for ever: `rest` is the begin of a line."""
        chatted = self._chatted and self._heard and bool(self._asked.waiting)
        return PATIENCE if rest or chatted else None

    async def silent(self, rest: bytes) -> None:
        """Give up a server that has been silent for too long."""
        await self.fail(STOPPED if rest else CHATTER)

    async def read(self, line: bytes) -> bool:
        """Take one line; return whether more are read."""
        why, name = fault(line, self._asked.knows)
        message = None
        if not why:
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                why = WRONG_TYPES
        if message is not None:
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                self._asked.answered(name)
            self._heard, self._chatted = True, False
            await self._messages.send(SessionMessage(message))
            return True
        if self._asked.waiting and looks_like_one(line):
            await self.fail(why)
            return False
        self._garbage += 1
        self._chatted = True
        self._note(NO_MESSAGE, "")
        return self._garbage <= _GARBAGE

    async def fail(self, why: str) -> None:
        """Answer every request that waits with an error: which of them was meant cannot be known."""
        self._note(why, "")
        for name in sorted(self._asked.waiting, key=str):
            await self._messages.send(SessionMessage(malformed(name, why)))
        self._asked.waiting.clear()


async def _receive(
    output: ByteReceiveStream,
    messages: MemoryObjectSendStream[SessionMessage | Exception],
    asked: SentRequests,
    *,
    note: Note,
    ended: Callable[[], None],
) -> None:
    rest, reader = b"", _Reader(messages, asked, note)
    try:
        while True:
            chunk = b""
            with anyio.move_on_after(reader.patience(rest)):
                chunk = await output.receive()
            if not chunk:
                await reader.silent(rest)
                return
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST or any(len(line) > LONGEST for line in lines):
                await reader.fail(TOO_LONG)
                return
            for line in filter(bytes.strip, lines):
                if not await reader.read(line):
                    return
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        note(ENDED, "")
    finally:
        messages.close()
        ended()


async def _send(
    stdin: ByteSendStream, messages: MemoryObjectReceiveStream[SessionMessage], asked: SentRequests
) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for message in messages:
            asked.sent(message.message)
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
