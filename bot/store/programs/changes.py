"""Changes of sessions, as the scripts publish them, for all waiting callers of a process.

One connection hears all changes, and gives each feed those it asked for. No task runs for it: the first waiting caller
connects. After a lost connection each feed is told that everything may have changed, as changes in between are unknown.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Final

from bot.core.errors import StoreError, StoreGoneError
from bot.sessions.ports.changes import Changed, ChangeFeed
from bot.store.schema import CHANGED, session_keys, sid_of
from bot.store.servers.connection import UNREACHED, Connection, Subscriber, Subscription

_ALL: Final = b""
"""Stands for every session among those that feeds ask for."""

_RECORD: Final = b"}:state"
"""The end of the key of a session's record; heads of other chains are published too."""

_MOST: Final = 10_000
"""The most sessions that a feed keeps for a caller that does not come; after that it only says that there were more."""

_CHECK_SECONDS: Final = 5.0
"""Seconds of silence until the server is asked whether it is there, and seconds that it has to answer."""

_PAUSE_SECONDS: Final = 0.5

_LONG_PAUSE_SECONDS: Final = 30.0
"""Seconds to wait after a store that was away, and after one that does not let us listen."""


class RedisChanges:
    """Implements the port `Changes`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._feeds = dict[bytes, set[_Feed]]()
        self._subscription: Subscription | None = None
        self._connecting = asyncio.Lock()
        self._sure = 0.0

    @asynccontextmanager
    async def watching(self, sid: str = "") -> AsyncGenerator[ChangeFeed]:
        """Yield a feed of one session, or of all of them without `sid`."""
        feed, key = _Feed(self), session_keys(sid).state.encode() if sid else _ALL
        self._feeds.setdefault(key, set()).add(feed)
        try:
            yield feed
        finally:
            self._feeds[key].discard(feed)
            if not self._feeds[key]:
                del self._feeds[key]
            if not self._feeds and self._subscription is not None:
                subscription, self._subscription = self._subscription, None
                await subscription.close()

    async def listen(self) -> None:
        """Connect if there is no connection, and tell all feeds. Raises StoreError."""
        if self._open():
            return
        async with self._connecting:
            if not self._open():
                self._subscription = await self._connection.listen(Subscriber(CHANGED, self._heard, self._lost))
                self._sure = asyncio.get_running_loop().time()
                for feed in self._all():
                    feed.add_everything()

    async def check(self) -> None:
        """Check that the server is there, once for all waiting callers; if it is not, `listen` connects anew."""
        loop = asyncio.get_running_loop()
        async with self._connecting:
            subscription = self._subscription
            if subscription is None or loop.time() < self._sure + _CHECK_SECONDS:
                return
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    await subscription.check()
                self._sure = loop.time()
            except UNREACHED:
                self._subscription = None
                await subscription.close()

    def _open(self) -> bool:
        return self._subscription is not None and self._subscription.open

    def _all(self) -> Iterator["_Feed"]:
        for feeds in self._feeds.values():
            yield from feeds

    def _heard(self, key: bytes) -> None:
        for feed in self._feeds.get(key, ()):
            feed.add(key)
        if key.endswith(_RECORD):
            for feed in self._feeds.get(_ALL, ()):
                feed.add(key)

    def _lost(self) -> None:
        for feed in self._all():
            feed.wake()


class _Feed:
    """Implements the port `ChangeFeed`."""

    def __init__(self, changes: RedisChanges) -> None:
        self._changes = changes
        self._keys = set[bytes]()
        self._everything = True
        self._woken = asyncio.Event()

    def add(self, key: bytes) -> None:
        """Note that a session's record was written, by the record's key."""
        if self._everything:
            return
        self._keys.add(key)
        if len(self._keys) > _MOST:
            self.add_everything()
        self._woken.set()

    def add_everything(self) -> None:
        """Note that every record may have been written."""
        self._everything = True
        self._keys.clear()
        self._woken.set()

    def wake(self) -> None:
        """Have the waiting caller check the connection."""
        self._woken.set()

    async def next(self) -> Changed:
        """Wait for changes."""
        while True:
            try:
                await self._changes.listen()
            except StoreGoneError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            except StoreError:
                await asyncio.sleep(_LONG_PAUSE_SECONDS)
                continue
            if self._everything or self._keys:
                return self._taken()
            self._woken.clear()
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                await self._changes.check()

    def _taken(self) -> Changed:
        changed = Changed(frozenset(map(sid_of, self._keys)), self._everything)
        self._keys.clear()
        self._everything = False
        return changed
