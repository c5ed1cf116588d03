"""Offers: a person may have a refused question or answer in another place, where all readers are cleared.

A question whose answer could not be told in its chat may be asked again in the asker's private chat. Or a background
session answers it and reports to a cleared recipient. An answer that the readers of its chat may not hear may be told
to the asker alone. The gate decides on every way before it is offered, and again on everything that follows from taking
it: an offer lifts nothing. It is for one person, and reveals nothing to others.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from bot.access import labelling, principals
from bot.access.authorize import Caller, Ingress, role
from bot.access.decision_context import Call, DecisionContext
from bot.access.recipients import meaning, names
from bot.core.ids import Ids
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON
from bot.sessions.alternatives import Alternative, Wanted, Way
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import SESSION
from bot.sessions.background.runs import UNREAD
from bot.sessions.deliveries import OURS, Delivery, NewDelivery, question_key
from bot.sessions.log.event_types import AgentMessage, UserMessage
from bot.sessions.log.events import Event
from bot.sessions.ports.delivery import AlternativeStore
from bot.sessions.refs import EventsRef
from channels.messages import Address, Button, OutboundKind
from policy.decision import Decision, Verdict
from policy.document.model import Document
from policy.document.programs import is_program
from policy.labels import PUBLIC, Label, join_all
from policy.request import Destination

WITHHELD: Final = "The answer may not be said there, because of the readers there now."

SPAWN: Final = "sessions_spawn"

MOST_RECIPIENTS: Final = 3
"""How many aliases are offered: more would not be read."""

_OVERSHOOT: Final = "overshoot"
_BY_PLACE: Final = frozenset({_OVERSHOOT, "read_is_decided_before_it_happens"})
"""The rules that may refuse a read because of where it was asked for, so that another place may help."""

_BY_READERS: Final = frozenset({"no_write_down"})


@dataclass(frozen=True, slots=True)
class BoundText:
    """The question or answer that an offer is bound to.

    Args:
        text: The text.
        label: Its label.
        foreign: Whether another session sent some of it.
        refs: The events that hold it.
    """

    text: str
    label: Label
    foreign: bool = False
    refs: tuple[EventsRef, ...] = ()

    @property
    def digest(self) -> str:
        """The digest of exactly this text and label."""
        return hashlib.sha256(f"{self.label}\n{self.text}".encode("utf-8", "surrogatepass")).hexdigest()


class Alternatives:
    """Finds, keeps and words offers. `life` is how long an offer is valid, in milliseconds."""

    def __init__(
        self,
        store: AlternativeStore,
        gate: Gate,
        ids: Ids,
        *,
        session_id: Callable[[Address], Awaitable[str]],
        life: int,
    ) -> None:
        self._store = store
        self._gate = gate
        self._ids = ids
        self._session_id = session_id
        self._life = life

    def asks(self, standing: DecisionContext, decision: Decision) -> bool:
        """Say whether the asker of a refused read is to be offered another place, if there is one."""
        home, blocking = standing.home, _blocking(decision)
        asks = self._gate.document.overshoot(home.channel, home.workspace, home.chat) == "ask"
        return asks and home.channel not in UNREAD and _OVERSHOOT in blocking and blocking <= _BY_PLACE

    async def reading(self, standing: DecisionContext, call: Call, question: BoundText) -> Alternative | None:
        """Return the places where a refused call could be made for its asker, as the gate decides now; None for none.

        `question` is the asker's question; one that another session sent cannot be asked again by a person.
        """
        if question.foreign:
            return None
        chats = private_chats(self._gate.document, standing.asker, standing.home)
        private, label = "", PUBLIC
        for chat in chats:
            alone = await self._at(standing, chat, question.label)
            decision = self._gate.calls.prepare(alone, call).decision
            if decision.verdict is not Verdict.BLOCK:
                private, label = str(chat), decision.label_after
                break
        parents = chats[:1] if standing.destination.shared else (standing.home,)
        recipients = list[tuple[str, str]]()
        for parent in parents:
            recipients, found = await self._recipients(standing, parent, call, question)
            label = label.join(found)
        if not private and not recipients:
            return None
        offer = self._offer(standing, Wanted.QUESTION, binding=question.digest, label=label, private=private)
        return replace(offer, parent="".join(map(str, parents)), recipients=tuple(recipients))

    async def telling(
        self, standing: DecisionContext, decision: Decision, text: str, label: Label
    ) -> Alternative | None:
        """Return the place where an answer that its chat's readers may not hear could be told to its asker, or None.

        People's approval was for the answer in its chat, and lifts nothing elsewhere.
        """
        if not standing.destination.shared or not _blocking(decision) <= _BY_READERS:
            return None
        for chat in private_chats(self._gate.document, standing.asker, standing.home):
            alone = await self._at(standing, chat, label)
            spoken = self._gate.output.speak(alone, alone.destination, text)
            if spoken.decision.verdict in MAY_GO_ON:
                return self._offer(
                    standing, Wanted.ANSWER, binding=BoundText(text, label).digest, label=label, private=str(chat)
                )
        return None

    async def withheld(
        self, delivery: Delivery, destination: Destination, decision: Decision, now: int
    ) -> tuple[NewDelivery, AuditRow] | None:
        """Make the offer of an answer that was withheld when it was to be sent, at `now` in milliseconds.

        Returns the notice to the asker, alone, with its audit row; None if there is nothing to offer.
        """
        document, home = self._gate.document, Address.parse(delivery.address)
        person, there = document.principals.get(delivery.asker), principals.aside(document, delivery.asker, home)
        if delivery.kind != OutboundKind.ANSWER or person is None or there is None:
            return None
        caller = Caller(delivery.asker, person.role, person.clearance, Ingress.TEXT)
        standing = replace(
            DecisionContext.of_caller(caller, home, destination, now, sid=delivery.sid, generation=delivery.generation),
            turn=delivery.turn,
        )
        offer = await self.telling(standing, decision, delivery.text, delivery.label)
        if offer is None:
            return None
        await self.make(offer)
        text = f"{WITHHELD}\n{self.wording(offer)}"
        key = question_key(delivery.turn, offer.code)
        notice = NewDelivery(
            key,
            str(there),
            text,
            PUBLIC,
            OutboundKind.OFFER,
            delivery.turn,
            approved=OURS,
            meant_for=delivery.asker,
        )
        return notice, made(offer)

    async def make(self, offer: Alternative) -> None:
        """Keep an offer, so that it may be taken."""
        await self._store.make_offer(offer, self._life)

    async def buttons(self, code: str) -> tuple[Button, ...]:
        """Return the buttons of an offer: none if it was taken or is gone."""
        known = await self._store.offer(code)
        return () if known is None or known[1] is not None else tuple(_ways(known[0]))

    def wording(self, offer: Alternative) -> str:
        """Return an offer in words."""
        ways = (f"- {way.label}: `{way.command}`" for way in _ways(offer))
        return "\n".join((f"This is offered to you alone, for {self._life // 60_000} minutes:", *ways))

    async def _recipients(
        self, standing: DecisionContext, parent: Address, call: Call, question: BoundText
    ) -> tuple[list[tuple[str, str]], Label]:
        """Return the aliases that may hear the findings of a background session of the asker's, and the label of these.

        Each comes with its present meaning: it is offered for that alone.
        """
        alone = await self._at(standing, parent, question.label)
        inside = await self._at(standing, Address(SESSION, alone.sid, standing.asker), question.label)
        decision = self._gate.calls.prepare(inside, call).decision
        if decision.verdict not in MAY_GO_ON:
            return [], PUBLIC
        found, knowing = list[tuple[str, str]](), replace(inside, taint=decision.label_after)
        for alias, place in names(self._gate.document):
            there = await self._gate.readers.prospect(place)
            task = Call("offered", SPAWN, {"task": question.text, "deliver_to": alias})
            spawned = self._gate.calls.prepare(alone, task).decision
            told = self._gate.output.speak(knowing, there, "").decision
            if {spawned.verdict, told.verdict} <= MAY_GO_ON:
                found.append((alias, meaning(self._gate.document, place)))
        return found[:MOST_RECIPIENTS], decision.label_after if found else PUBLIC

    async def _at(self, standing: DecisionContext, address: Address, taint: Label) -> DecisionContext:
        """Return the asker's context at an address of their own, as if only data of this label had been read there."""
        document, asker = self._gate.document, standing.asker
        return replace(
            standing,
            sid=await self._session_id(address),
            principal=asker,
            role=role(document, asker, asker),
            ceiling=labelling.ceiling(document, asker, asker) or PUBLIC,
            home=address,
            destination=await self._gate.readers.destination(address),
            taint=taint,
            held=(),
            grants=(),
            authors=frozenset(),
        )

    def _offer(
        self, standing: DecisionContext, wanted: Wanted, *, binding: str, label: Label, private: str
    ) -> Alternative:
        return Alternative(
            code=self._ids.approval(),
            wanted=wanted,
            sid=standing.sid,
            generation=standing.generation,
            turn=standing.turn,
            principal=standing.asker,
            binding=binding,
            label=label,
            told=PUBLIC,
            private=private,
        )


def made(offer: Alternative) -> AuditRow:
    """Return the row that an offer was made."""
    return AuditRow("offer", offer.principal, {"step": "made", **_facts(offer)})


def taken(offer: Alternative, way: Way) -> AuditRow:
    """Return the row that an offer was taken, and the way."""
    return AuditRow("offer", offer.principal, {"step": "taken", "way": way.value, **_facts(offer)})


def _facts(offer: Alternative) -> dict[str, JsonValue]:
    return {
        "offer": offer.code,
        "wanted": offer.wanted.value,
        "session": offer.sid,
        "turn": offer.turn,
        "binding": offer.binding,
        "label": str(offer.label),
    }


def question(events: Iterable[Event], turn: str) -> BoundText | None:
    """Return all questions of a turn as one text with the join of their labels, None if there were none."""
    asked = [event for event in events if event.turn == turn and isinstance(event.body, UserMessage)]
    said = [event.body for event in asked if isinstance(event.body, UserMessage)]
    if not said:
        return None
    text, foreign = "\n\n".join(one.text for one in said), any(one.origin is not None for one in said)
    return BoundText(text, join_all(event.label for event in asked), foreign, _held_by(asked))


def answer(events: Iterable[Event]) -> BoundText | None:
    """Return the first answer among events, None if there is none."""
    for event in events:
        if isinstance(event.body, AgentMessage):
            return BoundText(event.body.text, event.label, refs=_held_by((event,)))
    return None


def _held_by(events: Iterable[Event]) -> tuple[EventsRef, ...]:
    return tuple(EventsRef(event.seq, event.seq) for event in events)


def private_chats(document: Document, principal: str, home: Address) -> tuple[Address, ...]:
    """Return the addresses of a person's private chats other than home, the nearest to home first.

    The console may have no reader, and a program is not a person.
    """
    person = None if is_program(principal) else document.principals.get(principal)
    chats = () if person is None else tuple(map(principals.private_chat, person.accounts))
    others = (chat for chat in chats if chat.channel != principals.CONSOLE and chat != home.place)
    return tuple(sorted(others, key=lambda chat: (chat.channel != home.channel, chat.workspace != home.workspace)))


def _blocking(decision: Decision) -> frozenset[str]:
    return frozenset(outcome.rule for outcome in decision.outcomes if outcome.verdict is Verdict.BLOCK)


def _ways(offer: Alternative) -> list[Button]:
    """Return the ways of an offer as buttons or commands."""
    ways = list[Button]()
    if offer.private:
        ways.append(Button("Continue in private", f"/continue {offer.code}"))
    ways += [Button(f"In the background, tell {one}", f"/background {offer.code} {one}") for one, _ in offer.recipients]
    return [*ways, Button("Cancel", f"/deny {offer.code}")]
