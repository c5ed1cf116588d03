"""High-water marks: the newest state of each session that this process knows of, as it wrote or read it.

A store that has less than a mark tells has lost acknowledged writes. A mark of a state before a loss that was noted
already is no evidence of another one: noting a loss raises the session's fence above all marks from before.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from bot.audit.chain import EMPTY, Head
from bot.sessions.background.delegation import Parcel
from bot.sessions.inbox import NewItem
from bot.sessions.log.events import Event
from bot.sessions.models import Claim, SessionState, Status, Written
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.records.form import check_version
from bot.store.schema import AUDIT
from policy.labels import PUBLIC, Label

MOST: Final = 4096
"""Of how many sessions the newest state is remembered."""

_RECENT: Final = 1000
_RECENT_SECONDS: Final = 60.0
"""How many accepted inputs are remembered, and for how long."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LogMark:
    """The newest state of a session that is known.

    Args:
        generation: Its generation.
        seq: The head of its log.
        at: The time of that event in milliseconds on the store's clock, 0 if unknown.
        fence: Its fence.
        taint: Its taint.
        deleted: Whether it was deleted.
    """

    generation: int = 0
    seq: int = 0
    at: int = 0
    fence: int = 0
    taint: Label = PUBLIC
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The state of a session that the store has: `noted` is the fence at the last loss that was noted.

    `noted_audit` is the last row of its audit chain that is known as lost since.
    """

    mark: LogMark
    audit: Head
    noted: int
    noted_audit: int


@dataclass(frozen=True, slots=True)
class HeadMark:
    """The newest head of an audit chain that is known. `noted` is the session's fence at the last loss noted before."""

    head: Head = EMPTY
    noted: int = 0


FIELDS: Final = (
    *("version", "generation", "seq", "fence", "taint", "status", "audit_seq", "audit_hash"),
    *("truncated", "truncated_audit"),
)
"""The fields of a session's record that are compared."""


def stored_log(got: Mapping[bytes, bytes], at: int) -> StoredLog:
    """Read the compared state out of a session's record; `at` is the time of a mark's last event, 0 for none.

    Raises SchemaError.
    """

    def value(name: str) -> bytes:
        return got.get(*codec.stored_fields(name)) or b""

    def number(name: str) -> int:
        return int(value(name) or 0)

    def read() -> StoredLog:
        check_version(value("version"))
        taint = codec.label(text(value("taint"))) if value("taint") else PUBLIC
        gone = value("status") == raw(Status.DELETED)
        mark = LogMark(number("generation"), number("seq"), at, number("fence"), taint, deleted=gone)
        return StoredLog(mark, codec.audit_head(got), number("truncated"), number("truncated_audit"))

    return codec.reading(read)


def falls_short(there: StoredLog, known: LogMark) -> bool:
    """Say whether the store has less of a session than is known; `there` has the time of the event `known.seq`."""
    have = there.mark
    if have.deleted or known.deleted:
        return known.deleted and not have.deleted
    if have.seq < known.seq or (have.generation == known.generation and not known.taint.within(have.taint)):
        return True
    if known.fence < there.noted:
        return False
    # A claim alone that was lost wrote nothing.
    return have.generation < known.generation or bool(known.at and have.at != known.at)


def _may_follow(seen: LogMark, known: LogMark) -> bool:
    """Say whether nothing tells that a state comes before a known one, or out of another history."""
    if seen.seq == known.seq and seen.at and known.at and seen.at != known.at:
        return False
    lower = seen.generation < known.generation or seen.seq < known.seq or seen.fence < known.fence
    return not lower and (seen.generation > known.generation or known.taint.within(seen.taint))


class LogMarks:
    """The marks of this process, of the sessions that it met last, and the latest accepted messages."""

    def __init__(self) -> None:
        self._marks = OrderedDict[str, LogMark]()
        self._heads = OrderedDict[str, HeadMark]()
        self._recent = deque[tuple[float, NewItem, bool]](maxlen=_RECENT)
        self._parcels = deque[tuple[float, Parcel]](maxlen=_RECENT)
        self.fallen = EMPTY
        """The newest head of the chain `audit` that the store had lost when it answered with an older one."""

    @property
    def sids(self) -> tuple[str, ...]:
        """The sessions of which something is known, and the chain `audit`."""
        return tuple({**self._marks, **self._heads})

    def of(self, sid: str) -> LogMark:
        """Return the newest state of a session that is known."""
        return self._marks.get(sid, LogMark())

    def head(self, chain: str) -> HeadMark:
        """Return the newest head of an audit chain that is known, one of nothing for none."""
        return self._heads.get(chain, HeadMark())

    def put(self, sid: str, mark: LogMark) -> None:
        """Keep the state of a session in place of the known one."""
        _put(self._marks, sid, mark)

    def put_head(self, chain: str, head: Head, noted: int = 0) -> None:
        """Keep the head of a chain in place of the known one."""
        _put(self._heads, chain, HeadMark(head, noted))

    def saw(self, sid: str, seen: LogMark) -> None:
        """Keep a state that was read or written, if it may follow the known one: one of another history may not."""
        known = self.of(sid)
        if known.deleted or not _may_follow(seen, known):
            return
        if seen.seq == known.seq and not seen.at:
            seen = replace(seen, at=known.at)
        self.put(sid, seen)

    def claimed(self, claim: Claim) -> None:
        """Keep the state that a claim read."""
        state, last = claim.state, claim.events[-1]
        self.saw(claim.sid, LogMark(state.generation, state.seq, last.ts, claim.fence, state.taint))

    def wrote(self, claim: Claim, written: Written, events: int) -> None:
        """Keep the state after a write of so many events."""
        at = written.now if events else 0
        self.saw(claim.sid, LogMark(claim.state.generation, written.seq, at, claim.fence, written.taint))

    def read(self, state: SessionState, fence: int, events: Sequence[Event]) -> None:
        """Keep a state that was read, with its newest events, if any."""
        at = events[-1].ts if events and events[-1].seq == state.seq else 0
        self.saw(state.sid, LogMark(state.generation, state.seq, at, fence, state.taint))

    def saw_head(self, chain: str, head: Head, noted: int = 0) -> None:
        """Keep the head of a chain, unless a newer one is known: after a noted loss the same numbers come again."""
        known = self.head(chain)
        if (noted, head[0]) > (known.noted, known.head[0]):
            self.put_head(chain, head, noted)
        elif chain == AUDIT and head[0] < known.head[0]:
            # A process writes there one after another, so this answer is no older one.
            self.fallen = max(self.fallen, known.head)

    def deleted(self, sid: str) -> None:
        """Keep that a session was deleted."""
        self.put(sid, replace(self.of(sid), deleted=True))

    def forget(self, sid: str) -> None:
        """Know nothing of a session any more."""
        self._marks.pop(sid, None)
        self._heads.pop(sid, None)

    def accepted(self, at: float, item: NewItem, *, unless_asked: bool) -> None:
        """Keep an input that was accepted at a time, in seconds."""
        self._recent.append((at, item, unless_asked))

    def received(self, at: float, parcel: Parcel) -> None:
        """Keep a message of another session that was taken at a time, in seconds."""
        self._parcels.append((at, parcel))

    def parcels(self, now: float) -> tuple[Parcel, ...]:
        """Return the messages of sessions that were taken within the last minute before `now`, in seconds."""
        return tuple(parcel for at, parcel in self._parcels if at >= now - _RECENT_SECONDS)

    def recent(self, now: float) -> tuple[tuple[NewItem, bool], ...]:
        """Return the inputs that were accepted within the last minute before `now`, in seconds, oldest first."""
        return tuple((item, asked) for at, item, asked in self._recent if at >= now - _RECENT_SECONDS)


def _put(kept: "OrderedDict[str, _T]", name: str, value: _T) -> None:
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > MOST:
        kept.popitem(last=False)
