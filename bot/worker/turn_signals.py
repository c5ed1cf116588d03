"""Signals of work beside a turn, such as a platform's typing: no answer waits for them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from bot.delivery.outbox import Outbox
from bot.turn import OpenTurn
from channels.messages import Signal

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_SOON: Final = 0.5
"""Seconds before a turn is shown to be at work: most are over by then, and a signal is a request."""


class TurnSignals:
    """Shows which turns of this process are at work, once they take longer than `soon` seconds."""

    def __init__(self, outbox: Outbox, soon: float = _SOON) -> None:
        self._outbox = outbox
        self._soon = soon
        self._lit = set[OpenTurn]()

    def again(self, tasks: "TaskGroup") -> None:
        """Show that every turn is still at work."""
        for turn in self._lit:
            tasks.start_soon(self._signal, turn, Signal.STILL)

    @asynccontextmanager
    async def shown(self, turn: OpenTurn) -> AsyncGenerator[Callable[[], None]]:
        """Show beside a turn that it is at work, once it takes longer than a moment, and at the end that it is over.

        Yields the function that tells that the turn is over: after that, nothing more is shown.
        """
        lit: asyncio.Task[None] | None = None

        async def light() -> None:
            await self._signal(turn, Signal.WORKING)
            if not timer.cancelled():
                self._lit.add(turn)

        def begin() -> None:
            nonlocal lit
            lit = asyncio.ensure_future(light())  # noqa: TID251 - a timer knows no group, and this block ends it

        # Most turns are over before, and so take no task for it.
        timer = asyncio.get_running_loop().call_later(self._soon, begin)
        try:
            yield timer.cancel
            if lit is not None:
                # A platform that got it after the end would show it forever.
                await lit
            self._lit.discard(turn)
            await self._signal(turn, Signal.DONE)
        finally:
            timer.cancel()
            if lit is not None:
                lit.cancel()
            self._lit.discard(turn)

    async def _signal(self, turn: OpenTurn, signal: Signal) -> None:
        """Show that a session is at work, unless the number of its turns would reveal too much to its chat."""
        if turn.shows:
            await self._outbox.signal(turn.standing.home, signal)
