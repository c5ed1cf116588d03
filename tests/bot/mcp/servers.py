"""What tests of MCP servers are made of: settings that name the simulated server, and servers that are served."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bot.config.mcp import McpServerSettings
from bot.mcp.servers import Servers
from bot.mcp.tool import Ask, McpResult
from tests.bot.clock import Clock

PROGRAM: Final = str(Path(__file__).parents[2] / "sim" / "mcp_server.py")
SEARCH: Final[dict[str, JsonValue]] = {
    "description": "Search the notes for a word.",
    "effect": "read",
    "consequential": False,
    "arguments": {"word": {"type": "string"}, "limit": {"type": "integer", "optional": True}},
}


def command(**more: JsonValue) -> dict[str, JsonValue]:
    """Return the simulated server's entry as config.yaml has it."""
    return {"command": sys.executable, "args": [PROGRAM], "tools": {"search": SEARCH}, "start_seconds": 120, **more}


def shell(script: str, **more: JsonValue) -> dict[str, JsonValue]:
    """Return the entry of a server that is a few lines of shell."""
    return {
        "command": "/bin/sh",
        "args": ["-c", script, PROGRAM, sys.executable],
        "tools": {},
        "start_seconds": 120,
        **more,
    }


@asynccontextmanager
async def serving(
    entry: dict[str, JsonValue], environment: dict[str, str] | None = None, scrub: Callable[[str], str] = str
) -> AsyncGenerator["Calling"]:
    """Serve one server called `notes`; on its clock no pause after a failure is over until a test wants it."""
    settings, clock = McpServerSettings.model_validate(entry), Clock()
    servers = Servers({"notes": settings}, {} if environment is None else environment, clock, scrub)
    task = asyncio.create_task(servers.serve())
    await asyncio.sleep(0)
    try:
        yield Calling(servers, settings.handed, clock)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Calling:
    """Calls tools of the one server."""

    def __init__(self, servers: Servers, handed: Mapping[str, str], clock: Clock) -> None:
        self.servers = servers
        self.handed = handed
        self.clock = clock

    async def __call__(self, tool: str, **arguments: JsonValue) -> McpResult:
        return await self.servers.call("notes", Ask(tool, arguments, "key", self.handed))

    async def text(self, tool: str, **arguments: JsonValue) -> str:
        return (await self(tool, **arguments)).text

    async def patiently(self, tool: str, **arguments: JsonValue) -> McpResult:
        """Call until the server runs, with no pause after it was given up."""
        async with asyncio.timeout(100):
            while True:
                outcome = await self(tool, **arguments)
                if "is not running" not in outcome.text:
                    return outcome
                self.clock.seconds += 60
                await asyncio.sleep(0.05)
