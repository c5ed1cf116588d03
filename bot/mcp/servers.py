"""All configured servers: their tools, and their connections once one is called."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from bot.config.mcp import McpServerSettings
from bot.core.clock import Clock
from bot.core.errors import ConfigError
from bot.mcp.accounts.records import AccountKey
from bot.mcp.accounts.tokens import AccountTokens
from bot.mcp.listing import ServerTool
from bot.mcp.pool import AccountConnections
from bot.mcp.tool import NOT_RUNNING, Ask, Keep, McpResult, McpTool

if TYPE_CHECKING:
    from bot.mcp.accounts.signing import AccountSigner
    from bot.mcp.connection import McpConnection


def check_library(settings: Mapping[str, McpServerSettings]) -> None:
    """Check that the library that speaks with servers is there, if any are configured.

    Raises ConfigError: it is not installed.
    """
    if settings and find_spec("mcp") is None:
        raise ConfigError(
            "`mcp_servers` needs a package that is not installed",
            next_step="install `lockgate[mcp]`",
        )


_LONGEST_NAME: Final = 128
_MOST: Final = 1000
"""The most tools of a server that operators see: the server itself chooses their number and names."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The findings about a server: why it cannot be asked, listed tools it lacks, tools of it that are not listed."""

    problem: str = ""
    lacking: tuple[str, ...] = ()
    not_offered: tuple[str, ...] = ()


class Servers:
    """The servers of a configuration; `environment` is Lockgate's, of which they get little.

    `scrub` takes the values of secrets out of all their words, before any of it is cut. `keep` keeps the files of their
    results; without it they are left out. `accounts` are those of servers that ask for one; without them no such server
    is called.

    Raises ConfigError: the library that speaks with them is not installed.
    """

    def __init__(
        self,
        settings: Mapping[str, McpServerSettings],
        environment: Mapping[str, str],
        clock: Clock,
        scrub: Callable[[str], str],
        *,
        keep: Keep | None = None,
        accounts: AccountTokens | None = None,
    ) -> None:
        check_library(settings)
        self._keep = keep
        self._accounts = accounts
        self._of_accounts: AccountConnections | None = None
        self._settings = settings
        self._environment = environment
        self._clock = clock
        self._scrub = scrub
        self._connections: dict[str, McpConnection] = {}
        self._serving = False
        self._needed = asyncio.Event()
        self._made = asyncio.Event()

    @property
    def tools(self) -> tuple[McpTool, ...]:
        """The tools that the configuration lists, in its order."""
        return tuple(
            McpTool(server, tool, settings, partial(self.call, server), keep=self._keep, accounts=self._accounts)
            for server, settings in self._settings.items()
            for tool in settings.tools
        )

    async def serve(self) -> None:
        """Connect servers when they are called, until cancelled; then all of them are gone."""
        self._serving = True
        try:
            await self._needed.wait()
            module = await asyncio.to_thread(import_module, "bot.mcp.connection")
            make: type[McpConnection] = module.McpConnection
            async with asyncio.TaskGroup() as tasks:
                for name, settings in self._settings.items():
                    if settings.oauth is None:
                        self._connections[name] = make(
                            name, settings, self._environment, clock=self._clock, scrub=self._scrub
                        )
                        tasks.create_task(self._connections[name].keep())
                self._of_accounts = await self._made_for_accounts(tasks, make)
                self._made.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    for connection in self._connections.values():
                        connection.stop()
                    if self._of_accounts is not None:
                        self._of_accounts.stop()
        finally:
            self._serving = False
            self._of_accounts = None
            self._connections.clear()
            self._needed.clear()
            self._made.clear()

    async def call(self, server: str, ask: Ask) -> McpResult:
        """Have a server answer a call; where none is served, or it does not answer, the outcome is a constant."""
        async with self._connection(server, ask.account) as connection:
            return McpResult(NOT_RUNNING, failed=True) if connection is None else await connection.call(ask)

    def complaint(self, server: str) -> str:
        """Return the last fault of a server, and the last line it wrote, for operators."""
        connection = self._connections.get(server)
        if connection is None and self._of_accounts is not None:
            connection = self._of_accounts.last(server)
        return "" if connection is None else connection.told

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None]:
        """Serve within a block, for a look at the servers outside of sessions."""
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self.serve())
            # Now it has begun.
            await asyncio.sleep(0)
            try:
                yield
            finally:
                serving.cancel()

    async def look(self, server: str, handed: Mapping[str, str], account: AccountKey | None = None) -> ServerState:
        """Connect a server and return its tools; `handed` and `account` are as in `Ask`.

        The caller must be within `served`.
        """
        async with self._connection(server, account) as connection:
            found = None if connection is None else await connection.listed(handed)
        if found is None:
            return ServerState(self.complaint(server) or "it cannot be asked")
        listed, names = self._settings[server].tools, {tool.name for tool in found}
        others = sorted(_shown(name) for name in names if name not in listed)
        return ServerState(
            lacking=tuple(tool for tool in listed if tool not in names), not_offered=tuple(others[:_MOST])
        )

    async def listed(
        self, server: str, handed: Mapping[str, str], account: AccountKey | None = None
    ) -> tuple[ServerTool, ...] | None:
        """Connect a server and return its tools as it lists them, None if it cannot be asked; see `look`."""
        async with self._connection(server, account) as connection:
            return None if connection is None else await connection.listed(handed)

    @asynccontextmanager
    async def _connection(self, server: str, account: AccountKey | None) -> "AsyncGenerator[McpConnection | None]":
        """Return the connection to a server, or that of an account there; None where there is none to be had."""
        if not self._serving:
            yield None
            return
        self._needed.set()
        await self._made.wait()
        if self._settings[server].oauth is None:
            yield self._connections[server]
        elif account is None or self._of_accounts is None:
            yield None
        else:
            with self._of_accounts.using(server, account) as connection:
                yield connection

    async def _made_for_accounts(
        self, tasks: asyncio.TaskGroup, make: "type[McpConnection]"
    ) -> AccountConnections | None:
        """Return the connections of accounts, None if no server asks for one."""
        tokens = self._accounts
        if tokens is None or all(settings.oauth is None for settings in self._settings.values()):
            return None
        module = await asyncio.to_thread(import_module, "bot.mcp.accounts.signing")
        signs: type[AccountSigner] = module.AccountSigner

        def made(server: str, account: AccountKey) -> "McpConnection":
            signer = signs(tokens, server, account)

            def scrub(text: str) -> str:
                return signer.scrub(self._scrub(text))

            settings = self._settings[server]
            return make(server, settings, self._environment, clock=self._clock, scrub=scrub, signer=signer)

        return AccountConnections(tasks, self._clock, made)


def _shown(name: str) -> str:
    """Return a name that a server made up in one short line."""
    return "".join(char if char.isprintable() else " " for char in name[:_LONGEST_NAME])
