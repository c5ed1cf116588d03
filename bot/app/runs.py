"""What makes runs and lets them go on, as the composition root puts it together."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from bot.app.first_run import RECORDS
from bot.config.model import Config
from bot.config.runs import RunSettings
from bot.core.ids import Ids
from bot.gate.gate import Gate
from bot.operations.gated_calls import GatedCalls
from bot.operations.runs import RunOperations
from bot.operations.schedules import ScheduleOperations
from bot.run_records.recorder import RunRecorder
from bot.runs.starter import RunStarter
from bot.schedules.keeper import ScheduleKeeper
from bot.sessions.limits import RunLimits
from bot.sessions.ports.store import Store
from channels.messages import Address
from policy.document.model import Document

if TYPE_CHECKING:
    from bot.app.app import App


def schedule_keeper(store: Store, config: RunSettings, document: Callable[[], Document]) -> ScheduleKeeper:
    """Return what makes and ends schedules of an application; `document` is the policy in force."""
    return ScheduleKeeper(
        store.schedules,
        document=document,
        now=store.tokens.now_ms,
        most=config.schedules,
        time_zone=config.time_zone,
    )


def run_starter(
    store: Store, session_id: Callable[[Address], str], pin: Callable[[str], Awaitable[str]], limits: RunLimits
) -> RunStarter:
    """Return what starts runs of an application."""
    return RunStarter(store, session_id, pin=pin, now=store.tokens.now_ms, limits=limits)


def run_recorder(store: Store, config: Config, gate: Gate, ids: Ids) -> RunRecorder:
    """Return what records runs of an application."""
    records = config.runs.records
    return RunRecorder(
        store,
        config.data_dir / RECORDS if records.folder is None else config.folder / records.folder,
        clearance=lambda: records.label or gate.document.top,
        mask=gate.masks.masked,
        ids=ids,
    )


def managing(app: "App") -> tuple[GatedCalls, RunOperations, ScheduleOperations]:
    """Return what people and programs make calls with, and manage runs and schedules, of an application."""
    store, calls = app.store, GatedCalls(app.gate, app.store.audit)
    runs = RunOperations(
        store=store, calls=calls, lifecycle=app.lifecycle, session_ids=app.session_ids, clock=app.clock
    )
    return calls, runs, ScheduleOperations(store=store, keeper=app.schedule_keeper, calls=calls)
