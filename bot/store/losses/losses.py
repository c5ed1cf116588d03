"""Finding the losses of the store, and noting each where it was: in the session's log, its audit chain and its chat.

The marks of `bot.store.records.marks` are compared with the store after each change of its servers, with each claim,
and when a write is refused as stale. A session that lost writes has an earlier state of its own, as each script's
writes come to a replica as one. So nothing lost is in its context, and it goes on from there.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from bot.audit.chain import EMPTY, Head
from bot.core.errors import SchemaError, StoreError
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import Parcel
from bot.sessions.background.runs import UNREAD
from bot.sessions.deliveries import OURS, NewDelivery
from bot.sessions.inbox import NewItem
from bot.sessions.installation.losses import LOG_TRUNCATED, Loss
from bot.sessions.log.event_types import LogTruncated
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.models import Claim
from bot.store.calls import Arguments
from bot.store.records import codec
from bot.store.records.codec import Bodies, raw, text
from bot.store.records.form import stored, unpack
from bot.store.records.kinds import AUDIT_ROW, EVENT
from bot.store.records.marks import FIELDS, HeadMark, LogMark, StoredLog, falls_short, stored_log
from bot.store.schema import AUDIT, AUDIT_CHAIN, OPEN, audit_op, encode, session_keys
from bot.store.scripts.loader import Script
from bot.store.servers.connection import Command, Reply
from bot.store.shared import POLICY_ASKED, SessionChange, Shared
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC

TOLD: Final = (
    "The store failed and lost the last messages of this conversation. If an answer is missing, or your last message, "
    "send it again."
)
"""The notice to the people of a conversation that lost its newest events."""

TOLD_RESET: Final = (
    "The store failed and lost the last messages of this conversation, and a `/reset` among them: send `/reset` again."
)
"""The same where a reset was lost."""

STORE: Final = "store"
"""The actor of events and rows about a loss."""

MOST_LOST: Final = 10_000
"""How many lost events of one session get an event in their place."""

_SERVING: Final = ("run_id:", "master_replid:")
"""Lines of a server's report: another process, or another history, as of a replica that was promoted."""

_FIELDS: Final = codec.stored_fields(*FIELDS)
_HOME: Final = codec.stored_fields("home")
_PAGE: Final = 200
_TRIES: Final = 20


class RedisLosses:
    """Implements the port `LossStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._servers = frozenset[str]()
        self._found = list[Loss]()

    async def took_over(self) -> bool:
        """Say whether a server serves now that did not at the last call."""
        told = await self._shared.connection.everywhere(("INFO", "server", "replication"))
        serving = frozenset(
            line for _, info in told for line in info.decode().splitlines() if line.startswith(_SERVING)
        )
        news, self._servers = bool(self._servers) and not serving <= self._servers, serving
        if news:
            (policy,) = await self._shared.connection.commands(POLICY_ASKED)
            # The known head may be a lost one, which would count as newer.
            self._shared.policy = None
            self._shared.saw_policy(policy)
        return news

    async def look(self) -> None:
        """Compare the store with all that this process knows, and note each loss where it was."""
        sids = [sid for sid in self._shared.marks.sids if sid != AUDIT]
        for begin in range(0, len(sids), _PAGE):
            for one in await self._read(sids[begin : begin + _PAGE]):
                # A record that cannot be read is reported by its worker.
                with suppress(SchemaError):
                    there = one.stored
                    if there is None or one.short(there):
                        await self.note(one.sid)
        await self._note_outside()

    def taken(self) -> tuple[Loss, ...]:
        """Return the losses that were found since the last call."""
        found, self._found = tuple(self._found), []
        return found

    async def witness(self, chain: str, *, seq: int = 0, audit: Head = EMPTY) -> None:
        """Compare the store with a record elsewhere of a session, or of the chain `audit`."""
        marks = self._shared.marks
        if chain == AUDIT:
            marks.fallen = max(marks.fallen, audit)
            await self._note_outside()
            return
        known = marks.of(chain)
        if seq > known.seq:
            marks.put(chain, replace(known, seq=seq, at=0))
        marks.saw_head(chain, audit)
        await self.note(chain)

    def recent(self) -> Sequence[tuple[NewItem, bool]]:
        """Return the inputs that were accepted within the last minute, oldest first."""
        return self._shared.marks.recent(self._shared.clock.monotonic())

    def parcels(self) -> Sequence[Parcel]:
        """Return the messages of sessions that were taken within the last minute, oldest first."""
        return self._shared.marks.parcels(self._shared.clock.monotonic())

    async def short(self, claim: Claim) -> bool:
        """Say whether a claim found less of its session than is known; otherwise the state that it found is known.

        Raises StoreError.
        """
        known, state = self._shared.marks.of(claim.sid), claim.state
        # A damaged log may lack events in the middle, so that places do not tell numbers.
        place = known.seq - claim.events[0].seq
        here = claim.events[place] if 0 <= place < len(claim.events) else None
        at = here.ts if here is not None and here.seq == known.seq else known.at
        if place < 0 and known.seq:
            # The context begins behind it, as after a recap or a reset.
            (one,) = await self._read([claim.sid])
            at = _time(one.entries) or known.at
        mark = LogMark(state.generation, state.seq, at, claim.fence, state.taint)
        if falls_short(StoredLog(mark, claim.audit, 0, 0), known):
            return True
        self._shared.marks.claimed(claim)
        return False

    @staticmethod
    def differs(record: Mapping[bytes, bytes], entries: Reply, known: LogMark) -> bool:
        """Say whether a record that was read has less than was `known`; `entries` has the event `known.seq`.

        Raises SchemaError.
        """
        return falls_short(stored_log(record, _time(entries)), known)

    async def note_refused(self, sid: str) -> None:
        """Look whether a write was refused because the store lost the ones before it."""
        with suppress(StoreError):
            await self.note(sid)

    async def note(self, sid: str) -> Loss | None:
        """Note a loss of a session, if there is one. Raises StoreError: it cannot be read or written."""
        for _ in range(_TRIES):
            (one,) = await self._read([sid])
            there = one.stored
            if there is None:
                return self._gone(one)
            if not one.short(there):
                self._adopt(one, there)
                return None
            if one.known.deleted:
                return self._find(Loss(sid, there.mark.seq, there.mark.seq, there.mark.taint, deleted=True))
            loss = await self._noted(one, there)
            if loss is not None:
                return loss
        return None

    async def _read(self, sids: Sequence[str]) -> "list[_Compared]":
        """Read the compared fields of some sessions' records, and the last events and audit rows that are known."""
        asked, known = list[Command](), list[tuple[str, LogMark, HeadMark]]()
        for sid in sids:
            # As known before the store answers: meanwhile this process may write more.
            known.append((sid, self._shared.marks.of(sid), self._shared.marks.head(sid)))
            keys, seq, n = session_keys(sid), known[-1][1].seq, known[-1][2].head[0]
            asked += (
                ("HMGET", keys.state, *_FIELDS),
                ("XRANGE", keys.log, f"{seq}-0", f"{seq}-0"),
                ("LINDEX", keys.audit, max(n - 1, 0)),
            )
        found = await self._shared.connection.reads(*asked)
        answers = zip(known, found[::3], found[1::3], found[2::3], strict=True)
        return [_Compared(*before, *answer) for before, *answer in answers]

    def _adopt(self, one: "_Compared", there: StoredLog) -> None:
        """Know a session as the store has it, if the loss of the known state was noted already."""
        if there.noted > one.known.fence:
            at = there.mark.at if there.mark.seq == one.known.seq else 0
            self._shared.marks.put(one.sid, replace(there.mark, at=at))
            self._shared.marks.put_head(one.sid, there.audit, there.noted)

    def _gone(self, one: "_Compared") -> Loss | None:
        self._shared.marks.forget(one.sid)
        if one.known.deleted or not one.known.seq:
            return None
        return self._find(Loss(one.sid, 0, one.known.seq, one.known.taint, gone=True))

    def _find(self, loss: Loss) -> Loss:
        if loss not in self._found:
            self._found.append(loss)
        return loss

    async def _noted(self, one: "_Compared", there: StoredLog) -> Loss | None:
        """Write a loss into its session; return None if the session changed meanwhile."""
        sid, known, have = one.sid, one.known, there.mark
        # A reset that the store has ended the taint from before it.
        before = known.taint if known.generation >= have.generation else PUBLIC
        label, reset = have.taint.join(before), known.generation > have.generation
        told, bodies = LogTruncated(have.seq, max(known.seq, have.seq)), Bodies()
        ((home,),) = await self._shared.connection.commands(("HMGET", session_keys(sid).state, *_HOME))
        gap = NewEvent(STORE, label, told)
        shown = NewEvent(STORE, label, told, visibility=Visibility.USER, admitted=True)
        lost = {} if one.has_row(there) else {"records": one.head.head[0]}
        row = AuditRow(LOG_TRUNCATED, STORE, {"kept": told.kept, "lost": told.lost, "label": str(label), **lost})
        op = self._shared.ids.op()
        args: Arguments = {
            "cursor": have.seq,
            "fence": have.fence,
            "rows": there.audit[0],
            "known": known.fence,
            "gap": stored(codec.new_event(gap, bodies)),
            "last": stored(codec.new_event(shown, bodies)),
            "lost": min(told.lost, told.kept + MOST_LOST),
            "records": lost.get("records", 0),
            "question": OutboundKind.QUESTION.value,
            "reset": reset,
            **_notice(NewDelivery(f"lost-{op}", text(home), TOLD_RESET if reset else TOLD, label), bodies),
        }
        got = await self._shared.change(SessionChange(Script.NOTE_LOSS, sid, args, op, bodies), (row,))
        if got.word != "ok":
            return None
        seq, now, fence = (got.number(name) for name in ("seq", "now", "fence"))
        self._shared.marks.put(sid, LogMark(have.generation, seq, now, fence, label))
        self._shared.marks.put_head(sid, codec.head(got.value("audit_seq"), got.value("audit_hash")), fence)
        await self._shared.connection.commands(("SADD", OPEN, raw(sid)))
        await self._shared.mark_ready(sid, got)
        return self._find(Loss(sid, told.kept, told.lost, label, reset=reset))

    async def _note_outside(self) -> None:
        """Append a row to the chain `audit`, if the store lost rows of it that are known."""
        marks = self._shared.marks
        n, digest = marks.fallen if marks.fallen[0] else marks.head(AUDIT).head
        if not n or (not marks.fallen[0] and await self._has_row(n, digest)):
            return
        row = AuditRow(LOG_TRUNCATED, STORE, {"chain": AUDIT, "records": n})
        got = await self._shared.change_outside(Script.AUDIT_APPEND, {"op": audit_op(f"lost-{digest}")}, {}, (row,))
        head = codec.head(got.value("audit_seq"), got.value("audit_hash"))
        marks.put_head(AUDIT, head)
        marks.fallen = EMPTY
        self._find(Loss(AUDIT, head[0] - 1, n))

    async def _has_row(self, n: int, digest: str) -> bool:
        (packed,) = await self._shared.connection.commands(("LINDEX", AUDIT_CHAIN, n - 1))
        return packed is not None and _hash(packed) == digest


@dataclass(frozen=True, slots=True)
class _Compared:
    """The knowledge of a session when the store was asked, and its answer.

    That is the record, the event `known.seq`, and the row of the audit chain at the place of the known head.
    """

    sid: str
    known: LogMark
    head: HeadMark
    record: Reply
    entries: Reply
    row: Reply

    @property
    def stored(self) -> StoredLog | None:
        """The stored state, None if nothing is stored. Raises SchemaError."""
        if self.record is None:
            raise codec.unreadable()
        found = {name: value for name, value in zip(_FIELDS, self.record, strict=True) if value is not None}
        return stored_log(found, _time(self.entries)) if found else None

    def short(self, there: StoredLog) -> bool:
        """Say whether the store has less of a session's log, or of its audit chain, than was known.

        A chain has less if another row stands at the place of the known head: others may have written more by then. If
        a loss was noted since that head was known, the rows up to `noted_audit` are known as lost.
        """
        if falls_short(there, self.known):
            return True
        noted = there.noted > self.head.noted and self.head.head[0] <= there.noted_audit
        return not (noted or there.mark.deleted or self.has_row(there))

    def has_row(self, there: StoredLog) -> bool:
        """Say whether the store has the last row that is known of a session's audit chain. Raises SchemaError."""
        n, digest = self.head.head
        if n == 0 or n > there.audit[0] or self.row is None:
            return n <= there.audit[0]
        return _hash(self.row) == digest


def _hash(packed: bytes) -> str:
    """Return the hash of an audit row. Raises SchemaError."""
    return codec.reading(lambda: unpack(AUDIT_ROW, packed)["hash"])


def _time(entries: Reply) -> int:
    """Return the time of an event that was asked for, 0 if the log lacks it. Raises SchemaError."""
    return codec.reading(lambda: codec.entry(EVENT, entries[0])[1]["time"]) if entries else 0


def _notice(new: NewDelivery, bodies: Bodies) -> Arguments:
    """Return the notice to the people of a session, nothing for one that nobody reads."""
    channel = Address.parse(new.address).channel
    if channel in UNREAD:
        return {}
    told = replace(new, kind=OutboundKind.NOTICE.value, approved=OURS)
    return {"key": told.key, "delivery": stored(codec.new_delivery(told, encode(channel), bodies))}
