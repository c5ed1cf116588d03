"""The ports for shared and counted things: delegation among sessions, agents, counts and budgets.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not answer raises
StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import Arrival, Caps, Charge, NewSlot, Parcel, PendingMessage, Reservation, Slot
from bot.sessions.budgets import Budgets, Shortage, Spender, Spent
from bot.sessions.limits import TokenAllowance


class DelegationStore(Protocol):
    """Slots of background sessions, and parcels and held items between sessions."""

    async def reserve(self, principal: str, new: NewSlot, caps: Caps) -> Reservation:
        """Reserve a slot in a pool of the principal; the same run again keeps its slot, its pool and its deadline.

        Raises BusyError: the pool has as many live sessions as it may.
        """
        ...

    async def slots(self, principal: str) -> tuple[Slot, ...]:
        """Return the principal's slots, including those freed within the last day."""
        ...

    async def free(self, principal: str, slots: tuple[Slot, ...]) -> None:
        """Free slots whose records are unchanged since they were read."""
        ...

    async def endorse(self, charge: Charge) -> bool:
        """Charge the bits an answer may endorse, once for its run; return whether the budget and session allowed it."""
        ...

    async def receive(self, parcel: Parcel) -> Arrival:
        """Take a parcel into its session, or hold it, as decided by the taint of that session at this moment.

        Raises BusyError: the inbox is full; try again later. Never raised for a sender that may not know of the
        session.
        """
        ...

    async def held(self, sid: str) -> tuple[PendingMessage, ...]:
        """Return the items that a session holds, oldest first."""
        ...

    async def holding(self, principal: str) -> tuple[str, ...]:
        """Return the principal's sessions that may hold an item: a hint; `held` tells for certain."""
        ...

    async def decide_held(self, sid: str, held: str, *, accept: bool, op: str, audit: tuple[AuditRow, ...]) -> None:
        """Let a held item in, or drop it.

        Raises:
            NotFoundError: No held item has this id.
            BusyError: The inbox is full.
        """
        ...


class AgentStore(Protocol):
    """The snapshots of agents that sessions pin, each under the digest of its own text."""

    async def put(self, digest: str, text: str) -> None:
        """Keep a snapshot forever; the same one again changes nothing. Raises StoreError."""
        ...

    async def read(self, digest: str) -> str | None:
        """Return the text of a snapshot, None if there is none.

        Raises:
            SchemaError: The snapshot cannot be read.
            StoreError: The store does not answer.
        """
        ...


class CountStore(Protocol):
    """Counts by name, for all processes, each for a time in milliseconds."""

    async def count(self, name: str, life: int) -> int:
        """Count one more; return the count since the first, this one included.

        `life` is in milliseconds, from the first count on. Raises StoreError.
        """
        ...

    async def keep(self, name: str, life: int) -> None:
        """Keep a count for `life` milliseconds from now; 0 forgets it. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class UseReport:
    """A process's uses of something that has a limit.

    Args:
        name: The name of the rate and its key.
        slots: How often it was used, by slot: all uses of a slot, not those since the last report.
        life: How long a slot counts from now on, in milliseconds.
    """

    name: str
    slots: Mapping[int, int]
    life: int


class UseStore(Protocol):
    """The uses that all processes had lately of things with a limit."""

    async def exchange(self, reports: Sequence[UseReport]) -> tuple[Mapping[str, int], ...]:
        """Keep this process's uses, and return those of other processes, by names of their slots, for each report.

        A report without slots only reads. It is one round trip. Raises StoreError.
        """
        ...


class BudgetStore(Protocol):
    """Counts used tokens against budgets, for all processes."""

    async def reserve_tokens(
        self, reservation: str, spender: Spender, tokens: int, *, budgets: Budgets, life: int
    ) -> Shortage | None:
        """Set tokens aside for `life` milliseconds unless a budget does not suffice; return that one, else None.

        The same reservation again is the same. One that is not settled in its time is given back, and its use counts as
        """
        ...

    async def settle_tokens(self, reservation: str, spender: Spender, tokens: int, *, complete: bool) -> None:
        """Count the tokens used in place of those set aside, also if these were given back meanwhile.

        `complete` is false if the number is unknown or only a part. Raises StoreError.
        """
        ...

    async def reserve_of_session(self, reservation: str, tokens: int, allowance: TokenAllowance) -> Shortage | None:
        """Set tokens of a session's own budget aside; return the shortage if it does not suffice, else None.

        The same reservation again is the same. A reservation not charged by the next claim of the session is then
        charged in full.

        Raises:
            LeaseLostError: Another worker has the session.
            StoreError: The store does not answer.
        """
        ...

    async def charge_session(self, reservation: str, tokens: int, allowance: TokenAllowance) -> None:
        """Charge the tokens used in place of those set aside of a session's own budget, once.

        Raises:
            LeaseLostError: Another worker has the session, and the reservation was charged in full.
            StoreError: The store does not answer.
        """
        ...

    async def spent_today(self) -> tuple[Spent, ...]:
        """Return the tokens used today, by the store's clock in UTC. Raises StoreError."""
        ...
