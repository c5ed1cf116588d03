"""Texts that were observed in shared chats, kept beside the chat's session for a day."""

from typing import Final

from bot.sessions.inbox import NewObserved, Observed
from bot.store.calls import session_call
from bot.store.records import codec
from bot.store.records.form import stored
from bot.store.records.kinds import OBSERVED
from bot.store.schema import session_keys
from bot.store.scripts.loader import Script
from bot.store.shared import Shared

LIFE_MS: Final = 24 * 60 * 60 * 1000


_REMEMBERED: Final = 1000
"""The most dedupe keys that are remembered: a platform redelivers its latest messages."""


class RedisObserved:
    """Implements the port `ObservedStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def observe(self, sid: str, new: NewObserved, most: int) -> None:
        """Keep a text."""
        said = stored({"account": new.account, "label": str(new.label), "text": new.text, "opens": new.opens})
        args = {"dedupe": new.dedupe, "observed": said, "most": most, "life": LIFE_MS, "remembered": _REMEMBERED}
        await self._shared.run(session_call(Script.OBSERVE, session_keys(sid), args))

    async def forget(self, sid: str) -> None:
        """Forget all texts that were kept."""
        keys = session_keys(sid)
        await self._shared.connection.commands(("UNLINK", keys.observed, keys.observed_ids))

    async def heard(self, sid: str, *, after: str, until: int, now: int, most: int) -> tuple[Observed, ...]:
        """Return the texts that were kept."""
        oldest = now - LIFE_MS
        first = f"({after}" if after and _time(after) >= oldest else str(oldest)
        key = session_keys(sid).observed
        (entries,) = await self._shared.connection.commands(("XREVRANGE", key, str(until), first, "COUNT", most))
        return codec.reading(lambda: tuple(map(_observed, reversed(entries))))


def _time(name: str) -> int:
    return int(name.partition("-")[0])


def _observed(entry: codec.StreamEntry) -> Observed:
    name, got = codec.entry(OBSERVED, entry)
    return Observed(name, got["account"], codec.label(got["label"]), got["text"], got["opens"])
