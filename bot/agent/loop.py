"""The loop of a turn: ask the model, run what it proposes, until it answers, waits for people, or gives up."""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pydantic_ai.messages import ModelResponse, ToolCallPart

from bot import events
from bot.agent.calls import Calls
from bot.agent.context import Context, assemble, response_body, text_of
from bot.agent.models import Asker, ModelError
from bot.crossings import Prepared
from bot.gate import Gate
from bot.sessions.values import ApprovalState, AuditRow, EventType, Usage, YieldReason
from bot.turn import OpenTurn
from policy.decision import Decision, Verdict

TOO_MANY_STEPS: Final = "this took too many steps and was ended; ask for less at once"

TOO_MANY_REFUSALS: Final = "calls of this turn were refused three times, so it was ended"
REFUSALS: Final = 3
"""How often people may refuse before a turn is ended (SPEC B, approvals): a model must not wear them down."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The model answered; `logged` tells that `response` is in the log already, as it waited for an approval."""

    text: str
    response: ModelResponse
    logged: bool


@dataclass(frozen=True, slots=True)
class Waiting:
    """Calls wait for people."""

    calls: tuple[Prepared, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The turn ends without an answer.

    `notice` is a constant that is said instead; with `decision` its explanation is, as far as its readers
    may know. `error` is for operators. `rejected` is the audit row of a message that was not let in.
    """

    reason: YieldReason
    notice: str = ""
    decision: Decision | None = None
    error: str = ""
    rejected: AuditRow | None = None


Ending: TypeAlias = Answer | Waiting | GivenUp


class Agent:
    """Thinks for turns. `steps` is how many times a turn may ask the model."""

    def __init__(self, asker: Asker, gate: Gate, calls: Calls, steps: int) -> None:
        self._asker = asker
        self._gate = gate
        self._calls = calls
        self._steps = steps

    async def think(self, turn: OpenTurn, text: str | None) -> Ending:
        """Run the turn from where its log stands to its ending; `text` is the message just admitted, if any."""
        context = assemble(turn.history)
        if text is not None:
            context.add_prompt(text)
        step = _steps_taken(turn)
        while True:
            response, logged = context.last_response, True
            if response is None or (response.tool_calls and not context.open_calls):
                if _refusals(turn) >= REFUSALS:
                    return GivenUp(YieldReason.CANCELED, TOO_MANY_REFUSALS)
                if step >= self._steps:
                    return GivenUp(YieldReason.MAX_TURNS, TOO_MANY_STEPS)
                decision = self._gate.invoke(turn.standing)
                if decision.verdict is not Verdict.ALLOW:
                    return GivenUp(YieldReason.ERROR, decision=decision)
                try:
                    logged = False
                    response = await self._ask(turn, context, step)
                    step += 1
                except ModelError as error:
                    return GivenUp(YieldReason.ERROR, f"{error}; try again", error=repr(error.__cause__ or error))
            if not response.tool_calls:
                return Answer(text_of(response), response, logged)
            waiting = await self._calls.run(turn, context, context.open_calls)
            if waiting:
                return Waiting(waiting)

    async def _ask(self, turn: OpenTurn, context: Context, step: int) -> ModelResponse:
        before = turn.usage
        # Until it has answered, and if it never does, nobody knows what the request cost.
        turn.usage = before.plus(Usage(requests=1, complete=False))
        response, usage = await self._asker.ask(context.messages)
        turn.usage = before.plus(usage)
        response = _named(response, f"{turn.record.id}-{step}")
        context.messages.append(response)
        if response.tool_calls:
            # Written with the step's first call, before that call runs.
            turn.note(events.thinking(turn.standing, response_body(response)))
        return response


def _named(response: ModelResponse, prefix: str) -> ModelResponse:
    """Give a response's calls ids of our own: a provider's may repeat, and an approval is bound to one call."""
    count = 0
    parts = list(response.parts)
    for index, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            parts[index] = replace(part, tool_call_id=f"{prefix}-{count}")
            count += 1
    return replace(response, parts=parts)


def _steps_taken(turn: OpenTurn) -> int:
    """Return how many responses this turn has in the log, so that a resumed turn has no more than its share."""
    return sum(event.type is EventType.AGENT_THINKING and event.turn == turn.record.id for event in turn.history)


def _refusals(turn: OpenTurn) -> int:
    """Return how many calls of this turn people refused."""
    return sum(
        approval.state is ApprovalState.DENIED and approval.turn == turn.record.id for approval in turn.approvals
    )
