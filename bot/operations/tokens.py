"""Tokens of programs: make one, give it another secret, revoke it, and list them.

The text of a token is returned once, to its maker, and kept nowhere. A change is audited in the same step, and in force
in this process when the method returns; the others follow before they decide again.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from bot.access.authorize import Caller
from bot.access.tokens import Tokens, token_text
from bot.core.errors import BusyError, NotFoundError, OperatorError
from bot.core.ids import Ids
from bot.core.json_values import JsonObject
from bot.policy_state import PolicyReloader
from bot.sessions.api_tokens import ApiToken, NewSecret, NewToken, Scope
from bot.sessions.audit import AuditRow
from bot.sessions.ports.store import Store
from policy.document import reading
from policy.labels import Label


class TokenState(StrEnum):
    """The state of a token that a program shows; `void` is one that the policy in force does not let in."""

    LIVE = "live"
    EXPIRED = "expired"
    REVOKED = "revoked"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token, and whether it counts now."""

    token: ApiToken
    state: TokenState


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A token with its text, which is never told again."""

    token: ApiToken
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The settings of a token; `life` is in milliseconds, 0 for ever, and `per_minute` 0 as configured."""

    name: str
    scope: Scope
    clearance: Label
    life: int
    per_minute: int = 0


class TokenKeeper:
    """Makes, changes and lists tokens. `tokens` tells which of them are valid."""

    def __init__(self, store: Store, reloader: PolicyReloader, tokens: Tokens, *, ids: Ids) -> None:
        self._store, self._reloader, self._tokens = store, reloader, tokens
        self._ids = ids

    async def listed(self) -> tuple[ListedToken, ...]:
        """Return all of them by name, those that count no more too. Raises StoreError."""
        await self._reloader.current_now()
        now = self._store.tokens.now_ms()
        return tuple([ListedToken(one, self._state(one, now)) for one in await self._store.tokens.tokens()])

    def _state(self, token: ApiToken, now: int) -> TokenState:
        if token.live(now):
            return TokenState.VOID if self._tokens.of(token.name) is None else TokenState.LIVE
        return TokenState.REVOKED if token.revoked else TokenState.EXPIRED

    async def create(self, asked: TokenRequest, by: Caller) -> MadeToken:
        """Make a token.

        Raises:
            OperatorError: it cannot be called so, or may not know that.
            StoreError: the store cannot be used.
        """
        if not reading.is_name(asked.name):
            raise OperatorError(
                f"`{asked.name}` is not a name", next_step="use up to 64 lower-case letters, digits, `_` and `-`"
            )
        if not asked.clearance.flows_to(by.clearance):
            raise OperatorError(
                "a token may know no more than who makes it",
                next_step=f"give it at most the clearance of `{by.principal}` in `policy.principals`",
            )
        token_id, text, digest = await self._secret()
        new = NewToken(
            asked.name,
            token_id,
            asked.scope,
            asked.clearance,
            digest,
            created_by=by.principal,
            life=asked.life,
            per_minute=asked.per_minute,
        )
        told = {"id": token_id, "scope": asked.scope.value, "clearance": str(asked.clearance), "life": asked.life}
        try:
            made = await self._store.tokens.create(new, _rows("create", asked.name, by.principal, told))
        except BusyError:
            raise OperatorError(
                "there are as many tokens as may be", next_step="use one for several programs"
            ) from None
        if made is None:
            raise OperatorError(
                f"the name `{asked.name}` was given before and is never given again, as sessions belong to it",
                next_step=f"choose another name, or `lockgate token rotate {asked.name}` if that token was not revoked",
            )
        await self._reloader.open()
        return MadeToken(made, text)

    async def rotate(self, name: str, life: int, by: str) -> MadeToken:
        """Give a token that was not revoked another secret, for another life. Raises OperatorError. StoreError."""
        token_id, text, digest = await self._secret()
        told: JsonObject = {"id": token_id, "life": life}
        try:
            made = await self._store.tokens.rotate(
                name, NewSecret(token_id, digest, life), _rows("rotate", name, by, told)
            )
        except NotFoundError:
            raise _unknown(name) from None
        await self._reloader.open()
        return MadeToken(made, text)

    async def revoke(self, name: str, by: str) -> ApiToken:
        """Let a token count no more, for good.

        Raises:
            OperatorError: there is no such token.
            StoreError: the store cannot be used.
        """
        try:
            token = await self._store.tokens.revoke(name, _rows("revoke", name, by, {}))
        except NotFoundError:
            raise _unknown(name) from None
        await self._reloader.open()
        return token

    async def _secret(self) -> tuple[str, str, str]:
        """Return a new secret: its name, the text of the token, and the digest that is kept."""
        await self._tokens.follow()
        token_id = self._ids.token()
        text = token_text(token_id, self._ids.secret())
        return token_id, text, self._tokens.digest(text)


def _rows(change: str, name: str, by: str, told: JsonObject) -> tuple[AuditRow, ...]:
    return (AuditRow("token", by, {"change": change, "program": name, **told}),)


def _unknown(name: str) -> OperatorError:
    return OperatorError(
        f"there is no token `{name}` that counts", next_step="`lockgate token list` names them; a revoked one stays so"
    )
