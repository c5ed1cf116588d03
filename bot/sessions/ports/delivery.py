"""The ports for what is said: the outbox, its pace, offers, and copies of questions.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not
answer raises StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
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
    """What waits to be said."""

    async def put(self, sid: str, new: NewDelivery, begins: Conversation | None = None) -> None:
        """Add a pending entry without holding the session, and mark that ready; the same key again is the same entry.

        With `begins` the session is begun with it if it is not there.

        Raises NotFoundError: no such session. ArchivedError: it is one that `begins` would be, and archived.
        """
        ...

    async def take(self, sid: str, sender: str, channels: tuple[str, ...], *, op: str = "") -> tuple[Delivery, ...]:
        """Claim this session's pending entries to addresses of these channels for a sender, oldest first.

        What stands behind an older one to its address that is not given here is left where it is. The same `op` again
        gives what it claimed along with what is pending now.
        An entry whose sender vanished in the middle of a send comes back once as AMBIGUOUS.
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
        """Record what became of a claimed entry, what the session that it was for did with it, and its `receipt`.

        `paced` says that there may be a turn of its own at its place, which ends with it.

        PENDING gives it back: it is taken again after `wait` milliseconds, and nothing younger to its address before
        it. With `failed` it counts as one more failure.
        Returns False if this sender does not hold it any more.
        """
        ...

    async def deliveries(self, sid: str) -> tuple[Delivery, ...]:
        """Return all entries kept for the session, any state, oldest first."""
        ...

    async def dead(self) -> tuple[tuple[SessionState, Delivery], ...]:
        """Return what was not said of this generation of any session, each with its session's record."""
        ...

    async def decide_dead(self, delivery: Delivery, *, again: bool, audit: tuple[AuditRow, ...]) -> None:
        """Have a dead letter tried again, its age counted from now, or let it go.

        Raises NotFoundError: it is none any more.
        """
        ...


class RateLimitStore(Protocol):
    """Whose turn it is to say something at a place, and when there is room."""

    async def pace(self, turn: SendSlot, rates: tuple[Rate, ...]) -> int | None:
        """Ask to say something now; return the milliseconds to wait first, 0 for now, None for a dead address.

        With 0 the place is taken until the delivery is settled or its sender's hold ends. Who waits keeps his turn.
        """
        ...

    async def pause(self, turn: SendSlot, what: DeliveryPause, wait: int) -> None:
        """Note that nothing can be said for `wait` milliseconds. What was turned away keeps its turn.

        An address is dead only if nothing came in from its place since `pace` let this turn through.
        """
        ...

    async def heard(self, address: str) -> None:
        """Note that something came in from an address: what is dead in its place is not any more."""
        ...


class AlternativeStore(Protocol):
    """What offers ask of the store."""

    async def make_offer(self, offer: Alternative, life: int) -> None:
        """Keep an offer for `life` milliseconds."""
        ...

    async def offer(self, code: str) -> tuple[Alternative, Way | None] | None:
        """Return an offer and the way it was taken, None for it if it was not; None if there is no such offer."""
        ...

    async def take_offer(self, code: str, way: Way) -> Way | None:
        """Take an offer in a way, unless it was taken before; return the way it was taken first.

        None if there is no such offer, or not any more.
        """
        ...


class QuestionCopyStore(Protocol):
    """Which copies there are. A hint, written along with the delivery's receipt; one that is lost stays as it is."""

    async def copies(self, sid: str = "") -> tuple[QuestionCopy, ...]:
        """Return the copies of what is not to be decided any more, of all sessions or of one."""
        ...

    async def copied(self, copy: QuestionCopy) -> tuple[Delivery | None, tuple[Approval, ...]]:
        """Return what was said there, None if that is forgotten, and what became of each call that was asked about."""
        ...

    async def uncopied(self, copy: QuestionCopy) -> None:
        """Note that a copy needs nothing any more."""
        ...
