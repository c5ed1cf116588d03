"""The outbox part of the store: what waits to be said, and what became of it."""

from bot.errors import NotFoundError
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.kin import Arrival
from bot.sessions.records import AuditRow
from bot.store import wire, wire_outgoing
from bot.store.base import POLICY_ASKED, Part
from bot.store.keys import OPEN, encode, session_keys
from bot.store.link import Arg, Reply
from bot.store.scripts import Script
from bot.store.wire import Bodies, dump, raw, text
from bot.store.writes import channel_of


class Outbox(Part):
    """Implements the port `OutboxStore`."""

    async def put(self, sid: str, new: NewDelivery) -> None:
        """Add a pending entry without holding the session, and mark that ready."""
        keys, bodies = session_keys(sid), Bodies()
        args: list[Arg] = [raw(new.key), channel_of(new.address)]
        args.append(wire_outgoing.delivery_tail(new, bodies.put(dump(new.text))))
        large = [keys.body(text(ref)) for ref in bodies.large]
        hints = (self._ready_hint(sid), ("SADD", OPEN, raw(sid)))
        reply = await self._link.script(
            Script.PUT, [keys.state, keys.outbox, *large], [*args, *bodies.large.values()], *hints
        )
        if reply[0] == b"none":
            raise NotFoundError

    async def take(self, sid: str, sender: str, channels: tuple[str, ...]) -> tuple[Delivery, ...]:
        """Claim this session's pending entries to addresses of these channels for a sender, oldest first."""
        keys = session_keys(sid)
        args = [raw(sender), self._ids.op(), self._options.send_lease_ms, *map(encode, channels)]
        reply, policy = await self._link.script_asking(Script.TAKE, [keys.state, keys.outbox], args, POLICY_ASKED)
        self._saw_policy(policy)
        return await self._read(sid, reply[1:])

    async def settle(
        self,
        delivery: Delivery,
        sender: str,
        state: DeliveryState,
        *,
        arrival: Arrival | None = None,
        audit: tuple[AuditRow, ...] = (),
    ) -> bool:
        """Record what became of a claimed entry; PENDING gives it back for a later try.

        Returns False if this sender does not hold it any more: nothing was written, the audit rows neither.
        """
        keys = session_keys(delivery.sid)
        args = [raw(delivery.key), raw(sender), delivery.attempt, state.value, self._options.keep_ms]
        args.append(arrival.value if arrival else "")

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._link.script(Script.SETTLE, [keys.state, keys.outbox, keys.audit], [*args, *rows])

        _, held, n, digest = await self._chaining(delivery.sid, audit, run)
        self._saw_head(delivery.sid, (int(n), text(digest)))
        return bool(held)

    async def deliveries(self, sid: str) -> tuple[Delivery, ...]:
        """Return all entries kept for the session, any state, oldest first."""
        (flat,) = await self._link.commands(("HGETALL", session_keys(sid).outbox))
        return await self._read(sid, flat)

    async def _read(self, sid: str, flat: list[bytes]) -> tuple[Delivery, ...]:
        records = wire.pairs(flat)
        fetched = await self._fetch(
            session_keys(sid), [wire_outgoing.delivery_body(record) for record in records.values()]
        )
        read = wire.reading(
            lambda: [wire_outgoing.delivery(sid, name, record, fetched) for name, record in records.items()]
        )
        return tuple(delivery for _, delivery in sorted(read, key=lambda numbered: numbered[0]))
