"""The part of the store about sessions among themselves: slots, what they send one another, and what is held."""

import hashlib
from typing import Final

from bot.core.errors import BusyError, NotFoundError
from bot.core.ids import waiting_id
from bot.sessions.audit import AuditRow
from bot.sessions.delegation import Arrival, Caps, Charge, NewSlot, Parcel, PendingMessage, Reservation, Slot
from bot.sessions.serialization import message_json
from bot.store import codec
from bot.store.codec import Bodies, dump, raw, text
from bot.store.connection import Arg, Reply
from bot.store.schema import OPEN, decode, encode, held_key, session_keys, slots_key
from bot.store.scripts import Script
from bot.store.session_index import Filing
from bot.store.shared import Shared

RESERVATION_MS: Final = 30_000
"""How long after reserving its slot a session may still be created."""


class RedisDelegation:
    """Implements the port `DelegationStore`."""

    def __init__(self, shared: Shared, filing: Filing) -> None:
        self._shared = shared
        self._filing = filing

    async def reserve(self, principal: str, new: NewSlot, caps: Caps) -> Reservation:
        """Reserve a slot."""
        args: list[Arg] = [new.run, encode(new.sid), encode(new.parent), str(new.pool.secrecy), new.life, new.deadline]
        args += [RESERVATION_MS, self._shared.options.keep_ms, caps.children, caps.live]
        reply = await self._shared.connection.script(Script.RESERVE, [slots_key(principal)], args)
        if reply[0] == b"full":
            raise BusyError
        return Reservation(*map(int, reply[1:]))

    async def slots(self, principal: str) -> tuple[Slot, ...]:
        """Return the principal's slots."""
        flat, clock = await self._shared.connection.commands(("HGETALL", slots_key(principal)), ("TIME",))
        now = codec.clock_ms(clock)
        return codec.reading(lambda: tuple(_slot(run, record, now) for run, record in codec.pairs(flat).items()))

    async def free(self, principal: str, slots: tuple[Slot, ...]) -> None:
        """Free slots that are still as they were seen."""
        if slots:
            seen: list[Arg] = [part for slot in slots for part in (slot.run, slot.record)]
            await self._shared.connection.script(
                Script.FREE, [slots_key(principal)], [self._shared.options.keep_ms, *seen]
            )

    async def endorse(self, charge: Charge) -> bool:
        """Charge what an answer may endorse."""
        args: list[Arg] = [
            charge.generation,
            charge.run,
            str(charge.label),
            charge.millibits,
            charge.until,
            charge.most,
        ]
        reply = await self._shared.connection.script(Script.ENDORSE, [session_keys(charge.sid).state], args)
        return bool(reply[1])

    async def receive(self, parcel: Parcel) -> Arrival:
        """Take a parcel into its session, or hold it."""
        keys, bodies, limits = session_keys(parcel.sid), Bodies(), self._shared.options
        body = dump(message_json(parcel.body), sort=True)
        args: list[Arg] = [raw(parcel.dedupe), hashlib.sha256(body).hexdigest()[:32], self._shared.ids.op()]
        args += [raw(parcel.sender), str(parcel.label), bodies.put(body), int(parcel.report), parcel.generation]
        args += [limits.inbox_limit, waiting_id(parcel.dedupe), limits.held_limit, parcel.run, int(parcel.hold)]
        args.append(str(parcel.told))
        large = [keys.body(text(ref)) for ref in bodies.large]
        reply = await self._shared.connection.script(
            Script.RECEIVE,
            [keys.state, keys.inbox, keys.idem, keys.held, keys.held_ids, *large],
            [*args, *bodies.large.values()],
        )
        if reply[0] == b"busy":
            raise BusyError
        # What became of it since, if it came before, is not the sender's matter here: it was delivered.
        arrival = Arrival(text(reply[1])) if text(reply[1]) in set(Arrival) else Arrival.WAITING
        if arrival in {Arrival.HELD, Arrival.UNTOLD}:
            # No hint of the session itself: it would be looked at and filed anew, which its readers could tell.
            await self._shared.connection.commands(("SADD", held_key(parcel.sender), raw(parcel.sid)))
        if arrival is Arrival.WAITING:
            await self._shared.connection.commands(self._shared.ready_hint(parcel.sid), ("SADD", OPEN, raw(parcel.sid)))
            await self._filing.refile([parcel.sid])
        return arrival

    async def held(self, sid: str) -> tuple[PendingMessage, ...]:
        """Return what a session holds, oldest first."""
        keys = session_keys(sid)
        (flat,) = await self._shared.connection.commands(("HGETALL", keys.held))
        records = codec.reading(lambda: {name: _parts(record) for name, record in codec.pairs(flat).items()})
        fetched = await self._shared.fetch(keys, [body for *_, body in records.values()])
        found = (
            PendingMessage(text(name), sender, codec.label(label), codec.message(body, fetched), at)
            for name, (at, label, sender, body) in records.items()
        )
        return codec.reading(lambda: tuple(sorted(found, key=lambda held: (held.at, held.id))))

    async def holding(self, principal: str) -> tuple[str, ...]:
        """Return the principal's sessions that may hold something."""
        (members,) = await self._shared.connection.commands(("SMEMBERS", held_key(principal)))
        return tuple(sorted(text(member) for member in members))

    async def decide_held(self, sid: str, held: str, *, accept: bool, op: str, audit: tuple[AuditRow, ...]) -> None:
        """Let a held item in, or drop it."""
        keys, limits = session_keys(sid), self._shared.options
        names = [keys.state, keys.inbox, keys.idem, keys.held, keys.held_ids, keys.outbox, keys.audit, keys.op(op)]
        args: list[Arg] = [raw(held), int(accept), self._shared.ids.op(), limits.keep_ms, limits.inbox_limit]

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._shared.connection.script(Script.DECIDE_HELD, names, [*args, *rows])

        reply = await self._shared.chaining(sid, audit, run)
        if reply[0] == b"none":
            raise NotFoundError
        if reply[0] == b"busy":
            raise BusyError
        _, ready, n, digest = reply
        self._shared.saw_head(sid, (int(n), text(digest)))
        await self._shared.mark_ready(sid, ready)
        await self._filing.refile([sid])


def _slot(run: bytes, record: bytes, now: int) -> Slot:
    version, state, until, deadline, pool, sid, parent = record.split()
    codec.check_version(version)
    return Slot(
        text(run),
        decode(text(sid)),
        decode(text(parent)),
        codec.label(pool),
        lapsed=now > int(until),
        due=now >= int(deadline),
        live=state == b"live",
        record=record,
    )


def _parts(record: bytes) -> tuple[int, bytes, str, bytes]:
    """Return time, label, sender and body of a held item as stored."""
    head, _, rest = record.partition(b"\n")
    version, at, label, *lengths = head.split()
    codec.check_version(version)
    dedupe, sender, digest, _ = map(int, lengths)
    return int(at), label, text(rest[dedupe : dedupe + sender]), rest[dedupe + sender + digest :]
