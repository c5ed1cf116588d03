"""The connections to servers with accounts: one for each account at each server, ended after a while without a call."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bot.core.clock import Clock
from bot.mcp.accounts.records import AccountKey

if TYPE_CHECKING:
    from bot.mcp.connection import McpConnection

MOST: Final = 200
"""The most connections of a process that are kept without a call."""

_IDLE_SECONDS: Final = 900.0
"""The time without a call after which a connection is ended, in seconds."""


@dataclass
class _Kept:
    connection: "McpConnection"
    task: "asyncio.Task[None]"
    calls: int = 0
    since: float = 0.0


class AccountConnections:
    """Keeps them in a task group that lives as long as they may.

    `make` makes the connection of an account at a server.
    """

    def __init__(
        self, tasks: asyncio.TaskGroup, clock: Clock, make: Callable[[str, AccountKey], "McpConnection"]
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._make = make
        # The one that was used longest ago comes first.
        self._kept = dict[tuple[str, AccountKey], _Kept]()

    @contextmanager
    def using(self, server: str, key: AccountKey) -> Generator["McpConnection"]:
        """Return the connection of an account at a server for the time of a call."""
        kept = self._kept.pop((server, key), None)
        if kept is None:
            connection = self._make(server, key)
            kept = _Kept(connection, self._tasks.create_task(connection.keep()))
        self._kept[(server, key)] = kept
        kept.calls += 1
        self._clear(server, key)
        try:
            yield kept.connection
        finally:
            kept.calls -= 1
            kept.since = self._clock.monotonic()

    def last(self, server: str) -> "McpConnection | None":
        """Return the connection to a server that was used last, for operators."""
        return next((kept.connection for (name, _), kept in reversed(self._kept.items()) if name == server), None)

    def stop(self) -> None:
        """Let all connections end when they are cancelled."""
        for kept in self._kept.values():
            kept.connection.stop()

    def _clear(self, server: str, key: AccountKey) -> None:
        """End connections without a call: idle ones, too many, and those of an earlier account of its principal."""
        now = self._clock.monotonic()
        for place, kept in [*self._kept.items()]:
            earlier = place[0] == server and place[1].principal == key.principal and place[1] != key
            idle = now - kept.since > _IDLE_SECONDS
            if not kept.calls and (earlier or idle or len(self._kept) > MOST):
                kept.connection.stop()
                kept.task.cancel()
                del self._kept[place]
