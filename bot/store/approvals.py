"""Questions to people in the store: approvals wherever they wait, copies that can be edited, and alternatives."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from bot.core.errors import NotFoundError, SchemaError
from bot.sessions.alternatives import Alternative, Wanted, Way
from bot.sessions.approvals import FOR_EVER, Approval, ApprovalState, QuestionAnswer, QuestionCopy, asked_in
from bot.sessions.audit import AuditRow
from bot.sessions.background.schedules import TimerKind
from bot.sessions.consents.grants import Grant
from bot.sessions.deliveries import Delivery
from bot.sessions.models import SessionState, Status
from bot.store.calls import Arguments, call, nested
from bot.store.records import approvals as approval_records
from bot.store.records import codec
from bot.store.records.codec import clock_ms, dump, raw, reading, text
from bot.store.records.form import Values, stored, unpack
from bot.store.records.kinds import ALTERNATIVE, DELIVERY
from bot.store.schema import (
    COPIES,
    OPEN,
    TIMERS,
    answered_key,
    asked_key,
    decode,
    encode,
    granted_key,
    offer_key,
    session_keys,
    timer_name,
)
from bot.store.scripts.loader import Script
from bot.store.servers.connection import Command
from bot.store.shared import SessionChange, Shared
from policy.labels import parse

_PAGE = 500


class RedisApprovals:
    """Implements the port `ApprovalStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def resolve(  # noqa: PLR0913 - who answers what, and all that the answer gives
        self,
        sid: str,
        approvals: tuple[str, ...],
        state: ApprovalState,
        *,
        actor: str,
        audit: tuple[AuditRow, ...],
        answer: QuestionAnswer | None = None,
        granted: tuple[Approval, ...] = (),
    ) -> tuple[Approval, ...]:
        """Answer pending approvals or questions once, all in one step; mark the session ready when none is left."""
        given = None if answer is None else approval_records.question_answer(answer)
        # Before: a hint without its answer is ignored, an answer without its hint would not be found.
        names = {*approvals, *(asked_in(name) for name in approvals)}
        hints: list[Command] = [
            ("SET", answered_key(actor, name), raw(sid), "PX", _REMEMBERED_MS) for name in sorted(names)
        ]
        hints += [_granted_hint(one, who) for one in granted for who in dict.fromkeys((actor, one.principal))]
        await self._shared.connection.commands(*hints)
        args = {
            "state": state.value,
            "actor": actor,
            "ids": list(approvals),
            "given": given,
            "grants": {one.id: _terms(one.grant) for one in granted if one.grant is not None},
            "seen": self._shared.time.wall_ms(),
        }
        got = await self._shared.change(SessionChange(Script.RESOLVE, sid, args), audit)
        if got.word == "none":
            raise NotFoundError
        await self._shared.mark_ready(sid, got)
        named = list(zip(approvals, got.list("records"), strict=True))
        return codec.reading(
            lambda: tuple(approval_records.approval(sid, raw(name), record, 0) for name, record in named)
        )

    async def of(self, sid: str) -> tuple[Approval, ...]:
        """Return the approvals of this generation; one past its time reads as EXPIRED."""
        keys = session_keys(sid)
        generation, flat, clock = await self._shared.connection.commands(
            ("HGET", keys.state, *codec.stored_fields("generation")), ("HGETALL", keys.approvals), ("TIME",)
        )
        return approvals_of(sid, flat, self._shared.latest(codec.clock_ms(clock)), int(generation or 0))

    async def waiting(self) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the pending approvals of all sessions, each with its session's record."""
        found = list[tuple[SessionState, Approval]]()
        cursor = b"0"
        while True:
            ((cursor, members), clock) = await self._shared.connection.commands(
                ("SSCAN", OPEN, cursor, "COUNT", _PAGE), ("TIME",)
            )
            now = self._shared.latest(codec.clock_ms(clock))
            found += await self._pending([text(member) for member in members], now)
            if cursor == b"0":
                # A scan may name a session twice.
                return tuple({(state.sid, approval.id): (state, approval) for state, approval in found}.values())

    async def answered(self, principal: str, name: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the approvals with a name, one of which a principal answered within the last hour."""
        (found,) = await self._shared.connection.commands(("GET", answered_key(principal, name)))
        if found is None:
            return ()
        sid = text(found)
        keys = session_keys(sid)
        # The record last: the session may rise meanwhile.
        asked, flat, clock = await self._shared.connection.commands(
            ("HGETALL", keys.approvals), ("HGETALL", keys.state), ("TIME",)
        )
        if not asked or not flat:
            return ()
        state = codec.reading(lambda: codec.state(sid, flat))
        every = approvals_of(sid, asked, self._shared.latest(codec.clock_ms(clock)), state.generation)
        named = sorted((one for one in every if name in {one.id, one.asked_in}), key=lambda one: one.id)
        return tuple((state, one) for one in named)

    async def granted(self, principal: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the approvals with a grant that a principal gave or that was given for their calls, the newest last.

        They are of this generation; each comes with its session's record.
        """
        key = granted_key(principal)
        (members,) = await self._shared.connection.commands(("ZRANGE", key, 0, -1))
        named = [tuple(map(decode, text(member).split(" "))) for member in members]
        if not named:
            return ()
        reads = [read for sid, name in named for read in _question_reads(sid, name)]
        *replies, clock = await self._shared.connection.commands(*reads, ("TIME",))
        now = self._shared.latest(codec.clock_ms(clock))
        found, over = list[tuple[SessionState, Approval]](), list[bytes]()
        for (sid, name), member, record, flat in zip(named, members, replies[::2], replies[1::2], strict=True):
            # A record that this program cannot read must not hide the grants of other sessions.
            with suppress(SchemaError):
                one = _hinted(sid, name, flat, record, now=now)
                if one.grants(now):
                    found.append((cast("SessionState", one.state), cast("Approval", one.question)))
                elif one.over(0, now):
                    over.append(member)
        if over:
            await self._shared.connection.commands(("ZREM", key, *over))
        return tuple(sorted(found, key=lambda one: (one[1].asked_at, one[1].id)))

    async def revoke(self, sid: str, name: str, *, actor: str, audit: tuple[AuditRow, ...]) -> Approval:
        """End a grant; one that ended before stays as it is. Raises NotFoundError: there is none in this generation."""
        change = SessionChange(Script.REVOKE_GRANT, sid, {"id": name, "actor": actor})
        got = await self._shared.change(change, audit)
        if got.word == "none":
            raise NotFoundError
        record = got.value("record")
        return codec.reading(lambda: approval_records.approval(sid, raw(name), record, 0))

    async def questions(self, principal: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return an agent's questions to a person that are open, or were until an hour ago, by expiry."""
        key = asked_key(principal)
        hinted, clock = await self._shared.connection.commands(("ZRANGE", key, 0, -1, "WITHSCORES"), ("TIME",))
        if not hinted:
            return ()
        now, members = self._shared.latest(codec.clock_ms(clock)), hinted[::2]
        named = [tuple(map(decode, text(member).split(" "))) for member in members]
        reads = [read for sid, name in named for read in _question_reads(sid, name)]
        replies = await self._shared.connection.commands(*reads)
        found, over = list[tuple[SessionState, Approval]](), list[bytes]()
        every = zip(named, members, hinted[1::2], replies[::2], replies[1::2], strict=True)
        for (sid, name), member, last, record, flat in every:
            # A record that this program cannot read must not hide the questions of other sessions.
            with suppress(SchemaError):
                one = _hinted(sid, name, flat, record, now=now)
                if sought := one.sought(now):
                    found.append(sought)
                elif one.over(int(last), now):
                    over.append(member)
        if over:
            await self._shared.connection.commands(("ZREM", key, *over))
        return tuple(sorted(found, key=lambda one: (one[1].expires_at, one[1].id)))

    async def _pending(self, sids: Sequence[str], now: int) -> list[tuple[SessionState, Approval]]:
        keys = [session_keys(sid) for sid in sids]
        # The record last: the session may rise meanwhile.
        reads = [("HGETALL", key) for one in keys for key in (one.approvals, one.state)]
        replies = await self._shared.connection.commands(*reads) if reads else []
        found = list[tuple[SessionState, Approval]]()
        for sid, asked, flat in zip(sids, replies[::2], replies[1::2], strict=True):
            if not flat or not asked:
                continue
            # A record that this program cannot read must not hide the questions of other sessions.
            with suppress(SchemaError):
                state = codec.reading(lambda sid=sid, flat=flat: codec.state(sid, flat))
                every = approvals_of(sid, asked, now, state.generation)
                found += [(state, approval) for approval in every if approval.state is ApprovalState.PENDING]
        return found


def approvals_of(sid: str, flat: Sequence[bytes], now: int, generation: int | None = None) -> tuple[Approval, ...]:
    """Read the approvals of one generation, or of all that are kept; `now` is on the store's clock, in milliseconds."""
    if not flat:
        return ()

    def read() -> tuple[Approval, ...]:
        every = (approval_records.approval(sid, name, record, now) for name, record in codec.pairs(flat).items())
        return tuple(approval for approval in every if generation in {None, approval.generation})

    return codec.reading(read)


_REMEMBERED_MS: Final = 3_600_000
"""For how many milliseconds a question, and an answer, is found after it was answered or expired."""


def asked_hint(question: Approval) -> Command:
    """Return the command that notes an agent's question among those to its asker, before it is asked."""
    # For ever is the last moment that can be written.
    last, member = min(question.expires_at + _REMEMBERED_MS, FOR_EVER), f"{encode(question.sid)} {encode(question.id)}"
    return ("ZADD", asked_key(question.principal), last, member)


def _terms(grant: Grant) -> Arguments:
    return nested({"granted_until": grant.until, "granted_left": grant.left})


def _granted_hint(approval: Approval, principal: str) -> Command:
    """Return the command that notes a grant among those of a principal, before it is given."""
    return ("ZADD", granted_key(principal), approval.asked_at, f"{encode(approval.sid)} {encode(approval.id)}")


def reminders(asked: Iterable[Approval]) -> list[Command]:
    """Return the commands that set the timers of reminders, one for each question, before it is asked.

    A timer without its question has no effect. A question without its timer would not be reminded of.
    """
    due = {f"{one.sid}/{one.asked_in}": one.remind_at for one in asked if one.remind_at}
    return [("ZADD", TIMERS, at, timer_name(TimerKind.REMIND, about)) for about, at in due.items()]


def _question_reads(sid: str, name: str) -> tuple[Command, Command]:
    keys = session_keys(sid)
    # The record last: the session may rise meanwhile.
    return ("HGET", keys.approvals, raw(name)), ("HGETALL", keys.state)


@dataclass(frozen=True, slots=True)
class _Hinted:
    """The records at a hint: a session, None for one that is gone, and the question, None for one not written."""

    state: SessionState | None
    question: Approval | None

    def sought(self, now: int) -> tuple[SessionState, Approval] | None:
        """Return both, unless the question is of an older generation, or long over."""
        state, question = self.state, self.question
        if state is None or question is None or question.generation != state.generation:
            return None
        ended = question.resolved_at or question.expires_at
        return (state, question) if now < ended + _REMEMBERED_MS else None

    def grants(self, now: int) -> bool:
        """Say whether there is a grant, of this generation, that still covers calls."""
        state, question = self.state, self.question
        if state is None or question is None or question.generation != state.generation or question.grant is None:
            return False
        return question.grant.ended_at(now) is None

    def over(self, last: int, now: int) -> bool:
        """Say whether the hint has no use; a question that is not written yet may follow right after its hint."""
        return self.question is not None or self.state is None or last < now


def _hinted(sid: str, name: str, flat: Sequence[bytes], record: bytes | None, *, now: int) -> _Hinted:
    """Read an agent's question with its session."""
    state = codec.reading(lambda: codec.state(sid, flat)) if flat else None
    if state is None or state.status is Status.DELETED:
        return _Hinted(None, None)
    return _Hinted(
        state, None if record is None else codec.reading(lambda: approval_records.approval(sid, raw(name), record, now))
    )


class RedisQuestionCopies:
    """Implements the port `QuestionCopyStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def copies(self, sid: str = "") -> tuple[QuestionCopy, ...]:
        """Return the copies of questions that are decided or gone."""
        found, cursor = dict[QuestionCopy, None](), b"0"
        while True:
            scan = ("SSCAN", COPIES, cursor, "MATCH", f"{encode(sid)} *" if sid else "*", "COUNT", _PAGE)
            ((cursor, members),) = await self._shared.connection.commands(scan)
            found |= dict.fromkeys(map(_copy, members))
            if cursor == b"0":
                break
        settled = await self._settled([copy for copy in found if copy.holder])
        asked = [copy for copy in found if not copy.holder]
        return (*settled, *await self._answered(asked))

    async def _settled(self, told: list[QuestionCopy]) -> list[QuestionCopy]:
        """Return the notices about items that are not held any more."""
        if not told:
            return []
        held = await self._shared.connection.commands(
            *(("HEXISTS", session_keys(copy.holder).held, raw(copy.asked)) for copy in told)
        )
        return [copy for copy, there in zip(told, held, strict=True) if not there]

    async def _answered(self, found: list[QuestionCopy]) -> list[QuestionCopy]:
        """Return the copies of questions that are not asked any more."""
        sids = list(dict.fromkeys(copy.sid for copy in found))
        if not sids:
            return []
        *records, clock = await self._shared.connection.commands(
            *(("HGETALL", session_keys(one).approvals) for one in sids), ("TIME",)
        )
        now = self._shared.latest(clock_ms(clock))
        asking, readable = set[tuple[str, str]](), set[str]()
        for one, flat in zip(sids, records, strict=True):
            # A copy that cannot be read now is closed when it can be.
            with suppress(SchemaError):
                every = approvals_of(one, flat, now)
                asking |= {(one, approval.asked_in) for approval in every if approval.state is ApprovalState.PENDING}
                readable.add(one)
        return [copy for copy in found if copy.sid in readable and (copy.sid, copy.asked) not in asking]

    async def copied(self, copy: QuestionCopy) -> tuple[Delivery | None, tuple[Approval, ...]]:
        """Return the delivery of a copy, None if it is forgotten, and the approvals it asked for as they stand."""
        keys = session_keys(copy.sid)
        record, flat, clock = await self._shared.connection.commands(
            ("HGET", keys.outbox, raw(copy.key)), ("HGETALL", keys.approvals), ("TIME",)
        )
        every = approvals_of(copy.sid, flat, self._shared.latest(clock_ms(clock)))
        asked = tuple(sorted((one for one in every if one.asked_in == copy.asked), key=lambda one: one.id))
        if record is None:
            return None, asked
        got = reading(lambda: unpack(DELIVERY, record))
        fetched = await self._shared.fetch(keys, [got["body"]])
        return reading(lambda: codec.delivery(copy.sid, raw(copy.key), got, fetched)), asked

    async def uncopied(self, copy: QuestionCopy) -> None:
        """Forget a copy."""
        await self._shared.connection.commands(("SREM", COPIES, copy_member(copy)))


def copy_member(copy: QuestionCopy) -> str:
    """Return the member for a copy in the set of all copies."""
    return " ".join(map(encode, (copy.sid, copy.asked, copy.key, copy.holder)))


def _copy(stored: bytes) -> QuestionCopy:
    return QuestionCopy(*map(decode, text(stored).split(" ")))


class RedisAlternatives:
    """Implements the port `AlternativeStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def make_offer(self, offer: Alternative, life: int) -> None:
        """Keep an offer for `life` milliseconds."""
        args = {"offer": stored(_written(offer)), "life": life}
        await self._shared.run(call(Script.MAKE_OFFER, {"offer": offer_key(offer.code)}, args))

    async def offer(self, code: str) -> tuple[Alternative, Way | None] | None:
        """Return an offer and the way it was taken, None if there is no such offer."""
        ((record, way),) = await self._shared.connection.commands(("HMGET", offer_key(code), "offer", "way"))
        if record is None:
            return None
        return codec.reading(lambda: (_read(code, record), None if way is None else Way(text(way))))

    async def take_offer(self, code: str, way: Way) -> Way | None:
        """Take an offer in a way, unless it was taken before; return the way it was taken first."""
        got = await self._shared.run(call(Script.TAKE_OFFER, {"offer": offer_key(code)}, {"way": way.value}))
        return None if got.word == "none" else Way(got.text("way"))


def _written(offer: Alternative) -> Values:
    return {
        "wanted": offer.wanted.value,
        "session": offer.sid,
        "generation": offer.generation,
        "turn": offer.turn,
        "principal": offer.principal,
        "binding": offer.binding,
        "label": str(offer.label),
        "told": str(offer.told),
        "private": offer.private,
        "parent": offer.parent,
        "recipients": dump(list(offer.recipients)),
    }


def _read(code: str, record: bytes) -> Alternative:
    got = unpack(ALTERNATIVE, record)
    return Alternative(
        code=code,
        wanted=Wanted(got["wanted"]),
        sid=got["session"],
        generation=got["generation"],
        turn=got["turn"],
        principal=got["principal"],
        binding=got["binding"],
        label=parse(got["label"]),
        told=parse(got["told"]),
        private=got["private"],
        parent=got["parent"],
        recipients=tuple((alias, meant) for alias, meant in cast("list[list[str]]", json.loads(got["recipients"]))),
    )
