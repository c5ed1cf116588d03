"""The tokens of programs, beside the audit chain with the rows of their creation.

A change counts as a change of access rights (`RedisAccess`), so that the policy's head tells every process. There are
no secrets here, only digests under a key of the installation.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from bot.core.errors import BusyError, NotFoundError
from bot.sessions.api_tokens import ApiToken, NewSecret, NewToken, Scope
from bot.sessions.audit import AuditRow
from bot.store.calls import Arguments, ScriptAnswer, nested
from bot.store.records import codec
from bot.store.records.codec import pairs, text
from bot.store.records.form import unpack
from bot.store.records.kinds import TOKEN
from bot.store.schema import OVERRIDES, POLICY, TOKENS
from bot.store.scripts.loader import Script
from bot.store.shared import Shared
from policy.labels import parse

MOST_TOKENS: Final = 1_000
"""The most names of tokens in one installation, revoked ones included: each process knows all of them."""

_KEYS: Final = MappingProxyType({"policy": POLICY, "overrides": OVERRIDES, "tokens": TOKENS})


class RedisTokens:
    """Implements the port `TokenStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def now_ms(self) -> int:
        """Return the time on the store's clock in milliseconds, as far as this process knows."""
        return self._shared.time.wall_ms()

    async def tokens(self) -> tuple[ApiToken, ...]:
        """Return all tokens by name."""
        (flat,) = await self._shared.connection.commands(("HGETALL", TOKENS))
        return codec.reading(lambda: read_tokens(flat))

    async def create(self, new: NewToken, audit: tuple[AuditRow, ...]) -> ApiToken | None:
        """Keep a new token, unless its name was ever used."""
        record = nested(
            {
                "id": new.id,
                "scope": new.scope.value,
                "clearance": str(new.clearance),
                "digest": new.digest,
                "creator": new.created_by,
                "per_minute": new.per_minute,
            }
        )
        args = {"name": new.name, "record": record, "life": new.life, "most": MOST_TOKENS}
        got = await self._shared.change_outside(Script.ADD_PROGRAM, _KEYS, args, audit)
        if got.word == "full":
            raise BusyError
        return None if got.word == "taken" else self._changed(new.name, got)

    async def rotate(self, name: str, secret: NewSecret, audit: tuple[AuditRow, ...]) -> ApiToken:
        """Give a token a new secret."""
        args = {"name": name, "id": secret.id, "digest": secret.digest, "life": secret.life}
        return await self._change(name, args, audit)

    async def revoke(self, name: str, audit: tuple[AuditRow, ...]) -> ApiToken:
        """Revoke a token."""
        return await self._change(name, {"name": name}, audit)

    async def _change(self, name: str, args: Arguments, audit: tuple[AuditRow, ...]) -> ApiToken:
        got = await self._shared.change_outside(Script.CHANGE_PROGRAM, _KEYS, args, audit)
        if got.word == "none":
            raise NotFoundError
        return self._changed(name, got)

    def _changed(self, name: str, got: ScriptAnswer) -> ApiToken:
        self._shared.saw_policy_of(got)
        return codec.reading(lambda: _token(name, got.value("token")))


def read_tokens(flat: Sequence[bytes]) -> tuple[ApiToken, ...]:
    """Read all tokens, by name."""
    found = [_token(text(name), stored) for name, stored in pairs(flat).items()]
    return tuple(sorted(found, key=lambda one: one.name))


def _token(name: str, stored: bytes) -> ApiToken:
    one = unpack(TOKEN, stored)
    return ApiToken(
        name,
        one["id"],
        Scope(one["scope"]),
        parse(one["clearance"]),
        one["digest"],
        created_at=one["created"],
        expires_at=one["expires"],
        created_by=one["creator"],
        per_minute=one["per_minute"],
        revoked_at=one["revoked"],
    )
