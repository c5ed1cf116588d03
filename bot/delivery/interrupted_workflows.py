"""The offer to continue an interrupted workflow, made to its principal when they come back.

It comes before the answer to the first message of a conversation, or to the first after an hour, where they are alone.
It passes the gate like every text, with the label of the workflow: readers who may not know of that learn nothing of it
(law `no_read_up`). A conversation gets one offer for each interruption. Whether a session still works on the workflow
is checked only if the readers here may know of that session.
"""

from dataclasses import dataclass
from typing import Final

from bot.access import labelling
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import OURS, NewDelivery, interrupted_key
from bot.sessions.models import Status
from bot.sessions.ports.delivery import OutboxStore
from bot.sessions.ports.sessions import SessionStore
from bot.turn import OpenTurn
from bot.workflows.keeper import WorkflowKeeper
from bot.workflows.progress import RESUMED, ago, in_progress, standing_at
from bot.workflows.views import Workflow
from channels.messages import Button, OutboundKind
from policy.labels import Label
from policy.request import Hook

STOPPED: Final = "Workflow {project} stopped in {where}, {ago}."
WAY: Final = "- {label}: `{command}`"
SILENCE_MS: Final = 60 * 60 * 1000
"""Milliseconds without a turn after which a person counts as coming back to a conversation."""

MOST: Final = 3
"""How many are offered at once: more would not be read."""

_DAY_MS: Final = 24 * 60 * 60 * 1000
"""The least number of milliseconds for which a sent text is remembered."""

_WORKING: Final = frozenset({Status.QUEUED, Status.RUNNING, Status.AWAITING_INPUT})


@dataclass(frozen=True, slots=True)
class InterruptedNotice:
    """The offers, with the rows of the decisions on them."""

    deliver: tuple[NewDelivery, ...] = ()
    audit: tuple[AuditRow, ...] = ()


class InterruptedWorkflows:
    """Offers to continue interrupted workflows."""

    def __init__(self, keeper: WorkflowKeeper, sessions: SessionStore, outbox: OutboxStore, gate: Gate) -> None:
        self._keeper = keeper
        self._sessions = sessions
        self._outbox = outbox
        self._gate = gate

    async def before(self, turn: OpenTurn) -> InterruptedNotice:
        """Return the offers before the answer to the principal's message in this turn, mostly none.

        A turn without a person's message offers nothing, nor does one above its address (ADR 0021), or in a shared
        chat.
        """
        standing = turn.standing
        alone = standing.asker == standing.principal and not standing.destination.shared
        since = _since(turn)
        if since is None or not turn.asked or not alone or turn.above_home or turn.background is not None:
            return InterruptedNotice()
        # People are also told of workflows that anyone may have written; a label says so once they resume one.
        reader = labelling.untrusted(standing.reader)
        found = [one for one in await self._keeper.interrupted(standing.principal, reader) if one.touched_at > since]
        if not found:
            return InterruptedNotice()
        said = {one.key for one in await self._outbox.deliveries(standing.sid)}
        deliver, rows = list[NewDelivery](), list[AuditRow]()
        for workflow in found:
            key = interrupted_key(workflow.document.project, workflow.version)
            if key in said or len(deliver) == MOST or await self._goes_on(turn, workflow, reader):
                continue
            text, there = _wording(workflow, turn.now), str(standing.home)
            offers = buttons(workflow.document.project)
            spoken = self._gate.output.reply(standing, standing.destination, text, workflow.label, buttons=offers)
            rows.append(decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=there))
            if spoken.decision.verdict in MAY_GO_ON:
                deliver.append(
                    NewDelivery(
                        key=key,
                        address=there,
                        text=spoken.text,
                        label=workflow.label,
                        kind=OutboundKind.OFFER,
                        turn=turn.record.id,
                        approved=OURS,
                        meant_for=standing.principal,
                    )
                )
        return InterruptedNotice(tuple(deliver), tuple(rows))

    async def _goes_on(self, turn: OpenTurn, workflow: Workflow, reader: Label) -> bool:
        """Say whether a session works on a workflow, as far as the readers here may know of that session."""
        if workflow.touched_by_sid == turn.standing.sid:
            return workflow.touched_at >= turn.record.started_at
        if not workflow.touched_by_sid:
            return False
        state = await self._sessions.state(workflow.touched_by_sid)
        return state is not None and state.visibility.flows_to(reader) and state.status in _WORKING


def buttons(project: str) -> tuple[Button, ...]:
    """Return the buttons of an offer."""
    return (Button("Resume", f"/workflow resume {project}"), Button("Not now", f"/workflow later {project}"))


def _since(turn: OpenTurn) -> int | None:
    """Return since when interruptions are offered, in milliseconds; None if the principal was here all the time.

    A new conversation is offered all of them. One that continues after a while had earlier offers of older ones. A
    conversation that was asked to resume a workflow is offered none.
    """
    if turn.record.dedupe.startswith(RESUMED):
        return None
    if turn.claim.state.last_turn is None:
        return 0
    last = max((event.ts for event in turn.claim.events if event.turn != turn.record.id), default=None)
    return None if last is None or turn.record.started_at - last < SILENCE_MS else last - _DAY_MS


def _wording(workflow: Workflow, now: int) -> str:
    going = in_progress(workflow)
    project = workflow.document.project
    where = "a step" if going is None else standing_at(going)
    told = STOPPED.format(project=project, where=where, ago=ago(now - workflow.touched_at))
    ways = (WAY.format(label=button.label, command=button.command) for button in buttons(project))
    return "\n".join((told, *ways))
