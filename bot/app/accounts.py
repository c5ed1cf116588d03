"""The accounts at MCP servers: their parts, made once for an application."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.config.model import Config
from bot.core.clock import Clock
from bot.core.errors import ConfigError
from bot.core.ids import Ids
from bot.mcp.accounts.connecting import AccountLinks
from bot.mcp.accounts.returns import ReturnPlace
from bot.mcp.accounts.store import AccountStore
from bot.mcp.accounts.tokens import AccountTokens
from channels.port import ChannelVault

if TYPE_CHECKING:
    from bot.sessions.ports.people import AuditStore


@dataclass(frozen=True, slots=True)
class Accounts:
    """The tokens that calls use, the links that connect accounts, and the place where people come back."""

    tokens: AccountTokens
    links: AccountLinks
    returns: ReturnPlace

    async def close(self) -> None:
        """Listen for nobody any more, and finish the renewals that began."""
        await self.returns.close()
        await self.tokens.close()


def accounts(
    config: Config,
    environment: Mapping[str, str],
    vault: Callable[[], ChannelVault],
    audit: "AuditStore",
    *,
    clock: Clock,
    ids: Ids,
) -> Accounts:
    """Return the parts for the accounts of a configuration.

    Raises ConfigError: the secret of a configured client is not set.
    """
    secrets = _client_secrets(config, environment)
    servers, store = config.mcp_servers, AccountStore(vault)
    tokens = AccountTokens(servers, store, audit, clock=clock, ids=ids, secrets=lambda name: secrets.get(name, ""))
    links = AccountLinks(servers, tokens, store, audit, clock=clock, ids=ids)
    return Accounts(tokens, links, ReturnPlace(config.mcp_accounts, links.returned))


def _client_secrets(config: Config, environment: Mapping[str, str]) -> dict[str, str]:
    found = dict[str, str]()
    for name, settings in config.mcp_servers.items():
        variable = None if settings.oauth is None else settings.oauth.client_secret
        if variable is None:
            continue
        found[name] = environment.get(variable, "").strip()
        if not found[name]:
            raise ConfigError(
                f"the environment variable `{variable}` is not set",
                next_step=f"set it to the secret of the client, or mend `mcp_servers.{name}.oauth.client_secret`",
            )
    return found
