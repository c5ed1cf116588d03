"""A tool of an MCP server: described by configuration, run by the server, gated like any other.

A call's arguments leave for the server, with any effect; so the server is always its sink, and the gate decides at
MCP_TOOL_CALL too. Every call uses the secrets that the server is given, so each is decided at SECRET_ACCESS. Its labels
are the policy's (`policy.mcp_servers`, `policy.tools`).
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from bot.config.mcp import McpServerSettings, offered_name
from bot.config.references import references
from bot.mcp.arguments import LIMIT, arguments_type, passed_on
from bot.tools.base import Arguments, CallFacts, RefusedCallError, Result, ToolContext, ToolServices
from policy.labels import PUBLIC
from policy.request import Effect

# The model's text when a call has no result; the cause is for operators.
NOT_RUNNING: Final = "the server of this tool is not running; try again later"
TIMED_OUT: Final = "the server of this tool did not answer in time; nobody knows whether the call took effect"
DISCONNECTED: Final = "the server of this tool went away in the middle; nobody knows whether the call took effect"
REFUSED: Final = "the server of this tool refused the call"
LOCKED: Final = "the server of this tool may not be given a secret that it needs"
UNREADABLE: Final = "the server of this tool gave an answer that cannot be read"


@dataclass(frozen=True, slots=True)
class McpResult:
    """The result of a server's tool: a text, which is an error's when `failed`."""

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """A call of a server's tool: the server's own name for it, its arguments, and an idempotency key.

    `handed` are the variables or headers that the server is given, with the values of secrets in their place.
    """

    tool: str
    arguments: Mapping[str, JsonValue]
    key: str
    handed: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


Send = Callable[[Ask], Awaitable[McpResult]]
"""Have a server answer a call."""


class McpTool:
    """The tool that a server calls `remote`."""

    label = PUBLIC

    def __init__(self, server: str, remote: str, settings: McpServerSettings, send: Send) -> None:
        described = settings.tools[remote]
        self.server = server
        self.name = offered_name(server, remote)
        self.description = described.description
        self.effect = Effect(described.effect)
        self.repeatable = described.repeatable
        self.arguments = arguments_type(self.name, described.arguments)
        self._consequential = described.consequential
        self._remote = remote
        self._handed = settings.handed
        self._host = settings.host
        self._send = send

    def declare(self, arguments: Arguments, context: ToolContext) -> CallFacts:
        """Declare whether others notice it, and the secrets that its server is given; labels are the policy's to say.

        Raises RefusedCallError: the arguments are larger than any server should be sent.
        """
        if len(json.dumps(passed_on(arguments))) > LIMIT:
            raise RefusedCallError(f"arguments of `{self.name}` are longer than {LIMIT} characters")
        wanted = references(" ".join(self._handed.values()))
        return CallFacts(consequential=self._consequential, secrets=tuple((name, self._host) for name in wanted))

    async def run(self, arguments: Arguments, context: ToolContext, services: ToolServices) -> Result:
        """Have the server do it; the key tells a server that asks for one that a call is repeated."""
        handed = dict[str, str]()
        for name, text in self._handed.items():
            value = await services.reveal(text, self._host)
            if value is None:
                return Result(LOCKED, failed=True)
            handed[name] = value
        key = hashlib.sha256(context.key.encode()).hexdigest()[:32]
        outcome = await self._send(Ask(self._remote, passed_on(arguments), key, handed))
        return Result(outcome.text, failed=outcome.failed)
