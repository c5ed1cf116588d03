"""The offers part of the store: a record for each, that ends by itself, and the way it was taken."""

import json
from typing import cast

from bot.sessions.alternatives import Alternative, Wanted, Way
from bot.store import wire
from bot.store.base import Part
from bot.store.keys import offer_key
from bot.store.scripts import Script
from bot.store.wire import dump, text
from policy.labels import parse


class Offers(Part):
    """Implements the port `OfferStore`."""

    async def make_offer(self, offer: Alternative, life: int) -> None:
        """Keep an offer for `life` milliseconds."""
        await self._link.script(Script.OFFER, [offer_key(offer.code)], ["make", _written(offer), life])

    async def offer(self, code: str) -> tuple[Alternative, Way | None] | None:
        """Return an offer and the way it was taken, None if there is no such offer."""
        ((version, record, way),) = await self._link.commands(("HMGET", offer_key(code), "v", "record", "way"))
        if version is None:
            return None
        wire.check_version(version)
        return wire.reading(lambda: (_read(code, record), None if way is None else Way(text(way))))

    async def take_offer(self, code: str, way: Way) -> Way | None:
        """Take an offer in a way, unless it was taken before; return the way it was taken first."""
        reply = await self._link.script(Script.OFFER, [offer_key(code)], ["take", way.value])
        return None if reply[0] == b"none" else Way(text(reply[1]))


def _written(offer: Alternative) -> bytes:
    bound = [offer.wanted.value, offer.sid, offer.generation, offer.turn, offer.principal, offer.binding]
    return dump([*bound, str(offer.label), str(offer.told), offer.private, offer.parent, list(offer.recipients)])


def _read(code: str, record: bytes) -> Alternative:
    wanted, sid, generation, turn, principal, binding, label, told, private, parent, recipients = cast(
        "tuple[str, str, int, str, str, str, str, str, str, str, list[tuple[str, str]]]", json.loads(text(record))
    )
    return Alternative(
        code=code,
        wanted=Wanted(wanted),
        sid=sid,
        generation=generation,
        turn=turn,
        principal=principal,
        binding=binding,
        label=parse(label),
        told=parse(told),
        private=private,
        parent=parent,
        recipients=tuple((alias, meant) for alias, meant in recipients),
    )
