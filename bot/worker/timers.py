"""Timers: each is set off by one of the workers, within a second of its moment.

A worker takes due timers for a moment, keeps them while it works, and settles those it has set off. A worker that is
killed in between settles nothing, and its timers are soon due again. So none is lost, and the effect of a timer must be
idempotent. A worker checks when the next timer is due, and looks once a second for timers that were set meanwhile.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from bot.core.errors import OperatorError, StoreError
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.ports.runs import ScheduleStore

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

POLL_SECONDS: Final = 1.0
"""How often, in seconds, to look for timers that were set meanwhile."""

HOLD_MS: Final = 30_000
"""Milliseconds after which a timer that failed, or that still hangs, is due again."""

_LEASE_MS: Final = 2_000
"""Milliseconds after which a timer of a worker that was killed is due again."""

_RENEWALS: Final = 3
"""How often a lease on timers is renewed within its life."""

_PARALLEL: Final = 32
"""How many timers a worker sets off at a time; it takes more once half of them are done."""

_MOMENT: Final = 0.001
"""The least number of seconds between two looks."""

_LOGGER: Final = logging.getLogger(__name__)

SetOff = Callable[[Timer], Awaitable[None]]
"""Set off a timer; it is settled after that, unless it was set again.

Raises:
    StoreError: The timer is due again.
    OperatorError: The timer is due again; the problem for the operator was logged.
"""


class TimerSweep:
    """Sets off due timers, each kind by its own part, while this process decides by the policy in force.

    A timer that failed or hangs is due again after `hold` milliseconds, and those of a dead process are even sooner.
    """

    def __init__(
        self,
        store: ScheduleStore,
        parts: Mapping[TimerKind, SetOff],
        in_force: Callable[[], Awaitable[bool]],
        *,
        hold: int = HOLD_MS,
    ) -> None:
        self._store = store
        self._parts = parts
        self._in_force = in_force
        self._hold = hold
        self._lease = min(hold, _LEASE_MS)
        self._working = dict[Timer, float]()
        self._freed = anyio.Event()

    async def serve(self) -> None:
        """Run until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep)
            while True:
                wait = POLL_SECONDS
                with suppress(StoreError):
                    wait = await self._look(tasks)
                if len(self._working) >= _PARALLEL:
                    await self._freed.wait()
                else:
                    await anyio.sleep(wait)

    async def _look(self, tasks: "TaskGroup") -> float:
        """Set off due timers, as far as there is room; return in how many seconds to look again."""
        if not await self._in_force():
            return POLL_SECONDS
        taken, left = await self._store.take_due(_PARALLEL - len(self._working), self._lease)
        self._freed = anyio.Event()
        for timer in taken:
            self._working[timer] = anyio.current_time() + self._hold / 1000
            tasks.start_soon(self._set_off, timer)
        return POLL_SECONDS if left < 0 else min(max(left / 1000, _MOMENT), POLL_SECONDS)

    async def _keep(self) -> None:
        """Keep the timers that are worked here, so that no other worker takes them."""
        while True:
            await anyio.sleep(self._lease / 1000 / _RENEWALS)
            now = anyio.current_time()
            with suppress(StoreError):
                await self._store.keep([one for one, until in self._working.items() if now < until], self._lease)

    async def _set_off(self, timer: Timer) -> None:
        try:
            await self._parts[timer.kind](timer)
            await self._store.settle(timer)
        except (StoreError, OperatorError):
            await self._leave(timer)
        except Exception:
            # Other timers are not affected.
            _LOGGER.exception("a timer could not be carried out", extra={"subject": f"timer {timer.kind}"})
            await self._leave(timer)
        finally:
            self._working.pop(timer, None)
            if len(self._working) <= _PARALLEL // 2:
                self._freed.set()

    async def _leave(self, timer: Timer) -> None:
        """Leave a timer that failed alone for a while; if the store does not answer, it is due sooner."""
        self._working.pop(timer, None)
        with suppress(StoreError):
            await self._store.keep((timer,), self._hold)
