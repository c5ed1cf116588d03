"""The effect of a turn's end on its run: its continuation, the news to people, and its timers.

All of it is written with the end of the turn, in one step. So there is no moment in which a turn has ended without its
continuation, or a run has ended without its news in the outbox. Timers are set before that, so that a crash loses none;
a timer that finds nothing to do does nothing.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from bot.access import labelling, principals
from bot.agent.loop import TOO_MANY_REFUSALS, GivenUp
from bot.core.errors import StoreError
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, NOT_KNOWN, decision_row
from bot.runs import loop, wording
from bot.runs.loop import NextStep, RunNewsKind, TurnOutcome
from bot.sessions.audit import AuditRow
from bot.sessions.background.run_states import GapReason
from bot.sessions.background.runs import UNREAD, Charter, Gap, RunFacts, RunStep
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.deliveries import OURS, NewDelivery, copy_key
from bot.sessions.limits import RunLimits
from bot.sessions.log.event_types import (
    AgentMessage,
    SessionPaused,
    SessionResumed,
    ToolCall,
    TurnCompleted,
    YieldReason,
)
from bot.sessions.models import Claim
from bot.sessions.ports.store import Store
from bot.tools.background.runs import INITIALIZE
from bot.turn import OpenTurn
from bot.worker.second_recipient import SecondRecipient
from channels.messages import Address, OutboundKind
from policy.request import Hook

FREED: Final = 60_000
"""Milliseconds after the end of a run within which its place is given back, even after a crash."""

_IN_ORDER: Final = frozenset({YieldReason.COMPLETED, YieldReason.NEEDS_INPUT})


class RunRecords(Protocol):
    """Writes records of runs."""

    async def expect(self, sid: str, now: int) -> Timer:
        """Set the timer that has a run's record written, also if this process dies."""
        ...

    async def record(self, sid: str, timer: Timer | None = None) -> bool:
        """Write the present record of a run, and settle its timer."""
        ...


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The data that is written with the end of a run's turn, and the timer of the record that follows, if one does."""

    step: RunStep
    deliver: tuple[NewDelivery, ...]
    audit: tuple[AuditRow, ...]
    record: Timer | None = None


class RunEnding:
    """Decides the effect of the ends of turns on runs, which `limits` bound."""

    def __init__(self, store: Store, gate: Gate, *, records: RunRecords, limits: RunLimits) -> None:
        self._store = store
        self._gate = gate
        self._records = records
        self._limits = limits
        self._second = SecondRecipient(gate)

    async def of(self, turn: OpenTurn, reason: YieldReason, cause: GivenUp | None, answer: str) -> RunEnd | None:
        """Return the effect of a turn's end on its run, None for any other session; its timers are set by then.

        `cause` is why there is no answer; `answer` is the text that was sent, empty for none. Raises StoreError.
        """
        await turn.look()
        run, now = turn.standing.run, turn.now
        if run is None:
            return None
        ending = await self._ended(turn, run, reason, cause)
        following = loop.after(run.charter, run.progress, ending, now=now, limits=self._limits)
        rows, said = list[AuditRow](), list[NewDelivery | None]()
        if following.news is not None:
            said.append(await self._told(turn, run, following, rows))
            rows.append(_row(turn, run, following, told=said[0] is not None))
        if following.news is RunNewsKind.ENDED:
            text = answer or await self._last_answer(turn)
            said.append(await self._answered(turn, run.charter, text, rows, told=said[0]) if text else None)
        record = await self._set_timers(turn.claim.sid, run, following, now)
        return RunEnd(following.step, tuple(one for one in said if one is not None), tuple(rows), record)

    async def written(self, turn: OpenTurn, end: RunEnd) -> None:
        """Do the work that follows a written end of a turn; timers do it if this process dies first."""
        state = turn.claim.state
        with suppress(StoreError):
            # Its taint may be above its pool, which then learns nothing of its end.
            known = turn.standing.taint.join(state.visibility).flows_to(state.creation)
            # A stop that came while this was written may have ended it.
            now = await self._store.runs.progress(state.sid)
            if state.charter is not None and known and now is not None and now.ended_at:
                await self._store.runs.free(state.principal, state.charter.run)
            if end.record is not None:
                await self._records.record(state.sid, end.record)

    async def _ended(self, turn: OpenTurn, run: RunFacts, reason: YieldReason, cause: GivenUp | None) -> TurnOutcome:
        claim, in_order = turn.claim, reason in _IN_ORDER
        before, refused = claim.state.progress, cause is not None and cause.rejected is not None
        notice = "" if cause is None else cause.notice
        return TurnOutcome(
            started_at=turn.record.started_at,
            consecutive=0 if before is None else before.consecutive,
            in_order=in_order,
            late=reason is YieldReason.DEADLINE_EXCEEDED and turn.outlived,
            mend=cause is not None and bool(cause.mend),
            stopped=reason is YieldReason.CANCELED and notice != TOO_MANY_REFUSALS,
            spent=reason is YieldReason.BUDGET_EXCEEDED and cause is not None and cause.aside,
            # A goal that may not be read is none.
            hopeless=(cause is not None and cause.failed)
            or notice == NOT_KNOWN
            or (refused and claim.state.last_turn is None),
            taken=in_order and not run.progress.initialized and await self._taken(turn, run),
            gaps=_gaps(claim),
        )

    async def _taken(self, turn: OpenTurn, run: RunFacts) -> bool:
        """Say whether another run of the same pool has the slot that a run wanted: of other pools it may not know."""
        calls = [event.body for event in (await turn.log()).events if event.turn == turn.record.id]
        begins = [body.arguments for body in calls if isinstance(body, ToolCall) and body.tool == INITIALIZE]
        wanted = {run.charter.slot, *(str(arguments.get("slot")) for arguments in begins if arguments)}
        places = await self._store.runs.slots(turn.standing.principal)
        pool = next((place.pool for place in places if place.run == run.charter.run), None)
        others = (place for place in places if place.live and place.run != run.charter.run and place.pool == pool)
        return any(place.slot in wanted for place in others)

    async def _told(
        self, turn: OpenTurn, run: RunFacts, following: NextStep, rows: list[AuditRow]
    ) -> NewDelivery | None:
        """Return the news of a run for people: at the address it was asked for, or in private to its asker; else None.

        The news reveals the run, so its readers must be cleared for the run's visibility.
        """
        if following.news is None:
            return None
        standing, document, charter = turn.standing, self._gate.document, run.charter
        label = standing.taint.join(run.label)
        text = wording.news(following.news, charter, following.step.progress, self._limits)
        first = [Address.parse(charter.asked_at)] if charter.asked_at else []
        private = labelling.private_places(document, standing.asker, label, charter.asked_at)
        for place in dict.fromkeys((*first, *private)):
            whose = principals.owner(document, place)
            if place.channel in UNREAD or whose not in {"", standing.asker}:
                continue
            spoken = self._gate.output.reply(standing, await self._gate.readers.prospect(place), text, label)
            rows.append(decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(place)))
            if spoken.decision.verdict in MAY_GO_ON:
                return NewDelivery(
                    key=f"{turn.record.id}-run",
                    address=str(place),
                    text=spoken.text,
                    label=label,
                    kind=OutboundKind.NOTICE,
                    turn=turn.record.id,
                    approved=OURS,
                    meant_for=whose,
                )
        return None

    async def _answered(
        self, turn: OpenTurn, charter: Charter, text: str, rows: list[AuditRow], *, told: NewDelivery | None
    ) -> NewDelivery | None:
        """Return the delivery of a run's last answer: to its named recipient, else to the address it was asked for.

        `told` is the news that it ended. If that went elsewhere or nowhere, the readers at that address may not know of
        the run.
        """
        if charter.deliver_to:
            return await self._second.copied(turn, charter, text, rows)
        if told is None or told.address != charter.asked_at:
            return None
        standing, place = turn.standing, Address.parse(charter.asked_at)
        spoken = self._gate.output.speak(standing, await self._gate.readers.prospect(place), text)
        rows.append(decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(place)))
        if spoken.decision.verdict not in MAY_GO_ON:
            return None
        return NewDelivery(
            copy_key(charter.run),
            str(place),
            spoken.text,
            standing.taint,
            OutboundKind.MESSAGE,
            turn.record.id,
            meant_for=told.meant_for,
        )

    async def _last_answer(self, turn: OpenTurn) -> str:
        """Return the answer of the turn before, empty if it had none."""
        last = turn.claim.state.last_turn
        if last is None or not last.result_seq:
            return ""
        found = await self._store.sessions.events_at(turn.claim.sid, (last.result_seq,))
        return next((event.body.text for event in found if isinstance(event.body, AgentMessage)), "")

    async def _set_timers(self, sid: str, run: RunFacts, following: NextStep, now: int) -> Timer | None:
        """Set the timers for the next steps; return that of the record, None where there is nothing to record."""
        schedules, after = self._store.schedules, following.step.progress
        if following.probe_at:
            await schedules.set_timer(Timer(TimerKind.PROBE, sid, following.probe_at))
        if after.ended_at:
            await schedules.set_timer(Timer(TimerKind.DEADLINE, sid, now + FREED))
        if after.ended_at or after.gaps != run.progress.gaps:
            return await self._records.expect(sid, now)
        return None


def _row(turn: OpenTurn, run: RunFacts, following: NextStep, *, told: bool) -> AuditRow:
    """Return the audit row of a run's news; `told` says whether anyone is told."""
    reason = following.step.progress.reason
    did = "" if following.news is None else following.news.value
    why = {} if reason is None else {"reason": reason.value}
    return AuditRow("run", turn.standing.asker, {"did": did, "run": run.charter.run, "told": told, **why})


def _gaps(claim: Claim) -> tuple[Gap, ...]:
    """Return the times before a claim in which nothing was done.

    Its turn waited for people, or its worker died; or people paused the run before its turn began.
    """
    turn, gaps, since = claim.state.turn, list[Gap](), 0
    if turn is not None:
        crashed, last = turn.attempt - turn.handed > 1, claim.events[-1].ts if claim.events else turn.started_at
        if not (turn.suspended or crashed):
            return ()
        return (Gap(last, claim.now, GapReason.WAITING if turn.suspended else GapReason.CRASH),)
    for event in claim.events:
        match event.body:
            case TurnCompleted():
                gaps, since = [], event.ts
            case SessionPaused():
                since = event.ts
            case SessionResumed():
                gaps.append(Gap(since or event.ts, event.ts, GapReason.PAUSED))
            case _:
                pass
    return tuple(gaps)
