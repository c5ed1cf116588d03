"""Between sessions: what one session's outbox holds for another is handed over to that one's inbox.

Delivered once, whoever tries it how often: the key is the sender's, and the target's store knows it. Whether it may
enter is decided in the target's own step, against what that has read by then. What may not is held there, and a
parent gets a constant in its place, which tells that something came and nothing of it.
"""

from typing import TYPE_CHECKING, Final, Protocol

from bot.errors import BusyError
from bot.sessions.deliveries import Delivery, DeliveryState
from bot.sessions.kin import MOST_HOPS, Arrival, KinStore, Parcel
from bot.sessions.port import SessionStore
from channels.message import Address, OutboundKind

if TYPE_CHECKING:
    from pydantic import JsonValue

ABOVE: Final = "a background session reported; what it tells is above what was read here, so it is held, see `/held`"
"""What a parent hears of a result that it may not know."""

_TAKEN: Final = frozenset({Arrival.WAITING, Arrival.HELD})


class Store(SessionStore, KinStore, Protocol):
    """What handing over asks of the store."""


class Post:
    """Hands over what sessions send one another."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def hand_over(self, delivery: Delivery, text: str) -> DeliveryState:
        """Hand a text to the session at a delivery's address; return what became of it, PENDING for try again."""
        address = Address.parse(delivery.address)
        sender = await self._store.state(delivery.sid)
        if sender is None:
            return DeliveryState.FAILED
        lineage = sender.lineage
        upwards = lineage is not None and (lineage.parent, lineage.run) == (address.chat, address.thread)
        result = upwards and delivery.kind != OutboundKind.MESSAGE
        origin: dict[str, JsonValue] = {"as": "result" if result else "message", "session": delivery.sid}
        notice: dict[str, JsonValue] = {"text": ABOVE, "origin": {"as": "notice"}, "hops": MOST_HOPS}
        parcel = Parcel(
            sid=address.chat,
            generation=lineage.generation if lineage is not None and upwards else int(address.thread),
            dedupe=f"session/{delivery.sid}/{delivery.generation}/{delivery.key}",
            sender=delivery.asker or sender.principal,
            label=delivery.label,
            body={"text": text, "origin": origin, "hops": delivery.hops},
            notice=notice if upwards else None,
        )
        try:
            return DeliveryState.SENT if await self._store.receive(parcel) in _TAKEN else DeliveryState.FAILED
        except BusyError:
            return DeliveryState.PENDING
