"""Looking at sessions for all in this process who follow them: one look for each change, however many they are.

No task runs for it. One of the readers who wait for a session leads: it waits for the next change, looks, and all have
its findings. A look is also made where no change is reported for a while, as such hints may be lost: the look is the
truth. It reads the log first and the record after it, so that the record tells what the session had read when it wrote
the last of these events. Who may know of them is for the readers.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from bot.core.errors import SchemaError, StoreError
from bot.policy_state import PolicyReloader
from bot.sessions.log.events import Event
from bot.sessions.log.serialization import event_json
from bot.sessions.models import SessionState
from bot.sessions.ports.changes import ChangeFeed
from bot.sessions.ports.store import Store
from policy.labels import Label

SLOW_LOOK_SECONDS: Final = 5.0
"""After how long a session is looked at of which nothing is heard, or sooner where readers are told sooner."""

PAGE: Final = 200
"""How many events are read at once."""

_PAUSE_SECONDS: Final = 1.0
"""How long to wait after a look that failed."""

_KEPT: Final = 256

_KEPT_CHARACTERS: Final = 250_000
"""How many events of a session are kept for readers who are a little late, and how long they may be in all."""


@dataclass(frozen=True, slots=True)
class Frame:
    """An event's frame for readers of one label, None where they may not know it.

    `by` is the state that decided that.
    """

    by: object
    sent: bytes | None


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """An event that was looked at, with its frames for readers of each label: many readers share one."""

    event: Event
    size: int
    frames: dict[Label, Frame] = field(default_factory=dict[Label, Frame])

    @staticmethod
    def of(event: Event) -> "RecentEvent":
        """Return an event that nobody was sent yet."""
        return RecentEvent(event, len(json.dumps(event_json(event.body))))


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look: the session's record, None if it cannot be known of.

    Looks of a session are numbered. With `serves` false nothing may be sent: this process does not know the policy in
    force, or the store does not answer.
    """

    number: int
    state: SessionState | None
    serves: bool = True


@dataclass(frozen=True, slots=True)
class WatchingParts:
    """The parts that looking needs: `closing` is set when this process is to end.

    `slow_look` is after how many seconds a session is looked at of which nothing is heard.
    """

    store: Store
    reloader: PolicyReloader
    closing: asyncio.Event
    slow_look: float


class WatchedSession:
    """A session that readers here follow; `latest` is the result of the last look."""

    def __init__(self, state: SessionState, feed: ChangeFeed, until: AsyncExitStack, parts: WatchingParts) -> None:
        """Go on from a record that was just read; `until` is closed when no reader follows any more."""
        self.readers = 0
        self.until = until
        self.latest = Look(0, state)
        self._sid = state.sid
        self._feed = feed
        self._parts = parts
        self._head = state.seq
        self._recent = deque[RecentEvent]()
        self._size = 0
        self._leading = False
        # Whether a change was heard of, or enough time went by, and no look followed that yet.
        self._due = False
        self._turned = asyncio.Event()

    def recent(self, after: int) -> list[RecentEvent] | None:
        """Return the events behind one up to the last look, None where they are not kept any more."""
        missing = self._head - after
        if missing <= 0:
            return []
        if missing > len(self._recent):
            return None
        # From the end: there a reader who is in time finds the newest ones at once.
        return [self._recent[place] for place in range(-missing, 0)]

    async def next(self, number: int) -> Look:
        """Return the last look if it is another than that of a number, or wait for the next one.

        Also when this process is to end.
        """
        while self.latest.number == number and not self._parts.closing.is_set():
            if self._leading:
                await self._turned.wait()
            else:
                await self._lead()
        return self.latest

    async def _lead(self) -> None:
        self._leading = True
        try:
            if not self._due:
                await self._changed()
            if not self._parts.closing.is_set():
                # A reader may leave while it looks, and takes the hint with it: so this is kept for the next.
                self._due = True
                await self._look()
                self._due = False
        finally:
            # The reader who led may be gone: another one leads from here.
            self._leading = False
            turned, self._turned = self._turned, asyncio.Event()
            turned.set()

    async def _changed(self) -> None:
        """Wait until the session may have changed, for a while, or until this process is told to end."""

        async def until_closing() -> None:
            await self._parts.closing.wait()
            both.cancel_scope.cancel()

        with anyio.move_on_after(self._parts.slow_look):
            async with anyio.create_task_group() as both:
                both.start_soon(until_closing)
                await self._feed.next()
                self._due = True
                both.cancel_scope.cancel()

    async def _look(self) -> None:
        number = self.latest.number + 1
        try:
            while True:
                events, state = await self._parts.store.sessions.news(self._sid, after=self._head, limit=PAGE)
                serves = await self._parts.reloader.current()
                self._keep(events)
                self.latest = Look(number, state, serves)
                if len(events) < PAGE:
                    return
        except SchemaError:
            # Whose it is cannot be told, so it is as if it were not there.
            self.latest = Look(number, None)
        except StoreError:
            await anyio.sleep(_PAUSE_SECONDS)
            self.latest = replace(self.latest, number=number, serves=False)

    def _keep(self, events: Sequence[Event]) -> None:
        for event in events:
            kept = RecentEvent.of(event)
            self._recent.append(kept)
            self._size += kept.size
        if events:
            self._head = events[-1].seq
        while self._recent and (len(self._recent) > _KEPT or self._size > _KEPT_CHARACTERS):
            self._size -= self._recent.popleft().size


class Watching:
    """The sessions that are followed in this process, each as long as it has readers."""

    def __init__(self, parts: WatchingParts) -> None:
        self.parts = parts
        self._sessions = dict[str, WatchedSession]()

    @asynccontextmanager
    async def session(self, state: SessionState) -> AsyncGenerator[WatchedSession]:
        """Yield a session that is followed, whose record was just read."""
        watched = self._sessions.get(state.sid) or await self._begun(state)
        watched.readers += 1
        try:
            yield watched
        finally:
            watched.readers -= 1
            if not watched.readers:
                del self._sessions[state.sid]
                await watched.until.aclose()

    async def _begun(self, state: SessionState) -> WatchedSession:
        async with AsyncExitStack() as until:
            feed = await until.enter_async_context(self.parts.store.changes.watching(state.sid))
            # Another reader may have begun meanwhile.
            watched = self._sessions.get(state.sid)
            if watched is None:
                watched = self._sessions[state.sid] = WatchedSession(state, feed, until.pop_all(), self.parts)
        return watched
