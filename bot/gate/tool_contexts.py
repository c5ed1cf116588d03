"""The context that a tool works in: who calls it, in which session, and when, as far as the tool may know."""

from bot.access.decision_context import DecisionContext, key
from bot.gate.judge import Judge
from bot.gate.results import CallDecision
from bot.sessions.messages import named
from bot.tools.base import ToolCaller, ToolContext, ToolSession


def tool_context(judge: Judge, standing: DecisionContext, made: CallDecision) -> ToolContext:
    """Return the context of a tool: it works at the join of the taint with the label of the call's references."""
    by_model = bool(standing.turn) or standing.by_model
    caller = ToolCaller(
        principal=standing.principal,
        asker=standing.asker,
        role=standing.role,
        ceiling=judge.ceiling(standing),
        reader=standing.taint if by_model else standing.reader,
        by_model=by_model,
    )
    session = ToolSession(
        sid=standing.sid,
        generation=standing.generation,
        turn=standing.turn,
        home=standing.home,
        taint=standing.taint.join(made.carried),
        visibility=standing.visibility,
        addresses=standing.addresses,
        held=standing.held,
        before=standing.taint,
        model=standing.model,
        agent=standing.agent,
        run=standing.run,
        claim=standing.claim,
        allowance=standing.allowance,
        authors=named(standing.others),
        endorsed=bool(standing.endorsed),
    )
    return ToolContext(
        caller,
        session,
        key(standing, made.call),
        standing.now,
        judge.document,
        made.call.id,
        asked=made.asked,
        unasked=made.unasked,
        own_level=made.call.own_level,
    )
