"""The part of the store about copies that can be edited of what people decide: those that they decide no more."""

from contextlib import suppress

from bot.core.errors import SchemaError
from bot.sessions.approvals import Approval, ApprovalState, QuestionCopy
from bot.sessions.deliveries import Delivery
from bot.store import wire_outgoing
from bot.store.base import Part
from bot.store.keys import COPIES, decode, encode, session_keys
from bot.store.questions import approvals_of
from bot.store.wire import clock_ms, raw, reading, text

_PAGE = 500


class Copies(Part):
    """Implements the port `CopyStore`."""

    async def copies(self, sid: str = "") -> tuple[QuestionCopy, ...]:
        """Return the copies of what is not to be decided any more."""
        found, cursor = dict[QuestionCopy, None](), b"0"
        while True:
            scan = ("SSCAN", COPIES, cursor, "MATCH", f"{encode(sid)} *" if sid else "*", "COUNT", _PAGE)
            ((cursor, members),) = await self._link.commands(scan)
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
        held = await self._link.commands(
            *(("HEXISTS", session_keys(copy.holder).held, raw(copy.asked)) for copy in told)
        )
        return [copy for copy, there in zip(told, held, strict=True) if not there]

    async def _answered(self, found: list[QuestionCopy]) -> list[QuestionCopy]:
        """Return the copies of questions that are not asked any more."""
        sids = list(dict.fromkeys(copy.sid for copy in found))
        if not sids:
            return []
        *records, clock = await self._link.commands(
            *(("HGETALL", session_keys(one).approvals) for one in sids), ("TIME",)
        )
        now = clock_ms(clock)
        asking, readable = set[tuple[str, str]](), set[str]()
        for one, flat in zip(sids, records, strict=True):
            # What cannot be read now is closed when it can.
            with suppress(SchemaError):
                every = approvals_of(one, flat, now)
                asking |= {(one, approval.asked_in) for approval in every if approval.state is ApprovalState.PENDING}
                readable.add(one)
        return [copy for copy in found if copy.sid in readable and (copy.sid, copy.asked) not in asking]

    async def copied(self, copy: QuestionCopy) -> tuple[Delivery | None, tuple[Approval, ...]]:
        """Return what was said there, and what became of what was asked."""
        keys = session_keys(copy.sid)
        record, flat, clock = await self._link.commands(
            ("HGET", keys.outbox, raw(copy.key)), ("HGETALL", keys.approvals), ("TIME",)
        )
        every = approvals_of(copy.sid, flat, clock_ms(clock))
        asked = tuple(sorted((one for one in every if one.asked_in == copy.asked), key=lambda one: one.id))
        if record is None:
            return None, asked
        fetched = await self._fetch(keys, [wire_outgoing.delivery_body(record)])
        return reading(lambda: wire_outgoing.delivery(copy.sid, raw(copy.key), record, fetched)[1]), asked

    async def uncopied(self, copy: QuestionCopy) -> None:
        """Forget a copy."""
        await self._link.commands(("SREM", COPIES, copy_member(copy)))


def copy_member(copy: QuestionCopy) -> str:
    """Return what stands for a copy in the set of all."""
    return " ".join(map(encode, (copy.sid, copy.asked, copy.key, copy.holder)))


def _copy(stored: bytes) -> QuestionCopy:
    return QuestionCopy(*map(decode, text(stored).split(" ")))
