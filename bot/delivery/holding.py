"""Notices about held items to their person: in a private chat that is cleared, with buttons that decide.

Each held item has one durable notice. It is in the outbox of the sending session, and loses its buttons once the item
is decided (`bot.delivery.question_updates`). The session that holds the item learns nothing, nor do readers who may
know only of that session: neither its log nor its outbox, times or counts change. If no private chat of the person is
cleared, there is no notice, and `/held` shows the item where it may be shown. The notice does not contain the item: a
model wrote that, and it is shown when its person asks for it.
"""

from bot.access import labelling
from bot.access.authorize import Caller, Ingress
from bot.access.decision_context import DecisionContext
from bot.core.clock import Clock
from bot.core.ids import waiting_id
from bot.delegation.handoff import dedupe, goes_up
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.sessions.deliveries import OURS, Delivery, NewDelivery, held_key
from bot.sessions.models import SessionState
from bot.sessions.ports.store import Store
from channels.messages import Address, Button, OutboundKind
from policy.labels import PUBLIC, Label
from policy.request import Hook, Role


class Holding:
    """Tells people about items held for them."""

    def __init__(self, store: Store, gate: Gate, clock: Clock) -> None:
        self._store = store
        self._gate = gate
        self._clock = clock

    async def tell(self, delivery: Delivery) -> None:
        """Put the notice about a held delivery into its sender's outbox, if its person can be told; once.

        Raises NotFoundError: the sender is gone.
        """
        address = Address.parse(delivery.address)
        sender, target = await self._store.sessions.state(delivery.sid), await self._store.sessions.state(address.chat)
        if sender is None or target is None:
            return
        person = delivery.asker or sender.principal
        label = delivery.label.join(target.visibility)
        for place in labelling.private_places(self._gate.document, person, label, _began(target)):
            standing = await self._standing(person, place, sender)
            text = _worded(delivery, sender, target, place)
            spoken = self._gate.output.reply(standing, standing.destination, text, label)
            if spoken.decision.verdict in MAY_GO_ON:
                row = decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(place))
                await self._store.audit.append((row,))
                await self._store.outbox.put(
                    delivery.sid, _notice(delivery, person, place, text=spoken.text, label=label)
                )
                return

    async def _standing(self, person: str, place: Address, sender: SessionState) -> DecisionContext:
        known = self._gate.document.principals.get(person)
        # Their access may have ended since another place of theirs was tried.
        role, clearance = (Role.STRANGER, PUBLIC) if known is None else (known.role, known.clearance)
        caller = Caller(person, role, clearance, Ingress.TEXT)
        there = await self._gate.readers.prospect(place)
        return DecisionContext.of_caller(caller, place, there, self._clock.wall_ms(), sid=sender.sid)


def buttons(item: str, *, accept: bool = True, named: bool = False) -> tuple[Button, ...]:
    """Return the buttons that decide about a held item; `named` if others stand beside it."""
    which = f" {item}" if named else ""
    drop = Button(f"Drop{which}", f"/held drop {item}")
    return (Button(f"Accept{which}", f"/held accept {item}"), drop) if accept else (drop,)


def told_of(delivery: Delivery) -> tuple[Button, ...] | None:
    """Return the buttons of a notice about a held item, None for any other delivery."""
    return None if delivery.holds is None else _ways(delivery.holds[0])


def _ways(item: str) -> tuple[Button, ...]:
    return (Button("Show", f"/held show {item}"), *buttons(item))


def _began(target: SessionState) -> str:
    """Return the address of a session's person: its home, or where a background session was set going."""
    return target.home if target.background is None else target.background.asked_at


def _worded(delivery: Delivery, sender: SessionState, target: SessionState, place: Address) -> str:
    kind = "background session" if goes_up(sender, Address.parse(delivery.address)) else "session"
    here = Address.parse(target.home).place == place.place
    whose = "this conversation" if here else f"session {target.sid}"
    item = waiting_id(dedupe(delivery))
    label, verb = delivery.label, "reported" if kind == "background session" else "sent"
    did = f"{verb} something that {whose} may not read yet"
    if label.flows_to(target.taint):
        # The person may know its level; it was chosen by the data read, so it is held as UNTRUSTED.
        label = labelling.untrusted(label)
        did = f"{verb} more than may be endorsed (`endorsed_bits`), so {whose} may not read it yet"
    told = f"Held as {item} at {label}: {kind} {sender.sid} {did}."
    return "\n".join((told, *(f"- {button.label}: `{button.command}`" for button in _ways(item))))


def _notice(delivery: Delivery, person: str, place: Address, *, text: str, label: Label) -> NewDelivery:
    return NewDelivery(
        key=held_key(waiting_id(dedupe(delivery)), Address.parse(delivery.address).chat),
        address=str(place),
        text=text,
        label=label,
        kind=OutboundKind.OFFER,
        turn=delivery.turn,
        approved=OURS,
        meant_for=person,
    )
