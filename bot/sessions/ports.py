"""The store port: what everything else may ask of the store, and what it promises.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not
answer raises StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from bot.sessions.alternatives import Alternative, Way
from bot.sessions.approvals import Answered, Approval, ApprovalState, PairingRequest, QuestionAnswer, QuestionCopy
from bot.sessions.audit import AuditRecord, AuditRow, PolicyHead
from bot.sessions.budgets import Budgets, Shortage, Spender, Spent
from bot.sessions.delegation import Arrival, Caps, Charge, NewSlot, Parcel, PendingMessage, Reservation, Slot
from bot.sessions.deliveries import Delivery, DeliveryPause, DeliveryState, NewDelivery, Rate, SendSlot
from bot.sessions.events import Event
from bot.sessions.exports import ImportedSession
from bot.sessions.inbox import Accepted, InboxItem, ItemOutcome, NewItem, NewObserved, Observed, QueueMode, Stopped
from bot.sessions.limits import TokenAllowance
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
from policy.document.overrides import AccessChange, Overrides
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

    async def accept(self, item: NewItem) -> Accepted:
        """Append an input to its session's inbox, creating the session, and mark the session ready.

        In the mode INTERRUPT the open turn of whoever sends it is asked to stop.

        Raises DedupeConflictError: the dedupe key was used with another body. BusyError: the inbox is full.
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

    async def turns(self, sid: str, *, before: int | None = None, limit: int = 50) -> TurnPage:
        """Return the turns that ended before an event, newest first, of all generations; None for the newest."""
        ...


class ApprovalStore(Protocol):
    """Questions to people, answered once and found wherever they wait."""

    async def resolve(
        self,
        sid: str,
        approvals: tuple[str, ...],
        state: ApprovalState,
        *,
        actor: str,
        audit: tuple[AuditRow, ...],
        answer: QuestionAnswer | None = None,
    ) -> tuple[Approval, ...]:
        """Answer pending approvals or questions once, all in one step, and mark the session ready when none is left.

        `answer` is that of a question, whose state is REPLIED then; an approval is never REPLIED, and a question
        never APPROVED.

        Returns them as they stand: the same answer by the same actor again is no error, another answer finds the
        first in force. Raises NotFoundError: one of them does not exist, or is no longer pending by time.
        """
        ...

    async def of(self, sid: str) -> tuple[Approval, ...]:
        """Return the approvals of this generation; one past its time reads as EXPIRED."""
        ...

    async def waiting(self) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the pending approvals of all sessions, each with its session's record."""
        ...

    async def questions(self, principal: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return an agent's questions to a person, each with its session's record, the next to end first.

        They are those that are open, and those that were until an hour ago. Where nothing is asked it costs one round
        trip.
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

    async def ready(self, *, wait: float) -> tuple[str, ...]:
        """Return sessions marked ready, waiting up to `wait` seconds for the first."""
        ...

    async def again(self, sids: tuple[str, ...]) -> None:
        """Mark sessions ready that `ready` returned and that this process leaves to another."""
        ...

    async def sweep(self, channels: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Find sessions with work on these channels, none standing for all, and no live lease; mark and return them."""
        ...


class OutboxStore(Protocol):
    """What waits to be said."""

    async def put(self, sid: str, new: NewDelivery) -> None:
        """Add a pending entry without holding the session, and mark that ready; the same key again is the same entry.

        Raises NotFoundError: no such session.
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
    ) -> bool:
        """Record what became of a claimed entry, what the session that it was for did with it, and its `receipt`.

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


class AuditStore(Protocol):
    """Audit chains: one per session in the session's slot, one named `audit` for decisions outside any."""

    async def append(self, rows: tuple[AuditRow, ...]) -> None:
        """Append rows to the chain for decisions outside a session."""
        ...

    async def records(self, chain: str, *, after: int = 0, limit: int = 1000) -> tuple[AuditRecord, ...]:
        """Return records with n > `after` of a session's chain or of the chain named `audit`."""
        ...

    async def head(self, chain: str) -> tuple[int, str]:
        """Return (n, hash) the store believes to be the last record; (0, "") for an empty chain."""
        ...

    def moved(self) -> Mapping[str, tuple[int, str]]:
        """Return the heads that this process wrote or met since they were last `anchored`."""
        ...

    def anchored(self, heads: Mapping[str, tuple[int, str]]) -> None:
        """Note that heads are kept outside the store; one that moved on meanwhile is still to be."""
        ...

    def heads(self, *, idly: bool = False) -> AsyncIterator[tuple[str, tuple[int, str]]]:
        """Walk the heads of all chains that are not empty, in no order; `idly` so that nobody waits for it."""
        ...


class PolicyStore(Protocol):
    """Which policy is in force, for all processes of one store."""

    @property
    def policy_head(self) -> PolicyHead | None:
        """What this process read last of it, None for none.

        Read along with whatever has to know: waiting for sessions, a claim, taking or committing what is to be said.
        """
        ...

    async def read_policy(self) -> PolicyHead | None:
        """Read it now."""
        ...

    async def put_policy(
        self, digest: str, process: str, audit: tuple[AuditRow, ...], *, only_if_none: bool = False
    ) -> PolicyHead:
        """Put a policy in force and append the rows that tell of it to the chain `audit`, in one step.

        `process` tells people who did it. With `only_if_none` nothing changes if one is in force. Returns what is in
        force then.
        """
        ...


class AccessStore(Protocol):
    """Who may what and which chat is what, as people changed it while Lockgate runs; and strangers who ask."""

    async def overrides(self) -> tuple[int, Overrides]:
        """Read what was changed, and how many changes there were; the policy head tells that number along."""
        ...

    async def override(
        self, change: AccessChange, known: int, audit: tuple[AuditRow, ...], answered: Answered | None = None
    ) -> int | None:
        """Change something and append the rows that tell of it to the chain `audit`, in one step.

        `known` is the number of changes it was made from. Returns the new one, None if there were others meanwhile and
        nothing changed. With `answered` that pairing is closed. Raises NotFoundError: it does not wait any more.
        """
        ...

    async def ask_pairing(self, account: str, channel: str, workspace: str, digest: str) -> bool:
        """Keep a stranger's question under the hash of a code, and say whether it was kept.

        It is not while the same account waits or was refused lately, or as many wait there as may.
        """
        ...

    async def try_pairing(self, principal: str, digest: str) -> str | None:
        """Return the account that was given a code, None for a wrong one, which counts against the principal.

        Raises BusyError: there were too many wrong ones.
        """
        ...

    async def pairings(self) -> tuple[PairingRequest, ...]:
        """Return the strangers who wait for an answer, the first who asked first."""
        ...


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
