"""The part of the store for background sessions: slots, parcels between sessions, and held items."""

from typing import Final

from bot.core.errors import BusyError, NotFoundError
from bot.core.ids import waiting_id
from bot.sessions import refs
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import Arrival, Caps, Charge, NewSlot, Parcel, PendingMessage, Reservation, Slot
from bot.sessions.log.serialization import message_json
from bot.store.calls import call, nested, session_call
from bot.store.records import codec
from bot.store.records.codec import Bodies, digest, dump, raw, text
from bot.store.records.form import stored, unpack
from bot.store.records.kinds import HELD, SLOT
from bot.store.schema import OPEN, held_key, session_keys, slots_key
from bot.store.scripts.loader import Script
from bot.store.session_index import Filing
from bot.store.shared import SessionChange, Shared

RESERVATION_MS: Final = 30_000
"""For how many milliseconds after the reservation of its slot a session may be created."""


class RedisDelegation:
    """Implements the port `DelegationStore`."""

    def __init__(self, shared: Shared, filing: Filing) -> None:
        self._shared = shared
        self._filing = filing

    async def reserve(self, principal: str, new: NewSlot, caps: Caps) -> Reservation:
        """Reserve a slot."""
        args = {
            "run": new.run,
            "session": new.sid,
            "parent": new.parent,
            "pool": str(new.pool.secrecy),
            "life": new.life,
            "deadline": new.deadline,
            "lease": RESERVATION_MS,
            "keep": self._shared.options.keep_ms,
            "siblings": caps.children,
            "all": caps.live,
        }
        got = await self._shared.run(call(Script.RESERVE, {"slots": slots_key(principal)}, args))
        if got.word == "full":
            raise BusyError
        return Reservation(got.number("now"), got.number("until"), got.number("deadline"))

    async def slots(self, principal: str) -> tuple[Slot, ...]:
        """Return the principal's slots."""
        flat, clock = await self._shared.connection.commands(("HGETALL", slots_key(principal)), ("TIME",))
        now = codec.clock_ms(clock)
        return codec.reading(lambda: tuple(_slot(run, record, now) for run, record in codec.pairs(flat).items()))

    async def free(self, principal: str, slots: tuple[Slot, ...]) -> None:
        """Free slots whose records are unchanged since they were read."""
        if slots:
            seen = [nested({"run": slot.run, "record": slot.record}) for slot in slots]
            args = {"keep": self._shared.options.keep_ms, "seen": seen}
            await self._shared.run(call(Script.FREE, {"slots": slots_key(principal)}, args))

    async def endorse(self, charge: Charge) -> bool:
        """Charge the bits that an answer may endorse."""
        told = stored(
            {
                "label": str(charge.label),
                "millibits": charge.millibits,
                "lapses": charge.until,
                "at_once": charge.at_once,
            }
        )
        args = {"generation": charge.generation, "run": charge.run, "charge": told, "most": charge.most}
        got = await self._shared.run(session_call(Script.ENDORSE, session_keys(charge.sid), args))
        return got.flag("charged")

    async def receive(self, parcel: Parcel) -> Arrival:
        """Take a parcel into its session, or hold it."""
        keys, bodies, limits = session_keys(parcel.sid), Bodies(), self._shared.options
        body = dump(message_json(parcel.body), sort=True)
        args = {
            "item": nested(
                {
                    "label": str(parcel.label),
                    "dedupe": parcel.dedupe,
                    "sender": parcel.sender,
                    "body": bodies.put(body),
                    "digest": digest(body),
                    "report": parcel.report,
                    "refs": refs.written(parcel.refs),
                }
            ),
            "op": self._shared.ids.op(),
            "generation": parcel.generation,
            "limit": limits.inbox_limit,
            "id": waiting_id(parcel.dedupe),
            "most": limits.held_limit,
            "run": parcel.run,
            "hold": parcel.hold,
            "told": str(parcel.told),
        }
        got = await self._shared.run(session_call(Script.RECEIVE, keys, args, bodies=bodies))
        if got.word == "busy":
            raise BusyError
        if got.word == "ok":
            self._shared.marks.received(self._shared.clock.monotonic(), parcel)
        told = got.text("code") or got.text("status")
        # A later outcome, if it came before, is not the sender's matter here: it was delivered.
        arrival = Arrival(told) if told in set(Arrival) else Arrival.WAITING
        if arrival in {Arrival.HELD, Arrival.UNTOLD}:
            # No hint of the session itself: that would have it read and filed anew, which its readers could notice.
            await self._shared.connection.commands(("SADD", held_key(parcel.sender), raw(parcel.sid)))
        if arrival is Arrival.WAITING:
            self._shared.queue.know_by(parcel.sid, got)
            await self._shared.connection.commands(self._shared.ready_hint(parcel.sid), ("SADD", OPEN, raw(parcel.sid)))
            await self._filing.refile([parcel.sid])
        return arrival

    async def held(self, sid: str) -> tuple[PendingMessage, ...]:
        """Return the items that a session holds, oldest first."""
        keys = session_keys(sid)
        (flat,) = await self._shared.connection.commands(("HGETALL", keys.held))
        records = codec.reading(lambda: {name: unpack(HELD, record) for name, record in codec.pairs(flat).items()})
        fetched = await self._shared.fetch(keys, [one["body"] for one in records.values()])

        def read(name: bytes, got: codec.Fields) -> PendingMessage:
            body = codec.message(got["body"], fetched)
            came = refs.read(got["refs"])
            return PendingMessage(text(name), got["sender"], codec.label(got["label"]), body, got["time"], came)

        return codec.reading(
            lambda: tuple(sorted((read(*one) for one in records.items()), key=lambda held: (held.at, held.id)))
        )

    async def holding(self, principal: str) -> tuple[str, ...]:
        """Return the principal's sessions that may hold something."""
        (members,) = await self._shared.connection.commands(("SMEMBERS", held_key(principal)))
        return tuple(sorted(text(member) for member in members))

    async def decide_held(self, sid: str, held: str, *, accept: bool, op: str, audit: tuple[AuditRow, ...]) -> None:
        """Let a held item in, or drop it."""
        limits = self._shared.options
        args = {
            "id": held,
            "accept": accept,
            "op": self._shared.ids.op(),
            "keep": limits.keep_ms,
            "limit": limits.inbox_limit,
        }
        got = await self._shared.change(SessionChange(Script.DECIDE_HELD, sid, args, op), audit)
        if got.word == "none":
            raise NotFoundError
        if got.word == "busy":
            raise BusyError
        await self._shared.mark_ready(sid, got)
        await self._filing.refile([sid])


def _slot(run: bytes, record: bytes, now: int) -> Slot:
    got = unpack(SLOT, record)
    return Slot(
        text(run),
        got["session"],
        got["parent"],
        codec.label(got["pool"]),
        lapsed=now > got["lapses"],
        due=now >= got["deadline"],
        live=got["live"],
        record=record,
    )
