"""Runs, schedules and reminders of a storm: begun and due while its faults come.

One run has a slot and keeps it through the storm; others that want it are begun besides. What may never be, not even
for a moment, is looked for all the time; the rest once it is over, by `tests/chaos/storm_run_laws.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bot.app.app import App
from bot.core.errors import BusyError, StoreError
from bot.runs.starter import HOUR, RunStarter
from bot.schedules import calendar
from bot.sessions.background.run_states import Breaker, RunType
from bot.sessions.background.runs import Progress, RunOrder, RunWish, StartedRun
from bot.sessions.background.schedules import Overlap, Schedule, ScheduleKind, ScheduleStatus
from bot.sessions.deliveries import DeliveryState
from bot.sessions.limits import RunLimits
from bot.sessions.models import SessionState, Status
from bot.store.redis_store import RedisStore
from channels.messages import Address
from policy.labels import PUBLIC, parse
from tests.bot.kit import bang
from tests.chaos.storm_plan import Work, WorkKind
from tests.store.world import command

OWNER: Final = "owner"
BELL: Final = Address("console", "bell")
"""Where reminders are said, and people are told of runs."""

SLOT: Final = "quay"
HOLDER: Final = "holder"
EACH_MINUTE: Final = (ScheduleKind.RUN, ScheduleKind.REMINDER)
"""Of each of these kinds a schedule is due every minute, as long as the storm lasts."""

_ALL: Final = parse("RESTRICTED~")
_EXPIRES_MS: Final = 3_000
_TRIES_SECONDS: Final = 0.1
_LOOKS_SECONDS: Final = 0.05
_BEGUN_SECONDS: Final = 30.0
_UNSAID: Final = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})

_Answer = TypeVar("_Answer")


@dataclass
class StormRuns:
    """All work in the background of a storm: what was `started`, and which `moments` were set, by the names of both.

    `violations` are what was seen meanwhile and may never be.
    """

    app: App
    watch: RedisStore
    work: tuple[Work, ...]
    started: dict[str, StartedRun] = field(default_factory=dict[str, StartedRun])
    moments: dict[str, int] = field(default_factory=dict[str, int])
    violations: set[str] = field(default_factory=set[str])

    async def begin(self) -> None:
        """Begin the run that keeps the slot, and what is due every minute; nothing of it in a storm without work."""
        if not self.work:
            return
        goal = bang("session_initialize", session_type="manual", slot=SLOT)
        run = await _insisted(lambda: self.app.gate.start_run(_order(HOLDER, goal, RunType.MANUAL)))
        self.started[HOLDER] = run
        async with asyncio.timeout(_BEGUN_SECONDS):
            while not (await self._progress(run.sid)).initialized:  # noqa: ASYNC110 - the store tells nobody
                await asyncio.sleep(_TRIES_SECONDS)
        for kind in EACH_MINUTE:
            # The table of a zone is read from a file.
            zone = await asyncio.to_thread(calendar.zone, "UTC")
            first = calendar.next_moment("* * * * *", zone, await self._now())
            await self._add(f"each-minute-{kind}", kind, first, "* * * * *", text=_done("each"))

    async def come(self, one: Work) -> None:
        """Begin a run, or set a schedule that is due soon."""
        match one.kind:
            case WorkKind.SCHEDULED | WorkKind.REMINDER:
                kind = ScheduleKind.RUN if one.kind is WorkKind.SCHEDULED else ScheduleKind.REMINDER
                due = await self._now() + round(one.after * 1000)
                await self._add(one.name, kind, due, text=_done(*tasks(one)) if kind is ScheduleKind.RUN else one.name)
            case WorkKind.EXPIRE:
                starter = self._hurried()
                order = _order(one.name, bang("session_initialize", session_type="manual"), RunType.MANUAL)
                self.started[one.name] = await _insisted(lambda: starter.mint_run(order))
            case _:
                order = _order(one.name, _goal(one))
                self.started[one.name] = await _insisted(lambda: self.app.gate.start_run(order))

    async def rest(self) -> None:
        """Let nothing be due any more but once."""
        keeper = self.app.schedule_keeper
        for schedule in await _insisted(lambda: self.watch.schedules.of(OWNER)):
            if schedule.cron:
                await _insisted(lambda name=schedule.id: keeper.pause(OWNER, _ALL, name, OWNER))

    async def quiet(self) -> bool:
        """Say whether all was carried out, all runs but the one that keeps the slot have ended, and all is said.

        Raises StoreError.
        """
        if not self.work:
            return True
        if any(one.status is ScheduleStatus.ACTIVE for one in await self.watch.schedules.of(OWNER)):
            return False
        sids = [place.sid for place in await self.watch.runs.slots(OWNER)]
        states = [state for state in await self._states(sids) if state is not None]
        for state in states:
            kept = state.sid == self.started[HOLDER].sid and state.status is Status.IDLE
            if not (kept or state.status is Status.ARCHIVED) or state.waiting_items or state.turn is not None:
                return False
        for sid in (*sids, self.app.session_id(BELL)):
            if any(one.state in _UNSAID for one in await self.watch.outbox.deliveries(sid)):
                return False
        return True

    async def look(self) -> None:
        """Look until cancelled for what may never be: a run without its next turn, two runs that have one slot."""
        while True:
            with suppress(StoreError):
                places = await self.watch.runs.slots(OWNER)
                if len([place.run for place in places if place.live and place.slot == SLOT]) > 1:
                    self.violations.add(f"one_holder_of_a_slot: {SLOT}: {places}")
                for state in await self._states([place.sid for place in places]):
                    if state is not None and not _goes_on(state):
                        self.violations.add(f"runs_go_on_or_end: {state.home}: {state}")
            await asyncio.sleep(_LOOKS_SECONDS)

    async def _states(self, sids: list[str]) -> list[SessionState | None]:
        return [await self.watch.sessions.state(sid) for sid in sids]

    async def _progress(self, sid: str) -> Progress:
        with suppress(StoreError):
            return await self.watch.runs.progress(sid) or Progress()
        return Progress()

    async def _now(self) -> int:
        """Return what the store's own clock tells, which is stepped."""
        seconds, micros = await _insisted(lambda: command(self.watch, "TIME"))
        return int(seconds) * 1000 + int(micros) // 1000

    async def _add(self, name: str, kind: ScheduleKind, due: int, cron: str = "", *, text: str) -> None:
        self.moments[name] = due
        schedule = Schedule(
            *(f"s_{name}", OWNER, OWNER, kind, text, PUBLIC, cron, "UTC"),
            next_at=due,
            created_at=due,
            asked_at=str(BELL),
            overlap=Overlap.ALLOW,
        )
        await _insisted(lambda: self.app.store.schedules.add(schedule, 1_000, ()))

    def _hurried(self) -> RunStarter:
        """Return what starts runs whose time is over in a moment."""
        store = self.app.store
        pin, limits = self.app.agents.pin, RunLimits(hours=1)
        now = store.tokens.now_ms() - HOUR + _EXPIRES_MS
        return RunStarter(store, self.app.session_ids.first, pin=pin, now=lambda: now, limits=limits)


def tasks(one: Work) -> list[str]:
    """Return the tasks of a run."""
    return [f"{one.name}{number}" for number in range(one.tasks)]


def _goes_on(state: SessionState) -> bool:
    """Say whether a run has ended, rests, or has one turn that is open or waits."""
    progress = state.progress or Progress()
    turns = state.waiting_items + (state.turn is not None)
    if state.charter is None or progress.ended_at or progress.breaker is Breaker.OPEN:
        return turns <= 1
    return turns == 1 or (turns == 0 and state.charter.type is RunType.MANUAL)


def _goal(one: Work) -> str:
    match one.kind:
        case WorkKind.CHALLENGE:
            return f"{bang('session_initialize', session_type='autonomous', slot=SLOT)} ;; {bang('step', say='held')}"
        case WorkKind.TRIP:
            failed = bang("session_update", current_task_id="failed", tasks_failed=2, consecutive_failures=2)
            return _parts(failed, *map(_task, tasks(one)))
        case _:
            # The first task is named again in the end: it counts once.
            return _done(*tasks(one), tasks(one)[0])


def _done(*names: str) -> str:
    return _parts(*map(_task, names))


def _parts(*parts: str) -> str:
    return " ;; ".join((bang("session_initialize", session_type="autonomous"), *parts))


def _task(name: str) -> str:
    counted = bang("session_increment_completed")
    named, works = bang("session_update", current_task_id=name), bang("step", say="more", seconds=0.1)
    return f"{named} {works} {counted} {counted}"


def _order(name: str, goal: str, kind: RunType = RunType.AUTONOMOUS) -> RunOrder:
    return RunOrder(RunWish(goal, kind), name, OWNER, OWNER, PUBLIC, asked_at=str(BELL))


async def _insisted(ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Ask again and again until there is an answer."""
    while True:
        with suppress(StoreError, BusyError):
            return await ask()
        await asyncio.sleep(_TRIES_SECONDS)


@asynccontextmanager
async def working(app: App, watch: RedisStore, work: tuple[Work, ...]) -> AsyncGenerator[StormRuns]:
    """Look at what goes on in the background for as long as a storm lasts."""
    runs = StormRuns(app, watch, work)
    looking = asyncio.create_task(runs.look())
    try:
        yield runs
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
