"""Receipts: the arrival of messages that a session sent to another one, for the sending session alone.

A receipt is not a record of its own. It names one of the sender's deliveries, and is derived from that and from the
target's records of its inputs. Beyond `accepted` it tells only facts that the asker may know of the target at this
moment (law `no_read_up`). For a target that is absent, hidden or the asker's parent, and for a text that is or was held
there, it tells `accepted` and nothing else. A message from before the target's last reset is only reported as that. A
receipt shows that something was sent, so a reader who may not know that finds none.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bot.core.ids import receipt_id
from bot.delegation.handoff import dedupe, goes_up
from bot.sessions.background.delegation import SESSION, Arrival
from bot.sessions.deliveries import Delivery, DeliveryState
from bot.sessions.inbox import ItemOutcome, ItemStatus
from bot.sessions.models import SessionState, Status
from bot.sessions.ports.store import Store
from bot.sessions.visibility import look
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC, Label

if TYPE_CHECKING:
    from pydantic import JsonValue

UNKNOWN: Final = "there is no such receipt"
"""The one answer for invented receipts, forgotten ones, and those of another session or generation."""

WITHHELD: Final = "withheld"
"""The code of a message that was not handed over because the policy at that moment forbade it."""

_UNTOLD: Final = frozenset({Arrival.HELD, Arrival.FULL, Arrival.UNTOLD})
"""Arrivals that the sender is never told: the text was above the target's taint, or the target above its sender."""

_UNDER_WAY: Final = frozenset({ItemStatus.WAITING, ItemStatus.TAKEN})


class Stage(StrEnum):
    """The stage of a sent message; the last two are final until the target is reset."""

    ACCEPTED = "accepted"
    DELIVERED = "delivered"
    CONSUMED = "consumed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DeliveryReceipt:
    """A receipt for a reader.

    Args:
        id: Its id.
        stage: The stage of the message.
        seq: The place in the target's transcript where it was read, 0 before.
        code: Why it failed, empty for no failure.
        label: The label that it adds to the label of the sender's own facts.
    """

    id: str
    stage: Stage = Stage.ACCEPTED
    seq: int = 0
    code: str = ""
    label: Label = PUBLIC

    def told(self) -> "dict[str, JsonValue]":
        """Return it as tools and commands show it."""
        told: dict[str, JsonValue] = {"status": self.stage.value, "receipt": self.id}
        if self.stage is Stage.CONSUMED:
            told["seq"] = self.seq
        if self.stage is Stage.FAILED:
            told["code"] = self.code
        return told


async def look_up(store: Store, own: SessionState, name: str, reader: Label) -> DeliveryReceipt | None:
    """Return a receipt of the session `own` for a reader who may know of facts that flow to `reader`.

    None if this generation of the session has no such receipt (any more), or if its message is above the reader. A
    message passed on by reference may be above them, and then even the fact that it was sent reveals it.
    """
    found = [delivery for delivery in await store.outbox.deliveries(own.sid) if _is(delivery, own, name)]
    if not found or not found[0].label.flows_to(reader):
        return None
    sent = found[0]
    address = Address.parse(sent.address)
    if goes_up(own, address):
        return DeliveryReceipt(name, label=sent.label)
    # Read before checking whether the target may be known of: its taint only grows, until a reset.
    outcome = await store.sessions.outcome(address.chat, dedupe(sent))
    target, label = await look(store.sessions, address.chat, own.principal, reader)
    accepted = DeliveryReceipt(name, label=sent.label.join(label))
    held = sent.arrival in _UNTOLD or (outcome is not None and outcome.status is ItemStatus.HELD)
    return accepted if target is None or held else _arrived(accepted, sent, target, outcome)


def _arrived(
    accepted: DeliveryReceipt, sent: Delivery, target: SessionState, outcome: ItemOutcome | None
) -> DeliveryReceipt | None:
    """Return the receipt of a text whose target may be known of and did not hold it."""
    if sent.state in {DeliveryState.WITHHELD, DeliveryState.EXPIRED}:
        return replace(accepted, stage=Stage.FAILED, code=sent.state.value)
    if str(target.generation) != Address.parse(sent.address).thread:
        return replace(accepted, stage=Stage.FAILED, code=Arrival.RESET.value)
    if sent.arrival is not None and sent.arrival is not Arrival.WAITING:
        return replace(accepted, stage=Stage.FAILED, code=sent.arrival.value)
    return _taken(accepted, sent, target, outcome)


def _is(delivery: Delivery, own: SessionState, name: str) -> bool:
    to_session = Address.parse(delivery.address).channel == SESSION and delivery.kind == OutboundKind.MESSAGE
    return to_session and delivery.generation == own.generation and receipt_id(delivery.key) == name


def _taken(
    accepted: DeliveryReceipt, sent: Delivery, target: SessionState, outcome: ItemOutcome | None
) -> DeliveryReceipt | None:
    """Return the receipt of a text that its target did not refuse, by the outcome of the input."""
    under_way = outcome is None or outcome.status in _UNDER_WAY
    if under_way and target.status is Status.ARCHIVED:
        return replace(accepted, stage=Stage.FAILED, code=Arrival.ARCHIVED.value)
    if outcome is None:
        # The target forgets an input a day after it ended, and the delivery may be kept for longer.
        return None if sent.state is DeliveryState.SENT else accepted
    if under_way:
        return replace(accepted, stage=Stage.DELIVERED)
    if outcome.status is ItemStatus.CONSUMED:
        return replace(accepted, stage=Stage.CONSUMED, seq=outcome.seq - target.generation_seq + 1)
    return replace(accepted, stage=Stage.FAILED, code=outcome.status.value)
