"""One turn, from the claim of its session to the delivery of its ending.

`run_turn` reads as the way of one message, from the opening of a turn in step 4 to step 8.
"""

import logging
import traceback
from dataclasses import replace
from typing import Final

from bot.access import labelling
from bot.admission.admission import Admission
from bot.agent.loop import Agent, Ending, GivenUp, Waiting
from bot.agent.tails import Past
from bot.core.errors import LeaseLostError, StoreError
from bot.core.logs import bound
from bot.core.tracing import span
from bot.delivery.outbox import Outbox
from bot.gate.gate import Gate
from bot.gate.results import NOT_KNOWN
from bot.history import event_log
from bot.pinned_agents import ANEW, subject
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import Delivery
from bot.sessions.inbox import InboxItem
from bot.sessions.log.event_types import YieldReason
from bot.sessions.models import Change, Claim, Status
from bot.telemetry.telemetry import Telemetry, TracedTurn
from bot.turn import DeadlinePassedError, OpenTurn, StopRequestedError
from bot.worker.finish import TurnFinisher
from bot.worker.lease import LeaseKeeper
from bot.worker.turn_opener import TurnOpener
from bot.worker.turn_signals import TurnSignals

STOPPED: Final = "stopped"
LOST: Final = "The agent of this conversation cannot be used until the operator mends that."
"""The only message to a chat about an agent whose snapshot cannot be read."""

TOO_LATE: Final = "it was not done in time and was ended"
ATTEMPTS: Final = 3
"""How often a turn is begun: one that takes its worker down every time would continue forever.

Each time that a worker gave it back in order allows one more.
"""

_LOGGER: Final = logging.getLogger(__name__)


class TurnRunner:
    """Runs turns of claimed sessions, and can interrupt those that run."""

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        opener: TurnOpener,
        gate: Gate,
        admission: Admission,
        agent: Agent,
        finisher: TurnFinisher,
        outbox: Outbox,
        keeper: LeaseKeeper,
        signals: TurnSignals,
        telemetry: Telemetry,
    ) -> None:
        self._opener = opener
        self._gate = gate
        self._admission = admission
        self._agent = agent
        self._finisher = finisher
        self._outbox = outbox
        self._keeper = keeper
        self._signals = signals
        self._telemetry = telemetry
        self._turns: dict[str, OpenTurn] = {}

    def interrupt(self, sid: str, only: str = "") -> None:
        """Stop a session's turn now, if it runs here; the store knows of the stop already.

        With `only` that turn and no other: the next one may have begun meanwhile.
        """
        turn = self._turns.get(sid)
        if turn is not None and only in {"", turn.record.id}:
            turn.interrupt(StopRequestedError())

    def give_up(self, reason: str) -> None:
        """Leave all turns that run here to other processes."""
        for turn in self._turns.values():
            turn.interrupt(LeaseLostError(reason))

    async def run_turn(self, claim: Claim, since: float) -> None:
        """Run one turn: from its opening in step 4 of the way of one message to step 8.

        `since` is when its session was claimed, in seconds on the clock that nobody sets.

        Raises:
            LeaseLostError: Another process has the session.
            StoreError: The store does not answer.
        """
        opened = await self._opener.open(claim)
        turn = opened.turn
        with (
            bound(turn=turn.record.id, request=turn.record.dedupe),
            self._telemetry.turn(_traced(turn, opened.item)) as trace,
        ):
            async with self._signals.shown(turn) as over:
                self._turns[claim.sid] = turn
                try:
                    with self._keeper.hold(turn, since):
                        ending = await self._ending(turn, opened.item, opened.past)
                        with span("commit"):
                            deliveries = await self._end(turn, ending)
                    trace.ended = _ended(ending)
                finally:
                    over()
                    del self._turns[claim.sid]
                _LOGGER.debug("a turn ended", extra={"kind": type(ending).__name__})
                await self._outbox.deliver(deliveries)
                if turn.afterwards is not None:
                    await turn.afterwards()

    async def _ending(self, turn: OpenTurn, item: InboxItem | None, past: Past) -> Ending:
        """Run a turn up to its ending; any failure inside is an ending too.

        Raises LeaseLostError: another worker has the session, so there is nothing to end.
        """
        obstacle = self._obstacle(turn, item)
        if obstacle is not None:
            return obstacle
        try:
            with turn.interruptible():
                if item is not None:
                    with span("admission") as told:
                        rejected = await self._admission.admit(turn, item)
                        told.tell(admitted=rejected is None)
                    if rejected is not None:
                        return rejected
                elif turn.record.suspended:
                    await self._resume(turn)
                return await self._agent.think(turn, past)
        except StopRequestedError:
            return GivenUp(YieldReason.CANCELED, STOPPED)
        except DeadlinePassedError:
            return GivenUp(YieldReason.DEADLINE_EXCEEDED, TOO_LATE)
        except (LeaseLostError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - a bug in one turn must not take the worker down
            return _broken(error)

    def _obstacle(self, turn: OpenTurn, item: InboxItem | None) -> GivenUp | None:
        """Return the ending of a turn that must not be run at all, None for one that is run."""
        standing = turn.standing
        if labelling.ceiling(self._gate.document, standing.principal, standing.asker) is None:
            row = AuditRow("refused", standing.asker, {"reason": "no such principal any more"})
            return GivenUp(YieldReason.ERROR, NOT_KNOWN, rejected=None if item is None else row)
        if turn.claim.state.stopping:
            return GivenUp(YieldReason.CANCELED, STOPPED)
        if standing.agent is not None and standing.agent.lost:
            why = f"{subject(standing.agent)} cannot be read from the store"
            row = None if item is None else AuditRow("refused", standing.asker, {"reason": why})
            return GivenUp(YieldReason.ERROR, LOST, error=why, rejected=row, mend=f"{why}; {ANEW}")
        if turn.late:
            return GivenUp(YieldReason.DEADLINE_EXCEEDED, TOO_LATE)
        if turn.record.attempt - turn.record.handed > ATTEMPTS:
            why = f"given up after {ATTEMPTS} attempts"
            row = None if item is None else AuditRow("refused", standing.asker, {"reason": why})
            return GivenUp(YieldReason.ERROR, error=why, rejected=row, failed=True)
        return None

    async def _resume(self, turn: OpenTurn) -> None:
        """Continue a turn that waited for people: write down their answers, and that it runs again."""
        known = turn.folds.newest.resolved
        turn.record = replace(turn.record, suspended=False)
        async with turn.lock:
            await turn.write(
                Change(
                    events=tuple(
                        event_log.approval_resolved(turn.standing, approval)
                        for approval in turn.approvals
                        if approval.turn == turn.record.id and approval.id not in known
                    ),
                    turn=turn.record,
                    status=Status.RUNNING,
                )
            )

    async def _end(self, turn: OpenTurn, ending: Ending) -> tuple[Delivery, ...]:
        """End a turn; an ending that cannot be written, such as an approval that expired meanwhile, is an error."""
        try:
            return await self._finisher.end(turn, ending)
        except (LeaseLostError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - as above, and nothing of the first ending was written
            return await self._finisher.end(turn, _broken(error))


def _traced(turn: OpenTurn, item: InboxItem | None) -> TracedTurn:
    """Return the facts of a turn for its trace; `item` is the input it still has to admit."""
    return TracedTurn(
        state=turn.claim.state,
        turn=turn.record.id,
        started_at=turn.record.started_at,
        accepted_at=None if item is None else item.accepted_at,
        attempt=turn.record.attempt,
        channel=turn.standing.home.channel,
        label=lambda: turn.standing.taint,
    )


def _ended(ending: Ending) -> str:
    """Return why a turn ended, empty if it waits for people."""
    match ending:
        case Waiting():
            return ""
        case GivenUp():
            return ending.reason.value
        case _:
            return YieldReason.COMPLETED.value


def _broken(error: Exception) -> GivenUp:
    _LOGGER.error("a turn broke", exc_info=error)
    return GivenUp(YieldReason.ERROR, error="".join(traceback.format_exception(error)))
