"""The session part of the store: accept, claim, write, and what is read back."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NoReturn
from urllib.parse import unquote

from bot.core.errors import (
    ArchivedError,
    BusyError,
    DedupeConflictError,
    ElsewhereError,
    ForeignError,
    IllegalMoveError,
    LeaseLostError,
    NotFoundError,
    RequestError,
    ResetError,
    SchemaError,
    StoreRefusedError,
    UnsettledError,
    WithdrawnError,
    WornError,
)
from bot.sessions.audit import AuditRow
from bot.sessions.events import Event, NewEvent
from bot.sessions.inbox import (
    Accepted,
    InboxItem,
    ItemOutcome,
    ItemStatus,
    NewItem,
    NewObserved,
    Observed,
    QueueMode,
    Stopped,
)
from bot.sessions.models import Claim, ReadPosition, SessionState, Status, Title, Write, Written
from bot.sessions.serialization import event_json, message_json
from bot.store import codec
from bot.store.approvals import approvals_of
from bot.store.codec import Bodies, dump, raw, text
from bot.store.connection import Arg, Reply
from bot.store.schema import AUDIT, OPEN, SessionKeys, encode, pace_keys, session_keys, sid_of
from bot.store.scripts import Script
from bot.store.session_index import Filing, place_of
from bot.store.shared import POLICY_ASKED, Place, Shared
from policy.labels import Label, join_all


class RedisSessions:
    """Implements the port `SessionStore`."""

    def __init__(self, shared: Shared, filing: Filing) -> None:
        self._shared = shared
        self._filing = filing

    @property
    def process(self) -> str:
        """This process's name at the store."""
        return self._shared.process

    async def accept(self, item: NewItem) -> Accepted:
        """Append an input to its session's inbox, creating the session, and mark the session ready."""
        if item.sid == AUDIT:
            raise ValueError(item.sid)
        keys, bodies = session_keys(item.sid), Bodies()
        # Sorted, so that the same object redelivered in another order is the same input.
        body = dump(message_json(item.body), sort=True)
        digest = hashlib.sha256(body).hexdigest()[:32]
        args: list[Arg] = [raw(item.dedupe), digest, self._shared.ids.op(), raw(item.sender), str(item.label)]
        args += [
            bodies.put(body),
            raw(item.home),
            raw(item.principal),
            str(item.creation),
            self._shared.options.inbox_limit,
        ]
        args += [codec.lineage(item.lineage) if item.lineage else "", item.reserved]
        known = self._shared.places.get(item.sid, (item.principal, item.creation))
        likely = (known[0], known[1].join(item.label))
        reply = await self._shared.connection.script(
            Script.ACCEPT,
            [keys.state, keys.log, keys.inbox, keys.idem, keys.approvals, *_body_keys(keys, bodies)],
            [*args, *bodies.large.values()],
            self._shared.ready_hint(item.sid),
            ("SADD", OPEN, raw(item.sid)),
            ("UNLINK", pace_keys(item.home).gone),
            *self._filing.file(item.sid, likely),
        )
        if reply[0] == b"conflict":
            raise DedupeConflictError("the same input came before with another content")
        if reply[0] == b"busy":
            raise BusyError
        if reply[0] == b"foreign":
            raise ForeignError
        if reply[0] == b"move":
            raise _illegal(reply)
        # It is accepted: labels that this program cannot read are for who works on the session to meet.
        with suppress(SchemaError):
            place = (text(reply[5]), codec.reading(lambda: join_all(map(codec.label, reply[6:]))))
            if place != likely:
                # It was not known here before: once a process and session, the hint takes an exchange of its own.
                await self._shared.connection.commands(*self._filing.file(item.sid, place))
        return Accepted(int(reply[1]), ItemStatus(text(reply[2])), bool(reply[3]), text(reply[4]))

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
        """Take a session with a lease, if there is work, nobody holds it, and it lives on one of the channels."""
        keys, limits = session_keys(sid), self._shared.options
        args: list[Arg] = [owner, *((0, 0, 0) if known is None else (known.generation, known.context, known.seq))]
        args += [int(idle), limits.lease_ms, limits.claim_items, limits.claim_events]
        args += [limits.debounce_ms, most]
        args += map(encode, channels)
        names = [keys.state, keys.log, keys.inbox, keys.approvals]
        reply, policy = await self._shared.connection.script_asking(Script.CLAIM, names, args, POLICY_ASKED)
        self._shared.saw_policy(policy)
        if reply[0] == b"none":
            return None
        if reply[0] == b"elsewhere":
            raise ElsewhereError
        if reply[0] == b"unsettled":
            raise UnsettledError(int(reply[1]) / 1000)
        if reply[0] == b"worn":
            raise WornError(int(reply[1]))
        _, now, flat, items, entries, approvals = reply
        self._shared.saw_now(now)
        state = codec.reading(lambda: codec.state(sid, flat))
        audit = codec.audit_head(flat)
        self._shared.saw_head(sid, audit)
        self._filing.remember(sid, place_of(state))
        events = await self._read_events(keys, entries)
        if len(entries) == limits.claim_events:
            events += await self._events_between(sid, events[-1].seq, state.seq)
        return Claim(
            sid=sid,
            owner=owner,
            fence=codec.fence(flat),
            now=now,
            state=state,
            items=await self._read_items(keys, items),
            events=events,
            approvals=approvals_of(sid, approvals, now, state.generation),
            audit=audit,
        )

    async def record(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        """Write in the middle of a turn, and prolong the lease."""
        return await self._write(Script.RAISE_TAINT, claim, write, sender)

    async def commit(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        """Write at the end of a turn, and give the lease back."""
        return await self._write(Script.COMMIT, claim, write, sender)

    async def _write(self, script: Script, claim: Claim, write: Write, sender: str) -> Written:
        keys, bodies, limits = session_keys(claim.sid), Bodies(), self._shared.options
        before = claim_args(claim) + change_args(write, lease_ms=limits.lease_ms, keep_ms=limits.keep_ms)
        before += delivery_args(write, bodies, sender=sender, op=write.op, lease_ms=limits.send_lease_ms)
        after = [*event_args(write.events, bodies), *bodies.large.values()]
        names = [keys.state, keys.log, keys.inbox, keys.idem, keys.outbox, keys.approvals, keys.audit]
        names += [keys.op(write.op), *_body_keys(keys, bodies)]

        place, was = self._place_after(claim, write), self._shared.places.get(claim.sid)
        # Who listens for what goes on has to see a raise at once, but the time of each step tells nobody anything.
        hints = self._filing.file(claim.sid, place) if script is Script.COMMIT or place != was else []

        async def run(audit: list[Arg]) -> list[Reply]:
            args = [*before, *audit, *after]
            if not write.deliver:
                return await self._shared.connection.script(script, names, args, *hints)
            # What is said next is said by this policy or not at all.
            said, policy = await self._shared.connection.script_asking(script, names, args, POLICY_ASKED, *hints)
            self._shared.saw_policy(policy)
            return said

        reply = await self._shared.chaining(claim.sid, write.audit, run)
        if reply[0] != b"ok":
            # The hints went along with what was not written.
            await self._filing.refile([claim.sid])
            _refuse(reply)
        _, seq, taint, now, n, digest, stop, ready, behind, waiting, mode, risen = reply
        self._shared.saw_now(now)
        head = (int(n), text(digest))
        self._shared.saw_head(claim.sid, head)
        await self._shared.mark_ready(claim.sid, ready)
        kept = frozenset(map(text, behind))
        return Written(
            seq=int(seq),
            taint=codec.label(taint),
            now=now,
            audit=head,
            stop=bool(stop),
            behind=kept,
            waiting=int(waiting),
            mode=codec.mode(mode),
            risen=bool(risen),
        )

    def _place_after(self, claim: Claim, write: Write) -> Place:
        """Return where a session belongs after a write: what it admits is all that can raise its visibility."""
        who, label = self._shared.places.get(claim.sid, place_of(claim.state))
        return who, join_all((event.label for event in write.events if event.admitted), start=label)

    async def renew(self, claim: Claim) -> bool:
        """Prolong the lease; return whether a stop was asked for."""
        args = [*claim_args(claim), self._shared.options.lease_ms]
        reply = await self._shared.connection.script(Script.RENEW, [session_keys(claim.sid).state], args)
        if reply[0] != b"ok":
            _refuse(reply)
        return bool(reply[1])

    async def release(self, claim: Claim) -> None:
        """Give the lease back without writing; a stale one is ignored."""
        keys = session_keys(claim.sid)
        reply = await self._shared.connection.script(Script.RELEASE, [keys.state, keys.approvals], claim_args(claim))
        await self._shared.mark_ready(claim.sid, reply[1])

    async def stop(self, sid: str, *, actor: str, reader: Label | None = None) -> Stopped:
        """Ask the running turn to stop and cancel what waits."""
        keys = session_keys(sid)
        names = [keys.state, keys.inbox, keys.idem, keys.approvals, keys.op(self._shared.ids.op()), keys.outbox]
        told = "" if reader is None else str(reader)
        reply = await self._shared.connection.script(
            Script.STOP, names, [raw(actor), self._shared.options.keep_ms, told]
        )
        _, running, cancelled, ready, *unanswered = reply
        await self._shared.mark_ready(sid, ready)
        return Stopped(bool(running), int(cancelled), tuple(map(int, unanswered)))

    async def reset(self, sid: str, *, op: str, actor: str, audit: tuple[AuditRow, ...]) -> SessionState:
        """Start a new generation."""
        keys = session_keys(sid)
        names = [keys.state, keys.log, keys.inbox, keys.idem, keys.outbox, keys.approvals, keys.audit, keys.op(op)]
        names += [keys.held, keys.observed, keys.held_ids]

        async def run(rows: list[Arg]) -> list[Reply]:
            keep = (self._shared.options.keep_ms, self._shared.options.keep_dead_ms)
            return await self._shared.connection.script(Script.RESET, names, [raw(actor), *keep, *rows])

        reply = await self._shared.chaining(sid, audit, run)
        if reply[0] == b"none":
            raise NotFoundError
        if reply[0] == b"move":
            raise _illegal(reply)
        self._shared.saw_head(sid, codec.audit_head(reply[1]))
        state = codec.reading(lambda: codec.state(sid, reply[1]))
        await self._shared.connection.commands(*self._filing.file(sid, place_of(state), state.updated_at))
        return state

    async def name(self, sid: str, title: Title | None) -> None:
        """Give a session a title, or take it away."""
        written = b"" if title is None else codec.title(title)
        reply = await self._shared.connection.script(Script.NAME, [session_keys(sid).state], [written])
        if reply[0] == b"none":
            raise NotFoundError

    async def waiting(self, sid: str) -> tuple[InboxItem, ...]:
        """Return the inputs that wait, oldest first."""
        keys = session_keys(sid)
        (items,) = await self._shared.connection.commands(("LRANGE", keys.inbox, 0, -1))
        return await self._read_items(keys, items)

    async def outcome(self, sid: str, dedupe: str) -> ItemOutcome | None:
        """Return what became of the input of a dedupe key, None if there was none or it was forgotten."""
        keys, key = session_keys(sid), raw(dedupe)
        known, held = await self._shared.connection.commands(("HGET", keys.idem, key), ("HEXISTS", keys.held_ids, key))
        if held:
            return ItemOutcome(ItemStatus.HELD)
        return None if known is None else codec.reading(lambda: codec.outcome(known))

    async def state(self, sid: str) -> SessionState | None:
        """Return the session's record, None if there is none."""
        (flat,) = await self._shared.connection.commands(("HGETALL", session_keys(sid).state))
        return codec.reading(lambda: codec.state(sid, flat)) if flat else None

    async def events(self, sid: str, *, after: int = 0, limit: int = 1000) -> tuple[Event, ...]:
        """Return events with seq > `after`, oldest first."""
        keys = session_keys(sid)
        (entries,) = await self._shared.connection.commands(("XRANGE", keys.log, f"{after + 1}-0", "+", "COUNT", limit))
        return await self._read_events(keys, entries)

    async def events_at(self, sid: str, seqs: Sequence[int]) -> tuple[Event, ...]:
        """Return the events of these seqs, in this order; one that the log does not have is left out."""
        keys = session_keys(sid)
        asked = [("XRANGE", keys.log, f"{seq}-0", f"{seq}-0") for seq in seqs]
        found = await self._shared.connection.commands(*asked)
        return await self._read_events(keys, [entry for entries in found for entry in entries])

    async def states(self) -> AsyncIterator[SessionState]:
        """Walk all sessions that can be read, in no order; one that comes or goes meanwhile may or may not be met."""
        async for _, state in self.walk():
            if state is not None:
                yield state

    async def walk(self) -> AsyncIterator[tuple[str, SessionState | None]]:
        """Walk the ids of all sessions with their records, None for one that cannot be read; one may come twice."""
        async for key, flat in self._states():
            try:
                state = _state_at(key, flat)
            except SchemaError:
                state = None
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

    async def _read_events(self, keys: SessionKeys, entries: Sequence[codec.StreamEntry]) -> tuple[Event, ...]:
        bodies = codec.reading(lambda: [part for entry in entries for part in codec.event_bodies(entry)])
        fetched = await self._shared.fetch(keys, bodies)
        return codec.reading(lambda: tuple(codec.event(entry, fetched) for entry in entries))

    async def _read_items(self, keys: SessionKeys, items: Sequence[bytes]) -> tuple[InboxItem, ...]:
        fetched = await self._shared.fetch(keys, codec.reading(lambda: [codec.item_body(item) for item in items]))
        return codec.reading(lambda: tuple(codec.item(item, fetched) for item in items))


def _state_at(key: bytes, flat: Sequence[bytes]) -> SessionState:
    return codec.reading(lambda: codec.state(sid_of(key), flat))


def _body_keys(keys: SessionKeys, bodies: Bodies) -> list[str]:
    return [keys.body(text(ref)) for ref in bodies.large]


def _illegal(reply: Sequence[Reply]) -> RequestError:
    """Turn a move that may not be made into an error."""
    before, after = text(reply[1]), text(reply[2])
    return ArchivedError() if before == Status.ARCHIVED.value else IllegalMoveError(before, after)


def _refuse(reply: Sequence[Reply]) -> NoReturn:
    """Turn a script's refusal of a write into an error."""
    word = text(reply[0])
    if word == "reset":
        raise ResetError("the session was reset; this turn's work is dropped")
    if word == "use":
        raise NotFoundError
    if word == "move":
        raise _illegal(reply)
    if word == "item":
        raise WithdrawnError("the input was withdrawn")
    if word == "taken":
        raise StoreRefusedError("an approval of this id exists already", next_step="ask again")
    raise LeaseLostError(_LOST[word])


_LOST: Final = MappingProxyType(
    {
        "stale": "another worker has the session",
        "cursor": "the session's log moved on",
    }
)


class RedisQueue:
    """Implements the port `QueueStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def set_mode(self, sid: str, mode: QueueMode, audit: tuple[AuditRow, ...]) -> None:
        """Say how a session takes what comes while a turn runs."""
        keys = session_keys(sid)
        stored = "" if mode is QueueMode.COLLECT else mode.value
        await self._changed(sid, Script.QUEUE_MODE, [keys.state, keys.audit], args=[stored], audit=audit)

    async def withdraw(self, sid: str, item: InboxItem, audit: tuple[AuditRow, ...]) -> None:
        """Cancel an input that waits."""
        keys = session_keys(sid)
        names = [keys.state, keys.inbox, keys.idem, keys.audit]
        args: list[Arg] = [item.position, raw(item.dedupe), self._shared.options.keep_ms]
        await self._changed(sid, Script.WITHDRAW, names, args=args, audit=audit)

    async def _changed(
        self, sid: str, script: Script, names: list[str], *, args: list[Arg], audit: tuple[AuditRow, ...]
    ) -> None:
        """Change something of a session with the rows that tell of it. Raises NotFoundError: it is not there."""
        op = session_keys(sid).op(self._shared.ids.op())

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._shared.connection.script(script, [*names, op], [*args, *rows])

        reply = await self._shared.chaining(sid, audit, run)
        if reply[0] == b"none":
            raise NotFoundError
        self._shared.saw_head(sid, (int(reply[1]), text(reply[2])))


def claim_args(claim: Claim) -> list[Arg]:
    """Return what proves that a claim still holds."""
    return [claim.state.generation, claim.fence, claim.owner]


def change_args(write: Write, *, lease_ms: int, keep_ms: int) -> list[Arg]:
    """Return everything of a write up to its deliveries."""
    end = write.end
    args: list[Arg] = [write.cursor, lease_ms, keep_ms, int(write.release)]
    args += ["" if write.take is None else write.take, write.use or "", write.status or ""]
    args.append(codec.turn(write.turn) if write.turn else "")
    args += [int(write.model is not None), raw(write.model or "")]
    args += [codec.last_turn(end) if end else "", "" if write.context is None else write.context]
    args += [*codec.usage(end.usage if end else write.usage)]
    args.append(len(write.settle))
    for position, status in write.settle:
        args += [position, status.value]
    args.append(len(write.ask))
    for approval in write.ask:
        args += [approval.id, approval.expires_at, codec.approval_tail(approval)]
    return args


def delivery_args(write: Write, bodies: Bodies, *, sender: str, op: str, lease_ms: int) -> list[Arg]:
    """Return a write's deliveries, claimed by `sender` if there is one."""
    args: list[Arg] = [raw(sender), lease_ms, op if sender else "-", len(write.deliver)]
    for new in write.deliver:
        body = bodies.put(dump(new.text))
        args += [
            raw(new.key),
            channel_of(new.address),
            codec.delivery_tail(new, body),
        ]
    return args


def event_args(events: Sequence[NewEvent], bodies: Bodies) -> list[Arg]:
    """Return a write's events."""
    args: list[Arg] = [len(events)]
    for event in events:
        args += [raw(event.type), raw(event.actor), str(event.label), event.visibility.value, int(event.admitted)]
        args += [raw(event.turn), bodies.put(dump(event_json(event.body)))]
        args.append("" if event.carried is None else bodies.put(dump(event.carried)))
    return args


def channel_of(address: str) -> str:
    """Return the channel of an address' text as the outbox notes it, so that a sender takes only what it can send."""
    return encode(unquote(address.partition(":")[0]))


LIFE_MS: Final = 24 * 60 * 60 * 1000


_REMEMBERED: Final = 1000
"""How many dedupe keys are remembered at most: a platform tells again what came last."""


class RedisObserved:
    """Implements the port `ObservedStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def observe(self, sid: str, new: NewObserved, most: int) -> None:
        """Keep a text."""
        keys = session_keys(sid)
        said = [raw(new.dedupe), raw(new.account), str(new.label), raw(new.text), raw(new.opens)]
        bounds = [most, LIFE_MS, _REMEMBERED]
        await self._shared.connection.script(Script.OBSERVE, [keys.observed, keys.observed_ids], [*said, *bounds])

    async def heard(self, sid: str, *, after: str, until: int, now: int, most: int) -> tuple[Observed, ...]:
        """Return what was kept."""
        oldest = now - LIFE_MS
        first = f"({after}" if after and _time(after) >= oldest else str(oldest)
        key = session_keys(sid).observed
        (entries,) = await self._shared.connection.commands(("XREVRANGE", key, str(until), first, "COUNT", most))
        return codec.reading(lambda: tuple(map(_observed, reversed(entries))))


def _time(name: str) -> int:
    return int(name.partition("-")[0])


def _observed(entry: Sequence[Reply]) -> Observed:
    name, (_, version, _, account, _, label, _, said, *opens) = entry
    codec.check_version(version)
    return Observed(text(name), text(account), codec.label(label), text(said), text(opens[-1]) if opens else "")
