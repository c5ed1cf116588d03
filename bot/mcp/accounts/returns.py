"""Where people come back after they consented: at a public address, or without one at this machine.

The processes that listen to platforms serve a public address. Without one, the process that makes a link listens on
loopback from the first link on, for a browser that runs on this machine.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bot.config.accounts.oauth import McpAccountsSettings

if TYPE_CHECKING:
    from bot.mcp.accounts.page import Take

PATH: Final = "/accounts/back"
"""The path of the page on loopback."""


class ReturnPlace:
    """Listens for people who come back; `take` takes them in."""

    def __init__(self, settings: McpAccountsSettings, take: "Take") -> None:
        self._settings = settings
        self._take = take
        self._open = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._here = ""

    @property
    def lasting(self) -> bool:
        """Whether the address is the same at every start."""
        return bool(self._settings.url or self._settings.port)

    @property
    def public(self) -> bool:
        """Whether people come back from elsewhere than this machine."""
        return self._settings.url is not None

    async def address(self) -> str:
        """Return where people come back to; on this machine, this process listens there from now on.

        Raises OSError: it cannot.
        """
        if self._settings.url is not None:
            return self._settings.url
        async with self._opening:
            if not self._here:
                settings = self._settings
                host = f"[{settings.host}]" if ":" in settings.host else settings.host
                port = await self._open.enter_async_context(await self._serving(PATH))
                self._here = f"http://{host}:{port}{PATH}"
        return self._here

    async def serve(self) -> None:
        """Serve the public address until cancelled. Raises OSError: its port cannot be listened at."""
        if self._settings.url is not None:
            async with await self._serving(urlsplit(self._settings.url).path or "/"):
                await asyncio.Event().wait()

    async def close(self) -> None:
        """Listen on this machine no more."""
        await self._open.aclose()

    async def _serving(self, path: str) -> AbstractAsyncContextManager[int]:
        module = await asyncio.to_thread(import_module, "bot.mcp.accounts.page")
        return module.serving(path, self._settings.host, self._settings.port, self._take)
