"""The calls of an agent, each decided by the gate as a call of a session's own model is.

A connection stands where a session would: what the agent was told is its taint, the token's clearance its ceiling. So
`no_read_up`, `no_write_down` and `untrusted_cannot_command` hold for it. Nobody is asked over MCP: a call that needs an
approval is refused, with what to do instead.
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
from bot.tools.references import HOLD
from policy.decision import Remedy, Verdict
from policy.explain import LabelWording
from policy.labels import Label
from policy.request import Hook

CONNECTION: Final = LabelWording("this connection was told", "it would then have been told")

ANOTHER: Final = "open another connection for an agent that begins anew: one that was told nothing may do this"
BY_PEOPLE: Final = "have a person do it in a chat, or the program itself over the HTTP API: nobody is asked over MCP"

NO_HOLD: Final = f"nothing is held for a connection, so `{HOLD}` means nothing here"
KEPT_OUT: Final = "the call was made, and the policy keeps what `{}` returns out of contexts"

_INSTEAD: Final = MappingProxyType({Remedy.RESET: ANOTHER, Remedy.APPROVER: BY_PEOPLE})
"""What an agent is told in the place of what people can do in a chat; nothing where that is not here."""

_IN_CHATS: Final = frozenset(
    {Remedy.RESET, Remedy.CONFIRM, Remedy.APPROVER, Remedy.RELEASE, Remedy.PRIVATE_CHAT, Remedy.ALONE}
)


@dataclass(frozen=True, slots=True)
class McpAnswer:
    """What an agent is told of a call, and the label of that."""

    text: str
    label: Label
    failed: bool = False


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A call of an agent: who asks, on which connection, None for none, and what names the call.

    `words` is the label of what the agent says, and all that it may be told without being raised.
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
    """Makes the calls of agents out of requests, and answers of what the gate says."""

    def __init__(self, services: ApiServices) -> None:
        """Make them with these services."""
        self._services = services

    def given(self, asked: ApiRequest, connection: AgentConnection | None, key: str) -> AgentCall:
        """Return a call; the same `key` names the same call, an empty one a call of its own.

        A key is one of what the agent was told then: else it would tell that an agent which was told more used it.
        """
        words = words_of(self._services, asked, connection)
        named = key_named("m", f"{words}\0{key}") if key else f"r:{self._services.ids.op()}"
        return AgentCall(asked, connection, words, f"{asked.caller.principal}/{named}")

    async def standing(self, call: AgentCall) -> DecisionContext:
        """Return where an agent stands: as a session of its program that was told as much."""
        standing, words = await standing_of(self._services, call.asked), call.words
        return replace(standing, ceiling=call.asked.reader, taint=words, visibility=words, by_model=True)

    async def made(self, call: AgentCall, tool: str, arguments: Mapping[str, JsonValue]) -> McpAnswer:
        """Make a call of a built-in tool through the gate. Raises StoreError."""
        if HOLD in arguments:
            return call.failed(NO_HOLD)
        standing = await self.standing(call)
        made = await self._services.calls.made(standing, Call(call.name, tool, arguments), call.words)
        if isinstance(made, RefusedCall):
            return refusal(made, tool)
        if made.held is not None:
            return McpAnswer(KEPT_OUT.format(tool), call.words)
        return McpAnswer(made.text, made.label.join(call.words), made.failed)

    async def told(self, call: AgentCall, answer: McpAnswer) -> McpAnswer:
        """Return an answer as it may leave (hook PRE_OUTPUT): rules about what programs are told count here, too.

        What is refused is told by why, with the label that it would have had. Raises StoreError.
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
    """Return why the gate refused a call, and what an agent can do instead."""
    decision, told = made.decision, made.standing.taint
    reader = told.meet(made.standing.reader)
    here = tuple(remedy for remedy in decision.remedies if remedy not in _IN_CHATS)
    lines = [explained(replace(decision, remedies=here), reader, tool, CONNECTION)]
    offered = {*decision.remedies, *([Remedy.APPROVER] if decision.verdict is Verdict.REQUIRE_APPROVAL else [])}
    lines += [f"you can: {step}" for remedy, step in _INSTEAD.items() if remedy in offered]
    return McpAnswer("\n".join(lines), told.join(made.label), failed=True)
