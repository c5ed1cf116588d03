"""The calls of an agent, each decided by the gate as a call of a session's own model is.

A connection stands in the place of a session: the join of all answers to the agent is its taint, the token's clearance
its ceiling. So `no_read_up`, `no_write_down` and `untrusted_cannot_command` hold for it. No approval can be asked over
MCP: a call that needs one is refused, with the alternative.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.api.mcp_server.connection import AgentConnection, words_of
from bot.api.requests import ApiRequest
from bot.api.services import ApiServices
from bot.api.session_routes import key_named
from bot.api.standing import standing_of
from bot.gate.results import MAY_GO_ON, decision_row, explained
from bot.operations.gated_calls import RefusedCall
from bot.tools.held.conditions import IF
from bot.tools.references import HOLD
from policy.decision import Remedy, Verdict
from policy.explain import LabelWording
from policy.labels import Label
from policy.request import Hook

CONNECTION: Final = LabelWording("This connection was told", "It would then have been told")

ANOTHER: Final = "open another connection for an agent that begins anew: one that was told nothing may do this"
BY_PEOPLE: Final = "have a person do it in a chat, or the program over the HTTP API: MCP asks nobody"

NO_HOLD: Final = f"nothing is held for a connection, so `{HOLD}` and `{IF}` mean nothing here"
KEPT_OUT: Final = "the call was made, and the policy keeps the results of `{}` out of contexts"

_INSTEAD: Final = MappingProxyType({Remedy.RESET: ANOTHER, Remedy.APPROVER: BY_PEOPLE})
"""The steps for agents in place of steps in a chat; none for a step that is impossible here."""

_IN_CHATS: Final = frozenset(
    {Remedy.RESET, Remedy.CONFIRM, Remedy.APPROVER, Remedy.RELEASE, Remedy.PRIVATE_CHAT, Remedy.ALONE}
)


@dataclass(frozen=True, slots=True)
class McpAnswer:
    """The answer to an agent's call, and its label."""

    text: str
    label: Label
    failed: bool = False


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A call of an agent: who asks, on which connection, None for none, and the name of the call.

    `words` is the label of the agent's words, and the highest label of an answer that does not raise it.
    """

    asked: ApiRequest
    connection: AgentConnection | None
    words: Label
    name: str

    @property
    def principal(self) -> str:
        """The program as a principal."""
        return self.asked.caller.principal

    def failed(self, text: str) -> McpAnswer:
        """Return an answer that tells why nothing was done."""
        return McpAnswer(text, self.words, failed=True)


class CallGiver:
    """Makes the calls of agents out of requests, and answers out of the gate's decisions."""

    def __init__(self, services: ApiServices) -> None:
        """Make them with these services."""
        self._services = services

    def given(self, asked: ApiRequest, connection: AgentConnection | None, key: str) -> AgentCall:
        """Return a call; the same `key` names the same call, an empty one a call of its own.

        A key belongs to the label of the answers to the agent by then: else it would reveal that an agent which had
        read more used it.
        """
        words = words_of(self._services, asked, connection)
        named = key_named("m", f"{words}\0{key}") if key else f"r:{self._services.ids.op()}"
        return AgentCall(asked, connection, words, f"{asked.caller.principal}/{named}")

    async def standing(self, call: AgentCall) -> DecisionContext:
        """Return an agent's decision context: as a session of its program that has read the same."""
        standing, words = await standing_of(self._services, call.asked), call.words
        return replace(standing, ceiling=call.asked.reader, taint=words, visibility=words, by_model=True)

    async def made(self, call: AgentCall, tool: str, arguments: Mapping[str, JsonValue]) -> McpAnswer:
        """Make a call of a built-in tool through the gate. Raises StoreError."""
        if HOLD in arguments or IF in arguments:
            return call.failed(NO_HOLD)
        standing = await self.standing(call)
        made = await self._services.calls.made(standing, Call(call.name, tool, arguments), call.words)
        if isinstance(made, RefusedCall):
            return refusal(made, tool)
        if made.held is not None:
            return McpAnswer(KEPT_OUT.format(tool), call.words)
        return McpAnswer(made.text, made.label.join(call.words), made.failed)

    async def told(self, call: AgentCall, answer: McpAnswer) -> McpAnswer:
        """Return an answer as it may leave (hook PRE_OUTPUT): rules about outputs to programs count here, too.

        A refused answer is replaced by the reason, with the label that it would have had. Raises StoreError.
        """
        gate, standing = self._services.gate, replace(await self.standing(call), taint=answer.label)
        await gate.output.read_ahead((answer.text,))
        spoken = gate.output.speak(standing, standing.destination, answer.text)
        named: dict[str, JsonValue] = {"destination": str(standing.home), "call": call.name}
        await self._services.store.audit.append((decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, **named),))
        if spoken.decision.verdict in MAY_GO_ON:
            return replace(answer, text=spoken.text)
        return refusal(RefusedCall(spoken.decision, standing), "this answer")


def refusal(made: RefusedCall, tool: str) -> McpAnswer:
    """Return why the gate refused a call, and the alternatives for an agent."""
    decision, told = made.decision, made.standing.taint
    reader = told.meet(made.standing.reader)
    here = tuple(remedy for remedy in decision.remedies if remedy not in _IN_CHATS)
    lines = [explained(replace(decision, remedies=here), reader, tool, CONNECTION)]
    offered = {*decision.remedies, *([Remedy.APPROVER] if decision.verdict is Verdict.REQUIRE_APPROVAL else [])}
    lines += [f"You can: {step}." for remedy, step in _INSTEAD.items() if remedy in offered]
    return McpAnswer("\n".join(lines), told.join(made.label), failed=True)
