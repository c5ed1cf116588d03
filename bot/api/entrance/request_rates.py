"""How often a caller may ask, and how long they wait if they asked too often: counted in this process."""

import ipaddress
from collections import OrderedDict
from math import ceil
from typing import Final

from bot.core.clock import Clock

_WINDOW: Final = 60.0
_MOST_KNOWN: Final = 20_000
"""Keys that are remembered; of more, the one that was used longest ago is forgotten."""


class RequestRates:
    """So many uses of each key in a minute; after a pause a whole minute's may come at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # When the uses of a key are paid off, each of which takes its share of a minute; last used comes last.
        self._paid = OrderedDict[str, float]()

    def use(self, key: str, most: int) -> int:
        """Count one use of a key that has `most` in a minute; return 0, or after how many seconds there is another.

        A use that is too many is not counted.
        """
        now = self._clock.monotonic()
        paid = max(self._paid.get(key, now), now) + _WINDOW / most
        if (over := paid - now - _WINDOW) > 0:
            return max(1, ceil(over))
        self._paid[key] = paid
        self._paid.move_to_end(key)
        if len(self._paid) > _MOST_KNOWN:
            self._paid.popitem(last=False)
        return 0

    def spent(self, key: str, most: int) -> int:
        """Return the same for another use, and count none."""
        now = self._clock.monotonic()
        over = max(self._paid.get(key, now), now) + _WINDOW / most - now - _WINDOW
        return max(1, ceil(over)) if over > 0 else 0


def network(host: str) -> str:
    """Return the common network of one customer's addresses: an IPv4 address, or the upper half of an IPv6 one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(address) if address.version == 4 else str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))  # noqa: PLR2004 - IPv4
