"""The ports for sessions: their turns and lives, listings, wake-ups, and the inputs that wait beside them.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not answer raises
StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from bot.sessions.audit import AuditRow
from bot.sessions.exports import ImportedSession
from bot.sessions.inbox import Accepted, InboxItem, ItemOutcome, NewItem, NewObserved, Observed, QueueMode, Stopped
from bot.sessions.log.events import Event
from bot.sessions.models import (
    Claim,
    Doing,
    Holder,
    Quarantined,
    ReadPosition,
    SessionPage,
    SessionQuery,
    SessionState,
    Title,
    TurnPage,
    Write,
    Written,
)
from policy.labels import Label


class SessionStore(Protocol):
    """Durable sessions."""

    @property
    def process(self) -> str:
        """The name of this process in the store.

        Its lease owners are `<process>.<nonce>` and its sender is `<process>`. So its leases and deliveries can be
        freed when the process is gone, before they run out.
        """
        ...

    async def accept(self, item: NewItem, *, unless_asked: bool = False) -> Accepted:
        """Append an input to its session's inbox, creating the session, and mark the session ready.

        In the mode INTERRUPT its sender's open turn is asked to stop.

        Args:
            item: The input.
            unless_asked: Do not take in a new input where an agent may have asked its sender a question.

        Raises:
            DedupeConflictError: The dedupe key was used with another body, or the session was created with other
                values.
            BusyError: The inbox is full.
            AskedError: The input was left out because of `unless_asked`.
            NotFoundError: The input has a `reader`, and that reader may not know of such a session.

        After any of these errors nothing has changed.
        """
        ...

    async def claim(
        self,
        sid: str,
        owner: str,
        *,
        known: ReadPosition | None = None,
        idle: bool = False,
        channels: tuple[str, ...] = (),
        most: int = 0,
    ) -> Claim | None:
        """Take a session with a lease, if there is work and no live lease on it.

        Args:
            sid: The session.
            owner: A nonce: claiming again with the owner of the live lease answers with the same fence.
            known: The position up to which the caller has read. If the log went on from there, only the later events
                are handed over.
            idle: Take the session even when nothing waits (for a command that writes).
            channels: The channels that the caller serves; empty for all.
            most: Do not take a session that was claimed this often without a write; 0 for no limit.

        Returns:
            The claim, or None when there is nothing to take: no such session, no work, or another worker's lease.

        Raises:
            ElsewhereError: There is work, and the session's home is on another channel.
            UnsettledError: Another part of the waiting message may arrive in a moment.
            WornError: The session was claimed `most` times in vain.
        """
        ...

    async def record(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        """Write in the middle of a turn: events, the taint they cause, audit rows, approvals, the item taken.

        With `sender` the new outbox entries are already claimed by that sender (it saves a round trip).

        Raises:
            LeaseLostError: The fence is stale; nothing was written.
            ResetError: The fence is stale because of a reset; nothing was written.
            WithdrawnError: The input to take does not wait any more; nothing was written.
        """
        ...

    async def commit(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        """Write at the end of a turn: as `record`, and the turn's end, the status, and the lease given back."""
        ...

    async def renew(self, claim: Claim) -> bool:
        """Prolong the lease; return whether a stop was asked for.

        Raises:
            LeaseLostError: Another worker holds the lease.
            ResetError: The session was reset.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Give the lease back without writing; a stale one is ignored."""
        ...

    async def stop(self, sid: str, *, actor: str, reader: Label | None = None) -> Stopped:
        """Ask the running turn to stop and cancel the waiting inputs.

        The result counts those cancelled inputs that `reader` may know of, all of them for None.
        """
        ...

    async def reset(
        self, sid: str, *, op: str, actor: str, audit: tuple[AuditRow, ...], agent: str = ""
    ) -> SessionState:
        """Start a new generation: fence raised, taint back to PUBLIC, inbox, approvals and unsent answers cancelled.

        The new generation pins `agent` (see `bot.access.agents`), or the agent of the last generation if it is empty.

        Raises NotFoundError: no such session.
        """
        ...

    async def import_session(self, new: ImportedSession, audit: tuple[AuditRow, ...]) -> bool:
        """Create a session from imported events, in one step; return False and change nothing if it exists already."""
        ...

    async def state(self, sid: str) -> SessionState | None:
        """Return the session's record, None if there is none."""
        ...

    async def events(self, sid: str, *, after: int = 0, limit: int = 1000) -> tuple[Event, ...]:
        """Return events with seq > `after`, oldest first."""
        ...

    async def news(
        self, sid: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[tuple[Event, ...], SessionState | None]:
        """Return events as `events` does, and the session's record as read after them, None if there is none.

        The record is not older than the events: its taint covers all that the session had read when it wrote them. The
        same round trip reads which policy is in force.
        """
        ...

    async def events_at(self, sid: str, seqs: Sequence[int]) -> tuple[Event, ...]:
        """Return the events with these seqs, in this order; a seq that the log does not have is left out."""
        ...

    async def name(self, sid: str, title: Title | None) -> None:
        """Give a session a title, until its next reset; None takes it away.

        Raises NotFoundError: no such session.
        """
        ...

    async def waiting(self, sid: str) -> tuple[InboxItem, ...]:
        """Return the inputs that wait, oldest first."""
        ...

    async def outcome(self, sid: str, dedupe: str) -> ItemOutcome | None:
        """Return the outcome of the input with a dedupe key, None if there was none or it was forgotten."""
        ...

    def states(self) -> AsyncIterator[SessionState]:
        """Walk all sessions, in no order; for the operator."""
        ...

    def walk(self) -> AsyncIterator[tuple[str, SessionState | None]]:
        """Walk the ids of all sessions with their records, None for an unreadable record; an id may come twice."""
        ...


class LifecycleStore(Protocol):
    """A session as a whole: pausing, archiving and deleting it, and its past turns.

    Methods that change something raise these errors; every method may raise StoreError.

    Raises:
        NotFoundError: There is no such session.
        IllegalMoveError: Its status does not allow the operation (`bot.sessions.lifecycle`).
        ArchivedError: It is archived.
    """

    async def holder(self, sid: str) -> Holder | None:
        """Return a session's principal and status, also of a deleted session; None if there never was one."""
        ...

    async def deleted(self, sids: Sequence[str]) -> frozenset[str]:
        """Return those of these sessions that were deleted, in one round trip."""
        ...

    async def begun(self, sids: Sequence[str], *, seal: bool = False) -> frozenset[str]:
        """Return those of these ids under which a session ever began, deleted ones included.

        They are the ids of one place under each session key, the newest first. With `seal`, the older ones under which
        none began are given up in the same step: an attempt to begin a session there raises SealedError.
        """
        ...

    async def pause(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Pause a session: new inputs wait. An open turn still runs to its end, or until it asks people."""
        ...

    async def resume(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Resume a paused session."""
        ...

    async def archive(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Make a session read-only and cancel its waiting inputs. Raises BusyError: a turn is open."""
        ...

    async def restore(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Make an archived session writable again."""
        ...

    async def fail(self, sid: str) -> None:
        """Mark a session as FAILED; its next input wakes it."""
        ...

    async def delete(self, sid: str, audit: tuple[AuditRow, ...]) -> None:
        """Delete a session; a tombstone and its audit chain are left. Deleting a deleted session changes nothing."""
        ...

    async def rewrite(self) -> tuple[str, ...]:
        """Have the servers rewrite their files without deleted data.

        Returns one sentence for each server that does not rewrite its files.
        """
        ...

    async def turns(self, sid: str, *, before: int | None = None, limit: int = 50, turn: str | None = None) -> TurnPage:
        """Return the turns that ended before an event, newest first, of all generations; None for the newest.

        With `turn`, only the turn with that id. A page may be empty and still name where to continue.
        """
        ...


class SessionIndex(Protocol):
    """Which sessions there are: in pages for a reader, or all of them for the operator."""

    async def listed(self, asked: SessionQuery) -> SessionPage:
        """Return a page of the sessions of a principal that a reader may know of, newest first, without archived ones.

        Raises CursorError: the cursor was not given to this principal at this level.
        """
        ...

    async def recent(self, *, after: str = "", limit: int = 50) -> tuple[tuple[str, SessionState | None], ...]:
        """Return the sessions that changed last, newest first, with their records, None for an unreadable record.

        `after` is the id of the last session of the page before. Raises NotFoundError: no session has it.
        """
        ...


class QueueStore(Protocol):
    """How a session takes inputs while a turn runs, and the withdrawal of inputs that wait."""

    async def set_mode(self, sid: str, mode: QueueMode, audit: tuple[AuditRow, ...]) -> None:
        """Set how a session takes inputs while a turn runs; the mode survives restarts and resets.

        Raises NotFoundError: no such session.
        """
        ...

    async def withdraw(self, sid: str, item: InboxItem, audit: tuple[AuditRow, ...]) -> None:
        """Cancel an input that waits.

        Raises NotFoundError: it does not wait any more.
        """
        ...


class Wake(Protocol):
    """Hints that a session has work; the sweep is the truth."""

    async def ready(self, *, wait: float, most: int = 64) -> tuple[str, ...]:
        """Return up to `most` sessions marked ready, waiting up to `wait` seconds for the first. Raises StoreError."""
        ...

    async def again(self, sids: tuple[str, ...], *, behind: bool = False) -> None:
        """Mark sessions ready that `ready` returned and that this process does not work.

        They get their places back, or with `behind` places behind the others of their principals. Raises StoreError.
        """
        ...

    async def sweep_turn(self, name: str, seconds: float) -> float:
        """Take the turn to sweep, for `seconds`, among the processes of this name; a new process need not wait.

        Returns 0 if this process may sweep now, or the number of seconds after which to ask again. Raises StoreError.
        """
        ...

    async def sweep(self, channels: tuple[str, ...] = (), *, name: str = "") -> tuple[str, ...]:
        """Find sessions with work on these channels, empty for all, and no live lease; mark and return them.

        It continues where the last sweep of this name stopped. Raises StoreError.
        """
        ...


class ObservedStore(Protocol):
    """Keeps texts observed in shared chats."""

    async def observe(self, sid: str, new: NewObserved, most: int) -> None:
        """Keep a text beside a session, whether or not the session exists, and at most the `most` newest texts.

        The same `dedupe` again changes nothing. Raises StoreError.
        """
        ...

    async def forget(self, sid: str) -> None:
        """Forget all texts kept beside a session. Raises StoreError."""
        ...

    async def heard(self, sid: str, *, after: str, until: int, now: int, most: int) -> tuple[Observed, ...]:
        """Return at most `most` texts kept after the id `after`, empty for all, and up to a time; oldest first.

        None of them is older than a day at `now`. Both times are milliseconds on the store's clock. Raises StoreError.
        """
        ...


class QuarantineStore(Protocol):
    """Keeps sessions in quarantine, for all processes. Every method raises StoreError."""

    async def add(
        self, sid: str, doing: Doing, *, error: str, where: str, audit: tuple[AuditRow, ...]
    ) -> tuple[Quarantined, bool]:
        """Put a session in quarantine, or keep it there; the first time the audit rows are appended in the same step.

        Returns the record, and whether it is new. During the current pause nothing changes.
        """
        ...

    async def quarantined(self) -> tuple[Quarantined, ...]:
        """Return all sessions in quarantine, the oldest first."""
        ...

    async def unquarantine(self, sid: str, doing: Doing, audit: tuple[AuditRow, ...]) -> bool:
        """Let a session out of quarantine, with its audit rows; return whether it was in quarantine."""
        ...
