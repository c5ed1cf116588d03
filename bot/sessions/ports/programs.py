"""The port for programs: their tokens.

Every method that changes something is one atomic, idempotent script (law `lost_reply_never_duplicates`). It counts as
a change of who may what, so that every process follows it before it decides again. Foreign exceptions never leave an
implementation: a store that does not answer raises StoreGoneError, one that refuses StoreRefusedError, records of a
newer version SchemaError.
"""

from typing import Protocol

from bot.sessions.api_tokens import ApiToken, NewSecret, NewToken
from bot.sessions.audit import AuditRow


class TokenStore(Protocol):
    """The tokens of programs."""

    def now_ms(self) -> int:
        """Return the time on the store's clock, as it was known when the policy's head was read last."""
        ...

    async def tokens(self) -> tuple[ApiToken, ...]:
        """Return all of them by name, those that were revoked and those that expired too."""
        ...

    async def create(self, new: NewToken, audit: tuple[AuditRow, ...]) -> ApiToken | None:
        """Keep a new token and append the rows that tell of it, in one step; None if its name was ever given.

        Raises BusyError: there are as many as may be.
        """
        ...

    async def rotate(self, name: str, secret: NewSecret, audit: tuple[AuditRow, ...]) -> ApiToken:
        """Give a token another secret, in one step with the rows; the last one counts no more.

        Raises NotFoundError: there is no such token, or it was revoked.
        """
        ...

    async def revoke(self, name: str, audit: tuple[AuditRow, ...]) -> ApiToken:
        """Let a token count no more, in one step with the rows; its digest is forgotten and its name stays taken.

        Raises NotFoundError: there is no such token, or it was revoked before.
        """
        ...
