"""Keeping leases alive from a thread of its own, which work on the event loop cannot starve.

The thread has an event loop and a store connection of its own and renews every lease each third of its
life. A lease that was lost, and a stop that a person asked for, interrupt the turn on the main loop.
"""

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager

from bot.errors import LeaseLostError, StoreError
from bot.sessions.port import SessionStore
from bot.turn import OpenTurn, StopRequestedError

OpenStore = Callable[[], AbstractAsyncContextManager[SessionStore]]


class LeaseKeeper:
    """Renews the leases of the turns it holds. `lease` is a lease's life in seconds."""

    def __init__(self, open_store: OpenStore, lease: float) -> None:
        self._open_store = open_store
        self._lease = lease
        # Replaced, never changed, and by the main loop alone: the thread reads it without a lock.
        self._turns: Mapping[OpenTurn, asyncio.AbstractEventLoop] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def hold(self, turn: OpenTurn) -> Generator[None]:
        """Renew a turn's lease until the block ends."""
        self._turns = {**self._turns, turn: asyncio.get_running_loop()}
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="lease-keeper", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            self._turns = {held: loop for held, loop in self._turns.items() if held is not turn}

    async def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _main(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        while not self._ended.is_set():
            try:
                async with self._open_store() as store:
                    await self._renew_all(store)
            except StoreError:
                # The store is away: leases run out by themselves and the writes of their turns fail.
                await self._pause()

    async def _renew_all(self, store: SessionStore) -> None:
        while await self._pause():
            for turn, loop in self._turns.items():
                await self._renew(store, turn, loop)

    async def _renew(self, store: SessionStore, turn: OpenTurn, loop: asyncio.AbstractEventLoop) -> None:
        try:
            if await store.renew(turn.claim):
                loop.call_soon_threadsafe(turn.interrupt, StopRequestedError())
        except LeaseLostError as error:
            loop.call_soon_threadsafe(turn.interrupt, error)

    async def _pause(self) -> bool:
        """Wait a third of a lease; return False when the keeper was closed meanwhile."""
        return not await asyncio.to_thread(self._ended.wait, self._lease / 3)
