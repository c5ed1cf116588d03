"""How often a caller may ask, and how long they wait if they asked too often, over all processes (`bot.rates`)."""

import ipaddress
from collections import OrderedDict
from math import ceil
from typing import Final

from bot.core.clock import Clock
from bot.rates import MINUTE, SharedUses

PROGRAMS: Final = "programs"
STRANGERS: Final = "callers without a token"
"""The names of the rates: of tokens, and of networks."""

_MOST_KNOWN: Final = 20_000
"""Keys that are remembered; of more, the one that was used longest ago is forgotten."""


class RequestRates:
    """So many uses of each key in a minute; after a pause a whole minute's may come at once."""

    def __init__(self, uses: SharedUses, clock: Clock) -> None:
        self._uses = uses
        self._clock = clock
        # When the uses of a key are paid off, each of which takes its share of a minute; last used comes last.
        self._paid = OrderedDict[str, float]()

    async def use(self, key: str, most: int) -> int:
        """Count one use of a key that has `most` in a minute; return 0, or after how many seconds there is another.

        A use that is too many is not counted.
        """
        await self._uses.settle(key, most)
        if waits := self.spent(key, most):
            return waits
        self._paid[key] = max(self._paid.get(key, 0.0), self._clock.monotonic()) + MINUTE / most
        self._paid.move_to_end(key)
        self._uses.add(key)
        if len(self._paid) > _MOST_KNOWN:
            self._paid.popitem(last=False)
        return 0

    def spent(self, key: str, most: int) -> int:
        """Return the same for another use as far as this process knows, and count none."""
        now = self._clock.monotonic()
        paid = max(self._paid.get(key, now), now)
        if elsewhere := self._uses.take_arrived(key):
            # Each use in another process takes its share, up to the whole minute.
            paid = self._paid[key] = max(paid, min(paid + elsewhere * MINUTE / most, now + MINUTE))
        over = paid + MINUTE / most - now - MINUTE
        return max(1, ceil(over)) if over > 0 else 0


def network(host: str) -> str:
    """Return the common network of one customer's addresses: an IPv4 address, or the upper half of an IPv6 one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(address) if address.version == 4 else str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))  # noqa: PLR2004 - IPv4
