"""The port for programs: their tokens.

Every method that changes something is one atomic, idempotent script (law `lost_reply_never_duplicates`). A change
counts as a change of access rights, so every process follows it before its next decision. Foreign exceptions never
leave an implementation: a store that does not answer raises StoreGoneError, one that refuses StoreRefusedError, records
of a newer version SchemaError.
"""

from typing import Protocol

from bot.sessions.api_tokens import ApiToken, NewSecret, NewToken
from bot.sessions.audit import AuditRow


class TokenStore(Protocol):
    """The tokens of programs."""

    def now_ms(self) -> int:
        """Return the time on the store's clock in milliseconds, as known when the policy head was read last."""
        ...

    async def tokens(self) -> tuple[ApiToken, ...]:
        """Return all tokens by name, including revoked and expired ones."""
        ...

    async def create(self, new: NewToken, audit: tuple[AuditRow, ...]) -> ApiToken | None:
        """Keep a new token and append its audit rows, in one step; None if its name was ever used.

        Raises BusyError: there are as many tokens as there may be.
        """
        ...

    async def rotate(self, name: str, secret: NewSecret, audit: tuple[AuditRow, ...]) -> ApiToken:
        """Give a token a new secret, in one step with the audit rows; the old secret is invalid from then on.

        Raises NotFoundError: there is no such token, or it was revoked.
        """
        ...

    async def revoke(self, name: str, audit: tuple[AuditRow, ...]) -> ApiToken:
        """Revoke a token, in one step with the audit rows; its digest is forgotten and its name stays taken.

        Raises NotFoundError: there is no such token, or it was revoked before.
        """
        ...
