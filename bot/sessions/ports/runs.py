"""The ports for runs, their slots, schedules and timers.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). A store that does not answer raises StoreGoneError, one that refuses
StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import Sequence
from typing import Protocol

from bot.sessions.audit import AuditRow
from bot.sessions.background.runs import NewNote, Note, Progress, ProgressChange, RunSlot
from bot.sessions.background.schedules import Schedule, Timer
from bot.sessions.models import Claim
from policy.labels import Label


class RunStore(Protocol):
    """Keeps runs: their places, slots, progress and steering notes."""

    async def reserve(self, principal: str, slot: RunSlot, most: int) -> RunSlot:
        """Reserve a place for a new run among those of the principal's pool; the same run again keeps its place.

        Raises BusyError: `most` runs of the pool are live.
        """
        ...

    async def lock(self, principal: str, run: str, slot: str, fence: int) -> RunSlot:
        """Lock a slot for a run, or return the place of the run of the same pool that has it; the same run keeps it.

        `fence` is that of the claim on the run's session.

        Raises:
            LeaseLostError: A later claim has asked before.
            NotFoundError: The run has no place any more.
        """
        ...

    async def slots(self, principal: str) -> tuple[RunSlot, ...]:
        """Return the places of a principal's runs, including those given back within the last day."""
        ...

    async def free(self, principal: str, run: str) -> None:
        """Give a run's place back, together with the slot it locked."""
        ...

    async def progress(self, sid: str) -> Progress | None:
        """Return a run's progress, None for a session that is not a run."""
        ...

    async def change(self, claim: Claim, change: ProgressChange) -> Progress:
        """Change a run's progress, for the holder of a claim alone; return the new progress.

        The same change again has no effect: a task counts once, under any claim.

        Raises:
            LeaseLostError: Another worker has the session.
            RequestError: A counter would go down, no task to complete is named, or the run has ended.
        """
        ...

    async def steer(self, sid: str, note: NewNote, audit: tuple[AuditRow, ...]) -> None:
        """Give a run a steering note, once for its id; the first ABORT marks the run as ending.

        A run that waits for its breaker, and an idle manual run, are not woken.

        Raises:
            NotFoundError: There is no such run, or it has ended.
            BusyError: The run has its most unread notes.
        """
        ...

    async def notes(self, sid: str) -> tuple[Note, ...]:
        """Return a run's steering notes, oldest first."""
        ...

    async def wake(self, sid: str, op: str, text: str, label: Label, *, hops: int = 0, probe: bool = False) -> bool:
        """Put a continuation into a run's inbox unless one waits or a turn is open; return whether it did.

        With `probe` an open breaker becomes half-open in the same step; with a breaker that is not open, nothing
        happens.
        """
        ...


class RecordKeys(Protocol):
    """Keeps the encryption keys of run records, each among the keys of its session and deleted with it."""

    async def record_key(self, sid: str, fresh: bytes = b"") -> bytes | None:
        """Return the key of a session's record: the first key that was given, or `fresh` if there was none.

        None if there is no key; a deleted session never has one again. Raises StoreError.
        """
        ...


class ScheduleStore(Protocol):
    """Keeps schedules and timers: all of them share one slot of a Cluster."""

    async def add(self, schedule: Schedule, most: int, audit: tuple[AuditRow, ...]) -> None:
        """Keep a schedule with its timer, once for its id.

        Raises BusyError: the principal has `most` active schedules in its label's pool.
        """
        ...

    async def of(self, principal: str) -> tuple[Schedule, ...]:
        """Return a principal's schedules, oldest first."""
        ...

    async def every(self) -> tuple[Schedule, ...]:
        """Return all schedules of the installation, oldest first: for its operator."""
        ...

    async def schedule(self, id: str) -> Schedule | None:  # noqa: A002 - what it is called
        """Return one schedule, None if there is none."""
        ...

    async def replace(self, before: Schedule, after: Schedule, audit: tuple[AuditRow, ...] = ()) -> bool:
        """Replace a schedule, and its timer by its `next_at`, if it is unchanged since it was read.

        Returns false, and does nothing, if it has changed.
        """
        ...

    async def drop(self, id: str, audit: tuple[AuditRow, ...]) -> bool:  # noqa: A002 - what it is called
        """Forget a schedule and its timer; return whether there was one."""
        ...

    async def set_timer(self, timer: Timer) -> None:
        """Set a timer, replacing one of the same kind and subject."""
        ...

    async def take_due(self, most: int, hold_ms: int) -> tuple[tuple[Timer, ...], int]:
        """Take due timers, earliest first: each is due again in `hold_ms` milliseconds unless it is settled.

        Returns them with the moments they were due, and the milliseconds until the next one is due, -1 for none.
        """
        ...

    async def keep(self, timers: Sequence[Timer], hold_ms: int) -> None:
        """Keep timers that were taken for `hold_ms` milliseconds from now, unless they were settled or set again."""
        ...

    async def settle(self, timer: Timer) -> None:
        """Forget a timer that was taken, unless it was set again meanwhile."""
        ...

    async def next_due(self) -> int:
        """Return the milliseconds until the next timer is due, -1 for none."""
        ...
