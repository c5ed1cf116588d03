"""Rate limits of the outbox, so that no platform has to refuse its requests.

Rates and turns are in the store, so they hold for all processes together. No worker is held for a long wait: short
waits happen here, at most `PATIENCE` seconds for all texts that are sent in one go. For a longer wait the text goes
back to the store with the time of its next try. A channel without rates has no limits here. A dead address is not tried
for `DEAD_MS` milliseconds, unless a message comes in from there.
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
"""Milliseconds after which a send that failed for certain is tried again; after the last one it has failed."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one channel: for every place, and additional ones for shared places."""

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
"""The limits of the platforms, by channel; a channel that is not named has none."""


class Patience:
    """The rest of the seconds that may be waited in place."""

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
    """Tells when a text may be sent. `rates` are by channel."""

    def __init__(self, store: RateLimitStore, rates: Mapping[str, Rates]) -> None:
        self._store = store
        self._rates = rates

    async def wait(self, turn: SendSlot, *, shared: bool, patience: Patience) -> int | None:
        """Wait until a text may be sent; return 0, or the milliseconds of a longer wait, None for a dead address.

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
        """Return the milliseconds until the next try after so many certain failures before, 0 for no further try."""
        wait = BACK_OFF[failures] if failures < len(BACK_OFF) else 0
        if wait and self.paced(turn.address):
            await self._store.pause(turn, DeliveryPause.TEXT, wait)
        return wait

    async def heard(self, address: Address) -> None:
        """Note that a message came in from an address, so that it is tried again."""
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
