"""What could not be delivered, told to the people it was for: once before the next answer there, and by `/status`.

It is told where it would have been said, to the same people, and by its own label: that a text was not delivered
depends on what the text was. So who may not know the one learns nothing of the other (ADR 0024). Nobody is told of what
was for another place or for somebody else alone. What may have been seen is no more than named, by `/status`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from bot.core.clock import moment
from bot.delivery.rate_limits import BACK_OFF
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import DEAD, OURS, Delivery, DeliveryState, NewDelivery
from bot.sessions.ports.delivery import OutboxStore
from bot.turn import OpenTurn
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC, Label, join_all
from policy.request import Hook

GONE: Final = "this chat took nothing then"
REFUSED: Final = "this chat refused it every time"
TOO_OLD: Final = "it waited for too long"
UNKNOWN: Final = "nobody knows whether it was seen"
"""Why something was not delivered, as the people of its address are told."""

TOLD: Final = "my {what} of {at} UTC could not be delivered, {why}{others}{step}"
STEP: Final = "; `/history` shows it"
"""What is added where that is so: of an answer."""

_OTHERS: Final = "; nor could {number} before it"
_LINE: Final = "{perhaps}not delivered: {what} of {at} UTC, {why}"
_SUFFIX: Final = "-undelivered"
_CALLED: Final = MappingProxyType({OutboundKind.OFFER: "notice"})
_ON_ITS_WAY: Final = frozenset(
    {DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.SENT, DeliveryState.AMBIGUOUS}
)
_DAY_MS: Final = 24 * 60 * 60 * 1000
"""For how long it is remembered, at least, that something was told: as long as what was said is kept."""

_HOURS_MS: Final = 60 * 60 * 1000
_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class UndeliveredNotice:
    """What is to be said of what was not delivered, with the rows of the decisions on that."""

    deliver: tuple[NewDelivery, ...] = ()
    audit: tuple[AuditRow, ...] = ()


class Undelivered:
    """Tells of what was not delivered. What waited for longer than `hours` was given up."""

    def __init__(self, store: OutboxStore, gate: Gate, hours: float) -> None:
        self._store = store
        self._gate = gate
        self._longest_ms = round(hours * _HOURS_MS)

    async def before(self, turn: OpenTurn) -> UndeliveredNotice:
        """Return what is told before the answer to what people said in this turn, nothing else.

        A turn that no person began tells nothing, nor does one above its address (ADR 0021).
        """
        state = turn.claim.state
        if not state.unsaid or not turn.asked or turn.above_home or turn.background is not None:
            return UndeliveredNotice()
        every, deliver, rows = await self._store.deliveries(state.sid), list[NewDelivery](), list[AuditRow]()
        standing = turn.standing
        for address in dict.fromkeys(one.address for one in every):
            here = [one for one in every if one.address == address]
            left = _theirs(self._untold(here, standing.now), state.generation, standing.home, standing.asker)
            if not left:
                continue
            there = Address.parse(address)
            destination = (
                standing.destination if there == standing.home else await self._gate.readers.destination(there)
            )
            told = [one for one in left if one.label.flows_to(destination.clearance or PUBLIC)]
            if not told:
                continue
            label, last = join_all(one.label for one in told), told[-1]
            spoken = self._gate.output.reply(standing, destination, _told(told), label)
            rows.append(decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=address))
            if spoken.decision.verdict in MAY_GO_ON:
                notice = NewDelivery(f"{last.key}{_SUFFIX}", address, spoken.text, label, OutboundKind.NOTICE)
                deliver.append(replace(notice, turn=turn.record.id, approved=OURS, meant_for=last.meant_for))
        return UndeliveredNotice(tuple(deliver), tuple(rows))

    def _untold(self, here: list[Delivery], now: int) -> list[Delivery]:
        """Return what was certainly not delivered at one address and not told yet, oldest first.

        What is said at an address is settled in order, so what was told of one was told of those before it.
        """
        keys, first = {one.key: one.state for one in here}, 0
        for place, one in enumerate(here):
            if keys.get(f"{one.key}{_SUFFIX}") in _ON_ITS_WAY:
                first = place + 1
        left = [one for one in here[first:] if one.state in DEAD and one.state is not DeliveryState.AMBIGUOUS]
        left = [one for one in left if now - one.created_at < self._remembered(one)]
        # A key is used once: what was lost itself is told with the next that is.
        return [] if left and f"{left[-1].key}{_SUFFIX}" in keys else left

    def _remembered(self, one: Delivery) -> int:
        """Return for how long after its beginning it is told of one, in milliseconds: never again once it was."""
        return _DAY_MS + (self._longest_ms if one.state is DeliveryState.EXPIRED else 0)


def lines(
    every: Iterable[Delivery], generation: int, *, home: Address, person: str, reader: Label
) -> tuple[str, Label]:
    """Return what `/status` tells of what was not delivered at a session's home, with the label of that.

    Each line begins anew. It is told `person`, as far as what flows to `reader` may be known.
    """
    dead = _theirs((one for one in every if one.state in DEAD), generation, home, person)
    dead = [one for one in dead if one.label.flows_to(reader)]
    told = [_line(one) for one in dead[-_MOST:]]
    if len(dead) > _MOST:
        told.append(f"and {len(dead) - _MOST} before these")
    return "".join(f"\n{line}" for line in told), join_all(one.label for one in dead)


def _theirs(every: Iterable[Delivery], generation: int, home: Address, person: str) -> list[Delivery]:
    """Return what was to be said at a home to everybody, or to one person alone."""
    found = list[Delivery]()
    for one in every:
        address = Address.parse(one.address)
        here = replace(address, recipient="") == home and one.meant_for in {"", person}
        mine = here and (not address.recipient or one.meant_for == person)
        if mine and one.generation == generation and not one.replaces and not one.key.endswith(_SUFFIX):
            found.append(one)
    return found


def _told(dead: list[Delivery]) -> str:
    last = dead[-1]
    others = _OTHERS.format(number=len(dead) - 1) if dead[1:] else ""
    step = STEP if last.kind == OutboundKind.ANSWER else ""
    return TOLD.format(what=_what(last), at=moment(last.created_at)[-8:-3], why=_why(last), others=others, step=step)


def _line(one: Delivery) -> str:
    perhaps = "perhaps " if one.state is DeliveryState.AMBIGUOUS else ""
    return _LINE.format(perhaps=perhaps, what=_what(one), at=moment(one.created_at), why=_why(one))


def _what(one: Delivery) -> str:
    kind = OutboundKind(one.kind)
    return _CALLED.get(kind, kind.value)


def _why(one: Delivery) -> str:
    if one.state is DeliveryState.AMBIGUOUS:
        return UNKNOWN
    if one.state is DeliveryState.EXPIRED:
        return TOO_OLD
    return REFUSED if one.failures >= len(BACK_OFF) else GONE
