"""What tests of MCP servers are made of: settings that name the simulated server, and servers that are served."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bot.config.mcp import McpServerSettings
from bot.core.clock import SystemClock
from bot.mcp.servers import Servers
from bot.mcp.tool import Ask, McpResult

PROGRAM: Final = str(Path(__file__).parents[2] / "sim" / "mcp_server.py")
SEARCH: Final[dict[str, JsonValue]] = {
    "description": "Search the notes for a word.",
    "effect": "read",
    "consequential": False,
    "arguments": {"word": {"type": "string"}, "limit": {"type": "integer", "optional": True}},
}


def command(**more: JsonValue) -> dict[str, JsonValue]:
    """Return the simulated server's entry as config.yaml has it."""
    return {"command": sys.executable, "args": [PROGRAM], "tools": {"search": SEARCH}, **more}


def shell(script: str, **more: JsonValue) -> dict[str, JsonValue]:
    """Return the entry of a server that is a few lines of shell."""
    return {"command": "/bin/sh", "args": ["-c", script, PROGRAM, sys.executable], "tools": {}, **more}


@asynccontextmanager
async def serving(
    entry: dict[str, JsonValue], environment: dict[str, str] | None = None, scrub: Callable[[str], str] = str
) -> AsyncGenerator["Calling"]:
    """Serve one server called `notes`."""
    settings = McpServerSettings.model_validate(entry)
    servers = Servers({"notes": settings}, {} if environment is None else environment, SystemClock(), scrub)
    task = asyncio.create_task(servers.serve())
    await asyncio.sleep(0)
    try:
        yield Calling(servers, settings.handed)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Calling:
    """Calls tools of the one server."""

    def __init__(self, servers: Servers, handed: Mapping[str, str]) -> None:
        self.servers = servers
        self.handed = handed

    async def __call__(self, tool: str, **arguments: JsonValue) -> McpResult:
        return await self.servers.call("notes", Ask(tool, arguments, "key", self.handed))

    async def text(self, tool: str, **arguments: JsonValue) -> str:
        return (await self(tool, **arguments)).text

    async def patiently(self, tool: str, **arguments: JsonValue) -> McpResult:
        """Call until the server runs: after it was given up, it does not for a while."""
        async with asyncio.timeout(60):
            while True:
                outcome = await self(tool, **arguments)
                if "is not running" not in outcome.text:
                    return outcome
                await asyncio.sleep(0.05)
