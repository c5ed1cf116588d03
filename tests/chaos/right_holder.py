"""A process that wants a duty of which one process has each at a time, and writes when it has it: to be killed.

Each line on standard output has a moment on the clock that all processes of this machine share, and a word: `wants`
when it begins, and `has` again and again while it may use the duty, or each time that it does the duty.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from bot.core.clock import SystemClock
from bot.delivery.sweep import SWEEP_SECONDS
from bot.sessions.background.schedules import Timer, TimerKind
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.webhooks.sender import LEASE_SECONDS, LOOK_SECONDS
from bot.worker.timers import TimerSweep
from tests.store.world import KEY

CLOCK: Final = SystemClock()
_STEP: Final = 0.05


def _has(word: str = "has") -> None:
    sys.stdout.write(f"{CLOCK.monotonic():.4f} {word}\n")
    sys.stdout.flush()


async def right(store: RedisStore, name: str) -> None:
    """Hold a right, by which one process polls, and one takes in the updates that any process parked."""
    while True:
        async with store.rights.hold(name) as held:
            while held():
                _has()
                await asyncio.sleep(_STEP)


async def sweep(store: RedisStore, name: str) -> None:
    """Take turns to sweep, as workers and relays do."""
    while True:
        wait = await store.wake.sweep_turn(name, SWEEP_SECONDS)
        if not wait:
            _has()
        await asyncio.sleep(wait or SWEEP_SECONDS)


async def webhook(store: RedisStore, name: str) -> None:
    """Hold the right to send for a webhook, as processes that answer programs do."""
    holder = f"{store.process}.{name}"
    while True:
        begun = CLOCK.monotonic()
        mine = await store.webhooks.hold(holder, round(LEASE_SECONDS * 1000), 1)
        until = begun + LEASE_SECONDS if mine else 0.0
        while CLOCK.monotonic() < min(until, begun + LOOK_SECONDS):
            _has()
            await asyncio.sleep(_STEP)
        if not mine:
            await asyncio.sleep(LOOK_SECONDS)


async def timer(store: RedisStore, _name: str) -> None:
    """Set off a timer, which takes for ever: schedules, reminders, and the ends of runs are timers."""

    async def set_off(_timer: Timer) -> None:
        while True:
            _has()
            await asyncio.sleep(_STEP)

    await TimerSweep(store.schedules, dict.fromkeys(TimerKind, set_off), _always).serve()


async def _always() -> bool:
    return True


DUTIES: Final[Mapping[str, Callable[[RedisStore, str], Awaitable[None]]]] = MappingProxyType(
    {"right": right, "sweep": sweep, "webhook": webhook, "timer": timer}
)


async def main(url: str, duty: str, name: str) -> None:
    """Want a duty until killed."""
    store = await open_store(audit_key=KEY, url=url)
    _has("wants")
    await DUTIES[duty](store, name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
