"""Runs tool calls beside their turns, so that a stopped turn ends in time even if its calls do not.

A call that others notice gets a grace when its turn is stopped: it may finish, and its result is kept. Any other call,
and one whose grace is over, is cancelled. A call that ignores that, as a thread does, is left to itself: its turn ends
without it, and its result is dropped.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.abc import TaskGroup

from bot.tools.base import Result
from bot.turn import OpenTurn

_MOMENT: Final = 0.5
"""Seconds that a call may take to end once it is cancelled."""

_LOOK: Final = 0.1
"""Seconds between two looks whether the lease of a turn that is being stopped was lost."""

_KEEPING: Final = 5.0
"""Seconds that keeping the result of a call may take when its turn is stopped."""

_LOGGER: Final = logging.getLogger(__name__)


class CallRuns:
    """Runs calls in a task group that outlives turns; `grace` is in seconds."""

    def __init__(self, tasks: TaskGroup, grace: float) -> None:
        self._tasks = tasks
        self._grace = grace

    async def carry_out(
        self,
        turn: OpenTurn,
        work: Callable[[], Awaitable[Result]],
        keep: Callable[[Result], Awaitable[None]],
        *,
        noticed: bool,
    ) -> None:
        """Run a call, and have `keep` take its result; `noticed` tells that others notice something of it.

        When the turn is ended meanwhile, the result is kept if the call is noticed and finishes within the grace.
        Raises any error of the call.
        """
        run = _Run(work)
        self._tasks.start_soon(run.go)
        try:
            await run.over.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._end(turn, run, self._grace if noticed else 0)
            if noticed and turn.ends_in_order and run.result is not None:
                with anyio.CancelScope(deadline=anyio.current_time() + _KEEPING, shield=True):
                    await keep(run.result)
            raise
        await keep(run.told())

    async def _end(self, turn: OpenTurn, run: "_Run", grace: float) -> None:
        """Wait for a call as long as its turn may, then cancel it; leave one that goes on nevertheless."""
        until = anyio.current_time() + grace
        while not run.over.is_set() and turn.ends_in_order and anyio.current_time() < until:
            with anyio.move_on_after(_LOOK):
                await run.over.wait()
        run.scope.cancel()
        with anyio.move_on_after(_MOMENT):
            await run.over.wait()
        if not run.over.is_set():
            _LOGGER.warning("a call goes on although its turn ended, so it is left to itself")


class _Run:
    """A call that runs: `over` is set when it ended, with its result or the error that it raised."""

    def __init__(self, work: Callable[[], Awaitable[Result]]) -> None:
        self.over = anyio.Event()
        self.scope = anyio.CancelScope()
        self.result: Result | None = None
        self._error: Exception | None = None
        self._work = work

    async def go(self) -> None:
        """Run it to its end."""
        try:
            with self.scope:
                self.result = await self._work()
        except Exception as error:  # noqa: BLE001 - the turn that waits for it raises it
            self._error = error
        finally:
            self.over.set()

    def told(self) -> Result:
        """Return its result. Raises the call's error."""
        if self._error is not None:
            raise self._error
        if self.result is None:
            raise RuntimeError("a call was cancelled, and its turn was not")
        return self.result


@asynccontextmanager
async def call_runs(grace: float) -> AsyncGenerator[CallRuns]:
    """Run calls until the block ends; those that go on then are cancelled."""
    async with anyio.create_task_group() as tasks:
        try:
            yield CallRuns(tasks, grace)
        finally:
            tasks.cancel_scope.cancel()
