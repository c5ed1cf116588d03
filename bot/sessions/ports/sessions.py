"""The ports for sessions: their turns and lives, listings, wake-ups, and what waits beside them.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not
answer raises StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
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
        """This process's name at the store.

        Its lease owners are `<process>.<nonce>` and its sender is `<process>`, so that what it holds can be
        freed when it is gone, before the lease runs out.
        """
        ...

    async def accept(self, item: NewItem, *, unless_asked: bool = False) -> Accepted:
        """Append an input to its session's inbox, creating the session, and mark the session ready.

        In the mode INTERRUPT its sender's open turn is asked to stop. With `unless_asked` what is new is not
        taken in where an agent may have asked its sender something.

        Raises DedupeConflictError: the dedupe key was used with another body, or the session was created with
        something else. BusyError: the inbox is full. AskedError: it was left out. NotFoundError: it has a `reader`, who
        may know of no such session. Nothing changed then.
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
        """Take a session with a lease, if there is work and nobody holds it.

        `owner` is a nonce: claiming again with the owner of the live lease answers with the same fence.
        `known` is what the caller has read: if the log went on from there it is handed over from that event on. With
        `idle` the session is
        taken even when nothing waits (for a command that writes). `channels` are those that the caller serves, none
        standing for all. With `most` it is not taken that was claimed so often without anything being written.
        Returns None when there is nothing to take: no such session, no work, or somebody else's
        lease.

        Raises ElsewhereError: there is work, and the session's home is on another channel. UnsettledError: more may
        come in a moment that belongs to what waits. WornError: it was claimed `most` times in vain.
        """
        ...

    async def record(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        """Write in the middle of a turn: events, the taint they cause, audit rows, approvals, the item taken.

        With `sender` the new outbox entries are already claimed by that sender (it saves a round trip).

        Raises LeaseLostError or ResetError: the fence is stale; nothing was written. WithdrawnError: what was to be
        taken does not wait any more; nothing was written.
        """
        ...

    async def commit(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        """Write at the end of a turn: as `record`, and the turn's end, the status, and the lease given back."""
        ...

    async def renew(self, claim: Claim) -> bool:
        """Prolong the lease; return whether a stop was asked for.

        Raises LeaseLostError or ResetError: the lease is somebody else's now.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Give the lease back without writing; a stale one is ignored."""
        ...

    async def stop(self, sid: str, *, actor: str, reader: Label | None = None) -> Stopped:
        """Ask the running turn to stop and cancel what waits.

        It counts what was cancelled and `reader` may know of, everything for None.
        """
        ...

    async def reset(
        self, sid: str, *, op: str, actor: str, audit: tuple[AuditRow, ...], agent: str = ""
    ) -> SessionState:
        """Start a new generation: fence raised, taint back to PUBLIC, inbox, approvals and unsent answers cancelled.

        The new generation pins `agent`, see `bot.access.agents`; empty for the one that the last one had.

        Raises NotFoundError: no such session.
        """
        ...

    async def import_session(self, new: ImportedSession, audit: tuple[AuditRow, ...]) -> bool:
        """Create a session of events that are brought in, all of it in one step; return False if it is there already.

        Then nothing changes.
        """
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
        """Return events as `events` does, and then the session's record, None if there is none.

        The record is not older than the events: what the session had read when it wrote them is in it. Which policy is
        in force is read along.
        """
        ...

    async def events_at(self, sid: str, seqs: Sequence[int]) -> tuple[Event, ...]:
        """Return the events of these seqs, in this order; one that the log does not have is left out."""
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
        """Return what became of the input of a dedupe key, None if there was none or it was forgotten."""
        ...

    def states(self) -> AsyncIterator[SessionState]:
        """Walk all sessions, in no order; for the operator."""
        ...

    def walk(self) -> AsyncIterator[tuple[str, SessionState | None]]:
        """Walk the ids of all sessions with their records, None for one that cannot be read; one may come twice."""
        ...


class LifecycleStore(Protocol):
    """A session as a whole: resting, archived, deleted, and the turns that it had.

    Methods that change something raise NotFoundError: there is none. IllegalMoveError, ArchivedError: its status does
    not allow that (`bot.sessions.lifecycle`). Every method raises StoreError.
    """

    async def holder(self, sid: str) -> Holder | None:
        """Return whose a session is and its status, also of one that was deleted; None if there never was one."""
        ...

    async def pause(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Let a session rest: what it is told waits. A turn that runs is run to its end, or until it asks people."""
        ...

    async def resume(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Let a session that rests go on."""
        ...

    async def archive(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Make a session read-only and cancel what waits. Raises BusyError: a turn is open."""
        ...

    async def restore(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Let an archived session be spoken in again."""
        ...

    async def fail(self, sid: str) -> None:
        """Note that a session cannot be worked; what it is told next wakes it."""
        ...

    async def delete(self, sid: str, audit: tuple[AuditRow, ...]) -> None:
        """Delete a session: a tombstone and its audit chain are left. One that was deleted is deleted."""
        ...

    async def rewrite(self) -> tuple[str, ...]:
        """Have the servers rewrite their files, without what was deleted; return why some do not, a sentence each."""
        ...

    async def turns(self, sid: str, *, before: int | None = None, limit: int = 50, turn: str | None = None) -> TurnPage:
        """Return the turns that ended before an event, newest first, of all generations; None for the newest.

        With a `turn` that of this id alone. A page may be empty and name where to look on.
        """
        ...


class SessionIndex(Protocol):
    """Which sessions there are: in pages for a reader, or all of them for the operator."""

    async def listed(self, asked: SessionQuery) -> SessionPage:
        """Return a page of a principal's sessions that a reader may know of, newest first, archived ones left out.

        Raises CursorError: the cursor is not one that this principal was given at this level.
        """
        ...

    async def recent(self, *, after: str = "", limit: int = 50) -> tuple[tuple[str, SessionState | None], ...]:
        """Return the sessions that changed last, newest first, with their records, None for one that cannot be read.

        `after` is the id of the last one that was returned. Raises NotFoundError: no session has it.
        """
        ...


class QueueStore(Protocol):
    """What waits while a turn runs, and what becomes of it."""

    async def set_mode(self, sid: str, mode: QueueMode, audit: tuple[AuditRow, ...]) -> None:
        """Say how a session takes what comes while a turn runs; it stays so over restarts and resets.

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

    async def again(self, sids: tuple[str, ...]) -> None:
        """Mark sessions ready that `ready` returned and that this process leaves to another."""
        ...

    async def sweep_turn(self, name: str, seconds: float) -> float:
        """Take the turn to sweep, for `seconds`, of the processes of this name; a process that begins waits for none.

        Returns 0, or in how many seconds to ask again. Raises StoreError.
        """
        ...

    async def sweep(self, channels: tuple[str, ...] = (), *, name: str = "") -> tuple[str, ...]:
        """Find sessions with work on these channels, none standing for all, and no live lease; mark and return them.

        It goes on where the last sweep of this name stopped. Raises StoreError.
        """
        ...


class ObservedStore(Protocol):
    """Keeps what is observed."""

    async def observe(self, sid: str, new: NewObserved, most: int) -> None:
        """Keep a text beside a session, whether or not that has begun, and at most `most` of them, the newest.

        The same `dedupe` again changes nothing. Raises StoreError.
        """
        ...

    async def forget(self, sid: str) -> None:
        """Forget all that was kept beside a session. Raises StoreError."""
        ...

    async def heard(self, sid: str, *, after: str, until: int, now: int, most: int) -> tuple[Observed, ...]:
        """Return what was kept after the id `after`, empty for all, and until a time; at most `most`, oldest first.

        Nothing of it is older than a day at the time `now`. Raises StoreError.
        """
        ...


class QuarantineStore(Protocol):
    """Keeps sessions in quarantine, for all processes. Every method raises StoreError."""

    async def add(
        self, sid: str, doing: Doing, *, error: str, where: str, audit: tuple[AuditRow, ...]
    ) -> tuple[Quarantined, bool]:
        """Put a session in quarantine, or keep it there; the first time the audit rows are appended in the same step.

        Returns the record, and whether it is new. Within the pause of the last time nothing changes.
        """
        ...

    async def quarantined(self) -> tuple[Quarantined, ...]:
        """Return all that are in quarantine, the oldest first."""
        ...

    async def unquarantine(self, sid: str, doing: Doing, audit: tuple[AuditRow, ...]) -> bool:
        """Let a session out, with its audit rows; return whether it was in."""
        ...
