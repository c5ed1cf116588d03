"""The outbox part of the store: waiting deliveries, and their outcomes."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from bot.core.errors import NotFoundError, SchemaError, SealedError
from bot.sessions.approvals import QuestionCopy
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import Arrival
from bot.sessions.deliveries import (
    DEAD,
    Conversation,
    Delivery,
    DeliveryPause,
    DeliveryState,
    NewDelivery,
    Rate,
    SendSlot,
)
from bot.sessions.models import SessionState
from bot.store.approvals import copy_member
from bot.store.calls import Arguments, call, nested, session_call
from bot.store.records import codec
from bot.store.records.codec import Bodies, raw, text
from bot.store.records.form import stored, unpack
from bot.store.records.kinds import DELIVERY
from bot.store.schema import COPIES, LETTERS, OPEN, encode, pace_keys, session_keys, turn_field
from bot.store.scripts.loader import Script
from bot.store.servers.connection import Command
from bot.store.session_index import Filing
from bot.store.sessions import channel_of
from bot.store.shared import SessionChange, Shared
from channels.messages import OutboundKind
from policy.labels import PUBLIC

_PAGE: Final = 500


class RedisOutbox:
    """Implements the port `OutboxStore`."""

    def __init__(self, shared: Shared, filing: Filing) -> None:
        self._shared = shared
        self._filing = filing

    async def put(self, sid: str, new: NewDelivery, begins: Conversation | None = None) -> None:
        """Add a pending entry without holding the session, and mark that ready."""
        bodies = Bodies()
        args: Arguments = {
            "key": new.key,
            "delivery": stored(codec.new_delivery(new, channel_of(new.address), bodies)),
            "begins": None if begins is None else nested({**asdict(begins), "creation": str(PUBLIC)}),
        }
        hints = (self._shared.ready_hint(sid), ("SADD", OPEN, raw(sid)))
        got = await self._shared.run(session_call(Script.PUT, session_keys(sid), args, bodies=bodies), *hints)
        if got.word == "none":
            raise NotFoundError
        if got.word == "sealed":
            raise SealedError
        if begins is not None:
            # Whether this call created it, or an earlier one whose answer was lost.
            await self._filing.refile([sid])

    async def take(self, sid: str, sender: str, channels: tuple[str, ...], *, op: str = "") -> tuple[Delivery, ...]:
        """Claim this session's pending entries to addresses of these channels for a sender, oldest first."""
        args = {
            "sender": sender,
            "op": op or self._shared.ids.op(),
            "lease": self._shared.options.send_lease_ms,
            "channels": [encode(channel) for channel in channels],
            "doubt": self._shared.doubt(),
        }
        got = await self._shared.run_asking(session_call(Script.TAKE, session_keys(sid), args))
        taken = await self._read(sid, got.list("deliveries"))
        if any(one.state is DeliveryState.AMBIGUOUS for one in taken):
            # Marked, so that it is found even if the process that reads it now vanishes too.
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
        paced: bool = True,
    ) -> bool:
        """Record the outcome of a claimed entry; PENDING gives it back for a try after `wait` milliseconds.

        Returns False if this sender does not hold it any more: nothing was written, the audit rows neither.
        """
        args = {
            "key": delivery.key,
            "sender": sender,
            "attempt": delivery.attempt,
            "state": state.value,
            "keep": self._shared.options.keep_ms,
            "keep_dead": self._shared.options.keep_dead_ms,
            "arrival": arrival.value if arrival else "",
            "wait": wait,
            "failed": failed,
            "receipt": receipt,
        }
        hints = list[Command]()
        if paced and state is not DeliveryState.PENDING:
            hints.append(("HDEL", pace_keys(delivery.address).place, turn_field(delivery.sid, delivery.key)))
        if state in DEAD:
            hints.append(("SADD", LETTERS, raw(delivery.sid)))
        if receipt and delivery.holds is not None:
            item, holder = delivery.holds
            hints.append(("SADD", COPIES, copy_member(QuestionCopy(delivery.sid, item, delivery.key, holder))))
        elif receipt and delivery.kind == OutboundKind.QUESTION:
            hints.append(("SADD", COPIES, copy_member(QuestionCopy(delivery.sid, delivery.asked, delivery.key))))

        got = await self._shared.change(SessionChange(Script.SETTLE, delivery.sid, args), audit, *hints)
        return got.flag("held")

    async def deliveries(self, sid: str) -> tuple[Delivery, ...]:
        """Return all entries kept for the session, any state, oldest first."""
        (flat,) = await self._shared.connection.commands(("HGETALL", session_keys(sid).outbox))
        return await self._read(sid, flat)

    async def dead(self) -> tuple[tuple[SessionState, Delivery], ...]:
        """Return the dead letters of the current generation of every session, each with its session's record."""
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
        """Return the dead letters of a session; a session without any is not looked at again."""
        # It stays in the set while it has letters, or a process that looks at the same time would miss them.
        if found := await self._unsaid(sid):
            return found
        # Taken out before the second look: an entry that becomes a dead letter after it puts the session in again.
        if found := await self._unsaid(sid, ("SREM", LETTERS, raw(sid))):
            await self._shared.connection.commands(("SADD", LETTERS, raw(sid)))
        return found

    async def _unsaid(self, sid: str, *before: Command) -> list[tuple[SessionState, Delivery]]:
        """Return the dead letters of a session, as they are after these commands."""
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
        """Have a dead letter tried again, or drop it."""
        options = self._shared.options
        args = {"key": delivery.key, "again": again, "keep": options.keep_ms, "keep_dead": options.keep_dead_ms}
        hints = list[Command]()
        if again:
            # A person who has it tried again believes that the address has readers.
            hints = [
                self._shared.ready_hint(delivery.sid),
                ("SADD", OPEN, raw(delivery.sid)),
                ("UNLINK", pace_keys(delivery.address).gone),
            ]

        change = SessionChange(Script.DECIDE_DEAD, delivery.sid, args, self._shared.ids.op())
        if (await self._shared.change(change, audit, *hints)).word == "none":
            raise NotFoundError

    async def _read(self, sid: str, flat: Sequence[bytes]) -> tuple[Delivery, ...]:
        got = codec.reading(lambda: {name: unpack(DELIVERY, record) for name, record in codec.pairs(flat).items()})
        fetched = await self._shared.fetch(session_keys(sid), [one["body"] for one in got.values()])
        inorder = sorted(got.items(), key=lambda named: named[1]["number"])
        return codec.reading(lambda: tuple(codec.delivery(sid, name, one, fetched) for name, one in inorder))


_GRACE_MS: Final = 10_000
"""How many milliseconds after its time a waiting text keeps its turn: the sweep finds it before."""


class RedisRateLimits:
    """Implements the port `RateLimitStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def pace(self, turn: SendSlot, rates: tuple[Rate, ...]) -> int | None:
        """Ask to send something now; return the milliseconds to wait first, 0 for now, None for a dead address."""
        args = {
            "op": self._shared.ids.op(),
            "mine": _field(turn),
            "address": turn.address,
            "lease": self._shared.options.send_lease_ms,
            "grace": _GRACE_MS,
            "rates": [{"name": rate.name, "every": rate.every, "burst": rate.burst} for rate in rates],
        }
        got = await self._shared.run(call(Script.PACE, _keys(turn.address), args))
        return None if got.word == "gone" else got.number("ms")

    async def pause(self, turn: SendSlot, what: DeliveryPause, wait: int) -> None:
        """Note that nothing can be sent for `wait` milliseconds."""
        args = {"mine": _field(turn), "what": what.value, "address": turn.address, "wait": wait}
        await self._shared.run(call(Script.PAUSE_DELIVERY, _keys(turn.address), args))

    async def heard(self, address: str) -> None:
        """Note that a message came in from an address: dead addresses of its place are live again."""
        await self._shared.connection.commands(("UNLINK", pace_keys(address).gone))


def _keys(address: str) -> dict[str, str]:
    return asdict(pace_keys(address))


def _field(turn: SendSlot) -> str:
    return turn_field(turn.sid, turn.key) if turn.key else ""
