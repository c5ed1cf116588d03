"""Reports of undelivered texts to the people they were for: once before the next answer there, and by `/status`.

A report goes to the address of the text, to the same people, and has the text's own label: whether a text was delivered
depends on the text. So readers who may not know the text learn nothing of its loss (ADR 0024). Texts for another place
or for another person alone are not reported. Texts that may have been seen are only named, by `/status`.
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
"""Why a text was not delivered, as the people of its address are told."""

TOLD: Final = "My {what} of {at} UTC could not be delivered, {why}{others}{step}."
STEP: Final = ". `/history` shows it"
"""The next step that is added for an answer."""

_OTHERS: Final = "; nor could {number} before it"
_LINE: Final = "{perhaps}not delivered: {what} of {at} UTC, {why}"
_SUFFIX: Final = "-undelivered"
_CALLED: Final = MappingProxyType({OutboundKind.OFFER: "notice"})
_ON_ITS_WAY: Final = frozenset(
    {DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.SENT, DeliveryState.AMBIGUOUS}
)
_DAY_MS: Final = 24 * 60 * 60 * 1000
"""For how many milliseconds a report is remembered at least: as long as delivered texts are kept."""

_HOURS_MS: Final = 60 * 60 * 1000
_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class UndeliveredNotice:
    """The reports of undelivered texts, with the rows of the decisions on them."""

    deliver: tuple[NewDelivery, ...] = ()
    audit: tuple[AuditRow, ...] = ()


class Undelivered:
    """Reports undelivered texts. Texts that waited for longer than `hours` were given up."""

    def __init__(self, store: OutboxStore, gate: Gate, hours: float) -> None:
        self._store = store
        self._gate = gate
        self._longest_ms = round(hours * _HOURS_MS)

    async def before(self, turn: OpenTurn) -> UndeliveredNotice:
        """Return the reports that come before the answer to people's messages in this turn, only then.

        A turn without a person's message reports nothing, nor does one above its address (ADR 0021).
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
        """Return the texts that were certainly not delivered at one address and not reported yet, oldest first.

        Texts at an address are settled in order, so the report of one covers those before it.
        """
        keys, first = {one.key: one.state for one in here}, 0
        for place, one in enumerate(here):
            if keys.get(f"{one.key}{_SUFFIX}") in _ON_ITS_WAY:
                first = place + 1
        left = [one for one in here[first:] if one.state in DEAD and one.state is not DeliveryState.AMBIGUOUS]
        left = [one for one in left if now - one.created_at < self._remembered(one)]
        # A key is used once: a report that was lost itself is covered by the next one.
        return [] if left and f"{left[-1].key}{_SUFFIX}" in keys else left

    def _remembered(self, one: Delivery) -> int:
        """Return for how many milliseconds after its creation a text is reported."""
        return _DAY_MS + (self._longest_ms if one.state is DeliveryState.EXPIRED else 0)


def lines(
    every: Iterable[Delivery], generation: int, *, home: Address, person: str, reader: Label
) -> tuple[str, Label]:
    """Return the lines of `/status` about undelivered texts at a session's home, with their label.

    Each line begins with a line end. They are for `person`, as far as `reader` may know.
    """
    dead = _theirs((one for one in every if one.state in DEAD), generation, home, person)
    dead = [one for one in dead if one.label.flows_to(reader)]
    told = [_line(one) for one in dead[-_MOST:]]
    if len(dead) > _MOST:
        told.append(f"and {len(dead) - _MOST} before these")
    return "".join(f"\n{line}" for line in told), join_all(one.label for one in dead)


def _theirs(every: Iterable[Delivery], generation: int, home: Address, person: str) -> list[Delivery]:
    """Return the texts for a home that were for everyone there, or for one person alone."""
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
