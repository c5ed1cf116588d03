"""Rate limits of senders: people by the minute, other bots until a person writes.

A person's messages, commands and presses are counted in a pool for each level (ADR 0015), over all processes. Urgent
commands have a limit of their own, of the same size: a person beyond the limit can still stop a turn and answer
questions. The owner has no limit: a whole file may be piped into the console.
"""

from typing import TYPE_CHECKING, Final

from bot.access import labelling
from bot.access.authorize import Caller
from bot.gate.gate import Gate
from bot.ingress.bot_loop_guard import BotLoopGuard
from bot.rates import SharedRates
from bot.sessions.audit import AuditRow
from bot.sessions.ports.accounts import CountStore
from bot.sessions.ports.people import AuditStore
from channels.messages import Inbound
from policy.request import Role

if TYPE_CHECKING:
    from pydantic import JsonValue

FLOODED: Final = "Rate limit reached. This message was not accepted; try again in a minute."
"""The answer, once in a minute, to a person whose messages exceed the limit."""


_TOLD_MS: Final = 60_000


class FloodLimits:
    """Counts inputs of senders.

    `most` is how many messages of one person are accepted within a minute, and `told` notes who was told.
    """

    def __init__(
        self, gate: Gate, audit: AuditStore, bots: BotLoopGuard, *, rates: SharedRates, told: CountStore, most: int
    ) -> None:
        self._gate = gate
        self._audit = audit
        self._bots = bots
        self._rate = rates.limiter("person", most)
        self._told = told

    async def heard(self, inbound: Inbound) -> None:
        """Note an input, addressed to this bot or not: bots may continue where a person wrote.

        Raises StoreError.
        """
        await self._bots.heard(inbound)

    async def answers(self, inbound: Inbound) -> bool:
        """Count a bot's message and say whether it is answered; a person's always is. Raises StoreError."""
        return await self._bots.lets(inbound)

    async def allows(self, inbound: Inbound, caller: Caller, *, urgent: bool) -> bool:
        """Count a person's input and say whether it is accepted.

        In one process a redelivered input counts once, and so does an album.
        """
        key = f"{urgent:d}/{self._pool(inbound, caller)}"
        album = "" if inbound.part is None else inbound.part.album
        use = f"{inbound.address}/album/{album}" if album else inbound.identity
        return caller.role is Role.OWNER or await self._rate.allows(key, use)

    async def refuse(self, inbound: Inbound, caller: Caller) -> str:
        """Return the notice for a person whose message is not accepted, and audit that, both once a minute.

        The text is empty if they were told within the minute. Raises StoreError.
        """
        if await self._told.count(f"flooded/{self._pool(inbound, caller)}", _TOLD_MS) > 1:
            return ""
        body: dict[str, JsonValue] = {"account": inbound.account, "address": str(inbound.address)}
        await self._audit.append((AuditRow("refused", "router", {**body, "reason": "too many messages"}),))
        return FLOODED

    def _pool(self, inbound: Inbound, caller: Caller) -> str:
        """Return the pool that a message is counted in: its sender's, at the level of messages here (ADR 0015)."""
        label = labelling.inbound(
            self._gate.document, inbound.address, caller.role, authored=True, shared=not inbound.private
        )
        return f"{caller.principal} {label.secrecy}"
