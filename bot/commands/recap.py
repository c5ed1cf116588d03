"""`/summarize`: a recap of the conversation, kept in its log."""

import asyncio
from dataclasses import replace
from typing import Final

from bot.commands.base import CommandContext, Reply
from bot.core.errors import BusyError
from bot.gate.results import MAY_GO_ON, decision_row
from bot.history import event_log
from bot.history.recall import recalled
from bot.sessions.models import Claim, Recapped, SessionState, Write
from bot.tools.summarize import generation, topic
from policy.labels import join_all
from policy.request import Hook

_TRIES: Final = 20
_PAUSE: Final = 0.1


async def summarize(context: CommandContext, argument: str) -> Reply:
    """Recap the conversation, or what was said in it about a topic."""
    state = await context.state()
    if state is None:
        return Reply("this conversation has not begun, there is nothing to summarize")
    standing = await context.standing(state)
    if not state.visibility.flows_to(standing.reader):
        # Withheld by the outbox like every answer of that label; no model is asked for it.
        return Reply("this may not be told here", state.visibility)
    if state.turn is not None:
        raise BusyError
    log = await generation(context.store.sessions, context.sid, state.generation)
    # More may have been read since, by a turn that began meanwhile.
    read = join_all((event.label for event in log if event.admitted), standing.taint)
    recapped = await context.recap(replace(standing, taint=read), log, topic(argument))
    return await _kept(context, state, recapped)


async def _kept(context: CommandContext, before: SessionState, recapped: Recapped) -> Reply:
    """Write a recap and what it cost under the fence; one of a conversation that was reset meanwhile is dropped.

    Raises BusyError: a turn began meanwhile and goes on.
    """
    claim = await _claimed(context)
    state = claim.state
    past = await recalled(context.store.sessions, state, claim.events)
    standing = replace(await context.standing(state), authors=past.folds.authors)
    text, written, rows = recapped.why, (), ()
    if state.generation != before.generation:
        text = "a new conversation began meanwhile, there is nothing to summarize"
    elif recapped.summary is not None:
        spoken = context.gate.requests.admit(standing, state.taint, recapped.summary.text)
        rows = (decision_row(standing, Hook.PRE_CONTEXT_INJECTION, spoken.decision, cause="/summarize"),)
        text = context.explained(spoken.decision, standing, "this recap")
        if spoken.decision.verdict in MAY_GO_ON:
            text = spoken.text
            written = (event_log.summarized(standing, replace(recapped.summary, text=text)),)
    write = Write(
        op=context.ids.op(),
        cursor=state.seq,
        events=written,
        audit=rows,
        release=True,
        usage=recapped.usage,
    )
    await context.store.sessions.record(claim, write)
    return Reply(text, before.visibility.join(state.visibility))


async def _claimed(context: CommandContext) -> Claim:
    """Take the session while no turn runs in it.

    Raises BusyError: one does, all the time.
    """
    for _ in range(_TRIES):
        claim = await context.store.sessions.claim(context.sid, context.ids.owner(), idle=True)
        if claim is not None and claim.state.turn is None:
            return claim
        if claim is not None:
            await context.store.sessions.release(claim)
        await asyncio.sleep(_PAUSE)
    raise BusyError
