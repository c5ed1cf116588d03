"""The room that a session has for the model's next input, with the tools that it is offered."""

from typing import Final

from pydantic_ai.models import ModelRequestParameters

from bot.access.decision_context import DecisionContext
from bot.agent.chain import Chain
from bot.agent.context import Context
from bot.agent.models import ModelError, toolset
from bot.agent.window import estimated
from bot.gate.gate import Gate
from bot.tools.references import ADMIT

TOO_LARGE: Final = "this is more than the model can read at once; `/reset` starts anew"


class Room:
    """The room in the window of the model that a session asks first."""

    def __init__(self, chain: Chain, gate: Gate) -> None:
        self._chain = chain
        self._gate = gate
        self._toolsets: dict[tuple[str, ...], ModelRequestParameters] = {}

    def parameters(self, standing: DecisionContext) -> ModelRequestParameters:
        """Return the model's tools: those for the role of the asker, by the policy in force."""
        offered = self._gate.requests.offered(standing)
        names = tuple(tool.name for tool in offered)
        if names not in self._toolsets:
            self._toolsets[names] = toolset(offered)
        return self._toolsets[names]

    def holds(self, standing: DecisionContext, context: Context) -> bool:
        """Say whether a context fits."""
        window = self._chain.window(standing)
        # The tools count only in a window of a known size.
        return window.tokens is None or window.holds(context.messages, self.parameters(standing))

    def full(self, standing: DecisionContext, detail: str = "") -> ModelError:
        """Return the error for a request that does not fit even into a shortened conversation."""
        crowded = self._chain.crowded(standing, self.parameters(standing))
        return crowded or ModelError(TOO_LARGE, detail=detail, again=False)

    def half(self, standing: DecisionContext, context: Context) -> bool:
        """Say whether a context leaves half of the window free, for a recap and the next messages."""
        tokens = self._chain.window(standing).tokens
        return tokens is None or estimated(context.messages, self.parameters(standing)) <= tokens // 2

    def reads_on(self, standing: DecisionContext) -> bool:
        """Say whether a session can read held items, from any place in them."""
        return any(tool.name == ADMIT for tool in self._gate.requests.offered(standing))

    def share(self, standing: DecisionContext, results: int) -> int | None:
        """Return how many characters each of `results` of one step may always have, None if unknown."""
        return self._chain.window(standing).share(results)

    def left(self, standing: DecisionContext, context: Context, results: int) -> int | None:
        """Return how many characters each of the next `results` of a step may have, None if unknown."""
        return self._chain.window(standing).room(context.messages, self.parameters(standing), results)
