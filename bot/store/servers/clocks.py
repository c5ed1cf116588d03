"""The clocks of a store's servers: the store's time as this process knows it, and how far apart the clocks are.

Each script uses the clock of its own server. A Cluster has several, and after a failover it is the clock of another
one. A difference of `APART_MS` is tolerated. The time that this process uses for the store is that of the clock that is
ahead: a right that ended there has ended (law fails_closed).
"""

import asyncio
from typing import Final

from redis.exceptions import RedisError

from bot.core.clock import Clock
from bot.sessions.installation.clocks import NodeClock
from bot.store.records import codec
from bot.store.servers.connection import UNREACHED, Connection, Part

_WINDOW_SECONDS: Final = 60.0
"""For one to two of these times a clock that is ahead counts after it was seen."""

_ANSWER_SECONDS: Final = 5.0
"""Also a server on a machine that stalls for a moment is compared."""


class StoreTime:
    """The store's time. Implements `Clock` of `bot.core.clock`: its wall clock is the store's.

    It is counted from the clock of this process that nobody sets.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead: int | None = None
        self._before: int | None = None
        self._since = 0.0
        self._offset: int | None = None

    def saw(self, now: int) -> None:
        """Note the time of a server, in milliseconds."""
        at = self._clock.monotonic()
        if at - self._since >= _WINDOW_SECONDS:
            # After a pause of two windows the earlier times are too old.
            self._before = self._ahead if at - self._since < 2 * _WINDOW_SECONDS else None
            self._ahead, self._since = None, at
        ahead = now - round(at * 1000)
        self._ahead = ahead if self._ahead is None else max(self._ahead, ahead)
        # Kept, as the time is asked for with each event of each stream.
        self._offset = self._ahead if self._before is None else max(self._ahead, self._before)

    def wall_ms(self) -> int:
        """Return the store's time in milliseconds since the epoch; that of this machine before any was seen."""
        offset = self._offset
        return self._clock.wall_ms() if offset is None else offset + round(self._clock.monotonic() * 1000)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never falls."""
        return self._clock.monotonic()


async def clocks(connection: Connection, clock: Clock) -> tuple[NodeClock, ...]:
    """Ask every server for its time, replicas too, and compare it with the clock of this machine.

    A server that does not answer in five seconds, or does not allow the question, is left out. Raises StoreError: the
    store's servers are not known.
    """
    async with asyncio.TaskGroup() as together:
        asked = [together.create_task(_compared(node, clock)) for node in await connection.nodes()]
    return tuple([one for task in asked if (one := task.result()) is not None])


async def _compared(node: Part, clock: Clock) -> NodeClock | None:
    begun, wall = clock.monotonic(), clock.wall_ms()
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            (reply,) = await node.server.exchange((("TIME",),))
    except UNREACHED:
        return None
    if isinstance(reply, RedisError):
        return None
    # The server looked at its clock between question and answer.
    middle = wall + round((clock.monotonic() - begun) * 500)
    return NodeClock(node.name, codec.clock_ms(reply) - middle)
