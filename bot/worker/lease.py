"""The lease keeper: renews leases in a thread of its own, which work on the event loop cannot starve.

The thread has an event loop and a store connection of its own, and renews every lease each third of its life. A lost
lease, and a stop that a person asked for, interrupt the turn on the main loop. So does a lease that could not be
renewed until its life is nearly over, because the store is away or refuses, or the machine slept. Another worker may
have the session from then on, so all effects of the turn outside must have ended by then.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Final

from bot.core.clock import Clock
from bot.core.errors import LeaseLostError, SchemaError, StoreError
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.ports.store import Store
from bot.turn import OpenTurn, StopRequestedError

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]

RAN_OUT: Final = "the lease could not be renewed in time"

_SURE: Final = 0.9
"""The fraction of its life for which a lease that was not renewed is still trusted."""

_LOOKS: Final = 30
"""How often within a lease's life expiry is checked, and a store that was away is tried again."""

_LOGGER: Final = logging.getLogger(__name__)


class _Held:
    """A turn's lease: the loop that the turn runs on, and until when it surely lasts, on a clock of this process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        self.loop = loop
        self.until = until


class LeaseKeeper:
    """Renews the leases of the turns it holds. `lease` is a lease's life in seconds."""

    def __init__(self, open_store: OpenStore, lease: float, clock: Clock) -> None:
        self._open_store = open_store
        self._lease = lease
        self._clock = clock
        # Replaced, never changed, and by the main loop alone: the thread reads it without a lock.
        self._turns: Mapping[OpenTurn, _Held] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def hold(self, turn: OpenTurn, since: float) -> Generator[None]:
        """Renew a turn's lease until the block ends.

        `since` is the time of the request for the lease, or earlier, in seconds on the clock that nobody sets.
        """
        loop = asyncio.get_running_loop()
        self._turns = {**self._turns, turn: _Held(loop, since + self._lease * _SURE)}
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="lease-keeper", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            self._turns = {one: held for one, held in self._turns.items() if one is not turn}

    async def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _main(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._renewing())

    async def _watch(self) -> None:
        """Interrupt the turns whose leases ran out. It asks no store, so it waits for none."""
        while await self._pause(_LOOKS):
            self._interrupt_overdue(self._clock.monotonic())

    def _interrupt_overdue(self, now: float) -> None:
        for turn, held in self._turns.items():
            if now >= held.until:
                held.loop.call_soon_threadsafe(turn.interrupt, LeaseLostError(RAN_OUT))

    async def _renewing(self) -> None:
        while not self._ended.is_set():
            try:
                async with self._open_store() as store:
                    while not self._ended.is_set():
                        await self._renew_all(store.sessions)
                        await self._pause(3)
            except StoreError:
                # The store is away: leases run out by themselves and the writes of their turns fail.
                await self._pause(_LOOKS)
            except Exception:
                _LOGGER.exception("leases could not be renewed")
                await self._pause(_LOOKS)

    async def _renew_all(self, store: SessionStore) -> None:
        """Renew each lease once. Its references to turns end when it returns, so no turn is kept alive here."""
        for turn, held in self._turns.items():
            # A lease with an unreadable record runs out; the others are renewed.
            with suppress(SchemaError):
                await self._renew(store, turn, held)

    async def _renew(self, store: SessionStore, turn: OpenTurn, held: _Held) -> None:
        asked = self._clock.monotonic()
        try:
            if await store.renew(turn.claim):
                held.loop.call_soon_threadsafe(turn.interrupt, StopRequestedError())
            held.until = asked + self._lease * _SURE
        except LeaseLostError as error:
            held.loop.call_soon_threadsafe(turn.interrupt, error)

    async def _pause(self, parts: int) -> bool:
        """Wait a part of a lease; return False when the keeper was closed meanwhile."""
        return not await asyncio.to_thread(self._ended.wait, self._lease / parts)
