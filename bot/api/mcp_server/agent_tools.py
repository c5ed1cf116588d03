"""The tools that are made for agents alone: their connection, sessions as programs have them, and runs.

A session that an agent begins is one of its program's, with the label of the agent's words; messages to a session join
that. These are ways in of programs and no tools of ours. So the gate decides on them as on a call of the built-in tool
of that name, by the same rules, and the router takes them in. The rest are the operations of the HTTP API.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Literal, Protocol, TypeVar, cast

import anyio
from pydantic import Field, JsonValue

from bot.access import labelling
from bot.access.decision_context import Call
from bot.access.tokens import address_of, program
from bot.api.mcp_server.calls import AgentCall, CallGiver, McpAnswer, refusal
from bot.api.requests import ApiRequest
from bot.api.runs.shapes import RunDocument, run_document
from bot.api.services import ApiServices
from bot.api.session_routes import LONGEST_WAIT, key_named, settled
from bot.api.shapes import as_written
from bot.api.standing import knowing
from bot.core.errors import ArchivedError, NotFoundError
from bot.ingress.inbox_writer import NewSession, Steer
from bot.operations.background.runs import LONGEST_NOTE, KnownRun, RunViewer, run_of
from bot.operations.gated_calls import RefusedCall
from bot.operations.reading import ReadingKind
from bot.operations.simulation import Simulating
from bot.pinned_agents import WantedAgent
from bot.sessions.background.run_states import Priority
from bot.sessions.inbox import QueueMode
from bot.sessions.models import Status
from bot.sessions.visibility import look
from bot.tools.background.spawning import SpawnArguments
from bot.tools.base import Arguments, Tool
from bot.tools.introspection import SimulateArguments
from bot.tools.sending import OVER, SendArguments
from bot.tools.sessions import NONE
from channels.messages import Inbound
from policy.errors import LabelTextError
from policy.labels import Label

TOO_HIGH: Final = "this token is not cleared for that"
ABOVE_SESSION: Final = (
    "This connection was told more than that session has read, and would raise it. Begin another session with "
    "`sessions_spawn`, or send from a connection that was told less."
)
DOUBTFUL: Final = (
    "This connection was told UNTRUSTED data, so it steers and stops nothing. Open another connection for an agent "
    "that begins anew, or let the program itself do it over the HTTP API."
)
NO_CONNECTION: Final = (
    "this protocol has no connections, so a message is labelled with the whole clearance of the token"
)

NO_RUN: Final = "there is no such run"
"""Absent, another program's and too high are one answer (law `no_read_up`)."""

_SPAWN: Final = "sessions_spawn"
_SEND: Final = "sessions_send"
_BEGIN: Final = "begin"
_PAGE: Final = 50

_GivenT = TypeVar("_GivenT", bound=Arguments)


class ConnectionArguments(Arguments):
    """Arguments of `connection`."""

    up_to: str | None = Field(
        default=None, max_length=2048, description="a label to raise this connection to; its messages are labelled so"
    )


class BeginArguments(Arguments):
    """Arguments of `sessions_spawn` as agents have it."""

    task: str = Field(min_length=1, max_length=40_000, description="the first message of the session")
    agent: str | None = Field(default=None, min_length=1, max_length=64, description="the agent that works in it")


class WaitArguments(Arguments):
    """Arguments of `sessions_wait`."""

    session_id: str = Field(min_length=1, max_length=128)
    seconds: int = Field(default=LONGEST_WAIT, ge=0, le=LONGEST_WAIT)


class RunsListArguments(Arguments):
    """Arguments of `runs_list`."""

    cursor: str = Field(default="", max_length=512, description="of the page before")
    ended: bool = Field(default=False, description="also those that are over")


class RunArguments(Arguments):
    """Arguments that name a run."""

    run_id: str = Field(min_length=1, max_length=128)


class RunsSteerArguments(RunArguments):
    """Arguments of `runs_steer`."""

    note: str = Field(min_length=1, max_length=LONGEST_NOTE)
    priority: Literal["normal", "urgent", "abort"] = "normal"


class AgentTool(Protocol):
    """A tool that is made for agents.

    A tool that stands for a built-in one exists only where the policy offers that.
    """

    @property
    def name(self) -> str:
        """The name by which agents call it."""
        ...

    @property
    def description(self) -> str:
        """The description that agents read."""
        ...

    @property
    def acts(self) -> bool:
        """Whether it takes a token that may steer."""
        ...

    @property
    def instead_of(self) -> str:
        """The built-in tool that the policy must offer for this one to exist, empty for none."""
        ...

    @property
    def arguments(self) -> type[Arguments]:
        """The type of its arguments."""
        ...

    async def do(self, arguments: Any, call: AgentCall) -> McpAnswer:  # noqa: ANN401 - each tool has arguments of its own
        """Do it. Raises LockgateError: it cannot be done."""
        ...


class _Made:
    """The common part of the tools for agents."""

    acts = False
    instead_of = ""

    def __init__(self, services: ApiServices, calls: CallGiver) -> None:
        self._services = services
        self._calls = calls

    async def _allowed(
        self, call: AgentCall, tool: str, arguments: dict[str, JsonValue], _kind: type[_GivenT]
    ) -> _GivenT | McpAnswer:
        """Decide on a call of a built-in tool; return its arguments as they may be, or why it is refused."""
        standing = await self._calls.standing(call)
        decided = await self._services.calls.decided(standing, Call(call.name, tool, arguments), call.words)
        if isinstance(decided, RefusedCall):
            return refusal(decided, tool)
        _, given = cast("tuple[Tool, _GivenT]", decided.accepted)
        return given

    def _inbound(self, call: AgentCall, text: str, dedupe: str, thread: str = "") -> Inbound:
        caller = call.asked.caller
        return Inbound(address_of(caller.name, thread), program(caller.token).account, text, dedupe)


class ConnectionTool(_Made):
    """Tell the label that this connection may know, and raise it."""

    name = "connection"
    description = (
        "Tell which program this is, the clearance of its token, and the label of your messages here. With up_to, "
        "first raise this connection to a label: you then find the data up to it."
    )
    arguments = ConnectionArguments

    async def do(self, arguments: ConnectionArguments, call: AgentCall) -> McpAnswer:
        """Tell it."""
        label, asked = call.words, call.asked
        if arguments.up_to is not None:
            try:
                label = label.join(labelling.named(self._services.gate.document, arguments.up_to))
            except LabelTextError as error:
                return call.failed(str(error))
            if not label.flows_to(asked.reader):
                return call.failed(TOO_HIGH)
        told: dict[str, JsonValue] = {
            "program": asked.caller.name,
            "scope": asked.caller.token.scope.value,
            "clearance": str(asked.reader),
            "label": str(label),
        }
        if call.connection is None:
            told["note"] = NO_CONNECTION
        return McpAnswer(json.dumps(told), label)


class SessionsSpawnTool(_Made):
    """Begin a session of the program."""

    name = _SPAWN
    description = (
        "Begin a session of Lockgate's own agent with a task; it goes on by itself. `sessions_wait` tells when it is "
        "done, `sessions_history` returns its messages."
    )
    acts = True
    instead_of = _SPAWN
    arguments = BeginArguments

    async def do(self, arguments: BeginArguments, call: AgentCall) -> McpAnswer:
        """Begin it; the same key with the same task is the same session."""
        given = await self._allowed(call, _SPAWN, {"task": arguments.task}, SpawnArguments)
        if isinstance(given, McpAnswer):
            return given
        services, caller = self._services, call.asked.caller
        agent = await services.agents.pin_as(caller.principal, WantedAgent(arguments.agent or ""))
        said = as_written({"task": given.task, "agent": arguments.agent})
        new = NewSession(hashlib.sha256(said.encode()).hexdigest(), agent, QueueMode.QUEUE, heard=call.words)
        inbound = self._inbound(call, given.task, _BEGIN, key_named("a", call.name))
        sid, accepted = await services.router.begin(inbound, caller.caller, new)
        return McpAnswer(json.dumps({"session_id": sid, "created": not accepted.duplicate}), call.words)


class SessionsSendTool(_Made):
    """Send a message to a session of the program."""

    name = _SEND
    description = "Send a message to a session that you began, or to another one of this program."
    acts = True
    instead_of = _SEND
    arguments = SendArguments

    async def do(self, arguments: SendArguments, call: AgentCall) -> McpAnswer:
        """Send it; a session that the agent may not know of is as one that there never was."""
        sent: dict[str, JsonValue] = {"session_id": arguments.session_id, "content": arguments.content}
        given = await self._allowed(call, _SEND, sent, SendArguments)
        if isinstance(given, McpAnswer):
            return given
        sessions = self._services.store.sessions
        state, known = await look(sessions, given.session_id, call.principal, call.words)
        label = call.words.join(known)
        if state is None:
            return McpAnswer(NONE, label, failed=True)
        if state.ended_at or state.status is Status.ARCHIVED:
            return McpAnswer(OVER, label, failed=True)
        if not call.words.flows_to(state.visibility):
            # Its rise would tell those who see it as it is that something above was said.
            return McpAnswer(ABOVE_SESSION, label, failed=True)
        inbound = self._inbound(call, given.content, key_named("a", call.name))
        steer = Steer(state, None, call.words, heard=call.words)
        accepted = await self._services.router.steer(inbound, call.asked.caller.caller, steer)
        return McpAnswer(json.dumps({"session_id": state.sid, "seq": accepted.position}), label)


class SessionsWaitTool(_Made):
    """Wait until a session rests."""

    name = "sessions_wait"
    description = "Wait until no turn of a session runs or is about to, then tell its status."
    instead_of = "session_status"
    arguments = WaitArguments

    async def do(self, arguments: WaitArguments, call: AgentCall) -> McpAnswer:
        """Wait, as far as the agent may know of the session; then return the answer of `session_status`."""
        asked = ApiRequest(call.asked.caller, call.asked.request_id, call.words)
        # One that is absent by then: the tool below tells so, and how far that can be trusted.
        with suppress(NotFoundError), anyio.move_on_after(arguments.seconds):
            await settled(self._services, asked, arguments.session_id)
        return await self._calls.made(call, "session_status", {"session_id": arguments.session_id})


class SimulateTool(_Made):
    """Tell what the gate would decide."""

    name = "simulate_tool_call"
    description = "Tell the gate's decision about a call of one of these tools, with every rule; nothing is done."
    instead_of = "simulate_tool_call"
    arguments = SimulateArguments

    async def do(self, arguments: SimulateArguments, call: AgentCall) -> McpAnswer:
        """Simulate the call as this connection would make it."""
        standing = await self._calls.standing(call)
        # Counted for each label apart: else one that was told more would tell another one by asking too often.
        pool = address_of(call.asked.caller.name, f"mcp:{call.words}")
        by = Simulating(standing, pool, call.words)
        report = await self._services.simulator.asked(by, None, arguments.tool_name, arguments.args)
        return McpAnswer(json.dumps({**report}), call.words)


class _RunTool(_Made):
    """The common part of the tools about runs."""

    instead_of = "runs_start"

    def _viewer(self, call: AgentCall) -> RunViewer:
        return RunViewer(call.principal, call.words, call.words, call.principal)

    async def _known(
        self, call: AgentCall, run: str, change: Callable[[RunViewer, Label], Awaitable[McpAnswer]]
    ) -> McpAnswer:
        """Act on a run, given the label of the answer about it; absent and above are one answer."""
        by = self._viewer(call)
        label = call.words.join(await self._services.runs.label_of(by, run))
        try:
            return await change(by, label)
        except NotFoundError:
            return McpAnswer(NO_RUN, label, failed=True)

    async def _commanded(
        self, call: AgentCall, run: str, change: Callable[[RunViewer, Label], Awaitable[McpAnswer]]
    ) -> McpAnswer:
        """Change a run, unless an attacker may have asked for it."""
        return call.failed(DOUBTFUL) if call.words.untrusted else await self._known(call, run, change)

    async def _document(self, by: RunViewer, known: KnownRun) -> RunDocument:
        return run_document(known, await self._services.runs.notes(by, known))


class RunsListTool(_RunTool):
    """List the program's runs."""

    name = "runs_list"
    description = "List the runs of this program that you may know of, newest first."
    arguments = RunsListArguments

    async def do(self, arguments: RunsListArguments, call: AgentCall) -> McpAnswer:
        """Return a page."""
        by = self._viewer(call)
        page = await self._services.runs.page(by, cursor=arguments.cursor, limit=_PAGE, ended=arguments.ended)
        runs = [(await self._document(by, known)).model_dump(mode="json") for known in page.runs]
        told = json.dumps({"runs": runs, "cursor": page.cursor or None})
        return McpAnswer(told, call.words.join(page.label))


class RunsShowTool(_RunTool):
    """Tell of one run."""

    name = "runs_show"
    description = "Tell how far a run of this program came."
    arguments = RunArguments

    async def do(self, arguments: RunArguments, call: AgentCall) -> McpAnswer:
        """Return its document, as far as the agent may know of it, before and after it was read."""

        async def told(by: RunViewer, label: Label) -> McpAnswer:
            sid = (await self._services.runs.show(by, arguments.run_id)).state.sid
            asked = ApiRequest(call.asked.caller, call.asked.request_id, call.words)
            async with knowing(self._services, asked, sid, ReadingKind.RECORD) as state:
                known = run_of(state)
                if known is None:
                    raise NotFoundError
                document = await self._document(by, known)
                return McpAnswer(document.model_dump_json(), label.join(known.label))

        return await self._known(call, arguments.run_id, told)


class RunsSteerTool(_RunTool):
    """Give a run a note."""

    name = "runs_steer"
    description = "Give a run of this program a steering note, which it hears at its next heartbeat."
    acts = True
    arguments = RunsSteerArguments

    async def do(self, arguments: RunsSteerArguments, call: AgentCall) -> McpAnswer:
        """Give it the note."""

        async def steer(by: RunViewer, label: Label) -> McpAnswer:
            runs, priority = self._services.runs, Priority(arguments.priority)
            known = await runs.show(by, arguments.run_id)
            if not call.words.flows_to(known.label):
                return McpAnswer(ABOVE_SESSION, label, failed=True)
            await runs.steer(by, arguments.run_id, arguments.note, priority=priority, key=call.name)
            return McpAnswer(json.dumps({"run_id": known.id, "note": call.name}), label)

        return await self._commanded(call, arguments.run_id, steer)


class RunsStopTool(_RunTool):
    """End a run."""

    name = "runs_stop"
    description = "End a run of this program for good, with all that it set going."
    acts = True
    arguments = RunArguments

    async def do(self, arguments: RunArguments, call: AgentCall) -> McpAnswer:
        """End it, if the agent may know of it: otherwise the answer would reveal that it exists."""

        async def stop(by: RunViewer, label: Label) -> McpAnswer:
            await self._services.runs.show(by, arguments.run_id)
            with suppress(ArchivedError):
                await self._services.runs.stop(by, arguments.run_id)
            return McpAnswer(json.dumps({"run_id": arguments.run_id, "status": "stopping"}), label)

        return await self._commanded(call, arguments.run_id, stop)


def agent_tools(services: ApiServices, calls: CallGiver) -> tuple[AgentTool, ...]:
    """Return the tools for agents, in the order in which they are listed."""
    kinds = (
        *(ConnectionTool, SessionsSpawnTool, SessionsSendTool, SessionsWaitTool, SimulateTool),
        *(RunsListTool, RunsShowTool, RunsSteerTool, RunsStopTool),
    )
    return tuple(kind(services, calls) for kind in kinds)
