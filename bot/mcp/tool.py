"""A tool of an MCP server: described by configuration, run by the server, gated like any other.

A call's arguments leave for the server, with any effect; so the server is always its sink, and the gate decides at
MCP_TOOL_CALL too. Every call uses the secrets that the server is given, so each is decided at SECRET_ACCESS. Its labels
are the policy's (`policy.mcp_servers`, `policy.tools`). Where the server asks for an account, a call uses the one for
all, or the asker's own and never another's (`bot.mcp.accounts.use`).
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from pydantic import JsonValue

from bot.config.mcp import McpServerSettings, offered_name
from bot.config.references import references
from bot.mcp.accounts.records import AccountKey
from bot.mcp.accounts.tokens import AccountTokens
from bot.mcp.accounts.use import AccountUse, UnusedAccount
from bot.mcp.arguments import LIMIT, arguments_type, passed_on
from bot.mcp.shapes import shape, takes
from bot.tools.base import Arguments, CallFacts, RefusedCallError, Result, ToolContext, ToolServices
from policy.labels import PUBLIC, Label
from policy.request import Effect, ToolFacts

# The model's text when a call has no result; the cause is for operators.
NOT_RUNNING: Final = "the server of this tool is not running; try again later"
TIMED_OUT: Final = "the server of this tool did not answer in time; nobody knows whether the call took effect"
DISCONNECTED: Final = "the server of this tool went away in the middle; nobody knows whether the call took effect"
REFUSED: Final = "the server of this tool refused the call"
LOCKED: Final = "the server of this tool may not be given a secret that it needs"
UNREADABLE: Final = "the server of this tool gave an answer that cannot be read"


@dataclass(frozen=True, slots=True)
class Medium:
    """A part of a result that is no text.

    Args:
        content: Its bytes.
        claimed: The type that the server says it has; only sound and film of one container are told apart by it.
        after: How many characters of the result's text stand before it.
    """

    content: bytes = field(repr=False)
    claimed: str = ""
    after: int = 0

    def placed(self, after: int) -> "Medium":
        """Return it at another place of the text."""
        return replace(self, after=after)


@dataclass(frozen=True, slots=True)
class McpResult:
    """The result of a server's tool: a text, which is an error's when `failed`, and the parts that are no text.

    `structured` is its structured result, None for one that is not described or too long.
    """

    text: str
    failed: bool = False
    media: tuple[Medium, ...] = ()
    structured: JsonValue = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A call of a server's tool: the server's own name for it, its arguments, and an idempotency key.

    `handed` are the variables or headers that the server is given, with the values of secrets in their place, and
    `account` is the account there, None for none.
    """

    tool: str
    arguments: Mapping[str, JsonValue]
    key: str
    handed: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    account: AccountKey | None = None


Send = Callable[[Ask], Awaitable[McpResult]]
"""Have a server answer a call."""

NOT_KEPT: Final = "(a file was left out, as it could not be kept)"


class Keep(Protocol):
    """Keeps files of results."""

    async def keep(self, context: ToolContext, name: str, medium: Medium, label: Label) -> str:
        """Keep a part of a result in the session's workspace, with this label, and return the line that tells of it.

        `name` is the beginning of its file's name. It is the same if the call is repeated.
        """
        ...


class KeepNothing:
    """Keeps no file: where there is no workspace."""

    async def keep(self, context: ToolContext, name: str, medium: Medium, label: Label) -> str:
        """Return the line that tells so."""
        return NOT_KEPT


class McpTool:
    """The tool that a server calls `remote`."""

    label = PUBLIC

    def __init__(
        self,
        server: str,
        remote: str,
        settings: McpServerSettings,
        send: Send,
        *,
        keep: Keep | None = None,
        accounts: AccountTokens | None = None,
    ) -> None:
        described = settings.tools[remote]
        self.server = server
        self.name = offered_name(server, remote)
        self.description = described.description
        self.effect = Effect(described.effect)
        self.repeatable = described.repeatable
        self.arguments = arguments_type(self.name, described.arguments)
        self.takes = takes(described.arguments)
        self.shape = shape(described.output)
        self._consequential = described.consequential
        self._remote = remote
        self._handed = settings.handed
        self._host = settings.host
        # A process here is handed each call once; a server elsewhere may redirect it within its origin.
        self._alone = settings.command is not None
        self._send = send
        self._keep = KeepNothing() if keep is None else keep
        self._account = None if settings.oauth is None else AccountUse(server, settings.oauth, accounts)

    def declare(self, arguments: Arguments, context: ToolContext) -> CallFacts:
        """Declare whether others notice it, its secrets, and the account that it uses; labels are the policy's to say.

        Raises RefusedCallError: the arguments are larger than any server should be sent, or it may use no account.
        """
        given = passed_on(arguments)
        if len(json.dumps(given)) > LIMIT:
            raise RefusedCallError(f"arguments of `{self.name}` are longer than {LIMIT} characters")
        wanted = references(" ".join(self._handed.values()))
        secrets = tuple((name, self._host) for name in wanted)
        listed = context.document.listed(self.name, given)
        if self._account is None:
            sink = f"the MCP server {self.server}" if self._alone else ""
            return CallFacts(consequential=self._consequential, secrets=secrets, identifier=listed, releases_to=sink)
        consequential = self._consequential or self._account.asks_for_others(context)
        account_of = self._account.owner(context)
        return CallFacts(consequential=consequential, secrets=secrets, account_of=account_of, identifier=listed)

    async def run(self, arguments: Arguments, context: ToolContext, services: ToolServices) -> Result:
        """Have the server do it; the key tells a server that asks for one that a call is repeated."""
        handed = dict[str, str]()
        for name, text in self._handed.items():
            value = await services.reveal(text, self._host)
            if value is None:
                return Result(LOCKED, failed=True)
            handed[name] = value
        key = hashlib.sha256(context.key.encode()).hexdigest()[:32]
        ask = Ask(self._remote, passed_on(arguments), key, handed)
        if self._account is None:
            outcome = await self._send(ask)
            return await self._result(outcome, context, key)
        account = await self._account.usable(context)
        if isinstance(account, UnusedAccount):
            return account.result
        outcome = await self._send(replace(ask, account=account))
        # The server may have ended the account meanwhile: then the next step is to connect it again.
        gone = await self._account.usable(context) if outcome.failed else account
        if isinstance(gone, UnusedAccount):
            return gone.result
        return await self._result(outcome, context, key)

    async def _result(self, outcome: McpResult, context: ToolContext, key: str) -> Result:
        text = await self._whole(outcome, context, key)
        return Result(text, failed=outcome.failed, structured=outcome.structured)

    async def _whole(self, outcome: McpResult, context: ToolContext, key: str) -> str:
        """Return a result's text with a line for each part that is none; these are kept as files.

        A file has the label that the session has once the result is in its context, and is no lower if it never is.
        """
        facts = ToolFacts(self.name, self.effect, self.label, consequential=self._consequential, server=self.server)
        floor = context.document.tool(facts).result
        label = context.session.taint.join(context.document.top if floor is None else floor)
        text, begun = list[str](), 0
        for number, medium in enumerate(outcome.media, 1):
            text.append(outcome.text[begun : medium.after])
            begun = medium.after
            name = f"{self.name}-{key[:12]}-{number}"
            text.append(await self._keep.keep(context, name, medium, label))
        text.append(outcome.text[begun:].removeprefix("\n") if outcome.media else outcome.text)
        return "\n".join(part for part in text if part) if outcome.media else outcome.text
