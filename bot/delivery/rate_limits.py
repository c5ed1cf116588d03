"""Pacing: how fast the outbox speaks, so that no platform has to tell it to be quiet.

Rates and turns are in the store, so they hold for all processes together, and nobody holds a worker while he waits
long: a short wait is waited here, at most `PATIENCE` seconds for everything that is to be said in one go; for a longer
one the text goes back to the store with the time at which it is tried again. A channel without rates is not asked
about. What is dead is not tried for `DEAD_MS`, unless something comes in from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import anyio

from bot.sessions.deliveries import EVERYWHERE, DeliveryPause, Rate, SendSlot
from bot.sessions.ports.delivery import RateLimitStore
from channels.messages import Address
from channels.port import BusyChannelError

PATIENCE: Final = 2.0
DEAD_MS: Final = 60 * 60 * 1000
BACK_OFF: Final = (1_000, 5_000, 25_000)
"""Milliseconds after which a send that failed for certain is tried again; after the last it has failed."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast may be said on one channel: at every place, and in addition at shared ones."""

    always: tuple[Rate, ...]
    shared: tuple[Rate, ...] = ()


RATES: Final = MappingProxyType(
    {
        # A message a second in a chat with a few more at times, 20 a minute in a group, 30 a second at all.
        "telegram": Rates((Rate("chat", 1000, 3), Rate(EVERYWHERE, 34, 30)), (Rate("group", 3000, 20),)),
        # A message a second in a channel.
        "slack": Rates((Rate("chat", 1000, 1),)),
    }
)
"""What the platforms take, by channel; what is not named takes anything."""


class Patience:
    """What is left of the seconds that may be waited in place."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._left = seconds

    async def wait(self, milliseconds: int) -> bool:
        """Wait so long, if that much is left; return whether it was."""
        seconds = milliseconds / 1000
        if seconds > self._left:
            return False
        self._left -= seconds
        await anyio.sleep(seconds)
        return True


class RateLimits:
    """Says when something may be said. `rates` are by channel."""

    def __init__(self, store: RateLimitStore, rates: Mapping[str, Rates]) -> None:
        self._store = store
        self._rates = rates

    async def wait(self, turn: SendSlot, *, shared: bool, patience: Patience) -> int | None:
        """Wait until it may be said; return 0, or the milliseconds that are too long to wait, None for a dead address.

        `shared` tells whether the address is a shared chat.
        """
        rates = self._of(turn, shared=shared)
        if not rates:
            return 0
        while (wait := await self._store.pace(turn, rates)) and await patience.wait(wait):
            pass
        return wait

    async def busy(self, turn: SendSlot, error: BusyChannelError) -> int:
        """Note that a platform asks to wait; return for how many milliseconds."""
        wait = int(error.seconds * 1000) + 1
        if self.paced(turn.address):
            await self._store.pause(turn, DeliveryPause.CHANNEL if error.everywhere else DeliveryPause.PLACE, wait)
        return wait

    async def gone(self, turn: SendSlot) -> None:
        """Note that an address is dead."""
        if self.paced(turn.address):
            await self._store.pause(turn, DeliveryPause.ADDRESS, DEAD_MS)

    async def failed(self, turn: SendSlot, failures: int) -> int:
        """Return the milliseconds after which to try again what failed for certain so often before, 0 for never."""
        wait = BACK_OFF[failures] if failures < len(BACK_OFF) else 0
        if wait and self.paced(turn.address):
            await self._store.pause(turn, DeliveryPause.TEXT, wait)
        return wait

    async def heard(self, address: Address) -> None:
        """Note that something came in from an address, so that it is tried again."""
        if address.channel in self._rates:
            await self._store.heard(str(address))

    def paced(self, address: str) -> bool:
        """Say whether texts to an address wait for turns at their place."""
        return Address.parse(address).channel in self._rates

    def _of(self, turn: SendSlot, *, shared: bool) -> tuple[Rate, ...]:
        rates = self._rates.get(Address.parse(turn.address).channel)
        if rates is None:
            return ()
        return (*rates.always, *rates.shared) if shared else rates.always
