"""Who may what and which chat is what, as people changed it, kept beside the policy head; and strangers who ask."""

from bot.core.errors import BusyError, NotFoundError
from bot.sessions.approvals import CODE_LIFE_MS, MOST_REQUESTS, MOST_WRONG_CODES, Answered, PairingRequest
from bot.sessions.audit import AuditRow
from bot.store import wire, wire_access
from bot.store.base import Part
from bot.store.keys import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, OVERRIDES, PAIRINGS, POLICY, audit_op
from bot.store.link import Arg, Reply
from bot.store.scripts import Script
from bot.store.wire import raw, text
from policy.document.overrides import Change, Overrides


class Access(Part):
    """Implements the port `AccessStore`."""

    async def overrides(self) -> tuple[int, Overrides]:
        """Read what was changed, and how many changes there were."""
        (flat,) = await self._link.commands(("HGETALL", OVERRIDES))
        return wire.reading(lambda: wire_access.overrides(flat))

    async def override(
        self, change: Change, known: int, audit: tuple[AuditRow, ...], answered: Answered | None = None
    ) -> int | None:
        """Change something and append the rows that tell of it to the chain `audit`, in one step."""
        names = [AUDIT_HEAD, AUDIT_CHAIN, audit_op(self._ids.op()), POLICY, OVERRIDES, PAIRINGS]
        who = ("", "", 0) if answered is None else (raw(answered.account), answered.digest, answered.keep)
        fields = wire_access.fields(change)

        async def run(rows: list[Arg]) -> list[Reply]:
            args: list[Arg] = [known, *who, len(fields)]
            for name, value in fields:
                args += [name, value]
            return await self._link.script(Script.OVERRIDE, names, [*args, *rows])

        reply = await self._chaining(AUDIT, audit, run)
        if reply[0] == b"gone":
            raise NotFoundError
        if reply[0] == b"moved":
            return None
        _, n, head, count, *put = reply
        self._saw_head(AUDIT, (int(n), text(head)))
        self._saw_policy([*put, count])
        return int(count)

    async def ask_pairing(self, account: str, channel: str, workspace: str, digest: str) -> bool:
        """Keep a stranger's question, if it is new and few others wait there; say whether it was kept."""
        asked: list[Arg] = ["ask", raw(account), wire_access.scope(channel, workspace), digest]
        reply = await self._pair([*asked, CODE_LIFE_MS, MOST_REQUESTS])
        return reply[0] == b"ok"

    async def try_pairing(self, principal: str, digest: str) -> str | None:
        """Return the account that was given a code, None for a wrong one, which is counted."""
        tried: list[Arg] = ["try", raw(principal), digest]
        reply = await self._pair([*tried, CODE_LIFE_MS, MOST_WRONG_CODES])
        if reply[0] == b"locked":
            raise BusyError
        return text(reply[1]) if reply[0] == b"found" else None

    async def pairings(self) -> tuple[PairingRequest, ...]:
        """Return the strangers who wait for an answer, the first who asked first."""
        flat, (seconds, micros) = await self._link.commands(("HGETALL", PAIRINGS), ("TIME",))
        now = int(seconds) * 1000 + int(micros) // 1000
        found = wire.reading(lambda: wire_access.pairings(flat))
        return tuple(one for one in found if one.expires_at > now)

    async def _pair(self, args: list[Arg]) -> list[Reply]:
        return await self._link.script(Script.PAIR, [audit_op(self._ids.op()), PAIRINGS], args)
