"""The beginning of a turn: a claim and the events before it become an `OpenTurn`."""

from dataclasses import dataclass, replace

from bot.access import labelling
from bot.access.authorize import role
from bot.access.decision_context import DecisionContext
from bot.admission.whole_messages import first_whole
from bot.agent.tails import Past, Tails
from bot.core.ids import Ids
from bot.delivery.outbox import Outbox
from bot.gate.gate import Gate
from bot.pinned_agents import PinnedAgents
from bot.sessions.background.run_states import RunStatus
from bot.sessions.background.runs import RunFacts
from bot.sessions.inbox import InboxItem
from bot.sessions.limits import SessionLimits, TokenAllowance
from bot.sessions.models import Claim, Turn, run_facts
from bot.sessions.ports.sessions import SessionStore
from bot.tools.background.runs import INITIALIZE, UPDATE
from bot.turn import OpenTurn
from channels.messages import Address
from policy.labels import PUBLIC


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened turn, the message that it still has to admit, None if it did, and the events before it."""

    turn: OpenTurn
    item: InboxItem | None
    past: Past


class TurnOpener:
    """Opens turns of claimed sessions; `tails` remembers the events before.

    `limits` are those of a session whose agent sets none.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        store: SessionStore,
        ids: Ids,
        gate: Gate,
        *,
        outbox: Outbox,
        tails: Tails,
        agents: PinnedAgents,
        limits: SessionLimits,
    ) -> None:
        self._store = store
        self._ids = ids
        self._gate = gate
        self._outbox = outbox
        self._tails = tails
        self._limits = limits
        self._agents = agents

    async def open(self, claim: Claim) -> Opened:
        """Open a turn for the first waiting message, or continue the open one.

        A continued turn has no message, unless the attempt before ended before it was admitted. Raises StoreError.
        """
        past = await self._tails.past(claim)
        record, item = self._begun(claim)
        home, folds = Address.parse(claim.state.home), past.folds
        document, principal, asker = self._gate.document, claim.state.principal, record.sender
        agent = await self._agents.working(claim.state)
        limits = agent.limits or self._limits
        standing = DecisionContext(
            sid=claim.sid,
            generation=claim.state.generation,
            turn=record.id,
            principal=principal,
            asker=asker,
            role=role(document, principal, asker),
            ceiling=labelling.ceiling(document, principal, asker) or PUBLIC,
            home=home,
            destination=await self._gate.readers.destination(home),
            taint=claim.state.taint,
            now=claim.now,
            visibility=claim.state.visibility,
            model=claim.state.model,
            allowance=_allowance(claim, limits),
            agent=agent,
            run=_run(claim, past),
            grants=tuple(one for one in claim.approvals if one.grant is not None and one.grant.end is None),
            claim=claim,
        )
        turn = OpenTurn(
            self._store,
            self._ids,
            claim,
            record=record,
            standing=folds.of(standing),
            sender=self._outbox,
            folds=folds,
            limits=limits,
        )
        if item is None:
            context = past.context
            turn.open_calls = {call.id: call for call in context.open_calls}
            turn.begun_calls = context.decided
        return Opened(turn, item, past)

    def _begun(self, claim: Claim) -> tuple[Turn, InboxItem | None]:
        """Return the record of a turn, and the message that it still has to admit, with all its parts."""
        record, item = claim.state.turn, first_whole(claim.items) if claim.items else None
        if record is not None and (item is None or item.position != record.position):
            return record, None
        if record is None:
            item = first_whole(claim.items)
            record = Turn(self._ids.turn(), item.position, item.dedupe, item.sender, claim.now, hops=item.body.hops)
        also = () if item is None else item.also
        return replace(record, joined=tuple(dict.fromkeys((*record.joined, *also)))), item


def _run(claim: Claim, past: Past) -> RunFacts | None:
    """Return the facts of a run as its turn sees them, None for any other session.

    A continued step began before its calls, one of which may have initialized the run or stopped it. The calls without
    a result, perhaps that one among them, are decided as if it had not.
    """
    run, response = run_facts(claim.state), past.context.last_response
    if run is None or response is None or not past.context.open_calls:
        return run
    begun = {part.tool_name for part in response.tool_calls}
    progress = run.progress
    if INITIALIZE in begun:
        progress = replace(progress, initialized_at=0)
    if UPDATE in begun and progress.status is RunStatus.STOPPED:
        progress = replace(progress, status=RunStatus.RUNNING)
    return replace(run, progress=progress)


def _allowance(claim: Claim, limits: SessionLimits) -> TokenAllowance | None:
    """Return a session's own token budget for the holder of a claim, None if it has none."""
    if limits.tokens is None:
        return None
    return TokenAllowance(claim.sid, claim.state.generation, claim.fence, limits.tokens)
