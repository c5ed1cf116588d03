"""The loop of a turn: ask the model, run its calls, until it answers, waits for people, or gives up."""

from bisect import bisect_left
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

from pydantic_ai.messages import ModelResponse, ToolCallPart

from bot.agent.calls import ToolRunner
from bot.agent.chain import Chain
from bot.agent.context import Context, assemble, base, call_of, cuts, newest_summary, text_of, thought
from bot.agent.fitting import fitted
from bot.agent.guidance import guidance
from bot.agent.models import UNKNOWN, ModelError, OverBudgetError, TooLargeError
from bot.agent.pictures import NONE, Pictures, Shown
from bot.agent.recap import Recap
from bot.agent.recollection import Recollection
from bot.agent.room import Room
from bot.agent.tails import Past
from bot.core.tracing import span
from bot.delivery.outbox import Outbox
from bot.delivery.question_prompts import closing
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, CallDecision, decision_row
from bot.history import event_log
from bot.sessions.approvals import ApprovalState
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import answer_key
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.log.event_types import ToolResult, UserMessage, YieldReason
from bot.sessions.models import Change, Summary
from bot.sessions.transcript import Tail
from bot.tools.references import may_hold
from bot.turn import OpenTurn
from policy.decision import Decision, Verdict
from policy.request import Hook

TOO_MANY_STEPS: Final = "this took too many steps and was ended; ask for less at once"
ALONE: Final = "{turns} turns ran without a message from a person, so no more run until there is one"
"""Said once: from then on messages of other sessions are taken in, and not answered."""

_TRIES: Final = 4
"""How often a request that its provider refuses as too large is made smaller, each time to less than half."""

TOO_MANY_REFUSALS: Final = "calls of this turn were refused three times, so it was ended"
REFUSALS: Final = 3
"""How often people may refuse before a turn is ended: a model must not wear them down."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The model answered; `logged` tells that `response` is in the log already, as it waited for an approval.

    `asking` is the call that ends the turn with a question to the asker, None for any other answer.
    """

    text: str
    response: ModelResponse
    logged: bool
    asking: CallDecision | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Calls wait for people."""

    calls: tuple[CallDecision, ...]


@dataclass(frozen=True, slots=True)
class Overshot:
    """Calls would read data that could not be told here, and the asker may have it elsewhere.

    `calls` are all calls of that step that have no result.
    """

    calls: tuple[CallDecision, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The turn ends without an answer.

    `notice` is a constant that is sent instead; with `decision` its explanation is, as far as its readers may know.
    `error` is for operators. `rejected` is the audit row of a message that was not let in. `mend` is the fault that the
    operator has to mend, which an operator who asked in private gets to read. `aside` tells that the notice is for the
    asker alone. `failed` means that the session cannot go on by itself. Without notice, decision and error nothing is
    sent.
    """

    reason: YieldReason
    notice: str = ""
    decision: Decision | None = None
    error: str = ""
    rejected: AuditRow | None = None
    mend: str = ""
    aside: bool = False
    failed: bool = False


Ending: TypeAlias = Answer | Waiting | Overshot | GivenUp


class Join(Protocol):
    """Admits the messages since a turn began, as far as they may enter it."""

    def __call__(self, turn: OpenTurn, *, opening: bool) -> Awaitable[None]:
        """Let it in before a model call; `opening` tells that this is the turn's first."""
        ...


class Agent:
    """Thinks for turns. `steps` is how many times a turn may ask the model, `depth` how deep sessions may spawn."""

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        chain: Chain,
        room: Room,
        recap: Recap,
        pictures: Pictures,
        gate: Gate,
        join: Join,
        calls: ToolRunner,
        recollection: Recollection,
        outbox: Outbox,
        steps: int,
        depth: int,
    ) -> None:
        self._chain = chain
        self._room = room
        self._recap = recap
        self._pictures = pictures
        self._gate = gate
        self._join = join
        self._calls = calls
        self._recollection = recollection
        self._outbox = outbox
        self._depth = depth
        self._steps = steps

    async def think(self, turn: OpenTurn, past: Past) -> Ending:
        """Run the turn from the state of its log, with the messages admitted since, to its ending.

        `past` is the state of the log when the turn was claimed.
        """
        try:
            await self._chain.ready(turn.standing)
        except ModelError as error:
            return _unanswered(error)
        context = await self._begun(turn, past.context)
        for event in turn.admitted:
            context.add_said(event)
        step = _steps_taken(turn)
        while True:
            response, logged = context.last_response, True
            if response is None or (response.tool_calls and not context.open_calls):
                asked = await self._next(turn, context, step)
                if isinstance(asked, GivenUp):
                    return asked
                response, logged = asked, False
                step += 1
            if not response.tool_calls:
                return Answer(text_of(response), response, logged)
            waiting = await self._calls.run(turn, context, context.open_calls)
            if waiting:
                return _stopping(waiting, response)

    async def _next(self, turn: OpenTurn, context: Context, step: int) -> ModelResponse | GivenUp:
        """Return the model's next response, if it may be asked and answers."""
        if _refusals(turn) >= REFUSALS:
            return GivenUp(YieldReason.CANCELED, TOO_MANY_REFUSALS)
        await turn.look()
        if step >= self._steps:
            return GivenUp(YieldReason.BUDGET_EXCEEDED, TOO_MANY_STEPS)
        await self._joined(turn, context, opening=step == 0)
        if turn.alone is not None:
            return GivenUp(YieldReason.MAX_TURNS, "" if turn.alone else ALONE.format(turns=turn.limits.turns))
        if step == 0:
            await self._recollection.recall(turn, context)
        decision = self._gate.requests.invoke(turn.standing)
        if decision.verdict is not Verdict.ALLOW:
            return GivenUp(YieldReason.ERROR, decision=decision)
        return await self._fitting(turn, context, step)

    async def _fitting(self, turn: OpenTurn, context: Context, step: int) -> ModelResponse | GivenUp:
        """Ask the model with as much as it can read, and with less if its provider says that this was too much."""
        detail = ""
        for _ in range(_TRIES):
            try:
                if not self._holds(turn, context):
                    await self._shorten(turn, context)
                refused = None if self._holds(turn, context) else await self._compact(turn, context)
                if refused is not None:
                    return GivenUp(YieldReason.ERROR, decision=refused)
                return await self._ask(turn, context, step)
            except TooLargeError as error:
                # How large the window is at most is known now, so the next try makes room.
                detail = error.detail
            except ModelError as error:
                return _unanswered(error)
        return _unanswered(self._room.full(turn.standing, detail))

    async def _joined(self, turn: OpenTurn, context: Context, *, opening: bool) -> None:
        """Put the messages that are let in now into the context; they are labelled and decided on by then."""
        before = len(turn.admitted)
        await self._join(turn, opening=opening)
        if turn.admitted[before:]:
            context.pictures = await self._pictured(turn, context)
        for event in turn.admitted[before:]:
            context.add_said(event)

    async def _ask(self, turn: OpenTurn, context: Context, step: int) -> ModelResponse:
        before = turn.usage
        # Until it has answered, and if it never does, nobody knows what the request cost.
        turn.usage = before.plus(UNKNOWN)
        last = context.messages[-1]
        last.instructions = self._told(turn)  # pyright: ignore[reportAttributeAccessIssue] - the last is a request
        preview = self._outbox.preview(turn.standing, answer_key(turn.record.id))
        turn.asks()
        try:
            with span("model") as told:
                response, usage = await self._chain.ask(
                    turn.standing,
                    context.messages,
                    self._room.parameters(turn.standing),
                    record=turn.audit,
                    show=preview.show,
                )
                told.tell(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, complete=usage.complete)
        except ModelError as error:
            turn.usage = before.plus(error.usage)
            raise
        turn.usage = before.plus(usage)
        response = _named(response, f"{turn.record.id}-{step}")
        context.messages.append(response)
        if response.tool_calls:
            # Written with the step's first call, before that call runs.
            turn.note(event_log.thinking(turn.standing, thought(response)))
        return response

    def _told(self, turn: OpenTurn) -> str:
        """Return a session's instructions: its agent's, and how to use the tools that it has."""
        spawns = turn.lineage is None or turn.lineage.depth < self._depth
        agent = turn.standing.agent
        tools = self._gate.requests.offered(turn.standing)
        instructions = "" if agent is None else agent.instructions
        proposes = agent is not None and agent.memory is MemoryUse.AUTO and turn.background is None
        document, untrusted = self._gate.document, turn.standing.taint.untrusted
        spares = not untrusted and any(document.spares(tool.name, tool.server) for tool in tools if may_hold(tool))
        told = guidance(tools, spawns=spawns, proposes=proposes, spares=spares, untrusted=untrusted)
        return "\n\n".join(filter(None, (instructions, told)))

    def _holds(self, turn: OpenTurn, context: Context) -> bool:
        return self._room.holds(turn.standing, context)

    async def _begun(self, turn: OpenTurn, before: Context) -> Context:
        """Return the context that a turn begins with: all since the recap that a full window made, as far as it fits.

        If it does not fit, it begins with the newest recap that anybody made.
        """
        context = before.copy(await self._pictured(turn, before))
        early = turn.begun and turn.folds.newest.said[0] < turn.claim.state.context_seq
        if self._holds(turn, context) and not early:
            return context
        log = await turn.log()
        summary = base(log) if self._holds(turn, context) else newest_summary(log)
        return context if summary is None else _from(turn, log, summary, context.pictures)

    async def _pictured(self, turn: OpenTurn, context: Context) -> Shown:
        """Return the pictures of a turn's context, if a model sees any."""
        if not self._chain.sees(turn.standing):
            return NONE
        admitted = (event.body for event in turn.admitted)
        messages = [message for _, _, message in context.sent]
        messages += [body for body in admitted if isinstance(body, UserMessage)]
        return await self._pictures.of(turn.standing, messages)

    async def _shorten(self, turn: OpenTurn, context: Context) -> None:
        """Show less of the newest step's results where they have more than their share.

        They were let in when nobody knew how large the window is, or before something else was said.
        """
        results, response = context.newest_results, context.last_response
        share = self._room.share(turn.standing, max(len(results), 1))
        if share is None or response is None:
            return
        reads_on = self._room.reads_on(turn.standing)
        calls = {part.tool_call_id: call_of(part) for part in response.tool_calls}
        events = (await turn.log()).events
        read = {
            event.body.call: (event.body.text, event.label)
            for event in events
            if isinstance(event.body, ToolResult) and event.body.outcome.ran
        }
        for part in results:
            if part.tool_call_id not in read:
                continue
            call, (text, label) = calls[part.tool_call_id], read[part.tool_call_id]
            shown = fitted(turn.standing, call, text, label=label, room=share, reads_on=reads_on)
            context.show(part, shown.text)
            if shown.held is not None:
                async with turn.lock:
                    await turn.write(Change(events=(event_log.item_held(turn.standing, shown.held),)))

    async def _compact(self, turn: OpenTurn, context: Context) -> Decision | None:
        """Put a recap into the context in place of its oldest part, so that the model can read the rest.

        Everything of this turn is in the log here, for calls and results are written before the model is asked. Words
        of people in this turn stay unchanged beside the recap, or the present task would be forgotten.

        Returns the decision if the recap may not enter the context. Raises ModelError: no model gave one, or the
        unchanged part does not fit.
        """
        log, before = await turn.log(), turn.usage
        after = sorted(set(cuts(log.events)) - {len(log.events)})
        # The rest gets smaller with each.
        first = bisect_left(after, True, key=lambda cut: self._halves(turn, context, log, cut))  # noqa: FBT003 - the value to search for
        upto = log.before + after[min(first, len(after) - 1)] if after else 0
        if not upto:
            raise self._room.full(turn.standing)
        try:
            summary, usage = await self._recap.write(turn.standing, log, upto, topic="", record=turn.audit)
        except ModelError as error:
            turn.usage = before.plus(error.usage)
            raise
        turn.usage = before.plus(usage)
        spoken = self._gate.requests.admit(turn.standing, turn.standing.taint, summary.text)
        if spoken.decision.verdict not in MAY_GO_ON:
            return spoken.decision
        summary = replace(summary, text=spoken.text)
        row = decision_row(turn.standing, Hook.PRE_CONTEXT_INJECTION, spoken.decision, cause="recap")
        async with turn.lock:
            event = replace(event_log.summarized(turn.standing, summary), carried=turn.carried())
            await turn.write(Change(events=(event,), audit=(row,), context=turn.claim.state.generation_seq + upto))
        context.become(_from(turn, log, summary, context.pictures))
        if not self._holds(turn, context):
            raise self._room.full(turn.standing)
        return None

    def _halves(self, turn: OpenTurn, context: Context, log: Tail, cut: int) -> bool:
        """Say whether half of the window is free if a recap stands for the first `cut` events of a log."""
        return self._room.half(turn.standing, _from(turn, log, Summary("", log.before + cut), context.pictures))


def _stopping(waiting: tuple[CallDecision, ...], response: ModelResponse) -> Ending:
    """Return the ending of a turn whose step has calls that do not run now."""
    if any(prepared.overshot for prepared in waiting):
        return Overshot(waiting)
    asking = waiting[0]
    if asking.inquiry is not None and asking.inquiry.ends_turn and asking.waits:
        return Answer(closing(asking.inquiry), response, logged=True, asking=asking)
    return Waiting(waiting)


def _from(turn: OpenTurn, log: Tail, summary: Summary, pictures: Shown) -> Context:
    """Return the context that begins with a recap, followed by the words said in this turn."""
    return assemble(log, summary, pictures, turn.record.id)


def _unanswered(error: ModelError) -> GivenUp:
    """Return how a turn ends whose model does not answer; that a budget is used up is no error of the operator's."""
    if isinstance(error, OverBudgetError):
        return GivenUp(YieldReason.BUDGET_EXCEEDED, error.told, aside=True)
    return GivenUp(YieldReason.ERROR, error.told, error=error.detail, mend=error.mend)


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
    return turn.folds.newest.steps if turn.begun else 0


def _refusals(turn: OpenTurn) -> int:
    """Return how many calls of this turn people refused, or let run out of time: silence is no consent."""
    refused = {ApprovalState.DENIED, ApprovalState.EXPIRED}
    asked = [one for one in turn.approvals if one.turn == turn.record.id and not one.is_question]
    return sum(approval.state in refused for approval in asked)
