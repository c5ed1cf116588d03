"""Token budgets: daily ones of each person, each shared chat and all together, and one of a session.

Tokens are set aside before a model is asked, and its real use is counted in their place; unknown use counts as all that
was set aside. A background session uses the budgets of the person who set it going and of the chat it came from.
Without a configured budget nothing is counted here, and the store is not asked. A session's own budget is for one
generation, counted in its own record under the fence: tokens that a dead worker had set aside are charged in full.

A person and a chat have a budget for each level and compartments (ADR 0015). The pool is fixed when tokens are set
aside, by all data that the model is then given. The number of tokens depends on nothing else, so they are settled
there.

If a budget is short only because of tokens that others have set aside, the caller waits a moment. The refusal for a
used-up or still reserved budget is a constant: it reveals nothing of others' use (law `no_read_up`).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from bot.access import principals
from bot.access.decision_context import DecisionContext
from bot.config.model import Config
from bot.core.errors import BusyError, LeaseLostError, LockgateError, StoreError
from bot.core.ids import Ids
from bot.sessions.audit import AuditRow
from bot.sessions.budgets import Budgets, Lack, Shortage, Spender, Spent, Whose
from bot.sessions.limits import TokenAllowance
from bot.sessions.ports.accounts import BudgetStore
from bot.sessions.usage import Usage
from policy.labels import Label

if TYPE_CHECKING:
    from pydantic import JsonValue

USED_UP: Final = MappingProxyType(
    {
        Whose.PERSON: "your tokens of today are used up, or too few are left for this",
        Whose.CHAT: "the tokens of this chat for today are used up, or too few are left for this",
        Whose.ALL: "no tokens are left here for today",
        Whose.SESSION: "the tokens of this conversation are used up, or too few are left for this",
    }
)
RESET: Final = "`/reset` begins a new one, and an admin of this bot can give more"
AGAIN: Final = "there are new ones from midnight UTC on, and an admin of this bot can give more"
NEVER: Final = f"this conversation needs more tokens for one answer than there are for a day; {RESET}"

_GRACE_MS: Final = 30_000
"""How many milliseconds longer than a model may take tokens are set aside for it."""

_PATIENCE: Final = 5.0
"""The most seconds to wait for tokens that others have set aside: many answers are finished in them."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
"""Seconds between two tries, which double."""


class BudgetError(LockgateError):
    """A budget does not suffice; the text is for the asker."""

    code = "budget"

    def __init__(self, shortage: Shortage, tokens: int) -> None:
        super().__init__(_told(shortage))
        self._shortage = shortage
        self._tokens = tokens

    @property
    def passing(self) -> bool:
        """Whether it may suffice in a moment."""
        return self._shortage.lack is Lack.HELD

    def row(self, standing: DecisionContext) -> AuditRow:
        """Return the audit row of the refusal."""
        body: dict[str, JsonValue] = {
            "budget": self._shortage.whose.value,
            "lack": self._shortage.lack.value,
            "tokens": self._tokens,
            # The number of tokens reveals the size of the session's context.
            "taint": str(_label(standing)),
        }
        return AuditRow("refused", standing.asker, {"reason": "the budget does not suffice", **body})


@dataclass(slots=True)
class Spending:
    """A request to a model: `used` is its use, None while that is unknown."""

    used: Usage | None = None

    @property
    def complete(self) -> bool:
        """Whether all of its use is known."""
        return self.used is not None and self.used.complete

    def charged(self, reserved: int) -> int:
        """Return how many tokens count as used: unknown use counts as all that was set aside."""
        used = self.used or Usage(complete=False)
        known = used.input_tokens + used.output_tokens
        return known if used.complete else known + reserved


class Budget:
    """Sets tokens aside and counts them. `life` is how long a model may take to answer, in milliseconds.

    `patience` is the most seconds to wait for tokens that others have set aside.
    """

    def __init__(self, store: BudgetStore, ids: Ids, limits: Budgets, *, life: int, patience: float) -> None:
        self._store = store
        self._ids = ids
        self.limits = limits
        self._life = life
        self._patience = patience

    @asynccontextmanager
    async def spending(self, standing: DecisionContext, tokens: Callable[[], int]) -> AsyncGenerator[Spending]:
        """Ask a model within the block, which notes the use; `tokens` returns how many it may be.

        It waits a moment for a budget of which others have set too much aside.

        Raises:
            BudgetError: A budget does not suffice, and the model must not be asked.
            LeaseLostError: Another worker has the session.
            StoreError: The store does not answer.
        """
        spending, allowance = Spending(), standing.allowance
        if standing.prepaid or (not self.limits.kept and allowance is None):
            yield spending
            return
        reserved = tokens()
        async with self._of_session(allowance, reserved, spending), self._of_day(standing, reserved, spending):
            yield spending

    async def charge(self, standing: DecisionContext, tokens: int) -> None:
        """Charge a number of tokens that is fixed beforehand, for any use. Raises as `spending`."""
        async with self.spending(standing, lambda: tokens) as spending:
            spending.used = Usage(1, tokens)

    @asynccontextmanager
    async def _of_day(self, standing: DecisionContext, tokens: int, spending: Spending) -> AsyncGenerator[None]:
        """Use the budgets of the day within the block. Raises BudgetError, StoreError."""
        if not self.limits.kept:
            yield
            return
        reservation, spender = self._ids.op(), _spender(standing)
        await self._set_aside(
            tokens,
            lambda: self._store.reserve_tokens(reservation, spender, tokens, budgets=self.limits, life=self._life),
        )
        try:
            yield
        finally:
            used = spending.charged(tokens)
            # If it cannot be written now, they are given back in their time, and shown as unknown.
            with anyio.CancelScope(shield=True), suppress(StoreError):
                await self._store.settle_tokens(reservation, spender, used, complete=spending.complete)

    @asynccontextmanager
    async def _of_session(
        self, allowance: TokenAllowance | None, tokens: int, spending: Spending
    ) -> AsyncGenerator[None]:
        """Use a session's own budget within the block. Raises BudgetError, LeaseLostError, StoreError."""
        if allowance is None:
            yield
            return
        reservation, unasked = self._ids.op(), False
        await self._set_aside(tokens, lambda: self._store.reserve_of_session(reservation, tokens, allowance))
        try:
            yield
        except BudgetError:
            unasked = True
            raise
        finally:
            used = 0 if unasked else spending.charged(tokens)
            # If it cannot be written now, or another worker has the session, all reserved tokens are charged there.
            with anyio.CancelScope(shield=True), suppress(StoreError, LeaseLostError):
                await self._store.charge_session(reservation, used, allowance)

    async def _set_aside(self, tokens: int, reserve: Callable[[], Awaitable[Shortage | None]]) -> None:
        """Set tokens aside; none are while it waits. Raises BudgetError, StoreError."""
        until = min(anyio.current_time() + self._patience, anyio.current_effective_deadline())
        pause, shortage = _FIRST_PAUSE, None
        while True:
            # Without a break: if a stop interrupted it, tokens would be set aside that nobody settles.
            with anyio.CancelScope(shield=True):
                shortage = await reserve()
            if shortage is None:
                return
            if shortage.lack is not Lack.HELD or anyio.current_time() + pause >= until:
                raise BudgetError(shortage, tokens)
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def spent(self) -> tuple[Spent, ...]:
        """Return the tokens used today; none if there is no budget. Raises StoreError."""
        return await self._store.spent_today() if self.limits.kept else ()


def budget(store: BudgetStore, ids: Ids, config: Config) -> Budget:
    """Return the configured budgets."""
    limits = config.limits
    seconds = max(config.model.answer_seconds, 0 if config.transcriber is None else config.transcriber.seconds)
    budgets = Budgets(limits.person_daily_tokens, limits.chat_daily_tokens, limits.daily_tokens)
    return Budget(store, ids, budgets, life=int(seconds * 1000) + _GRACE_MS, patience=_PATIENCE)


def _told(shortage: Shortage) -> str:
    own = shortage.whose is Whose.SESSION
    match shortage.lack:
        case Lack.NEVER if not own:
            return NEVER
        case Lack.NEVER | Lack.USED:
            return f"{USED_UP[shortage.whose]}; {RESET if own else AGAIN}"
        case Lack.HELD:
            return str(BusyError())


def _spender(standing: DecisionContext) -> Spender:
    chat = standing.principal if principals.is_chat(standing.principal) else ""
    return Spender(standing.asker, chat, _label(standing))


def _label(standing: DecisionContext) -> Label:
    return standing.taint.join(standing.visibility)
