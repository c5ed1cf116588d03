"""How much each sender may say: people within a minute, other bots until a person writes.

What a person says is counted in a pool of theirs for each level (ADR 0015), commands and presses too. Urgent commands
are counted apart, as many again: a person who has said too much still stops what runs and answers what waits. The owner
is not bounded: theirs is the console, where a whole file may be piped in.
"""

from typing import TYPE_CHECKING, Final

from bot.access import labelling
from bot.access.authorize import Caller
from bot.core.clock import Clock
from bot.core.rate_limiter import RateLimiter
from bot.gate.gate import Gate
from bot.ingress.bot_loop_guard import BotLoopGuard
from bot.sessions.audit import AuditRow
from bot.sessions.ports.people import AuditStore
from channels.messages import Inbound
from policy.request import Role

if TYPE_CHECKING:
    from pydantic import JsonValue

FLOODED: Final = "you say more than is taken in within a minute, what you say now is not taken in, wait a minute"
"""The answer, once in a minute, to a person whose messages exceed the limit."""


class FloodLimits:
    """Counts what senders say; `most` is how many messages of one person are taken in within a minute."""

    def __init__(self, gate: Gate, audit: AuditStore, bots: BotLoopGuard, *, clock: Clock, most: int) -> None:
        self._gate = gate
        self._audit = audit
        self._bots = bots
        self._rate = RateLimiter(clock, most)
        self._told = RateLimiter(clock, 1)

    async def heard(self, inbound: Inbound) -> None:
        """Take note of what came in, addressed to this bot or not: bots may go on where a person wrote.

        Raises StoreError.
        """
        await self._bots.heard(inbound)

    async def answers(self, inbound: Inbound) -> bool:
        """Count a message that a bot wrote and say whether it is answered; a person's always is. Raises StoreError."""
        return await self._bots.lets(inbound)

    def allows(self, inbound: Inbound, caller: Caller, *, urgent: bool) -> bool:
        """Count what a person says and say whether it is taken in. What a platform tells again counts once."""
        key = f"{urgent:d}/{self._pool(inbound, caller)}"
        return caller.role is Role.OWNER or self._rate.allows(key, inbound.identity)

    async def refuse(self, inbound: Inbound, caller: Caller) -> str:
        """Return what a person is told whose message is not taken in, and note it in the audit, both once in a minute.

        Returns an empty text where they were told within the minute. Raises StoreError.
        """
        if not self._told.allows(self._pool(inbound, caller)):
            return ""
        body: dict[str, JsonValue] = {"account": inbound.account, "address": str(inbound.address)}
        await self._audit.append((AuditRow("refused", "router", {**body, "reason": "too many messages"}),))
        return FLOODED

    def _pool(self, inbound: Inbound, caller: Caller) -> str:
        """Name the pool that a message is counted in: its sender's, at the level of what is said here (ADR 0015)."""
        label = labelling.inbound(
            self._gate.document, inbound.address, caller.role, authored=True, shared=not inbound.private
        )
        return f"{caller.principal} {label.secrecy}"
