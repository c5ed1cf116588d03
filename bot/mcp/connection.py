"""One server's life: connected at the first call, kept, given up when it fails, connected again after a pause.

Its library is imported with this module, which takes seconds; `servers` imports it when it is needed. Models read
constants when a call cannot be made or answered; the true cause is `told` for operators.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import Final, cast

import httpx2
from mcp import Client, ClientSession, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.types.jsonrpc import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT
from pydantic import ValidationError

from bot.config.mcp import McpServerSettings
from bot.core.clock import Clock
from bot.core.faults import place, unreached
from bot.mcp.answers import LONGEST, misread
from bot.mcp.http import bounded_client
from bot.mcp.listing import ServerTool
from bot.mcp.process import ENDED, environment, open_process
from bot.mcp.results import described_part, taken_in
from bot.mcp.tool import DISCONNECTED, NOT_RUNNING, REFUSED, TIMED_OUT, UNREADABLE, Ask, McpResult
from bot.tools.arguments import changed

KEY: Final = "lockgate/idempotency-key"
"""Where in a request's `_meta` the key stands that is the same when a call is repeated after a crash."""

_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_SLOW: Final = 2
"""Calls in a row that ran out of time after which a server is given up."""

_FORGOTTEN: Final = (INVALID_REQUEST, "Session terminated")
"""How the library tells that a server no longer knows the session; the next call begins another."""

_CODES: Final = MappingProxyType(
    {REQUEST_TIMEOUT: "it did not answer in time", CONNECTION_CLOSED: "the connection was closed"}
)
_FAILED: Final = "a call of an MCP server failed"
_UNKNOWN: Final = "its answer is none that the protocol knows"
_OUTPUT: Final = "look at `output` of its tools with `lockgate mcp draft`"
_MEND: Final = "mend or update the server, then let `lockgate doctor` ask it"
_LOOK: Final = "`lockgate doctor` starts or asks it, and tells its last words"

_SILENT: Final = 300.0
_PAGES: Final = 20
_TOOLS: Final = 2000
_UNTOLD: Final = "an MCP server did not tell its tools"
_ENDLESS: Final = "its list of tools has no end"
_COMPLAINT: Final = 400

# The library logs servers' messages that surprise it; they do not belong in a log.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


_LOGGER: Final = logging.getLogger(__name__)


class McpConnection:
    """One server, by its `name` in the configuration. `keep` must be running while it is called.

    `inherited` is the environment of Lockgate, `scrub` takes the values of secrets out of a text, and `signer` signs
    the requests of an account.
    """

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        inherited: Mapping[str, str],
        *,
        clock: Clock,
        scrub: Callable[[str], str],
        signer: httpx2.Auth | None = None,
    ) -> None:
        self._name = name
        self._signer = signer
        self._complaint = ""
        self._fault = ""
        self._written = ""
        self._settings = settings
        self._inherited = inherited
        self._clock = clock
        self._scrub = scrub
        self._handed: Mapping[str, str] = {}
        self._session: ClientSession | None = None
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._broken = asyncio.Event()
        self._failures = 0
        self._slow = 0
        self._not_before = 0.0
        self._stopping = False

    async def keep(self) -> None:
        """Connect at every call that needs it, until cancelled; then the server is gone."""
        while not self._stopping:
            await self._wanted.wait()
            try:
                await self._live()
            except Exception as error:  # noqa: BLE001 - other connections go on at any fault of the library or the server
                self._complain(self._fault or _told(error))
                step = _MEND if self._fault else _LOOK
                self._log_failed("an MCP server could not be reached, or broke", self._fault or _kind(error), step)
            finally:
                self._session = None
                self._failures += 1
                pause = min(_PAUSE * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
                self._not_before = self._clock.monotonic() + pause
                self._wanted.clear()
                self._settled.set()

    def stop(self) -> None:
        """Let `keep` end when it is cancelled, even if the library answers that with an error of its own."""
        self._stopping = True

    async def call(self, ask: Ask) -> McpResult:
        """Have the server run a tool; on any fault the outcome is a constant."""
        session = await self._connected(ask.handed)
        if session is None:
            return McpResult(NOT_RUNNING, failed=True)
        params = types.CallToolRequestParams(name=ask.tool, arguments=dict(ask.arguments), _meta={KEY: ask.key})
        request = types.CallToolRequest(params=params)
        try:
            # Not the session's own `call_tool`: it would compile and run schemas that the server sends.
            result = await session.send_request(request, types.CallToolResult, float(self._settings.call_seconds))
        except MCPError as error:
            return McpResult(self._failed(error), failed=True)
        except ValueError:
            self._complain(_UNKNOWN)
            self._log_failed(_FAILED, _UNKNOWN, _MEND)
            return McpResult(UNREADABLE, failed=True)
        self._failures = self._slow = 0
        return self._fitting(ask.tool, result) or self._taken_in(ask.tool, result)

    def _taken_in(self, tool: str, result: types.CallToolResult) -> McpResult:
        described = self._settings.tools.get(tool)
        taken = taken_in(result, self._scrub)
        if described is None or described.output is None or result.is_error:
            return taken
        return replace(taken, structured=described_part(result, self._scrub))

    def _fitting(self, tool: str, result: types.CallToolResult) -> McpResult | None:
        """Return the error in place of a structured result that is not as the operator described it, None for none."""
        described = self._settings.tools.get(tool)
        if described is None or described.output is None or result.is_error:
            return None
        told = described.output.fault(result.structured_content)
        if told is None:
            return None
        self._complain(f"a result of `{tool}` does not fit its `output`: {told}")
        self._log_failed(_FAILED, "its structured result does not fit", _OUTPUT)
        return McpResult(UNREADABLE, failed=True)

    async def listed(self, handed: Mapping[str, str]) -> tuple[ServerTool, ...] | None:
        """Return the tools that the server says it has, for operators; None if it cannot be asked."""
        session = await self._connected(handed)
        if session is None:
            return None
        found = list[ServerTool]()
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._settings.call_seconds):
                for _ in range(_PAGES):
                    page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                    found.extend(_listed(tool, self._scrub) for tool in page.tools)
                    cursor = page.next_cursor
                    if cursor is None:
                        return tuple(found)
                    if len(found) > _TOOLS:
                        break
        except (MCPError, ValueError, TimeoutError) as error:
            self._complain(_told(error))
            self._log_failed(_UNTOLD, _kind(error), _LOOK)
            return None
        # Part of a list would name tools as gone that are there.
        self._complain(_ENDLESS)
        self._log_failed(_UNTOLD, _ENDLESS, _MEND)
        return None

    @property
    def told(self) -> str:
        """The last fault, and the last line that a process wrote to its error output, for operators."""
        written = f"it wrote `{self._written}`" if self._written else ""
        return ", ".join(part for part in (self._complaint, written) if part)

    async def _connected(self, handed: Mapping[str, str]) -> ClientSession | None:
        """Return the session with the server, None if there is none and it is too early to try again.

        Values of secrets do not change while Lockgate runs, so the handed values are the same for every call.
        """
        if self._session is None:
            if not self._wanted.is_set():
                if self._clock.monotonic() < self._not_before:
                    return None
                self._handed = handed
                self._settled.clear()
                self._wanted.set()
            await self._settled.wait()
        return self._session

    async def _live(self) -> None:
        """Connect and stay until the connection is given up."""
        self._broken.clear()
        self._fault, self._slow = "", 0
        async with AsyncExitStack() as stack:
            client = await self._client(stack)
            async with asyncio.timeout(self._settings.start_seconds):
                await stack.enter_async_context(client)
            self._session = client.session
            self._settled.set()
            await self._broken.wait()

    async def _client(self, stack: AsyncExitStack) -> Client:
        settings = self._settings
        limit = float(settings.call_seconds)
        if settings.url is None:
            command = [settings.command or "", *settings.args]
            env = environment(self._handed, self._inherited)
            return Client(open_process(command, env, self._note, self._give_up), cache=None)
        # In a thread: it reads the certificates of this machine.
        http = await asyncio.to_thread(bounded_client, self._handed, max(limit + 5, _SILENT), self._signer)
        await stack.enter_async_context(http)
        transport = streamable_http_client(settings.url, http_client=http, max_sse_event_size=LONGEST)
        return Client(transport, cache=None, read_timeout_seconds=limit)

    def _failed(self, error: MCPError) -> str:
        """Return the model's text for an error of the protocol, and give the connection up if it is no longer one."""
        code = error.error.code
        misunderstood = misread(code, error.error.message)
        self._log_failed(_FAILED, _kind(error), _MEND if misunderstood else _LOOK)
        if misunderstood:
            self._complain(error.error.message)
            return UNREADABLE
        if code == REQUEST_TIMEOUT:
            self._slow += 1
            self._complain(f"a call took longer than {self._settings.call_seconds} s")
            if self._slow >= _SLOW:
                self._give_up()
            return TIMED_OUT
        self._slow = 0
        if code == CONNECTION_CLOSED:
            self._give_up()
            return DISCONNECTED
        if (code, error.error.message) == _FORGOTTEN:
            self._give_up()
        self._complain(_told(error))
        return REFUSED

    def _log_failed(self, event: str, cause: str, step: str) -> None:
        """Log a failure; the server's words about it may hold the call's arguments, and stay with the doctor."""
        settings = self._settings
        address = place(settings.url) if settings.url else settings.command
        facts = {"subject": f"MCP server `{self._name}`", "cause": cause, "address": address, "step": step}
        _LOGGER.warning(event, extra=facts)

    def _give_up(self) -> None:
        self._session = None
        self._broken.set()

    def _note(self, complaint: str, written: str) -> None:
        if complaint:
            self._complain(complaint)
            self._fault = self._fault if complaint == ENDED else complaint
        self._written = self._shown(written) or self._written

    def _complain(self, text: str) -> None:
        self._complaint = self._shown(text)

    def _shown(self, text: str) -> str:
        return _printable(self._scrub(text))


def _listed(tool: types.Tool, scrub: Callable[[str], str]) -> ServerTool:
    """Return a tool as it was listed, without the values of secrets."""
    claims = tool.annotations
    hints = (
        ("read-only", claims is not None and claims.read_only_hint is True),
        ("harmless", claims is not None and claims.destructive_hint is False),
        ("repeatable", claims is not None and claims.idempotent_hint is True),
        ("closed to the outside", claims is not None and claims.open_world_hint is False),
    )
    return ServerTool(
        scrub(tool.name),
        scrub(tool.description or ""),
        changed(tool.input_schema, scrub),
        None if tool.output_schema is None else changed(tool.output_schema, scrub),
        tuple(said for said, claimed in hints if claimed),
    )


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:_COMPLAINT])


def _kind(error: BaseException) -> str:
    """Return the kind of an error, in no words of the server's."""
    if isinstance(error, BaseExceptionGroup):
        return _kind(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, MCPError) and misread(error.error.code, error.error.message):
        return error.error.message
    if isinstance(error, MCPError):
        return _CODES.get(error.error.code, f"it refused the call (code {error.error.code})")
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ValidationError):
        return _UNKNOWN
    said = error.strerror if isinstance(error, OSError) else ""
    return said or unreached(error).cause


def _told(error: BaseException) -> str:
    """Return the first cause of an error in words for an operator."""
    if isinstance(error, BaseExceptionGroup):
        return _told(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ValidationError):
        # The library's words hold the server's.
        return _UNKNOWN
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: `{error.filename}`" if error.filename else error.strerror
    return str(error) or type(error).__name__
