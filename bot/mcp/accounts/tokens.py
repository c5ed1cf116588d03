"""The tokens that count: the account of a principal at a server, renewed before its token ends or when one is refused.

An issuer may take a refresh token once. So one process of all renews it, and the others wait for the outcome; a renewal
that is begun is finished, also when the call that needs it is stopped. An account whose grant was refused is deleted.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from bot.config.mcp import McpServerSettings
from bot.core.clock import Clock
from bot.core.ids import Ids
from bot.mcp.accounts.errors import AuthorizationError, GrantRefusedError
from bot.mcp.accounts.records import Account
from bot.mcp.accounts.store import RENEWING_SECONDS, AccountStore
from bot.sessions.audit import AuditRow
from bot.sessions.ports.people import AuditStore

if TYPE_CHECKING:
    from bot.mcp.accounts.authorization import Authorization

_EARLY_MS: Final = 30_000
"""How long before its end a token is renewed, in milliseconds."""

_LOOK_SECONDS: Final = 0.05

_LOGGER: Final = logging.getLogger(__name__)


class AccountTokens:
    """The accounts of all servers. `secrets` returns the secret of a server's configured client, empty for none."""

    def __init__(
        self,
        settings: Mapping[str, McpServerSettings],
        store: AccountStore,
        audit: AuditStore,
        *,
        clock: Clock,
        ids: Ids,
        secrets: Callable[[str], str],
    ) -> None:
        self._settings = settings
        self._store = store
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._secrets = secrets
        self._spoken: dict[str, Authorization] = {}
        self._renewing = set[asyncio.Task[Any]]()

    async def authorization(self, server: str) -> "Authorization":
        """Return the part that speaks with a server's issuer. Its library is imported at the first use, in a thread."""
        if server not in self._spoken:
            module = await asyncio.to_thread(import_module, "bot.mcp.accounts.authorization")
            make: type[Authorization] = module.Authorization
            settings = self._settings[server]
            if settings.oauth is None:
                raise KeyError(server)
            self._spoken[server] = make(server, settings, settings.oauth, self._secrets(server))
        return self._spoken[server]

    async def close(self) -> None:
        """Wait until renewals that began are over: their tokens are kept before the store is closed."""
        if self._renewing:
            await asyncio.wait(self._renewing, timeout=RENEWING_SECONDS)

    async def held(self, server: str, principal: str) -> Account | None:
        """Return the account of a principal at a server as it is kept, None if there is none that fits the server."""
        account = await self._store.account(server, principal)
        # The address of the server is another one now: its tokens are not for that.
        return None if account is None or account.url != self._settings[server].url else account

    async def current(self, server: str, principal: str, refused: str = "") -> Account | None:
        """Return the account of a principal with a token that counts, None if there is none.

        Args:
            server: The server's name.
            principal: The principal, or `SHARED`.
            refused: The access token that the server refused a moment ago, empty for none.

        Raises:
            AuthorizationError: the issuer does not answer.
            StoreError: the vault cannot be used.
        """
        account = await self.held(server, principal)
        if account is None or not self._is_over(account, refused):
            return account
        if not account.refresh:
            return None if await self._lost(account) else await self.held(server, principal)
        return await self._renewed(account, refused)

    def _is_over(self, account: Account, refused: str) -> bool:
        if account.access == refused:
            return True
        return bool(account.ends) and self._clock.wall_ms() >= account.ends - (_EARLY_MS if account.refresh else 0)

    async def _renewed(self, account: Account, refused: str) -> Account | None:
        """Return the account after this process renewed it, or another one did."""
        owner = self._ids.owner()
        try:
            async with asyncio.timeout(2 * RENEWING_SECONDS):
                while not await self._store.begin_renewal(account, owner):
                    await asyncio.sleep(_LOOK_SECONDS)
                    seen = await self.held(account.server, account.principal)
                    if seen is None or not self._is_over(seen, refused):
                        return seen
        except TimeoutError:
            raise AuthorizationError(
                f"another process did not renew the account at the MCP server `{account.server}` in time"
            ) from None
        # A refresh token that was sent is spent: its answer is kept, also if the call is stopped.
        return await asyncio.shield(self._finished(account, owner, refused))

    async def _finished(self, account: Account, owner: str, refused: str) -> Account | None:
        """Renew an account and let others do so again; it runs in a task of its own, which `close` waits for."""
        if (task := asyncio.current_task()) is not None:
            self._renewing.add(task)
            task.add_done_callback(self._renewing.discard)
        try:
            seen = await self.held(account.server, account.principal)
            if seen is None or not self._is_over(seen, refused):
                return seen
            return await self._exchanged(seen)
        finally:
            await self._store.end_renewal(account, owner)

    async def _exchanged(self, account: Account) -> Account | None:
        authorization = await self.authorization(account.server)
        try:
            tokens = await authorization.renew(account)
        except GrantRefusedError:
            await self._lost(account)
            return None
        renewed = replace(
            account,
            access=tokens.access,
            refresh=tokens.refresh or account.refresh,
            scope=tokens.scope or account.scope,
            ends=self._clock.wall_ms() + tokens.seconds * 1000 if tokens.seconds else 0,
        )
        if await self._store.replace(account, renewed):
            return renewed
        # It was disconnected meanwhile, so the new tokens shall open nothing.
        await authorization.revoke(renewed)
        return None

    async def _lost(self, account: Account) -> bool:
        """Delete an account whose tokens do not count any more, and say whether it was still there."""
        deleted = await self._store.replace(account, None)
        if deleted:
            _LOGGER.warning(
                "the account at an MCP server counts no more, and was deleted",
                extra={"subject": f"MCP server `{account.server}`"},
            )
            body = {"what": "lost", "server": account.server}
            await self._audit.append((AuditRow("mcp_account", account.principal or "shared", body),))
        return deleted
