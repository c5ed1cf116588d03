"""Budgets of a day: what models may be used for by each person, by each shared chat and by all together.

Tokens are set aside before a model is asked, and what it used is counted in their place; what nobody knows counts as
much as was set aside. A background session uses what belongs to whoever set it going and to the chat it came from.
Where no budget is configured nothing is counted here, and the store is not asked.

That a budget is used up is told in constants: how much others used is nobody's business (law `no_read_up`).
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from bot import principals
from bot.config.model import Config
from bot.errors import LockgateError, StoreError
from bot.ids import Ids
from bot.sessions.budgets import Budgets, BudgetStore, Shortage, Spender, Spent, Whose
from bot.sessions.records import AuditRow
from bot.sessions.values import Usage
from bot.standing import Standing

if TYPE_CHECKING:
    from pydantic import JsonValue

USED_UP: Final = MappingProxyType(
    {
        Whose.PERSON: "your tokens of today are used up, or too few are left for this",
        Whose.CHAT: "the tokens of this chat for today are used up, or too few are left for this",
        Whose.ALL: "no tokens are left here for today",
    }
)
AGAIN: Final = "there are new ones from midnight UTC on, and an admin of this bot can give more"
NEVER: Final = (
    "this conversation needs more tokens for one answer than there are for a day; "
    "`/reset` begins a new one, and an admin of this bot can give more"
)

_GRACE_MS: Final = 30_000
"""How much longer than a model may take tokens are set aside for it."""


class BudgetError(LockgateError):
    """A budget does not suffice; the text is for whoever asked."""

    code = "budget"

    def __init__(self, shortage: Shortage, tokens: int) -> None:
        super().__init__(NEVER if shortage.never else f"{USED_UP[shortage.whose]}; {AGAIN}")
        self._shortage = shortage
        self._tokens = tokens

    def row(self, standing: Standing) -> AuditRow:
        """Return what the audit is told."""
        body: dict[str, JsonValue] = {"budget": self._shortage.whose.value, "tokens": self._tokens}
        return AuditRow("refused", standing.asker, {"reason": "the budget does not suffice", **body})


@dataclass(slots=True)
class Spending:
    """A model being asked: `used` is what it used, None as long as nobody knows."""

    used: Usage | None = None


class Budget:
    """Sets aside and counts. `life` is how long a model may take to answer, in milliseconds."""

    def __init__(self, store: BudgetStore, ids: Ids, limits: Budgets, life: int) -> None:
        self._store = store
        self._ids = ids
        self.limits = limits
        self._life = life

    @asynccontextmanager
    async def spending(self, standing: Standing, tokens: Callable[[], int]) -> AsyncGenerator[Spending]:
        """Ask a model within the block, which notes what it used; `tokens` says how many that may be.

        Raises BudgetError: a budget does not suffice, and the model must not be asked. StoreError.
        """
        spending = Spending()
        if not self.limits.kept:
            yield spending
            return
        reservation, spender, reserved = self._ids.op(), _spender(standing), tokens()
        shortage = None
        # To the end: torn by a stop, tokens would be set aside that nobody settles.
        with anyio.CancelScope(shield=True):
            shortage = await self._store.reserve_tokens(reservation, spender, reserved, self.limits, self._life)
        if shortage is not None:
            raise BudgetError(shortage, reserved)
        try:
            yield spending
        finally:
            used = spending.used or Usage(complete=False)
            known = used.input_tokens + used.output_tokens
            # If it cannot be written now, they come back in their time, and are shown as not known.
            with anyio.CancelScope(shield=True), suppress(StoreError):
                await self._store.settle_tokens(
                    reservation, spender, known if used.complete else known + reserved, complete=used.complete
                )

    async def spent(self) -> tuple[Spent, ...]:
        """Return what was used today; nothing if there is no budget. Raises StoreError."""
        return await self._store.spent_today() if self.limits.kept else ()


def budget(store: BudgetStore, ids: Ids, config: Config) -> Budget:
    """Return the configured budgets."""
    limits = config.limits
    seconds = max(config.model.answer_seconds, 0 if config.transcriber is None else config.transcriber.seconds)
    budgets = Budgets(limits.person_daily_tokens, limits.chat_daily_tokens, limits.daily_tokens)
    return Budget(store, ids, budgets, int(seconds * 1000) + _GRACE_MS)


def _spender(standing: Standing) -> Spender:
    chat = standing.principal if principals.is_chat(standing.principal) else ""
    return Spender(standing.asker, chat, standing.taint.join(standing.visibility))
