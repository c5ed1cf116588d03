"""`session_status` and `simulate_tool_call`: what a session may know of itself and of the gate."""

import json

from pydantic import Field, JsonValue

from bot.errors import BusyError
from bot.rate import RateLimiter
from bot.sessions.port import SessionStore
from bot.sessions.values import SessionState
from bot.tools.base import Arguments, Declared, Result, Scene
from channels.message import Address
from policy.labels import PUBLIC, Label
from policy.request import Effect


class StatusArguments(Arguments):
    """Arguments of `session_status`."""

    session_id: str | None = Field(default=None, max_length=128, description="another session of yours; own if omitted")


class SimulateArguments(Arguments):
    """Arguments of `simulate_tool_call`."""

    tool_name: str = Field(max_length=128)
    args: dict[str, JsonValue] = Field(default_factory=dict)


def describe(state: SessionState, clearance: Label) -> dict[str, JsonValue]:
    """Return a session's record as its readers see it; the one shape for tool, command and listing."""
    last = state.last_turn
    return {
        "id": state.sid,
        "channel": Address.parse(state.home).channel,
        "user": state.principal,
        "taint": str(state.taint),
        "clearance": str(clearance),
        "status": state.status.value,
        "created": state.created_at,
        "updated": state.updated_at,
        "generation": state.generation,
        "queued": state.waiting_items,
        "last_turn": None if last is None else {"id": last.id, "yield_reason": last.reason.value, "error": last.error},
        "usage": {
            "requests": state.usage.requests,
            "input_tokens": state.usage.input_tokens,
            "output_tokens": state.usage.output_tokens,
            "complete": state.usage.complete,
        },
    }


class SessionStatus:
    """Tell about a session: the caller's own, or another of its principal that its taint may know of."""

    name = "session_status"
    description = "Tell the id, taint, clearance, status and usage of this session or another of yours."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    arguments = StatusArguments

    def __init__(self, sessions: SessionStore) -> None:
        self._sessions = sessions

    def declare(self, arguments: StatusArguments, scene: Scene) -> Declared:  # noqa: ARG002 - the port's signature
        """Declare the caller's own taint: nothing above it is told."""
        return Declared(result=scene.taint)

    async def run(self, arguments: StatusArguments, scene: Scene) -> Result:
        """Tell, with the same words for what does not exist and what is not the caller's (law `no_read_up`)."""
        state = await self._sessions.state(arguments.session_id or scene.sid)
        own = state is not None and state.sid == scene.sid
        visible = state is not None and state.principal == scene.principal and state.visibility.flows_to(scene.taint)
        if state is None or not (own or visible):
            return Result("there is no such session", scene.taint, failed=True)
        return Result(json.dumps(describe(state, scene.ceiling)), scene.taint)


class SimulateToolCall:
    """Ask what the gate would decide about a call, without making it."""

    name = "simulate_tool_call"
    description = "Tell what the gate would decide about a tool call, with every rule and what can be done about it."
    effect = Effect.NONE
    label = PUBLIC
    repeatable = True
    arguments = SimulateArguments

    def __init__(self, simulations: RateLimiter) -> None:
        self._simulations = simulations

    def declare(self, arguments: SimulateArguments, scene: Scene) -> Declared:  # noqa: ARG002 - the port's signature
        """Declare the caller's own taint: the answer tells what the caller could learn by trying."""
        return Declared(result=scene.taint)

    async def run(self, arguments: SimulateArguments, scene: Scene) -> Result:
        """Return the gate's report as JSON, or that it was asked too often."""
        if not self._simulations.allows(scene.sid):
            return Result(str(BusyError()), scene.taint, failed=True)
        return Result(json.dumps(await scene.simulate(arguments.tool_name, arguments.args)), scene.taint)
