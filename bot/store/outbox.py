"""The outbox part of the store: what waits to be said, and what became of it."""

from contextlib import suppress
from typing import Final

from bot.core.errors import NotFoundError, SchemaError
from bot.sessions.approvals import QuestionCopy
from bot.sessions.audit import AuditRow
from bot.sessions.delegation import Arrival
from bot.sessions.deliveries import DEAD, Delivery, DeliveryPause, DeliveryState, NewDelivery, Rate, SendSlot
from bot.sessions.models import SessionState
from bot.store import codec
from bot.store.approvals import copy_member
from bot.store.codec import Bodies, dump, raw, text
from bot.store.connection import Arg, Command, Reply
from bot.store.schema import COPIES, LETTERS, OPEN, encode, pace_keys, session_keys, turn_field
from bot.store.scripts import Script
from bot.store.sessions import channel_of
from bot.store.shared import POLICY_ASKED, Shared
from channels.messages import OutboundKind

_PAGE: Final = 500


class RedisOutbox:
    """Implements the port `OutboxStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def put(self, sid: str, new: NewDelivery) -> None:
        """Add a pending entry without holding the session, and mark that ready."""
        keys, bodies = session_keys(sid), Bodies()
        args: list[Arg] = [raw(new.key), channel_of(new.address)]
        args.append(codec.delivery_tail(new, bodies.put(dump(new.text))))
        large = [keys.body(text(ref)) for ref in bodies.large]
        hints = (self._shared.ready_hint(sid), ("SADD", OPEN, raw(sid)))
        reply = await self._shared.connection.script(
            Script.PUT, [keys.state, keys.outbox, *large], [*args, *bodies.large.values()], *hints
        )
        if reply[0] == b"none":
            raise NotFoundError

    async def take(self, sid: str, sender: str, channels: tuple[str, ...], *, op: str = "") -> tuple[Delivery, ...]:
        """Claim this session's pending entries to addresses of these channels for a sender, oldest first."""
        keys = session_keys(sid)
        args = [raw(sender), op or self._shared.ids.op(), self._shared.options.send_lease_ms, *map(encode, channels)]
        reply, policy = await self._shared.connection.script_asking(
            Script.TAKE, [keys.state, keys.outbox], args, POLICY_ASKED
        )
        self._shared.saw_policy(policy)
        taken = await self._read(sid, reply[1:])
        if any(one.state is DeliveryState.AMBIGUOUS for one in taken):
            # Found even if whoever looks into it now vanishes too.
            await self._shared.connection.commands(("SADD", LETTERS, raw(sid)))
        return taken

    async def settle(  # noqa: PLR0913 - as the port
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
        """Record what became of a claimed entry; PENDING gives it back for a try after `wait` milliseconds.

        Returns False if this sender does not hold it any more: nothing was written, the audit rows neither.
        """
        keys = session_keys(delivery.sid)
        args: list[Arg] = [raw(delivery.key), raw(sender), delivery.attempt, state.value]
        args += [
            self._shared.options.keep_ms,
            self._shared.options.keep_dead_ms,
            arrival.value if arrival else "",
            wait,
            int(failed),
        ]
        args.append(encode(receipt) if receipt else "")
        hints = list[Command]()
        if state is not DeliveryState.PENDING:
            hints.append(("HDEL", pace_keys(delivery.address).place, turn_field(delivery.sid, delivery.key)))
        if state in DEAD:
            hints.append(("SADD", LETTERS, raw(delivery.sid)))
        if receipt and delivery.holds is not None:
            item, holder = delivery.holds
            hints.append(("SADD", COPIES, copy_member(QuestionCopy(delivery.sid, item, delivery.key, holder))))
        elif receipt and delivery.kind == OutboundKind.QUESTION:
            hints.append(("SADD", COPIES, copy_member(QuestionCopy(delivery.sid, delivery.asked, delivery.key))))

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._shared.connection.script(
                Script.SETTLE, [keys.state, keys.outbox, keys.audit], [*args, *rows], *hints
            )

        _, held, n, digest = await self._shared.chaining(delivery.sid, audit, run)
        self._shared.saw_head(delivery.sid, (int(n), text(digest)))
        return bool(held)

    async def deliveries(self, sid: str) -> tuple[Delivery, ...]:
        """Return all entries kept for the session, any state, oldest first."""
        (flat,) = await self._shared.connection.commands(("HGETALL", session_keys(sid).outbox))
        return await self._read(sid, flat)

    async def dead(self) -> tuple[tuple[SessionState, Delivery], ...]:
        """Return what was not said of this generation of any session, each with its session's record."""
        found = list[tuple[SessionState, Delivery]]()
        cursor = b"0"
        while True:
            ((cursor, members),) = await self._shared.connection.commands(("SSCAN", LETTERS, cursor, "COUNT", _PAGE))
            for member in members:
                # A record that this program cannot read must not hide the letters of other sessions.
                with suppress(SchemaError):
                    found += await self._dead_of(text(member))
            if cursor == b"0":
                return tuple(found)

    async def _dead_of(self, sid: str) -> list[tuple[SessionState, Delivery]]:
        """Return what was not said of a session; one that has nothing like it is not looked at again."""
        # It stays in the set while it has letters, or whoever looks at the same time would miss them.
        if found := await self._unsaid(sid):
            return found
        # Taken out before looking again: what becomes a dead letter after this look puts the session in again.
        if found := await self._unsaid(sid, ("SREM", LETTERS, raw(sid))):
            await self._shared.connection.commands(("SADD", LETTERS, raw(sid)))
        return found

    async def _unsaid(self, sid: str, *before: Command) -> list[tuple[SessionState, Delivery]]:
        """Return what was not said of a session, as it is after these commands."""
        keys = session_keys(sid)
        reads = (("HGETALL", keys.state), ("HGETALL", keys.outbox))
        *_, record, flat = await self._shared.connection.in_order(before, reads)
        if not record:
            return []
        state = codec.reading(lambda: codec.state(sid, record))
        read = await self._read(sid, flat)
        # An edit in doubt is made again.
        dead = [one for one in read if one.state in DEAD and one.generation == state.generation and not one.replaces]
        return [(state, one) for one in dead]

    async def decide_dead(self, delivery: Delivery, *, again: bool, audit: tuple[AuditRow, ...]) -> None:
        """Have a dead letter tried again, or let it go."""
        keys, options = session_keys(delivery.sid), self._shared.options
        scripted = [keys.state, keys.outbox, keys.audit, keys.op(self._shared.ids.op())]
        args: list[Arg] = [raw(delivery.key), int(again), options.keep_ms, options.keep_dead_ms]
        hints = list[Command]()
        if again:
            # Whoever has it tried again believes that somebody is there.
            hints = [
                self._shared.ready_hint(delivery.sid),
                ("SADD", OPEN, raw(delivery.sid)),
                ("UNLINK", pace_keys(delivery.address).gone),
            ]

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._shared.connection.script(Script.DECIDE_DEAD, scripted, [*args, *rows], *hints)

        reply = await self._shared.chaining(delivery.sid, audit, run)
        if reply[0] == b"none":
            raise NotFoundError
        self._shared.saw_head(delivery.sid, (int(reply[1]), text(reply[2])))

    async def _read(self, sid: str, flat: list[bytes]) -> tuple[Delivery, ...]:
        records = codec.pairs(flat)
        fetched = await self._shared.fetch(
            session_keys(sid), [codec.delivery_body(record) for record in records.values()]
        )
        read = codec.reading(lambda: [codec.delivery(sid, name, record, fetched) for name, record in records.items()])
        return tuple(delivery for _, delivery in sorted(read, key=lambda numbered: numbered[0]))


_GRACE_MS: Final = 10_000
"""How long after its time a turn is kept for a text that waits: the sweep finds it before."""


class RedisRateLimits:
    """Implements the port `RateLimitStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def pace(self, turn: SendSlot, rates: tuple[Rate, ...]) -> int | None:
        """Ask to say something now; return the milliseconds to wait first, 0 for now, None for a dead address."""
        keys = pace_keys(turn.address)
        args: list[Arg] = [
            self._shared.ids.op(),
            _field(turn),
            raw(turn.address),
            self._shared.options.send_lease_ms,
            _GRACE_MS,
        ]
        args.append(len(rates))
        for rate in rates:
            args += [rate.name, rate.every, rate.burst]
        reply = await self._shared.connection.script(Script.PACE, [keys.channel, keys.place, keys.gone], args)
        if reply[0] == b"gone":
            return None
        return int(reply[1]) if reply[0] == b"wait" else 0

    async def pause(self, turn: SendSlot, what: DeliveryPause, wait: int) -> None:
        """Note that nothing can be said for `wait` milliseconds."""
        keys = pace_keys(turn.address)
        args: list[Arg] = [_field(turn), what.value, raw(turn.address), wait]
        await self._shared.connection.script(Script.PAUSE_DELIVERY, [keys.channel, keys.place, keys.gone], args)

    async def heard(self, address: str) -> None:
        """Note that something came in from an address: what is dead in its place is not any more."""
        await self._shared.connection.commands(("UNLINK", pace_keys(address).gone))


def _field(turn: SendSlot) -> str:
    return turn_field(turn.sid, turn.key) if turn.key else ""
