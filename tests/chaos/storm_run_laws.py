"""What must hold of runs, schedules and timers after a storm; what does not is a violation by its name."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.app.app import App
from bot.app.first_run import RECORDS
from bot.audit.chain import Intact
from bot.sessions.background.run_states import EndReason
from bot.sessions.background.runs import Charter, Progress
from bot.sessions.background.schedules import ScheduleKind, ScheduleStatus, Timer, TimerKind
from bot.sessions.deliveries import DeliveryState
from bot.sessions.log.event_types import ToolOutcome, ToolResult
from bot.sessions.log.events import Event, EventType
from bot.sessions.models import SessionState
from bot.store.schema import AUDIT, STATES, TIMERS, sid_of
from policy.labels import PUBLIC, join_all
from tests.chaos.platform_server import Shown
from tests.chaos.storm_laws import Checked, check_calls
from tests.chaos.storm_plan import WorkKind
from tests.chaos.storm_runs import BELL, HOLDER, OWNER, SLOT, StormRuns, tasks
from tests.events import bodies
from tests.store.world import command, keys

_MOST: Final = 1_000_000
_MINUTE: Final = 60_000
_DONE: Final = frozenset({"started", "said"})

_ENDS: Final = {
    WorkKind.COUNT: EndReason.COMPLETED,
    WorkKind.TRIP: EndReason.COMPLETED,
    WorkKind.CHALLENGE: EndReason.SLOT_LOCKED,
    WorkKind.EXPIRE: EndReason.DEADLINE,
}


@dataclass(frozen=True, slots=True)
class _Run:
    """All that is left of one run."""

    state: SessionState
    progress: Progress
    events: tuple[Event, ...]
    tasks: frozenset[str]

    @property
    def gave_up(self) -> bool:
        """Whether a turn of it ended with an error."""
        return any(event.type is EventType.ERROR for event in self.events)


async def check_runs(app: App, work: StormRuns, shown: Iterable[Shown], found: Checked) -> None:
    """Look at every run, schedule and timer of a storm; no worker is there any more."""
    if not work.work:
        return
    found.violations.extend(work.violations)
    runs = await _runs(app)
    for run in runs.values():
        await _check_run(app, run, found)
    _check_kinds(work, runs, found)
    await _check_slot(app, work, runs, found)
    await _check_moments(app, work, runs, found)
    await _check_told(app, runs, tuple(shown), found)
    await _check_timers(app, runs, found)
    await _check_records(app, runs, found)
    found.runs = len(runs)


async def _runs(app: App) -> dict[str, _Run]:
    """Return every run that is in the store by its session."""
    runs = dict[str, _Run]()
    for key in await command(app.store, "KEYS", STATES):
        state = await app.store.sessions.state(sid_of(key))
        if state is not None and state.charter is not None:
            events = await app.store.sessions.events(state.sid, limit=_MOST)
            counted: list[bytes] = await command(app.store, "HKEYS", keys(state.sid).tasks)
            names = frozenset(name.decode() for name in counted)
            runs[state.sid] = _Run(state, state.progress or Progress(), events, names)
    return runs


async def _check_run(app: App, run: _Run, found: Checked) -> None:
    """Its log is whole, each of its turns ended once, and each of its tasks is counted once."""
    state, name = run.state, run.state.home
    seqs = [event.seq for event in run.events]
    found.law("log_is_gap_free", name, holds=seqs == list(range(1, state.seq + 1)), found=state.seq)
    fold = join_all((PUBLIC, *(event.label for event in run.events if event.admitted)))
    found.law("taint_is_the_fold", name, holds=fold == state.taint, found=(fold, state.taint))
    chain = await app.chains.verify(state.sid)
    found.law("audit_chains_hold", name, holds=isinstance(chain, Intact), found=chain)
    check_calls(name, run.events, found)
    began = {event.turn for event in run.events if event.turn}
    ended = Counter(event.turn for event in run.events if event.type is EventType.TURN_COMPLETED)
    found.law("crash_heals", name, holds=began == set(ended) and set(ended.values()) == {1}, found=(began, ended))
    found.law("turns_of_runs_count_once", name, holds=run.progress.turns == len(ended), found=run.progress)
    counted = run.progress.completed == len(run.tasks)
    found.law("tasks_count_once", name, holds=counted, found=(run.progress, sorted(run.tasks)))
    over = bool(run.progress.ended_at) == bool(state.ended_at)
    found.law("runs_go_on_or_end", name, holds=over, found=state)


def _check_kinds(work: StormRuns, runs: dict[str, _Run], found: Checked) -> None:
    """Each run ended as it had to, with all that it was to do; one with a turn that was given up may have done less."""
    for one in work.work:
        if one.kind not in _ENDS:
            continue
        run = runs.get(work.started[one.name].sid)
        found.law("no_run_is_lost", one.name, holds=run is not None)
        if run is None or run.gave_up:
            continue
        found.law("runs_go_on_or_end", one.name, holds=run.progress.reason is _ENDS[one.kind], found=run.progress)
        does = one.kind in {WorkKind.COUNT, WorkKind.TRIP}
        expected = frozenset(tasks(one) if does else ())
        found.law("tasks_count_once", one.name, holds=run.tasks == expected, found=sorted(run.tasks))
        if one.kind is WorkKind.TRIP:
            numbers = (run.progress.failed, run.progress.consecutive)
            found.law("tasks_count_once", one.name, holds=numbers == (2, 0), found=run.progress)


async def _check_slot(app: App, work: StormRuns, runs: dict[str, _Run], found: Checked) -> None:
    """The run that had the slot first has it still; no other went on."""
    places = {place.sid: place for place in await app.store.runs.slots(OWNER)}
    holder = places.get(work.started[HOLDER].sid)
    kept = holder is not None and holder.live and holder.slot == SLOT
    found.law("one_holder_of_a_slot", HOLDER, holds=kept, found=holder)
    for one in work.work:
        run = runs.get(work.started[one.name].sid) if one.kind is WorkKind.CHALLENGE else None
        if run is None:
            continue
        done = [result.tool for result in bodies(run.events, ToolResult) if result.outcome is ToolOutcome.OK]
        still = not (done or run.progress.initialized)
        found.law("one_holder_of_a_slot", one.name, holds=still, found=(done, run.progress))


async def _check_moments(app: App, work: StormRuns, runs: dict[str, _Run], found: Checked) -> None:
    """Each moment was carried out once, and told once in the audit, but for one at which its schedule was paused."""
    due = Counter((_charter(run).schedule, _charter(run).due) for run in runs.values() if _charter(run).schedule)
    deliveries = await app.store.outbox.deliveries(app.session_id(BELL))
    said = (one.key.split("/") for one in deliveries if one.key.startswith("reminder/"))
    due.update((name, int(moment)) for _, name, moment in said)
    records = await app.store.audit.records(AUDIT, limit=_MOST)
    rows = Counter(
        (str(row.body["schedule"]), int(str(row.body["due"])))
        for row in records
        if row.kind == "schedule" and row.body["do"] in _DONE
    )
    twice = [one for one, count in (*due.items(), *rows.items()) if count > 1]
    found.law("moments_are_carried_out_once", "all", holds=not twice, found=twice)
    for name, first in work.moments.items():
        schedule = await app.store.schedules.schedule(f"s_{name}")
        assert schedule is not None
        done = sorted(moment for one, moment in due if one == schedule.id)
        told = sorted(moment for one, moment in rows if one == schedule.id)
        if schedule.cron:
            ours = set(told) <= set(done) <= {*told, schedule.next_at} and all(one % _MINUTE == 0 for one in done)
            holds = ours and schedule.status is ScheduleStatus.PAUSED and schedule.last_at == max(told, default=0)
        else:
            holds = done == told == [first] and schedule.status is ScheduleStatus.DONE
        found.law("moments_are_carried_out_once", name, holds=holds, found=(done, told, first, schedule))
        if schedule.kind is ScheduleKind.RUN:
            ran = [run for run in runs.values() if _charter(run).schedule == schedule.id]
            ends = {run.progress.reason for run in ran if not run.gave_up}
            found.law("runs_go_on_or_end", name, holds=ends <= {EndReason.COMPLETED}, found=ends)
    found.moments = len(due)


async def _check_told(app: App, runs: dict[str, _Run], shown: tuple[Shown, ...], found: Checked) -> None:
    """What was said of runs and schedules was said once, or again with its mark, or is reported as in doubt."""
    here = [one for one in shown if one.chat == BELL.chat]
    plain = Counter(one.key for one in here if not one.repeated)
    twice = [key for key, count in plain.items() if count > 1]
    found.law("answered_at_most_once", BELL.chat, holds=not twice, found=twice)
    found.marked += sum(one.repeated for one in here)
    keys_shown = {one.key for one in here}
    for sid in (app.session_id(BELL), *runs):
        deliveries = await app.store.outbox.deliveries(sid)
        in_doubt = {one.key for one in deliveries if one.state is DeliveryState.AMBIGUOUS}
        unsaid = {one.key for one in deliveries} - keys_shown - in_doubt
        found.law("crash_heals", sid, holds=not unsaid, found=f"never shown: {unsaid}")
        found.in_doubt += len(in_doubt)
    for run in runs.values():
        told = f"Run {_charter(run).run} has ended: "
        ends = {one.key for one in here if told in one.text}
        found.law("answered_at_most_once", run.state.home, holds=len(ends) <= 1, found=ends)


async def _check_timers(app: App, runs: dict[str, _Run], found: Checked) -> None:
    """No timer is lost: what goes on will end, and what is over gives back what it holds."""
    flat: list[bytes] = await command(app.store, "ZRANGE", TIMERS, 0, -1, "WITHSCORES")
    timers = {name.decode(): int(due) for name, due in zip(flat[::2], flat[1::2], strict=True)}
    places = {place.sid: place for place in await app.store.runs.slots(OWNER)}
    for sid, run in runs.items():
        due = timers.get(f"{TimerKind.DEADLINE}/{sid}")
        if run.progress.ended_at:
            place = places.get(sid)
            held = place is not None and place.live
            found.law("no_timer_is_lost", run.state.home, holds=due is not None or not held, found=place)
        else:
            found.law("no_timer_is_lost", run.state.home, holds=due == _charter(run).deadline, found=timers)
    left = [name for name in timers if name.startswith(f"{TimerKind.SCHEDULE}/")]
    found.law("no_timer_is_lost", "schedules", holds=not left, found=left)
    # Records that were not written are written when their timers are due.
    for name, due in timers.items():
        kind, _, about = name.partition("/")
        if kind == TimerKind.RECORD:
            await app.recorder.due(Timer(TimerKind.RECORD, about, due))


async def _check_records(app: App, runs: dict[str, _Run], found: Checked) -> None:
    """Every run that has ended is recorded, by one commit."""
    told = Counter(await asyncio.to_thread(commits, app.config.data_dir / RECORDS))
    for run in runs.values():
        if run.progress.reason is not None:
            count = told[f"Run {_charter(run).run} ended: {run.progress.reason.value}"]
            found.law("runs_are_recorded_once", run.state.home, holds=count == 1, found=count)


def commits(folder: Path) -> list[str]:
    """Return the messages of all commits of a repository."""
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["git", "-C", folder, "log", "--format=%s"], check=True, capture_output=True, env=quiet)
    return done.stdout.decode().splitlines()


def _charter(run: _Run) -> Charter:
    assert run.state.charter is not None
    return run.state.charter
