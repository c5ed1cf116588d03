"""The ports for sending: the outbox, its rate limits, offers, and copies of questions.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not answer raises
StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from typing import Protocol

from bot.sessions.alternatives import Alternative, Way
from bot.sessions.approvals import Approval, QuestionCopy
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import Arrival
from bot.sessions.deliveries import (
    Conversation,
    Delivery,
    DeliveryPause,
    DeliveryState,
    NewDelivery,
    Rate,
    SendSlot,
)
from bot.sessions.models import (
    SessionState,
)


class OutboxStore(Protocol):
    """Deliveries that wait to be sent."""

    async def put(self, sid: str, new: NewDelivery, begins: Conversation | None = None) -> None:
        """Add a pending entry without a lease and mark its session ready; the same key again is the same entry.

        With `begins` the session is created if it does not exist.

        Raises NotFoundError: no such session, or it was deleted.
        """
        ...

    async def take(self, sid: str, sender: str, channels: tuple[str, ...], *, op: str = "") -> tuple[Delivery, ...]:
        """Claim this session's pending entries to addresses of these channels for a sender, oldest first.

        An entry behind an older one to the same address is left if that older one is not returned. The same `op` again
        returns the entries it claimed together with those pending now. An entry whose sender vanished in the middle of
        a send comes back once as AMBIGUOUS.
        """
        ...

    async def settle(  # noqa: PLR0913 - all that a sender may tell of an entry
        self,
        delivery: Delivery,
        sender: str,
        state: DeliveryState,
        *,
        arrival: Arrival | None = None,
        wait: int = 0,
        failed: bool = False,
        receipt: str = "",
        audit: tuple[AuditRow, ...] = (),
        paced: bool = True,
    ) -> bool:
        """Record the outcome of a claimed entry.

        Args:
            delivery: The entry.
            sender: The sender that claimed it.
            state: Its new state. PENDING gives it back: nothing younger to its address is taken before it.
            arrival: The arrival at the target session, for an entry to a session.
            wait: Milliseconds until a PENDING entry is taken again.
            failed: Whether it counts as one more failure.
            receipt: The channel's id of the sent message.
            audit: Audit rows to append in the same step.
            paced: Whether the entry may hold a send slot at its place, which ends with it.

        Returns:
            False if this sender does not hold the entry any more.
        """
        ...

    async def deliveries(self, sid: str) -> tuple[Delivery, ...]:
        """Return all entries kept for the session, any state, oldest first."""
        ...

    async def dead(self) -> tuple[tuple[SessionState, Delivery], ...]:
        """Return the dead letters of the current generation of every session, each with its session's record."""
        ...

    async def decide_dead(self, delivery: Delivery, *, again: bool, audit: tuple[AuditRow, ...]) -> None:
        """Have a dead letter tried again, its age counted from now, or drop it.

        Raises NotFoundError: it is not a dead letter any more.
        """
        ...


class RateLimitStore(Protocol):
    """Which delivery may go to a place next, and when a rate limit allows it."""

    async def pace(self, turn: SendSlot, rates: tuple[Rate, ...]) -> int | None:
        """Ask to send something now; return the milliseconds to wait first, 0 for now, None for a dead address.

        With 0 the place is taken until the delivery is settled or its sender's hold ends. A waiting delivery keeps its
        place in the queue.
        """
        ...

    async def pause(self, turn: SendSlot, what: DeliveryPause, wait: int) -> None:
        """Note that nothing can be sent for `wait` milliseconds. A delivery that was turned away keeps its turn.

        An address becomes dead only if no message came from its place since `pace` let this turn through.
        """
        ...

    async def heard(self, address: str) -> None:
        """Note that a message came in from an address: dead addresses of its place are live again."""
        ...


class AlternativeStore(Protocol):
    """Keeps offers of alternatives."""

    async def make_offer(self, offer: Alternative, life: int) -> None:
        """Keep an offer for `life` milliseconds."""
        ...

    async def offer(self, code: str) -> tuple[Alternative, Way | None] | None:
        """Return an offer and the way it was taken, None for the way if it was not; None if there is no such offer."""
        ...

    async def take_offer(self, code: str, way: Way) -> Way | None:
        """Take an offer in a way, unless it was taken before; return the way it was taken first.

        None if there is no such offer, or it has expired.
        """
        ...


class QuestionCopyStore(Protocol):
    """Which copies of questions stand in chats. A hint, written with the delivery's receipt; it may be lost."""

    async def copies(self, sid: str = "") -> tuple[QuestionCopy, ...]:
        """Return the copies of questions that are decided or gone, of all sessions or of one."""
        ...

    async def copied(self, copy: QuestionCopy) -> tuple[Delivery | None, tuple[Approval, ...]]:
        """Return the delivery of a copy, None if it is forgotten, and the approvals it asked for as they stand."""
        ...

    async def uncopied(self, copy: QuestionCopy) -> None:
        """Forget a copy that needs no update any more."""
        ...
