"""The ports for runs, their slots, schedules and timers.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). A store that does not answer raises StoreGoneError, one that refuses
StoreRefusedError, records of a newer version SchemaError.
"""

from typing import Protocol

from bot.sessions.audit import AuditRow
from bot.sessions.background.runs import NewNote, Note, Progress, ProgressChange, RunSlot
from bot.sessions.background.schedules import Schedule, Timer
from bot.sessions.models import Claim
from policy.labels import Label


class RunStore(Protocol):
    """What runs ask of the store."""

    async def reserve(self, principal: str, slot: RunSlot, most: int) -> RunSlot:
        """Take a place for a run that is to be made, counted among the principal's of its pool; the same run keeps it.

        Raises BusyError: `most` are live in the pool.
        """
        ...

    async def lock(self, principal: str, run: str, slot: str, fence: int) -> RunSlot:
        """Lock a slot for a run, or return the place of the run that has it in the same pool; the same run keeps it.

        `fence` is that of the claim on the run's session. Raises LeaseLostError: a later claim has asked before.
        NotFoundError: the run has no place any more.
        """
        ...

    async def slots(self, principal: str) -> tuple[RunSlot, ...]:
        """Return the places of a principal's runs, those that were given back within the last day too."""
        ...

    async def free(self, principal: str, run: str) -> None:
        """Give a run's place back, with the slot that it locked."""
        ...

    async def progress(self, sid: str) -> Progress | None:
        """Return how far a run came, None for a session that is no run."""
        ...

    async def change(self, claim: Claim, change: ProgressChange) -> Progress:
        """Change how far a run came, for the holder of a claim alone; return what that is then.

        The same change again is the same: a task counts once, by whatever claim.

        Raises LeaseLostError: another worker has the session. RequestError: a counter would go down, no task to
        complete is named, or the run has ended.
        """
        ...

    async def steer(self, sid: str, note: NewNote, audit: tuple[AuditRow, ...]) -> None:
        """Give a run a steering note, once for its id; the first ABORT marks the run as one that is to end.

        A run that waits for its breaker, or that is manual and idle, is not woken. Raises NotFoundError: there is no
        such run, or it has ended. BusyError: as many notes wait as may.
        """
        ...

    async def notes(self, sid: str) -> tuple[Note, ...]:
        """Return a run's steering notes, oldest first."""
        ...

    async def wake(self, sid: str, op: str, text: str, label: Label, *, hops: int = 0, probe: bool = False) -> bool:
        """Put a continuation into a run's inbox unless one waits or a turn is open; return whether it did.

        With `probe` the breaker, which is open, becomes half-open with it; it does nothing if that is not open.
        """
        ...


class RecordKeys(Protocol):
    """Keeps the keys that records of runs are encrypted with, each among the keys of its session, whose end is its."""

    async def record_key(self, sid: str, fresh: bytes = b"") -> bytes | None:
        """Return the key of a session's record: the first that was given, which `fresh` is if there was none.

        None if it has no key; if it was deleted, it has none for ever. Raises StoreError.
        """
        ...


class ScheduleStore(Protocol):
    """What schedules and timers ask of the store: all of them share one slot of a Cluster."""

    async def add(self, schedule: Schedule, most: int, audit: tuple[AuditRow, ...]) -> None:
        """Keep a schedule with its timer, once for its id.

        Raises BusyError: the principal has `most` that are active, of its label's pool.
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
        """Put a schedule, and its timer by its `next_at`, in the place of one that is still as it was seen.

        Returns false, and does nothing, where it is not.
        """
        ...

    async def drop(self, id: str, audit: tuple[AuditRow, ...]) -> bool:  # noqa: A002 - what it is called
        """Forget a schedule and its timer; return whether there was one."""
        ...

    async def set_timer(self, timer: Timer) -> None:
        """Set a timer, in the place of one of the same kind and subject."""
        ...

    async def take_due(self, most: int, hold_ms: int) -> tuple[tuple[Timer, ...], int]:
        """Take due timers, earliest first: each is due again in `hold_ms` unless it is settled.

        Returns them with the moment when they were due, and in how many milliseconds the next one is due, -1 for none.
        """
        ...

    async def settle(self, timer: Timer) -> None:
        """Forget a timer that was taken, unless it was set anew meanwhile."""
        ...

    async def next_due(self) -> int:
        """Return in how many milliseconds the next timer is due, -1 for none."""
        ...
