"""The makers of runs and background sessions, as the composition root puts them together."""

from collections.abc import Awaitable, Callable
from functools import partial

from bot.access.session_ids import SessionIds
from bot.app.first_run import RECORDS
from bot.config.model import Config
from bot.config.runs import RunSettings
from bot.core.clock import Clock
from bot.core.ids import Ids
from bot.delegation.spawn import Spawner
from bot.gate.gate import Gate
from bot.operations.background.runs import RunOperations
from bot.operations.background.schedules import ScheduleOperations
from bot.operations.gated_calls import GatedCalls
from bot.operations.lifecycle import SessionLifecycle
from bot.run_records.recorder import RunRecorder
from bot.runs.starter import RunStarter
from bot.schedules.keeper import ScheduleKeeper
from bot.sessions.background.delegation import Caps
from bot.sessions.ports.store import Store
from policy.document.model import Document


def schedule_keeper(store: Store, config: RunSettings, document: Callable[[], Document]) -> ScheduleKeeper:
    """Return the keeper of an application's schedules; `document` is the policy in force."""
    return ScheduleKeeper(
        store.schedules,
        document=document,
        now=store.tokens.now_ms,
        most=config.schedules,
        time_zone=config.time_zone,
    )


def starters(
    store: Store, config: Config, ids: SessionIds, pin: Callable[[str], Awaitable[str]]
) -> tuple[Spawner, RunStarter]:
    """Return the makers of background sessions and of runs, for the gate of an application."""
    limits, begun = config.limits, partial(ids.first, begins=True)
    caps = Caps(limits.background_children, limits.background_live, limits.background_depth)
    minutes, bits = limits.background_minutes, limits.endorsed_bits
    spawner = Spawner(store, begun, caps=caps, minutes=minutes, endorsed_bits=bits)
    return spawner, RunStarter(store, begun, pin=pin, now=store.tokens.now_ms, limits=config.runs.limits)


def run_recorder(store: Store, config: Config, gate: Gate, ids: Ids) -> RunRecorder:
    """Return the recorder of an application's runs."""
    records = config.runs.records
    return RunRecorder(
        store,
        config.data_dir / RECORDS if records.folder is None else config.folder / records.folder,
        clearance=lambda: records.label or gate.document.top,
        mask=gate.masks.masked,
        ids=ids,
    )


def managing(
    store: Store, gate: Gate, *, keeper: ScheduleKeeper, lifecycle: SessionLifecycle, ids: SessionIds, clock: Clock
) -> tuple[GatedCalls, RunOperations, ScheduleOperations]:
    """Return the parts by which people and programs make calls, and manage runs and schedules, of an application."""
    calls = GatedCalls(gate, store.audit)
    runs = RunOperations(store=store, calls=calls, lifecycle=lifecycle, session_ids=ids, clock=clock)
    return calls, runs, ScheduleOperations(store=store, keeper=keeper, calls=calls)
