"""The part of the store that keeps what is said in a shared chat and not to the bot."""

from collections.abc import Sequence
from typing import Final

from bot.sessions.inbox import NewObserved, Observed
from bot.store import wire
from bot.store.base import Part
from bot.store.keys import session_keys
from bot.store.link import Reply
from bot.store.scripts import Script
from bot.store.wire import raw, text

LIFE_MS: Final = 24 * 60 * 60 * 1000

_REMEMBERED: Final = 1000
"""How many dedupe keys are remembered at most: a platform tells again what came last."""


class Observing(Part):
    """Implements the port `ObservedStore`."""

    async def observe(self, sid: str, new: NewObserved, most: int) -> None:
        """Keep a text."""
        keys = session_keys(sid)
        said = [raw(new.dedupe), raw(new.account), str(new.label), raw(new.text), raw(new.opens)]
        bounds = [most, LIFE_MS, _REMEMBERED]
        await self._link.script(Script.OBSERVE, [keys.observed, keys.observed_ids], [*said, *bounds])

    async def observed(self, sid: str, *, after: str, until: int, now: int, most: int) -> tuple[Observed, ...]:
        """Return what was kept."""
        oldest = now - LIFE_MS
        first = f"({after}" if after and _time(after) >= oldest else str(oldest)
        key = session_keys(sid).observed
        (entries,) = await self._link.commands(("XREVRANGE", key, str(until), first, "COUNT", most))
        return wire.reading(lambda: tuple(map(_observed, reversed(entries))))


def _time(name: str) -> int:
    return int(name.partition("-")[0])


def _observed(entry: Sequence[Reply]) -> Observed:
    name, (_, version, _, account, _, label, _, said, *opens) = entry
    wire.check_version(version)
    return Observed(text(name), text(account), wire.label(label), text(said), text(opens[-1]) if opens else "")
