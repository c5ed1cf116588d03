"""Agents for tests of MCP: the official client, over HTTP to an API that is served."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from bot.api.mcp_server.protocol import KEY, LABEL
from bot.core.trust import trust
from bot.sessions.api_tokens import Scope
from tests.bot.api.kit import ApiHost, api_config

LEVELS: Final = {
    "channels": {
        "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
        "api": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    }
}


@dataclass(frozen=True)
class Told:
    """What an agent was told of a call."""

    text: str
    label: str
    failed: bool

    @property
    def json(self) -> Any:  # noqa: ANN401 - as JSON has it
        return json.loads(self.text)


@dataclass(frozen=True)
class Agent:
    """An agent with a connection."""

    client: ClientSession

    async def call(self, tool: str, key: str = "", /, **arguments: object) -> Told:
        """Call a tool; its answer must be as the protocol's own types have it."""
        meta: Any = {KEY: key} if key else None
        return told(await self.client.call_tool(tool, arguments, meta=meta))

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def raised(self, label: str) -> None:
        """Raise the connection."""
        answer = await self.call("connection", up_to=label)
        assert not answer.failed, answer

    async def words(self) -> str:
        """Return the label of what this agent says."""
        return str((await self.call("connection")).json["label"])

    async def begun(self, task: str) -> str:
        """Begin a session and return its id, once it has answered."""
        sid = str((await self.call("sessions_spawn", task=task)).json["session_id"])
        await self.call("sessions_wait", session_id=sid)
        return sid


def told(result: CallToolResult) -> Told:
    """Read a result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    label = (result.meta or {})[LABEL]
    assert isinstance(label, str)
    return Told(content.text, label, result.is_error)


@asynccontextmanager
async def agent(host: ApiHost, token: str, *, url: str = "") -> AsyncGenerator[Agent]:
    """Connect an agent with a token."""
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, verify=trust(), timeout=90) as http,
        streamable_http_client(f"{url or host.url}/mcp", http_client=http) as (reading, writing),
        ClientSession(reading, writing) as client,
    ):
        await client.initialize()
        yield Agent(client)


@asynccontextmanager
async def steering(host: ApiHost, name: str = "crane", clearance: str = "RESTRICTED~") -> AsyncGenerator[Agent]:
    """Connect an agent of a program whose token may steer."""
    async with agent(host, await host.token(name, Scope.STEER, clearance)) as one:
        yield one


def configured(**more: Any) -> str:  # noqa: ANN401 - sections of a policy
    """Return a config.yaml with an API over which programs read all they are cleared for."""
    return api_config({**LEVELS, **more})
