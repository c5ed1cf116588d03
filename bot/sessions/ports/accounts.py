"""The ports for what is shared and counted: delegation among sessions, agents, counts and budgets.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not
answer raises StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from typing import Protocol

from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import Arrival, Caps, Charge, NewSlot, Parcel, PendingMessage, Reservation, Slot
from bot.sessions.budgets import Budgets, Shortage, Spender, Spent
from bot.sessions.limits import TokenAllowance


class DelegationStore(Protocol):
    """What sessions ask of the store about one another."""

    async def reserve(self, principal: str, new: NewSlot, caps: Caps) -> Reservation:
        """Reserve a slot in a pool of the principal; the same run again keeps its slot, its pool and its deadline.

        Raises BusyError: as many live in the pool as may.
        """
        ...

    async def slots(self, principal: str) -> tuple[Slot, ...]:
        """Return the principal's slots, those that were freed within the last day too."""
        ...

    async def free(self, principal: str, slots: tuple[Slot, ...]) -> None:
        """Free slots that are still as they were seen."""
        ...

    async def endorse(self, charge: Charge) -> bool:
        """Charge what an answer may endorse, once for its run; return whether there was room, and the session."""
        ...

    async def receive(self, parcel: Parcel) -> Arrival:
        """Take a parcel into its session, or hold it, decided against what the session has read by then.

        Raises BusyError: the inbox is full; try again later. Never for a sender who may not know of the session.
        """
        ...

    async def held(self, sid: str) -> tuple[PendingMessage, ...]:
        """Return what a session holds, oldest first."""
        ...

    async def holding(self, principal: str) -> tuple[str, ...]:
        """Return the principal's sessions that may hold something: a hint, look with `held`."""
        ...

    async def decide_held(self, sid: str, held: str, *, accept: bool, op: str, audit: tuple[AuditRow, ...]) -> None:
        """Let a held item in, or drop it.

        Raises NotFoundError: there is none of that id. BusyError: the inbox is full.
        """
        ...


class AgentStore(Protocol):
    """The snapshots of agents that sessions pin, each under the digest of its own text."""

    async def put(self, digest: str, text: str) -> None:
        """Keep a snapshot for ever; the same one again changes nothing. Raises StoreError."""
        ...

    async def read(self, digest: str) -> str | None:
        """Return the text of a snapshot, None for one that is not there.

        Raises SchemaError: it cannot be read. StoreError.
        """
        ...


class CountStore(Protocol):
    """Counts by name, for all processes, each for a time in milliseconds."""

    async def count(self, name: str, life: int) -> int:
        """Count one more; return how many there were, this one included, since the first. `life` is from the first on.

        Raises StoreError.
        """
        ...

    async def keep(self, name: str, life: int) -> None:
        """Let a count go on for so long from now; 0 forgets it. Raises StoreError."""
        ...


class BudgetStore(Protocol):
    """Counts what is used of budgets, for all processes."""

    async def reserve_tokens(
        self, reservation: str, spender: Spender, tokens: int, *, budgets: Budgets, life: int
    ) -> Shortage | None:
        """Set tokens aside for `life` milliseconds unless a budget does not suffice; return that one, else None.

        The same reservation again is the same. One that is not settled in its time comes back, and what it used is not
        known. Raises StoreError.
        """
        ...

    async def settle_tokens(self, reservation: str, spender: Spender, tokens: int, *, complete: bool) -> None:
        """Count what was used in the place of what was set aside, also if that came back meanwhile.

        `complete` is false if it is not known, or not all of it. Raises StoreError.
        """
        ...

    async def reserve_of_session(self, reservation: str, tokens: int, allowance: TokenAllowance) -> Shortage | None:
        """Set tokens of a session's own budget aside unless it does not suffice; return how it falls short, else None.

        The same reservation again is the same. What is not charged when the session is claimed anew is charged in full
        then. Raises LeaseLostError: another worker has the session. StoreError.
        """
        ...

    async def charge_session(self, reservation: str, tokens: int, allowance: TokenAllowance) -> None:
        """Charge what was used in the place of what was set aside of a session's own budget.

        Nothing changes if it was charged before. Raises LeaseLostError: as above, and it was. StoreError.
        """
        ...

    async def spent_today(self) -> tuple[Spent, ...]:
        """Return what was used today. Raises StoreError."""
        ...
