"""The session part of the store: accepting, claiming, writing, and reading."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NoReturn
from urllib.parse import unquote

from bot.core.errors import (
    ArchivedError,
    AskedError,
    BusyError,
    DedupeConflictError,
    DeletedError,
    ElsewhereError,
    ForeignError,
    GrantEndedError,
    IllegalMoveError,
    LeaseLostError,
    NotFoundError,
    RequestError,
    ResetError,
    SchemaError,
    SealedError,
    StoreRefusedError,
    UnsettledError,
    WithdrawnError,
    WornError,
)
from bot.sessions import refs
from bot.sessions.audit import AuditRow
from bot.sessions.exports import ImportedSession
from bot.sessions.inbox import (
    Accepted,
    InboxItem,
    ItemOutcome,
    ItemStatus,
    NewItem,
    Stopped,
)
from bot.sessions.log.events import Event
from bot.sessions.log.serialization import message_json
from bot.sessions.models import Claim, ReadPosition, SessionState, Status, Title, Write, Written
from bot.store.approvals import approvals_of, asked_hint, reminders
from bot.store.calls import Arguments, ScriptAnswer, nested, session_call
from bot.store.losses.losses import RedisLosses
from bot.store.records import approvals as approval_records
from bot.store.records import codec, run_parts
from bot.store.records.codec import Bodies, digest, dump, raw, text
from bot.store.records.form import complete, stored, unpack
from bot.store.records.kinds import ITEM, TURN
from bot.store.records.marks import LogMark
from bot.store.run_steps import run_arguments
from bot.store.schema import AUDIT, OPEN, SessionKeys, asked_key, encode, pace_keys, session_keys, sid_of
from bot.store.scripts.loader import Script
from bot.store.servers.connection import Reply
from bot.store.session_index import Filing, place_of
from bot.store.shared import POLICY_ASKED, Place, SessionChange, Shared
from policy.labels import Label, join_all


class RedisSessions:
    """Implements the port `SessionStore`."""

    def __init__(self, shared: Shared, filing: Filing, losses: RedisLosses) -> None:
        self._shared = shared
        self._filing = filing
        self._losses = losses

    @property
    def process(self) -> str:
        """This process's name at the store."""
        return self._shared.process

    async def accept(self, item: NewItem, *, unless_asked: bool = False) -> Accepted:
        """Append an input to its session's inbox, creating the session, and mark the session ready."""
        if item.sid == AUDIT:
            raise ValueError(item.sid)
        bodies = Bodies()
        keys, looks = session_keys(item.sid), nested({})
        if unless_asked:
            keys, looks = await self._looking(item)
        args = {**self._input(item, bodies), "op": self._shared.ids.op(), **looks}
        known = self._shared.places.get(item.sid, (item.principal, item.creation))
        likely = (known[0], known[1].join(item.label))
        self._shared.queue.guess(item.sid, item.principal, background=bool(item.lineage or item.charter))
        got = await self._shared.run(
            session_call(Script.ACCEPT, keys, args, bodies=bodies),
            self._shared.ready_hint(item.sid),
            ("SADD", OPEN, raw(item.sid)),
            ("UNLINK", pace_keys(item.home).gone),
            *self._filing.file(item.sid, likely),
        )
        if got.word in {"asked", "conflict", "none", "sealed"}:
            # The hints were written although the input was left out.
            await self._filing.refile([item.sid])
        _refuse_input(got)
        self._shared.marks.accepted(self._shared.clock.monotonic(), item, unless_asked=unless_asked)
        # It is accepted: labels that this program cannot read concern the worker of the session.
        with suppress(SchemaError):
            labels = [got.text(name) for name in ("taint", "creation", "inbox_label")]
            place = (got.text("principal"), codec.reading(lambda: join_all(map(codec.label, labels))))
            if place != likely:
                # It was not known here before: once for each process and session, the hint takes a request of its own.
                await self._shared.connection.commands(*self._filing.file(item.sid, place))
        status = codec.reading(lambda: ItemStatus(got.text("status")))
        return Accepted(
            got.number("position"),
            status,
            got.flag("duplicate"),
            got.text("stopping"),
            rests=got.flag("rests"),
            created_at=got.number("created"),
        )

    def _input(self, item: NewItem, bodies: Bodies) -> Arguments:
        """Return the arguments of an input, and of the session that it creates."""
        # Sorted, so that the same object redelivered in another order is the same input.
        body = dump(message_json(item.body), sort=True)
        return {
            "item": nested(
                {
                    "label": str(item.label),
                    "dedupe": item.dedupe,
                    "sender": item.sender,
                    "part": item.part or None,
                    "body": bodies.put(body),
                    "digest": digest(body),
                    "refs": refs.written(item.refs),
                }
            ),
            "home": item.home,
            "principal": item.principal,
            "creation": str(item.creation),
            "limit": self._shared.options.inbox_limit,
            "lineage": stored(codec.lineage(item.lineage)) if item.lineage else None,
            "charter": stored(run_parts.charter(item.charter)) if item.charter else None,
            "reserved": item.reserved,
            "agent": item.agent or None,
            "memory": None if item.memory is None else item.memory.value,
            "created_with": item.created_with or None,
            "metadata": stored(codec.metadata(item.metadata)) if item.metadata else None,
            "mode": None if item.mode is None else item.mode.value,
            "reader": None if item.reader is None else str(item.reader),
        }

    async def _looking(self, item: NewItem) -> tuple[SessionKeys, Arguments]:
        """Return the keys and arguments by which an input is accepted only if its sender has no open question.

        One server looks for questions in the same step. On a Cluster they are at another one, which is asked before.
        """
        keys, asked = session_keys(item.sid), asked_key(item.sender)
        if self._shared.connection.ordered:
            return replace(keys, asked=asked), {"unless_asked": True}
        (there,) = await self._shared.connection.commands(("EXISTS", asked))
        return keys, {"unless_asked": True, "asked": there > 0}

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
        """Take a session with a lease, if there is work, no live lease, and it lives on one of the channels."""
        limits = self._shared.options
        read = known and nested({"generation": known.generation, "context": known.context, "seq": known.seq})
        args = {
            "owner": owner,
            "known": read,
            "idle": idle,
            "lease": limits.lease_ms,
            "items": limits.claim_items,
            "events": limits.claim_events,
            "debounce": limits.debounce_ms,
            "longest": limits.parts_ms,
            "most": most,
            "channels": [encode(channel) for channel in channels],
            "doubt": self._shared.doubt(),
        }
        if self._shared.marks.of(sid).deleted:
            # If it is there again, its deletion was lost and is repeated.
            await self._losses.note(sid)
            return None
        claim = await self._claimed(sid, owner, args)
        if claim is not None and await self._losses.short(claim):
            # The note of a loss took the lease away, and the turn begins with it in its log.
            if await self._losses.note(sid) is not None:
                claim = await self._claimed(sid, owner, args)
            if claim is not None:
                self._shared.marks.claimed(claim)
        return claim

    async def _claimed(self, sid: str, owner: str, args: Arguments) -> Claim | None:
        keys, limits = session_keys(sid), self._shared.options
        got = await self._shared.run_asking(session_call(Script.CLAIM, keys, args))
        if got.word == "none":
            return None
        _refuse_claim(got)
        now, record, entries = got.number("now"), codec.pairs(got.list("state")), got.list("events")
        state, audit, fence, noted = codec.reading(
            lambda: (
                codec.state_of(sid, record),
                codec.audit_head(record),
                codec.fence(record),
                codec.truncated(record),
            )
        )
        self._shared.saw_head(sid, audit, noted)
        self._filing.remember(sid, place_of(state))
        self._shared.queue.know(sid, state.principal, background=state.background is not None)
        events = await self._shared.events(keys, entries)
        if len(entries) == limits.claim_events:
            events += await self._events_between(sid, events[-1].seq, state.seq)
        return Claim(
            sid=sid,
            owner=owner,
            fence=fence,
            now=now,
            state=state,
            items=await self._read_items(keys, got.list("items")),
            events=events,
            approvals=approvals_of(sid, got.list("approvals"), self._shared.latest(now), state.generation),
            audit=audit,
        )

    async def record(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        """Write in the middle of a turn, and prolong the lease."""
        return await self._write(Script.RAISE_TAINT, claim, write, sender)

    async def commit(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        """Write at the end of a turn, and give the lease back."""
        return await self._write(Script.COMMIT, claim, write, sender)

    async def _write(self, script: Script, claim: Claim, write: Write, sender: str) -> Written:
        keys, bodies = session_keys(claim.sid), Bodies()
        args = self._write_arguments(claim, write, sender, bodies)
        # Before: a hint without its question is ignored, a question without its hint would not be found.
        if asked := [*(asked_hint(one) for one in write.ask if one.is_question), *reminders(write.ask)]:
            await self._shared.connection.commands(*asked)
        place, was = self._place_after(claim, write), self._shared.places.get(claim.sid)
        # Listeners must see a raise at once; but no one is to learn anything from the time of each step.
        hints = self._filing.file(claim.sid, place) if script is Script.COMMIT or place != was else []

        async def run(audit: Arguments | None) -> ScriptAnswer:
            call = session_call(script, keys, {**args, "audit": audit}, op=write.op, bodies=bodies)
            # The texts it delivers are then sent by this policy or not at all.
            return await (self._shared.run_asking if write.deliver else self._shared.run)(call, *hints)

        got = await self._shared.chaining(claim.sid, write.audit, run)
        if got.word != "ok":
            # The hints were written although the write was refused.
            await self._filing.refile([claim.sid])
            if got.word in _LOST:
                await self._losses.note_refused(claim.sid)
            _refuse(got)
        now = got.number("now")
        self._shared.time.saw(now)
        if write.run is not None and write.run.continuation:
            # Accepted without `accept`, it is in no hint yet.
            await self._shared.connection.commands(("SADD", OPEN, raw(claim.sid)))
        await self._shared.mark_ready(claim.sid, got)
        taint, mode = codec.reading(lambda: (codec.label(got.text("taint")), codec.mode(got.text("mode"))))
        written = Written(
            seq=got.number("seq"),
            taint=taint,
            now=now,
            audit=codec.head(got.value("audit_seq"), got.value("audit_hash")),
            stop=got.flag("stop"),
            behind=frozenset(map(text, got.list("behind"))),
            waiting=got.number("waiting"),
            mode=mode,
            risen=got.flag("risen"),
        )
        self._shared.marks.wrote(claim, written, len(write.events))
        return written

    def _write_arguments(self, claim: Claim, write: Write, sender: str, bodies: Bodies) -> Arguments:
        limits = self._shared.options
        return {
            "claim": claim_argument(claim),
            "seen": self._shared.time.wall_ms(),
            "lease": limits.lease_ms,
            "keep": limits.keep_ms,
            "send_lease": limits.send_lease_ms,
            "sender": sender or None,
            "op": write.op,
            **change_arguments(write, bodies),
        }

    def _place_after(self, claim: Claim, write: Write) -> Place:
        """Return the place of a session in listings after a write: only admitted events can raise its visibility."""
        who, label = self._shared.places.get(claim.sid, place_of(claim.state))
        return who, join_all((event.label for event in write.events if event.admitted), start=label)

    async def renew(self, claim: Claim) -> bool:
        """Prolong the lease; return whether a stop was asked for."""
        args = {"claim": claim_argument(claim), "lease": self._shared.options.lease_ms}
        got = await self._shared.run(session_call(Script.RENEW, session_keys(claim.sid), args))
        if got.word != "ok":
            _refuse(got)
        return got.flag("stop")

    async def release(self, claim: Claim) -> None:
        """Give the lease back without writing; a stale one is ignored."""
        args = {"claim": claim_argument(claim)}
        got = await self._shared.run(session_call(Script.RELEASE, session_keys(claim.sid), args))
        await self._shared.mark_ready(claim.sid, got, again=True)

    async def stop(self, sid: str, *, actor: str, reader: Label | None = None) -> Stopped:
        """Ask the running turn to stop and cancel the waiting inputs."""
        told = None if reader is None else str(reader)
        args = {"actor": actor, "keep": self._shared.options.keep_ms, "reader": told}
        got = await self._shared.run(session_call(Script.STOP, session_keys(sid), args, op=self._shared.ids.op()))
        await self._shared.mark_ready(sid, got)
        return Stopped(got.flag("open"), got.number("cancelled"), tuple(map(int, got.list("unanswered"))))

    async def reset(
        self, sid: str, *, op: str, actor: str, audit: tuple[AuditRow, ...], agent: str = ""
    ) -> SessionState:
        """Start a new generation."""
        options = self._shared.options
        args = {"actor": actor, "keep": options.keep_ms, "keep_dead": options.keep_dead_ms, "agent": agent or None}
        got = await self._shared.change(SessionChange(Script.RESET, sid, args, op), audit)
        refuse_change(got)
        record = codec.pairs(got.list("state"))
        state, head, noted = codec.reading(
            lambda: (codec.state_of(sid, record), codec.audit_head(record), codec.truncated(record))
        )
        self._shared.saw_head(sid, head, noted)
        self._shared.marks.read(state, codec.fence(record), ())
        await self._shared.connection.commands(*self._filing.file(sid, place_of(state), state.updated_at))
        return state

    async def import_session(self, new: ImportedSession, audit: tuple[AuditRow, ...]) -> bool:
        """Create a session of imported events, in one step; return False if it exists already."""
        bodies, op = Bodies(), self._shared.ids.op()
        args = {
            "events": [stored({**codec.new_event(one.event, bodies), "time": one.ts}) for one in new.events],
            "home": new.home,
            "principal": new.principal,
            "creation": str(new.creation),
            "title": None if new.title is None else stored(codec.title(new.title)),
            "last_turn": None if new.last_turn is None else stored(codec.last_turn(new.last_turn)),
        }
        change = SessionChange(Script.IMPORT_SESSION, new.sid, args, op, bodies)
        got = await self._shared.change(change, audit)
        if got.word == "sealed":
            raise SealedError
        # Also if it existed: the process that imported it may have ended before it was filed.
        await self._filing.refile([new.sid])
        return got.word == "ok"

    async def name(self, sid: str, title: Title | None) -> None:
        """Give a session a title, or take it away."""
        args = {"title": None if title is None else stored(codec.title(title))}
        got = await self._shared.run(session_call(Script.NAME, session_keys(sid), args))
        refuse_change(got)

    async def waiting(self, sid: str) -> tuple[InboxItem, ...]:
        """Return the inputs that wait, oldest first."""
        keys = session_keys(sid)
        (items,) = await self._shared.connection.commands(("LRANGE", keys.inbox, 0, -1))
        return await self._read_items(keys, items)

    async def outcome(self, sid: str, dedupe: str) -> ItemOutcome | None:
        """Return the outcome of the input with a dedupe key, None if there was none or it was forgotten."""
        keys, key = session_keys(sid), raw(dedupe)
        asked = (("HGET", keys.inputs, key), ("HEXISTS", keys.held_ids, key))
        known, held = await self._shared.connection.commands(*asked)
        if held:
            return ItemOutcome(ItemStatus.HELD)
        return None if known is None else codec.reading(lambda: codec.outcome(known))

    async def state(self, sid: str) -> SessionState | None:
        """Return the session's record, None if there is none."""
        (flat,) = await self._shared.connection.commands(("HGETALL", session_keys(sid).state))
        state = codec.reading(lambda: codec.state(sid, flat)) if flat else None
        return None if state is None or state.status is Status.DELETED else state

    async def events(self, sid: str, *, after: int = 0, limit: int = 1000) -> tuple[Event, ...]:
        """Return events with seq > `after`, oldest first."""
        keys = session_keys(sid)
        (entries,) = await self._shared.connection.commands(("XRANGE", keys.log, f"{after + 1}-0", "+", "COUNT", limit))
        return await self._shared.events(keys, entries)

    async def news(
        self, sid: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[tuple[Event, ...], SessionState | None]:
        """Return events with seq > `after`, oldest first, and the record, which is read after them."""
        known, (entries, flat, last) = await self._news(sid, after, limit)
        if flat and self._losses.differs(codec.pairs(flat), last, known):
            # Its reader may have read events that are lost: the next numbers are taken by their note.
            await self._losses.note(sid)
            known, (entries, flat, last) = await self._news(sid, after, limit)
        state = codec.reading(lambda: codec.state(sid, flat)) if flat else None
        if state is None or state.status is Status.DELETED or known.deleted:
            return (), None
        keys, record = session_keys(sid), codec.pairs(flat)
        events = await self._shared.events(keys, entries)
        if not self._losses.differs(record, last, known):
            self._shared.marks.read(state, codec.fence(record), events)
        return events, state

    async def _news(self, sid: str, after: int, limit: int) -> tuple[LogMark, tuple[Reply, Reply, Reply]]:
        """Return the known state, events, the record, and the event that was known last."""
        keys, known = session_keys(sid), self._shared.marks.of(sid)
        entries, flat, last, policy = await self._shared.connection.commands(
            ("XRANGE", keys.log, f"{after + 1}-0", "+", "COUNT", limit),
            ("HGETALL", keys.state),
            ("XRANGE", keys.log, f"{known.seq}-0", f"{known.seq}-0"),
            POLICY_ASKED,
        )
        self._shared.saw_policy(policy)
        return known, (entries, flat, last)

    async def events_at(self, sid: str, seqs: Sequence[int]) -> tuple[Event, ...]:
        """Return the events with these seqs, in this order; a seq that the log does not have is left out."""
        keys = session_keys(sid)
        asked = [("XRANGE", keys.log, f"{seq}-0", f"{seq}-0") for seq in seqs]
        found = await self._shared.connection.commands(*asked)
        return await self._shared.events(keys, [entry for entries in found for entry in entries])

    async def states(self) -> AsyncIterator[SessionState]:
        """Walk all readable sessions, in no order; one that comes or goes meanwhile may be left out."""
        async for _, state in self.walk():
            if state is not None:
                yield state

    async def walk(self) -> AsyncIterator[tuple[str, SessionState | None]]:
        """Walk the ids of all sessions with their records, None for an unreadable record; an id may come twice."""
        async for key, flat in self._states():
            try:
                state = _state_at(key, flat)
            except SchemaError:
                state = None
            if state is None or state.status is not Status.DELETED:
                yield sid_of(key), state

    async def _states(self) -> AsyncIterator[tuple[bytes, Sequence[bytes]]]:
        async for page in self._shared.state_pages():
            for key, flat in zip(
                page, await self._shared.connection.commands(*(("HGETALL", key) for key in page)), strict=True
            ):
                if flat:
                    yield key, flat

    async def _events_between(self, sid: str, after: int, head: int) -> tuple[Event, ...]:
        events = list[Event]()
        while after < head:
            events += await self.events(sid, after=after, limit=min(self._shared.options.claim_events, head - after))
            after = events[-1].seq
        return tuple(events)

    async def _read_items(self, keys: SessionKeys, items: Sequence[bytes]) -> tuple[InboxItem, ...]:
        got = codec.reading(lambda: [unpack(ITEM, item) for item in items])
        fetched = await self._shared.fetch(keys, [one["body"] for one in got])
        return codec.reading(lambda: tuple([codec.item(one, fetched) for one in got]))


def _state_at(key: bytes, flat: Sequence[bytes]) -> SessionState:
    return codec.reading(lambda: codec.state(sid_of(key), flat))


def illegal(got: ScriptAnswer) -> RequestError:
    """Turn a status change that is not allowed into an error."""
    before, after = got.text("before"), got.text("after")
    match before:
        case Status.ARCHIVED:
            return ArchivedError()
        case Status.DELETED:
            return DeletedError()
        case _:
            return IllegalMoveError(before, after)


def refuse_change(got: ScriptAnswer) -> None:
    """Turn a script's refusal of an operation on a session into an error."""
    match got.word:
        case "none":
            raise NotFoundError
        case "move":
            raise illegal(got)
        case "busy":
            raise BusyError
        case _:
            pass


def _refuse_input(got: ScriptAnswer) -> None:
    """Turn a script's refusal of an input into an error."""
    match got.word:
        case "conflict":
            raise DedupeConflictError
        case "busy":
            raise BusyError
        case "none":
            raise NotFoundError
        case "foreign":
            raise ForeignError
        case "sealed":
            raise SealedError
        case "asked":
            raise AskedError("its sender may be asked something")
        case "move":
            raise illegal(got)
        case _:
            pass


def _refuse_claim(got: ScriptAnswer) -> None:
    """Turn a script's refusal of a claim into an error."""
    match got.word:
        case "elsewhere":
            raise ElsewhereError
        case "unsettled":
            raise UnsettledError(got.number("wait") / 1000)
        case "worn":
            raise WornError(got.number("tries"))
        case _:
            pass


def _refuse(got: ScriptAnswer) -> NoReturn:
    """Turn a script's refusal of a write into an error."""
    word = got.word
    if word == "reset":
        raise ResetError("the session was reset; this turn's work is dropped")
    if word == "use":
        raise NotFoundError
    if word == "grant":
        raise GrantEndedError
    if word == "move":
        raise illegal(got)
    if word == "item":
        raise WithdrawnError("the input was withdrawn")
    if word == "taken":
        raise StoreRefusedError("an approval of this id exists already", next_step="ask again", alone=True)
    raise LeaseLostError(_LOST[word])


_LOST: Final = MappingProxyType(
    {
        "stale": "another worker has the session",
        "cursor": "the session's log moved on",
    }
)


def claim_argument(claim: Claim) -> Arguments:
    """Return the proof that a claim still holds."""
    return nested({"generation": claim.state.generation, "fence": claim.fence, "owner": claim.owner})


def change_arguments(write: Write, bodies: Bodies) -> Arguments:
    """Return the arguments of a write."""
    end = write.end
    return {
        "cursor": write.cursor,
        "release": write.release,
        "take": write.take,
        "also": list(write.also),
        "use": write.use,
        "grant": None if write.grant is None else nested({"id": write.grant.grant, "call": write.grant.call}),
        "ended": [nested({"id": one.grant, "reason": one.end.value}) for one in write.ended],
        "status": None if write.status is None else write.status.value,
        "turn": complete(TURN, codec.turn(write.turn)) if write.turn else None,
        "chooses_model": write.model is not None,
        "model": write.model or None,
        "memory": None if write.memory is None else write.memory.value,
        "last_turn": stored(codec.last_turn(end)) if end else None,
        "context_seq": write.context,
        "usage": stored(codec.usage(write.usage)),
        "settle": [nested({"position": position, "status": status.value}) for position, status in write.settle],
        "ask": [nested({"id": one.id, "approval": stored(approval_records.new_approval(one))}) for one in write.ask],
        "deliver": [
            {"key": one.key, "delivery": stored(codec.new_delivery(one, channel_of(one.address), bodies))}
            for one in write.deliver
        ],
        "events": [stored(codec.new_event(one, bodies)) for one in write.events],
        **run_arguments(write, bodies),
    }


def channel_of(address: str) -> str:
    """Return the channel of an address' text as the outbox notes it, so that a sender takes only its own channels."""
    return encode(unquote(address.partition(":")[0]))
