"""The pacing part of the store: rates, places that are silent, and whose turn it is, all of it hints."""

from typing import TYPE_CHECKING, Final

from bot.sessions.deliveries import DeliveryPause, Rate, SendSlot
from bot.store.base import Part
from bot.store.keys import pace_keys, turn_field
from bot.store.scripts import Script
from bot.store.wire import raw

if TYPE_CHECKING:
    from bot.store.link import Arg

_GRACE_MS: Final = 10_000
"""How long after its time a turn is kept for a text that waits: the sweep finds it before."""


class Pacing(Part):
    """Implements the port `PaceStore`."""

    async def pace(self, turn: SendSlot, rates: tuple[Rate, ...]) -> int | None:
        """Ask to say something now; return the milliseconds to wait first, 0 for now, None for a dead address."""
        keys = pace_keys(turn.address)
        args: list[Arg] = [self._ids.op(), _field(turn), raw(turn.address), self._options.send_lease_ms, _GRACE_MS]
        args.append(len(rates))
        for rate in rates:
            args += [rate.name, rate.every, rate.burst]
        reply = await self._link.script(Script.PACE, [keys.channel, keys.place, keys.gone], args)
        if reply[0] == b"gone":
            return None
        return int(reply[1]) if reply[0] == b"wait" else 0

    async def hush(self, turn: SendSlot, what: DeliveryPause, wait: int) -> None:
        """Note that nothing can be said for `wait` milliseconds."""
        keys = pace_keys(turn.address)
        args: list[Arg] = [_field(turn), what.value, raw(turn.address), wait]
        await self._link.script(Script.HUSH, [keys.channel, keys.place, keys.gone], args)

    async def heard(self, address: str) -> None:
        """Note that something came in from an address: what is dead in its place is not any more."""
        await self._link.commands(("UNLINK", pace_keys(address).gone))


def _field(turn: SendSlot) -> str:
    return turn_field(turn.sid, turn.key) if turn.key else ""
