"""Signals of work beside a turn, such as a platform's typing: no answer waits for them."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from bot.delivery.outbox import Outbox
from bot.turn import OpenTurn
from channels.messages import Signal

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_SOON: Final = 0.5
"""Seconds before a turn is shown to be at work: most are over by then, and a signal is a request."""


@dataclass(eq=False, slots=True)
class _Light:
    """The signal of one turn, which is due at a time of the loop; `told` is set once a begun one was shown."""

    turn: OpenTurn
    due: float
    over: bool = False
    told: anyio.Event | None = None

    def end(self) -> None:
        """Tell that the turn is over."""
        self.over = True


class TurnSignals:
    """Shows which turns of this process are at work, once they take longer than `soon` seconds.

    One task waits for all of them: most turns are over before, and so need none of their own.
    """

    def __init__(self, outbox: Outbox, soon: float = _SOON) -> None:
        self._outbox = outbox
        self._soon = soon
        self._lit = set[OpenTurn]()
        self._coming = deque[_Light]()
        self._came = asyncio.Event()
        self._ending = False

    async def serve(self, tasks: "TaskGroup") -> None:
        """Show turns as their moment comes, until `end`."""
        while not self._ending or self._coming:
            await self._came.wait()
            while self._coming:
                await self._first(tasks)
            if not self._ending:
                self._came.clear()

    def end(self) -> None:
        """Expect no other turn."""
        self._ending = True
        self._came.set()

    def again(self, tasks: "TaskGroup") -> None:
        """Show that every turn is still at work."""
        for turn in self._lit:
            tasks.start_soon(self._signal, turn, Signal.STILL)

    @asynccontextmanager
    async def shown(self, turn: OpenTurn) -> AsyncGenerator[Callable[[], None]]:
        """Show beside a turn that it is at work, once it takes longer than a moment, and at the end that it is over.

        Yields the function that tells that the turn is over: after that, nothing more is shown.
        """
        light = _Light(turn, asyncio.get_running_loop().time() + self._soon)
        self._coming.append(light)
        self._came.set()
        try:
            yield light.end
            if light.told is not None:
                # A platform that got it after the end would show it forever.
                await light.told.wait()
            self._lit.discard(turn)
            await self._signal(turn, Signal.DONE)
        finally:
            light.end()
            self._lit.discard(turn)

    async def _first(self, tasks: "TaskGroup") -> None:
        """Show the turn that began first, unless it is over by its moment."""
        light = self._coming[0]
        if not light.over:
            await asyncio.sleep(light.due - asyncio.get_running_loop().time())
        self._coming.popleft()
        if not light.over:
            light.told = anyio.Event()
            tasks.start_soon(self._show, light, light.told)

    async def _show(self, light: _Light, told: anyio.Event) -> None:
        await self._signal(light.turn, Signal.WORKING)
        if not light.over:
            self._lit.add(light.turn)
        told.set()

    async def _signal(self, turn: OpenTurn, signal: Signal) -> None:
        """Show that a session is at work, unless the number of its turns would reveal too much to its chat."""
        if turn.shows:
            await self._outbox.signal(turn.standing.home, signal)
