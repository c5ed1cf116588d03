"""`/summarize`: a recap of the conversation, kept in its log."""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from bot.access.decision_context import DecisionContext
from bot.commands.command import CommandRequest, Reply
from bot.core.errors import BusyError, LeaseLostError
from bot.core.ids import Ids
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.history import event_log
from bot.history.recall import recalled
from bot.sessions.limits import SessionLimits, TokenAllowance
from bot.sessions.models import Claim, Recapped, SessionState, Write
from bot.sessions.ports.sessions import SessionStore
from bot.tools.summarize import Recap, generation, topic
from policy.labels import join_all
from policy.request import Hook

_TRIES: Final = 20
_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class SummaryCommands:
    """Recap the conversation at hand."""

    sessions: SessionStore
    gate: Gate
    ids: Ids
    recap: Recap
    limits: SessionLimits

    async def summarize(self, request: CommandRequest, argument: str) -> Reply:
        """Recap the conversation, or its messages about a topic. Raises BusyError: a turn runs in it."""
        state = await request.state()
        if state is None:
            return Reply("This conversation has not begun, there is nothing to summarize.")
        standing = await request.standing(state)
        if not state.visibility.flows_to(standing.reader):
            # Withheld by the outbox like every answer of that label; no model is asked for it.
            return Reply("The recap may not be told here. Ask in a private chat with this bot.", state.visibility)
        if state.turn is not None:
            raise BusyError
        log = await generation(self.sessions, request.sid, state.generation)
        # More may have been read since, by a turn that began meanwhile.
        read = join_all((event.label for event in log if event.admitted), standing.taint)
        bounded = await self._bounded(request, replace(standing, taint=read))
        try:
            recapped = await self.recap(bounded, log, topic(argument))
        except LeaseLostError as error:
            raise BusyError from error
        return await self._kept(request, state, recapped)

    async def _bounded(self, request: CommandRequest, standing: DecisionContext) -> DecisionContext:
        """Return the standing with the tokens of the conversation's own budget, which a turn that begins takes away."""
        own = None if standing.agent is None else standing.agent.limits
        tokens = (own or self.limits).tokens
        if tokens is None:
            return standing
        claim = await self._claimed(request)
        await self.sessions.release(claim)
        return replace(standing, allowance=TokenAllowance(claim.sid, claim.state.generation, claim.fence, tokens))

    async def _kept(self, request: CommandRequest, before: SessionState, recapped: Recapped) -> Reply:
        """Write a recap and its cost under the fence; one of a conversation that was reset meanwhile is dropped.

        Raises BusyError: a turn began meanwhile and goes on.
        """
        claim = await self._claimed(request)
        state = claim.state
        past = await recalled(self.sessions, state, claim.events)
        standing = replace(await request.standing(state), authors=past.folds.authors)
        text, written, rows = recapped.why, (), ()
        if state.generation != before.generation:
            text = "A new conversation began meanwhile, there is nothing to summarize."
        elif recapped.summary is not None:
            spoken = self.gate.requests.admit(standing, state.taint, recapped.summary.text)
            rows = (decision_row(standing, Hook.PRE_CONTEXT_INJECTION, spoken.decision, cause="/summarize"),)
            text = request.explained(spoken.decision, standing, "this recap")
            if spoken.decision.verdict in MAY_GO_ON:
                text = spoken.text
                written = (event_log.summarized(standing, replace(recapped.summary, text=text)),)
        write = Write(
            op=self.ids.op(),
            cursor=state.seq,
            events=written,
            audit=rows,
            release=True,
            usage=recapped.usage,
        )
        await self.sessions.record(claim, write)
        return Reply(text, before.visibility.join(state.visibility))

    async def _claimed(self, request: CommandRequest) -> Claim:
        """Take the session while no turn runs in it.

        Raises BusyError: one does, all the time.
        """
        for _ in range(_TRIES):
            claim = await self.sessions.claim(request.sid, self.ids.owner(), idle=True)
            if claim is not None and claim.state.turn is None:
                return claim
            if claim is not None:
                await self.sessions.release(claim)
            await asyncio.sleep(_PAUSE)
        raise BusyError
