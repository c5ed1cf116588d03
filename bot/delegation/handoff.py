"""Messages between sessions: deliveries in one session's outbox are handed over to another session's inbox.

A message is delivered once, no matter how often that is tried: the key is the sender's, and the target's store knows
it. Its admission is decided in the target's own step, against the target's taint at that moment. A message that may not
enter is held there, and only readers who may know of it are told. A background session that rises above its parent is
announced to that before (`announce` in `prelude.lua`); the parent hears nothing of it afterwards.

Bounded answers that a message depends on go with it. They are charged where its target's tree began, as that tree's own
are (ADR 0017). Otherwise conversations could add up their limits by sending one another endorsed answers. The message
may also tell what the target's own calls depended on, so that is charged again with them.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from bot.access import labelling
from bot.core.errors import BusyError
from bot.delegation import structured_result
from bot.sessions.background.delegation import LATE, Arrival, Charge, Parcel, tree_root
from bot.sessions.deliveries import Delivery, risen_key, told_key
from bot.sessions.messages import Endorsed, Origin, OriginKind, SessionMessage, named
from bot.sessions.models import SessionState
from bot.sessions.ports.store import Store
from bot.sessions.refs import elsewhere
from channels.messages import Address, OutboundKind
from policy.labels import Integrity

TAKEN: Final = frozenset({Arrival.WAITING, Arrival.HELD, Arrival.UNTOLD})
"""The arrivals that count as taken, as far as the sender may know; each other one is a final failure."""


class Handoff:
    """Hands over messages between sessions; `endorsed_bits` as in `Spawner`.

    `unheard` returns the answers and entries that a session's calls depended on and that it has not heard yet.
    """

    def __init__(
        self, store: Store, endorsed_bits: int, unheard: Callable[[SessionState], Awaitable[tuple[Endorsed, ...]]]
    ) -> None:
        self._store = store
        self._endorsed_bits = endorsed_bits
        self._unheard = unheard

    async def hand_over(self, delivery: Delivery, text: str) -> Arrival | None:
        """Hand a text to the session at a delivery's address; return its arrival there, None to try again."""
        address = Address.parse(delivery.address)
        sender = await self._store.sessions.state(delivery.sid)
        if sender is None:
            # There is no sender left to tell.
            return Arrival.ABSENT
        lineage, upwards = sender.lineage, goes_up(sender, address)
        report = upwards and delivery.kind != OutboundKind.MESSAGE
        kind = _kind(sender, delivery, report=report)
        result = lineage if kind is OriginKind.RESULT else None
        endorsed = delivery.endorsed
        label, hold = delivery.label, False
        if result is not None and result.endorsed:
            # One answer was charged. Later ones, whose number the data read may choose, are held.
            hold = delivery.key != told_key(result.run)
            if not hold:
                told = Endorsed(delivery.sid, text, result.run, structured_result.millibits(result.returns))
                endorsed = (*endorsed, told)
        if endorsed and not await self._fits(sender, delivery, address.chat, endorsed):
            label, hold = labelling.untrusted(label), True
        origin = Origin(kind, delivery.sid, endorsed=endorsed)
        parcel = Parcel(
            sid=address.chat,
            generation=lineage.generation if lineage is not None and upwards else int(address.thread),
            dedupe=dedupe(delivery),
            sender=delivery.asker or sender.principal,
            label=label,
            body=SessionMessage(text, origin=origin, hops=delivery.hops, authors=named(delivery.authors)),
            report=report,
            run="" if result is None else result.run,
            hold=hold or (result is not None and result.beyond),
            told=sender.visibility,
            refs=elsewhere(delivery.refs, delivery.sid),
        )
        try:
            return await self._store.delegation.receive(parcel)
        except BusyError:
            return None

    async def _fits(self, sender: SessionState, delivery: Delivery, sid: str, endorsed: tuple[Endorsed, ...]) -> bool:
        """Charge the bounded answers that a text depends on where its target's tree began, if that is another tree.

        Within a tree they are charged already, and an UNTRUSTED text endorses nothing. Each is charged once, no matter
        how often it comes. Answers that decided on calls of the target are charged again, as it hears them as well now.
        Returns whether all may still be endorsed there.
        """
        target = await self._store.sessions.state(sid)
        if target is None or delivery.label.integrity is Integrity.UNTRUSTED:
            return True
        root, generation = tree_root(target.sid, target.generation, target.lineage)
        sent = () if (root, generation) == tree_root(sender.sid, sender.generation, sender.lineage) else endorsed
        until, most = delivery.created_at + LATE, self._endorsed_bits * 1000
        own = target.taint.join(target.visibility).secrecy
        charges = [Charge(root, generation, one.run, delivery.label, one.millibits, until, most) for one in sent]
        charges += [
            Charge(root, generation, one.run, own, one.millibits, until, most, at_once=True)
            for one in await self._unheard(target)
        ]
        return all([await self._store.delegation.endorse(charge) for charge in charges])


def dedupe(delivery: Delivery) -> str:
    """Return the dedupe key of a delivery in its target session."""
    return f"session/{delivery.sid}/{delivery.generation}/{delivery.key}"


def _kind(sender: SessionState, delivery: Delivery, *, report: bool) -> OriginKind:
    """Return the kind of message that a delivery is for its target session."""
    if not report:
        return OriginKind.MESSAGE
    risen = sender.lineage is not None and delivery.key == risen_key(sender.lineage.run)
    return OriginKind.NOTICE if risen else OriginKind.RESULT


def goes_up(sender: SessionState, address: Address) -> bool:
    """Say whether an address is the parent that a background session reports to."""
    lineage = sender.lineage
    return lineage is not None and (lineage.parent, lineage.run) == (address.chat, address.thread)
