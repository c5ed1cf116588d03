"""Workers: they run the turns of an application, and are imported and made when it serves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bot.access.session_ids import SessionIds
from bot.admission.admission import Admission
from bot.admission.ambient import Observer
from bot.admission.attachments import Attachments
from bot.agent.call_runs import CallRuns
from bot.agent.calls import ToolRunner
from bot.agent.loop import Agent
from bot.agent.pictures import Pictures
from bot.agent.recollection import Recollection
from bot.agent.room import Room
from bot.agent.tails import Tails
from bot.budgets import Budget
from bot.config.model import Config
from bot.core.ids import Ids
from bot.delegation.spawn import Spawner
from bot.delivery.alternatives import Alternatives
from bot.delivery.asker_questions import AskerQuestions
from bot.delivery.interrupted_workflows import InterruptedWorkflows
from bot.delivery.outbox import Outbox
from bot.delivery.question_updates import QuestionUpdates
from bot.delivery.sweep import Sweep
from bot.delivery.undelivered import Undelivered
from bot.files.port import LabelledFiles
from bot.gate.gate import Gate
from bot.pinned_agents import PinnedAgents
from bot.policy_state import PolicyReloader
from bot.quarantine import Quarantine
from bot.run_records.recorder import RunRecorder
from bot.sessions.background.schedules import TimerKind
from bot.sessions.limits import RunLimits
from bot.sessions.ports.store import Store
from bot.telemetry.telemetry import Telemetry
from bot.worker.claimer import Claimer
from bot.worker.finish import TurnFinisher
from bot.worker.lease import LeaseKeeper
from bot.worker.question_reminders import QuestionReminders
from bot.worker.run_ending import RunEnding
from bot.worker.run_timers import RunTimers
from bot.worker.schedule_firing import ScheduleFiring
from bot.worker.timers import SetOff, TimerSweep
from bot.worker.turn_opener import TurnOpener
from bot.worker.turn_runner import TurnRunner
from bot.worker.turn_signals import TurnSignals
from bot.worker.turn_slots import TurnSlots
from bot.worker.work_finder import WorkFinder
from bot.worker.worker import Worker
from bot.workflows.keeper import WorkflowKeeper
from channels.port import Channel

if TYPE_CHECKING:
    from bot.admission.transcription import Transcriber
    from bot.agent.thinking import Thinking

PARALLEL: Final = 64
"""Sessions that a process works at once: most of its time a turn waits, for its model or for the store."""


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The composition root's inputs to a worker; `channels` are those of this process, by name."""

    config: Config
    store: Store
    ids: Ids
    gate: Gate
    agents: PinnedAgents
    alternatives: Alternatives
    budget: Budget
    channels: Mapping[str, Channel]
    files: LabelledFiles
    observer: Observer
    outbox: Outbox
    quarantine: Quarantine
    question_updates: QuestionUpdates
    recorder: RunRecorder
    reloader: PolicyReloader
    run_limits: RunLimits
    spawner: Spawner
    sweep: Sweep
    telemetry: Telemetry
    workflows: WorkflowKeeper


def worker(
    of: WorkerParts,
    keeper: LeaseKeeper,
    thinking: "Thinking",
    runs: CallRuns,
    *,
    transcriber: "Transcriber | None" = None,
    parallel: int = PARALLEL,
) -> Worker:
    """Return a worker of `parallel` slots; `keeper` renews its leases, `runs` is where its calls run."""
    sessions, tails, signals = of.store.sessions, Tails(of.store.sessions), TurnSignals(of.outbox)
    admission = _admission(of, transcriber)
    return Worker(
        finder=WorkFinder(of.store.wake, of.sweep, of.reloader, of.quarantine),
        claimer=Claimer(
            store=sessions,
            ids=of.ids,
            clock=of.store.time,
            outbox=of.outbox,
            question_updates=of.question_updates,
            policy=of.reloader,
            quarantine=of.quarantine,
            tails=tails,
        ),
        runner=TurnRunner(
            opener=TurnOpener(
                sessions,
                of.ids,
                of.gate,
                outbox=of.outbox,
                tails=tails,
                agents=of.agents,
                limits=of.config.limits.session,
            ),
            gate=of.gate,
            admission=admission,
            agent=_agent(of, thinking, admission, runs),
            finisher=_finisher(of),
            outbox=of.outbox,
            keeper=keeper,
            signals=signals,
            telemetry=of.telemetry,
        ),
        slots=TurnSlots(parallel),
        signals=signals,
        quarantine=of.quarantine,
        spawner=of.spawner,
    )


def timers(of: WorkerParts, session_ids: SessionIds) -> TimerSweep:
    """Return the sweep that starts schedules, reminders and all other timers when they are due."""
    runs = RunTimers(of.store)
    firing = ScheduleFiring(of.store, of.gate, session_ids, of.agents)

    parts: Mapping[TimerKind, SetOff] = {
        TimerKind.SCHEDULE: firing.due,
        TimerKind.DEADLINE: runs.fire,
        TimerKind.PROBE: runs.fire,
        TimerKind.RECORD: of.recorder.due,
        TimerKind.REMIND: QuestionReminders(of.store, of.gate).due,
    }
    return TimerSweep(of.store.schedules, parts, of.reloader.current)


def _admission(of: WorkerParts, transcriber: "Transcriber | None") -> Admission:
    files = Attachments(
        channels=of.channels,
        gate=of.gate,
        root=of.files,
        settings=of.config.files,
        transcriber=transcriber,
        budget=of.budget,
    )
    return Admission(of.gate, files, of.observer, of.outbox)


def _agent(of: WorkerParts, thinking: "Thinking", admission: Admission, runs: CallRuns) -> Agent:
    room = Room(thinking.chain, of.gate)
    return Agent(
        chain=thinking.chain,
        room=room,
        recap=thinking.recap,
        pictures=Pictures(of.files),
        gate=of.gate,
        join=admission.join,
        calls=ToolRunner(
            of.gate,
            room,
            of.outbox,
            of.alternatives,
            runs=runs,
            questions=AskerQuestions(of.gate, of.ids, of.config.limits.question_minutes * 60_000),
        ),
        recollection=Recollection(of.gate, room, of.config.knowledge.recalled),
        outbox=of.outbox,
        steps=of.config.limits.model_steps,
        depth=of.config.limits.background_depth,
    )


def _finisher(of: WorkerParts) -> TurnFinisher:
    limits = of.config.limits
    undelivered = Undelivered(of.store.outbox, of.gate, limits.delivery_hours)
    runs = RunEnding(of.store, of.gate, records=of.recorder, limits=of.run_limits)
    return TurnFinisher(
        of.gate,
        of.ids,
        of.alternatives,
        undelivered=undelivered,
        interrupted=InterruptedWorkflows(of.workflows, of.store.sessions, of.store.outbox, of.gate),
        runs=runs,
        approval_life=limits.approval_ms,
    )
