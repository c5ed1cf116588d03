"""Which tools agents get, and with which scope: one list of built-in tools by name, and one of those made for agents.

To serve another built-in tool, name it in `SERVED`. A name that no tool has is passed over, as is one that the policy
does not offer to programs. A tool that a token may not use counts as absent: neither listed nor told apart.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import JsonValue

from bot.api.errors import INTERNAL, NOT_FOUND, UNAVAILABLE, ErrorAnswer, answer_to
from bot.api.mcp_server.agent_tools import AgentTool, agent_tools
from bot.api.mcp_server.calls import AgentCall, CallGiver, McpAnswer
from bot.api.mcp_server.connection import AgentConnection
from bot.api.requests import ApiRequest
from bot.api.services import ApiServices
from bot.core.errors import RequestError
from bot.sessions.api_tokens import Scope
from bot.tools.arguments import checked
from bot.tools.base import RefusedCallError, Tool
from channels.port import VaultError

ACTION: Final = "action"
"""The argument by which some tools name the action of a call."""

BROKE: Final = "a call over MCP broke"

READS_ONLY: Final = "the token of this connection may only read, so `action` of `{tool}` may only be {actions}"
BEGIN_RUN: Final = (
    "Begin a run that works on a goal by itself, turn after turn. Nobody is asked first: it begins, or is refused."
)


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A built-in tool that agents get.

    One that `acts` takes a token that may steer. Of one with `reads` a token that may only read has these values of
    `action`, and the others take a token that may steer. `about` describes one whose own description is for agents in a
    chat.
    """

    name: str
    acts: bool = False
    reads: tuple[str, ...] = ()
    about: str = ""


SERVED: Final = (
    ServedTool("session", reads=("start", "apply")),
    ServedTool("memory", reads=("recall",)),
    ServedTool("skill", reads=("list", "versions", "audit_log")),
    ServedTool("sessions_list"),
    ServedTool("sessions_history"),
    ServedTool("session_status"),
    ServedTool("runs_start", acts=True, about=BEGIN_RUN),
)
"""The built-in tools that agents get, in the order in which they are listed.

None is here that has something said, as `message` does: nothing delivers for a connection.
"""

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as an agent sees it; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]
    acts: bool


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A wanted call of an agent; `key` names the call, if it is to be made once, and is empty otherwise."""

    tool: str
    arguments: Mapping[str, JsonValue]
    key: str = ""


class UnknownToolError(RequestError):
    """The agent has no tool of that name."""

    code = "unknown_tool"

    def __init__(self) -> None:
        super().__init__("unknown tool")


class FrozenConnectionError(RequestError):
    """An agent has read more than it may be sent by now, or its program may not know its own words."""

    code = "frozen"

    def __init__(self) -> None:
        super().__init__(
            "this connection was told more than its token may know by now",
            next_step="open another one; `lockgate check` tells of tokens that are not cleared for their own words",
        )


class ServedTools:
    """Lists tools for agents, and makes their calls."""

    def __init__(self, services: ApiServices) -> None:
        """Serve them with these services."""
        self._services = services
        self._calls = CallGiver(services)
        self._own = agent_tools(services, self._calls)

    async def listed(self, asked: ApiRequest) -> tuple[ListedTool, ...]:
        """Return the tools that a token may use."""
        call = self._calls.given(asked, None, "")
        built_in = {tool.name: tool for tool in await self._offered(call)}
        acting = asked.caller.may(Scope.STEER)
        told = [_told(one, built_in[one.name], acting=acting) for one in _served(built_in, acting=acting)]
        own = [
            ListedTool(tool.name, tool.description, tool.arguments.model_json_schema(), tool.acts)
            for tool in self._own_for(built_in, acting=acting)
        ]
        return (*told, *own)

    async def call(self, asked: ApiRequest, connection: AgentConnection | None, wanted: WantedCall) -> McpAnswer:
        """Make a call; from then on its answer counts as told on the connection.

        Raises UnknownToolError: the token may use no tool of that name.
        """
        call = self._calls.given(asked, connection, wanted.key)
        try:
            answer = await self._calls.told(call, await self._answered(call, wanted))
        except UnknownToolError:
            raise
        except FrozenConnectionError as error:
            # A label above the reader is not named to them.
            return McpAnswer(f"{error}; {error.next_step}", call.words.meet(asked.reader), failed=True)
        except RefusedCallError as refused:
            answer = call.failed(str(refused))
        except Exception as error:
            told = answer_to(error)
            if told is INTERNAL:
                _LOGGER.exception(BROKE, extra={"reference": asked.request_id})
            answer = call.failed(_words(told, asked.request_id))
        if connection is None:
            return answer
        try:
            await connection.tell(answer.label)
        except VaultError:
            # The call was made, and the agent does not learn its result.
            return call.failed(_words(UNAVAILABLE, asked.request_id))
        return answer

    async def _answered(self, call: AgentCall, wanted: WantedCall) -> McpAnswer:
        built_in = {tool.name: tool for tool in await self._offered(call)}
        acting = call.asked.caller.may(Scope.STEER)
        served = next((one for one in _served(built_in, acting=acting) if one.name == wanted.tool), None)
        own = next((tool for tool in self._own_for(built_in, acting=acting) if tool.name == wanted.tool), None)
        if served is None and own is None:
            raise UnknownToolError
        if not call.words.flows_to(call.asked.reader):
            raise FrozenConnectionError
        if own is not None:
            return await own.do(checked(cast("Tool", own), wanted.arguments), call)
        if served is not None and served.reads and not acting and wanted.arguments.get(ACTION) not in served.reads:
            return call.failed(READS_ONLY.format(tool=served.name, actions=_either(served.reads)))
        return await self._calls.made(call, wanted.tool, wanted.arguments)

    async def _offered(self, call: AgentCall) -> tuple[Tool, ...]:
        """Return the built-in tools that the policy offers to the program."""
        return self._services.gate.requests.offered(await self._calls.standing(call))

    def _own_for(self, built_in: Mapping[str, Tool], *, acting: bool) -> Iterator[AgentTool]:
        for tool in self._own:
            if (acting or not tool.acts) and (not tool.instead_of or tool.instead_of in built_in):
                yield tool


def _words(told: ErrorAnswer, reference: str) -> str:
    """Return the sentence to an agent about an error; the next step for an absent item would tell of paths."""
    if told is INTERNAL:
        return f"{told.message} Tell the operator the reference {reference}."
    return f"{told.message} {'' if told is NOT_FOUND else told.next_step}".strip()


def _served(built_in: Mapping[str, Tool], *, acting: bool) -> Iterator[ServedTool]:
    return (one for one in SERVED if one.name in built_in and (acting or not one.acts))


def _either(words: tuple[str, ...]) -> str:
    """Return words as a choice: `a`, `b` or `c`."""
    *others, last = [f"`{word}`" for word in words]
    return f"{', '.join(others)} or {last}" if others else last


def _told(served: ServedTool, tool: Tool, *, acting: bool) -> ListedTool:
    """Return a built-in tool as an agent is told of it: its own schema, with the actions that it may use."""
    schema = tool.arguments.model_json_schema()
    if served.reads and not acting:
        properties = schema["properties"]
        narrowed = {"type": "string", "enum": [*served.reads], "description": _either(served.reads)}
        schema = {**schema, "properties": {**properties, ACTION: narrowed}}
    about = served.about or tool.description
    return ListedTool(tool.name, about, schema, acts=served.acts or (acting and bool(served.reads)))
