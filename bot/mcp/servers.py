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
from bot.mcp.tool import NOT_RUNNING, Ask, McpResult, McpTool

if TYPE_CHECKING:
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

    `scrub` takes the values of secrets out of all their words, before any of it is cut.

    Raises ConfigError: the library that speaks with them is not installed.
    """

    def __init__(
        self,
        settings: Mapping[str, McpServerSettings],
        environment: Mapping[str, str],
        clock: Clock,
        scrub: Callable[[str], str],
    ) -> None:
        check_library(settings)
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
            McpTool(server, tool, settings, partial(self.call, server))
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
                    self._connections[name] = make(
                        name, settings, self._environment, clock=self._clock, scrub=self._scrub
                    )
                    tasks.create_task(self._connections[name].keep())
                self._made.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    for connection in self._connections.values():
                        connection.stop()
        finally:
            self._serving = False
            self._connections.clear()
            self._needed.clear()
            self._made.clear()

    async def call(self, server: str, ask: Ask) -> McpResult:
        """Have a server answer a call; where none is served, or it does not answer, the outcome is a constant."""
        connection = await self._connection(server)
        if connection is None:
            return McpResult(NOT_RUNNING, failed=True)
        return await connection.call(ask)

    def complaint(self, server: str) -> str:
        """Return the last fault of a server, and the last line it wrote, for operators."""
        connection = self._connections.get(server)
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

    async def look(self, server: str, handed: Mapping[str, str]) -> ServerState:
        """Connect a server and return its tools; `handed` are its values, as in `Ask.handed`.

        The caller must be within `served`.
        """
        connection = await self._connection(server)
        found = None if connection is None else await connection.listed(handed)
        if found is None:
            return ServerState(self.complaint(server) or "it cannot be asked")
        listed = self._settings[server].tools
        others = sorted(_shown(self._scrub(tool)) for tool in found if tool not in listed)
        return ServerState(
            lacking=tuple(tool for tool in listed if tool not in found), not_offered=tuple(others[:_MOST])
        )

    async def _connection(self, server: str) -> "McpConnection | None":
        if not self._serving:
            return None
        self._needed.set()
        await self._made.wait()
        return self._connections[server]


def _shown(name: str) -> str:
    """Return a name that a server made up in one short line."""
    return "".join(char if char.isprintable() else " " for char in name[:_LONGEST_NAME])
