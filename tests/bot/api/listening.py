"""A program that listens to a stream, and one that writes a session's log as its worker does."""

# pyright: reportPrivateUsage=false

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

import httpx2

from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import AgentMessage
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Claim, Write
from bot.store.records.names import NAMES
from bot.store.redis_store import RedisStore
from bot.store.schema import CHANGED, session_keys
from policy.labels import PUBLIC, Label
from tests.bot.api.kit import ApiHost
from tests.store.world import command, ending, fresh, opening

STREAM: Final = {"accept": "text/event-stream"}
PATIENCE: Final = 60.0


@dataclass
class Listener:
    """Hears a session's stream; `seqs` are those of all events that it heard, on all its connections.

    `truncated` is how often it was told that the log lacks events that it had heard.
    """

    client: httpx2.AsyncClient
    sid: str
    query: dict[str, str] = field(default_factory=dict[str, str])
    raw: bytes = b""
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    end: str = ""
    status: int = 0
    last: str = ""
    beats: int = 0
    truncated: int = 0
    _task: "asyncio.Task[None] | None" = None
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.told]

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Self]:
        """Listen, from behind what was heard, until the block is left."""
        await self.connect()
        try:
            yield self
        finally:
            await self.leave()

    async def connect(self) -> None:
        """Listen from behind what was heard last; return when the answer began."""
        self.status, self.end = 0, ""
        self._task = asyncio.create_task(self._listen())
        await self.until(lambda: self.status != 0)

    async def leave(self) -> None:
        """Hang up."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def until(self, met: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds):
            while not met():
                self._heard.clear()
                await self._heard.wait()

    async def heard(self, *seqs: int) -> None:
        """Wait until these events were heard, and no others."""
        await self.until(lambda: len(self.told) >= len(seqs))
        assert self.seqs == list(seqs)

    async def ended(self) -> str:
        """Wait until the stream says that it ends; return why."""
        await self.until(lambda: bool(self.end))
        return self.end

    async def _listen(self) -> None:
        resumed = {"last-event-id": self.last} if self.last else {}
        path = f"/v1/sessions/{self.sid}/events"
        try:
            async with self.client.stream("GET", path, params=self.query, headers={**STREAM, **resumed}) as answer:
                self.status = answer.status_code
                self._heard.set()
                rest = b""
                async for piece in answer.aiter_raw():
                    rest = self._take(rest + piece)
        except httpx2.TransportError:
            self.end = self.end or "lost"
        finally:
            self.status = self.status or -1
            self._heard.set()

    def _take(self, found: bytes) -> bytes:
        *frames, rest = found.split(b"\n\n")
        for frame in frames:
            if frame == b":":
                self.beats += 1
                continue
            self.raw += frame + b"\n\n"
            fields = dict(line.split(": ", 1) for line in frame.decode().split("\n"))
            data = json.loads(fields["data"])
            if fields.get("event") == "end":
                self.end = data["reason"]
            elif fields.get("event") == "log_truncated":
                self.truncated += 1
                self.last = fields["id"]
            else:
                assert fields["id"] == str(data["seq"])
                self.last = fields["id"]
                self.told.append(data)
        self._heard.set()
        return rest


def store_of(host: ApiHost) -> RedisStore:
    """Return the store of an API."""
    return host.app.store


async def revoke(host: ApiHost, name: str = "ci") -> None:
    """Let a token count no more."""
    await host.app.token_keeper.revoke(name, "owner")


def said(text: str = "hello", label: Label = PUBLIC, visibility: Visibility = Visibility.USER) -> NewEvent:
    """Return an event that enters the context."""
    return NewEvent("agent", label, AgentMessage(text), visibility, admitted=True, turn="t")


@dataclass
class Scribe:
    """Writes to the log of a program's session, as a worker does."""

    store: RedisStore
    sid: str
    program: str
    seq: int = 0
    _claim: Claim | None = None

    @classmethod
    async def begun(cls, store: RedisStore, program: str = "ci") -> "Scribe":
        """Begin a session of a program."""
        scribe = cls(store, fresh(), program)
        await scribe._open()
        return scribe

    async def write(self, *events: NewEvent) -> int:
        """Write events in one step; return the seq of the last."""
        assert self._claim is not None
        self.seq = (await self.store.sessions.record(self._claim, Write(fresh(), self.seq, events=events))).seq
        return self.seq

    async def end(self) -> int:
        """End the turn."""
        assert self._claim is not None
        self.seq = (await self.store.sessions.commit(self._claim, ending(self.seq, 1))).seq
        return self.seq

    async def reset(self) -> None:
        """Begin the session anew."""
        await self.store.sessions.reset(self.sid, op=fresh(), actor="ann", audit=())
        await self._open()

    async def write_unheard(self) -> int:
        """Write the last event once more, and publish nothing of it."""
        log, state = session_keys(self.sid).log, session_keys(self.sid).state
        ((_, fields),) = await command(self.store, "XREVRANGE", log, "+", "-", "COUNT", 1)
        self.seq += 1
        await command(self.store, "XADD", log, f"{self.seq}-0", *fields)
        await command(self.store, "HSET", state, NAMES["seq"], self.seq)
        return self.seq

    async def hint_and_pause(self, seconds: float) -> None:
        """Publish that the record changed, and have the server answer nothing for a while after that."""
        hint, pause = ("PUBLISH", CHANGED, session_keys(self.sid).state), ("CLIENT", "PAUSE", round(seconds * 1000))
        await self.store._shared.connection.commands(hint, pause)

    async def _open(self) -> None:
        principal, dedupe = f"program:{self.program}", fresh()
        home = f"api::{self.program}:{self.sid}"
        new = NewItem(self.sid, dedupe, principal, PUBLIC, SessionMessage("hello"), home, principal, PUBLIC)
        position = (await self.store.sessions.accept(new)).position
        claim = await self.store.sessions.claim(self.sid, fresh())
        assert claim is not None
        self._claim = claim
        self.seq = (await self.store.sessions.record(claim, opening(claim, position, dedupe))).seq
