"""One installation, driven step by step: the assembled application, with one scheduler that is always the same.

Everything is real but the people, the model and who goes next: the store, its scripts, the gate, the worker's turns,
the outbox and the router are those of the product. A session's turn goes on when the scheduler says so, from one
question to its model to the next, one session at a time, in the order of the plan's places. So two runs that differ in
a secret alone take the same course, and whatever differs below the secret was told by it.

Between two runs the store is emptied and the files are put back; nothing else is opened anew.
"""

# The scheduler stands where the application's own loop does, so it looks inside.
# pyright: reportPrivateUsage=false

import asyncio
import json
import re
import shutil
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from bot.agent.call_runs import CallRuns
from bot.app import workers
from bot.app.app import App
from bot.app.extensions import Extensions
from bot.app.first_run import seed
from bot.app.keys import Secrets
from bot.config.load import load_config
from bot.core.clock import SystemClock
from bot.core.errors import UnsettledError
from bot.files.areas import Area
from bot.sessions.approvals import Approval
from bot.sessions.models import SessionState
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.records.marks import LogMarks
from bot.store.schema import READY
from bot.tools import catalogue
from bot.worker.lease import LeaseKeeper
from channels.messages import Address, Attachment, Inbound, Outbound, Signal
from channels.port import Audience, Channel
from tests.adversary.mind import Adversary, Trace, route
from tests.adversary.plans import TYPE, WAIT, Copy, Plan, Step
from tests.adversary.programs import LowProgram
from tests.adversary.sinks import Effect, Sink
from tests.adversary.worlds import HIGH, OWNER, Lane, World
from tests.folders import quick_folder
from tests.store.world import command

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from bot.worker.worker import Worker

_SECONDS: Final = 30.0
_MOST: Final = 400
_APPROVE: Final = "{approve}"
_ROUNDS: Final = 4
"""How often a person who approves everything looks whether they are asked again."""


@dataclass
class Recorder:
    """Implements the port `Channel`: what is said and shown is kept, in order. Who reads in a shared chat is given."""

    name: str
    readers: dict[str, frozenset[str]]
    sent: list[Outbound] = field(default_factory=list[Outbound])
    signals: list[tuple[Address, Signal]] = field(default_factory=list[tuple[Address, Signal]])
    marks_repeats: bool = True
    marks_untrusted: bool = True
    previews: bool = False

    async def send(self, outbound: Outbound) -> str:
        self.sent.append(outbound)
        return ""

    async def preview(self, outbound: Outbound) -> None:
        """Show nothing before it is finished."""

    async def signal(self, address: Address, signal: Signal) -> None:
        self.signals.append((address, signal))

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return a file: every one holds its own name."""
        return attachment.name.encode()[:most]

    async def audience(self, address: Address) -> Audience:
        if address.chat in self.readers:
            return Audience.of(*self.readers[address.chat], shared=True)
        return Audience.of(f"{self.name}:{address.chat}")


class Actor:
    """A session whose turn runs, or a person who types: one who waits for the scheduler, or goes on."""

    def __init__(self, order: tuple[object, ...], sid: str = "") -> None:
        self.order = order
        self.sid = sid
        self.parked = False
        self.last = False
        self.task: asyncio.Task[None] | None = None
        self.again = False
        self._go = asyncio.Event()
        self._stopped = asyncio.Event()

    async def park(self, *, last: bool) -> None:
        """Wait until the scheduler lets this one go on."""
        self.parked, self.last = True, last
        self._stopped.set()
        try:
            await self._go.wait()
        finally:
            self.parked = False
            self._go.clear()

    def release(self) -> None:
        """Let it go on."""
        self._stopped.clear()
        self._go.set()

    def stopped(self) -> None:
        """Note that it is done."""
        self._stopped.set()

    async def rests(self) -> None:
        """Wait until it is parked or done."""
        await self._stopped.wait()


_ACTOR: ContextVar[Actor | None] = ContextVar("actor", default=None)


async def _turnstile(*, last: bool) -> None:
    actor = _ACTOR.get()
    if actor is not None:
        await actor.park(last=last)


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a run: who was told and shown what, in order; what was done; and every session at the end."""

    sent: tuple[Outbound, ...]
    signals: tuple[tuple[Address, Signal], ...]
    effects: tuple[Effect, ...]
    states: tuple[tuple[Copy, SessionState], ...]
    trace: Trace


class Stage:
    """The application of one world."""

    def __init__(self, world: World, app: App, model: Adversary, channels: tuple[Recorder, ...], sink: Sink) -> None:
        self.world = world
        self.app = app
        self.model = model
        self.channels = channels
        self.sink = sink
        self.worker: Worker | None = None
        self.program = LowProgram(app, leaky=world.leaky) if world.program else None
        self._folder = app.config.data_dir
        self._actors: dict[str, Actor] = {}
        self._count = 0
        self._told_before = dict[str, tuple[int, int]]()

    async def begin(self, tasks: "TaskGroup") -> None:
        """Make the worker, which never serves by itself; `tasks` are those beside its turns."""
        self._tasks = tasks
        thinking = await self.app.model_loader.thinking()
        keeper = LeaseKeeper(self.app._open_own_store, self.app.config.store.lease_seconds, SystemClock())
        await self.app._start(_nobody)
        self.worker = workers.worker(self.app.worker_parts(), keeper, thinking, CallRuns(tasks, 0))
        # In a world without time each turn takes long enough to be shown.
        self.worker._signals._soon = 0
        self.app._serving = self.worker
        self._keeper = keeper

    async def end(self) -> None:
        """Close what was begun."""
        self.app._serving = None
        await self._keeper.close()

    def meant(self, secret: str) -> str:
        """Return a secret with an id in the place of `{sid:console:desk}`, which is that of an address."""
        if not secret.startswith("{sid:"):
            return secret
        _, channel, chat = secret.strip("{}").split(":")
        return self.app.session_id(Address(channel, chat))

    async def run(self, plan: Plan, secret: str) -> Seen:
        """Run a plan from the beginning in the world that has this secret."""
        await self._clear(secret)
        names = {lane.name: self.app.session_id(lane.address) for lane in self.world.lanes}
        patient = frozenset((at,) for at, lane in enumerate(self.world.lanes) if lane.patient)
        plan = self._whole(plan)
        self.model.begin(plan, names, self.world.answers, patient)
        async with asyncio.timeout(_SECONDS):
            for before in self.world.before:
                await self._say(before.address, before.account, before.text.replace("<secret>", secret))
                await self._drain()
            for at, lane in enumerate(self.world.lanes):
                if lane.person:
                    self._person(lane, plan.lanes[at].steps, (0, ((at,), ())))
                elif lane.starts is not None:
                    said = route((at,), ())
                    line = f"/runs start title={said.replace(' ', '_')} {lane.starts} {said}"
                    await self._say(lane.address, lane.account, line)
                elif plan.lanes[at].size:
                    await self._say(lane.address, lane.account, route((at,), ()))
            if self.world.then:
                self._person(self.world.lanes[0], self.world.then, (-1,))
            await self._drain()
            await self._later()
        sent = tuple(one for channel in self.channels for one in channel.sent[self._before(channel)[0] :])
        signals = tuple(one for channel in self.channels for one in channel.signals[self._before(channel)[1] :])
        states = [(self._order(state), state) async for state in self.app.store.sessions.states()]
        states.sort(key=lambda one: (one[0], one[1].created_at, one[1].sid))
        return Seen(sent, signals, tuple(self.sink.effects), tuple(states), self.model.trace)

    async def _later(self) -> None:
        """Have a person approve whatever they are asked, and let what is scheduled fall due."""
        for _ in range(_ROUNDS if self.world.approves else 0):
            waiting = await self.app.store.approvals.waiting()
            if not waiting:
                break
            for state, approval in sorted(waiting, key=lambda one: (self._order(one[0]), one[1].call)):
                if not state.waiting_items:
                    await self._say(HIGH, OWNER, f"/approve {approval.id}")
            await self._drain()
        sweep = workers.timers(self.app.worker_parts(), self.app.session_ids)
        for _ in range(self.world.due):
            every = await self.app.store.schedules.every()
            for one in sorted(every, key=lambda one: (one.created_at, one.id)):
                # One by one: what is due together comes in any order.
                if one.next_at:
                    await self.app.store.schedules.replace(one, replace(one, next_at=self.app.store.tokens.now_ms()))
                    await self._tick()
                    async with anyio.create_task_group() as tasks:
                        await sweep._look(tasks)
            await self._drain()

    def _before(self, channel: Recorder) -> tuple[int, int]:
        """Return how much was said and signalled before what counts."""
        return self._told_before.get(channel.name, (0, 0))

    def files(self) -> list[str]:
        """Return the names of all files there are."""
        root = self._folder / Area.SHARED
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def _whole(self, plan: Plan) -> Plan:
        """Return a plan with the scripts in it that no search changes."""
        return Plan(
            tuple(
                self.world.fixed.get(lane.role, script)
                for lane, script in zip(self.world.lanes, plan.lanes, strict=True)
            )
        )

    async def _clear(self, secret: str) -> None:
        await command(self.app.store, "FLUSHALL")
        await self.app.reloader.current_now()
        # What indexes found of the run before is not in the store any more.
        await self.app.knowledge.search.close()
        if self.program is not None:
            await self.program.begin()
        self.app.store._shared.places.clear()
        self.app.store._shared.heads.clear()
        self.app.store._shared.marks = LogMarks()
        self.app.store.budgets._hinted.clear()
        self.app._simulations._used.clear()
        self.app.router._limits._rate._used.clear()
        self.sink.begin(secret)
        for channel in self.channels:
            channel.sent.clear()
            channel.signals.clear()
        self._count = 0
        self._told_before.clear()
        files = {
            path: text.replace("<secret>", secret).replace("<low>", self.app.session_id(self.world.lanes[0].address))
            for path, text in self.world.files.items()
        }
        await asyncio.to_thread(_put_back, self._folder, files)

    async def _say(self, address: Address, account: str, text: str, brings: str = "") -> None:
        self._count += 1
        shared = any(address.chat in channel.readers for channel in self.channels if channel.name == address.channel)
        files = (Attachment(brings, brings),) if brings else ()
        inbound = Inbound(address, account, text, f"n{self._count}", private=not shared, files=files)
        await self.app.router.receive(inbound)
        await self._tick()

    def _person(self, lane: Lane, steps: tuple[Step, ...], order: tuple[object, ...]) -> None:
        """Let a person type what the plan says, one line whenever it is their turn."""
        actor = Actor(order)

        async def types() -> None:
            for step in steps:
                await actor.park(last=True)
                if steps is self.world.then and not self._told_before:
                    self._told_before |= {
                        channel.name: (len(channel.sent), len(channel.signals)) for channel in self.channels
                    }
                if step.tool == TYPE:
                    line = await self._answering(str(step.arguments["line"]))
                    if line:
                        await self._say(lane.address, lane.account, line, str(step.arguments["brings"]))
                assert step.tool in {TYPE, WAIT}

        self._start(f"person {order}", actor, types())

    async def _answering(self, line: str) -> str:
        """Return a line with the question in it that waits for an answer, empty if there is none to consent to."""
        if _APPROVE not in line:
            return line
        waiting = [approval for _, approval in await self.app.store.approvals.waiting()]
        if not waiting or not all(self._consents(one) for one in waiting):
            return ""
        return line.replace(_APPROVE, f"/approve {waiting[0].asked_in}")

    def _consents(self, approval: Approval) -> bool:
        asked = f"{approval.tool} {json.dumps(dict(approval.question.arguments), sort_keys=True)} at {approval.label}"
        return re.search(self.world.consent, asked) is not None

    def _start(self, name: str, actor: Actor, work: Coroutine[Any, Any, None]) -> None:
        self._actors[name] = actor

        async def act() -> None:
            _ACTOR.set(actor)
            try:
                await work
            finally:
                actor.stopped()

        actor.task = asyncio.get_running_loop().create_task(act())

    async def _drain(self) -> None:
        """Let everybody go on, one at a time and always in the same order, until nobody has anything to do."""
        for _ in range(_MOST):
            await self._collect()
            waiting = sorted((actor for actor in self._actors.values() if actor.parked), key=lambda one: one.order)
            ready = [actor for actor in waiting if not actor.last] or waiting[:1]
            if not ready:
                return
            for actor in ready:
                if actor.parked:
                    await self._tick()
                    actor.release()
                    await self._rest()
                    await self._collect()
        raise AssertionError("a plan that does not come to its end")

    async def _tick(self) -> None:
        """Let time pass: what is sorted by it is then sorted by the steps, in every run.

        The store's clock is known to a millisecond only, so two steps are further apart.
        """
        before = self.app.clock.wall_ms()
        while self.app.clock.wall_ms() < before + 3:  # noqa: ASYNC110 - a clock sets no event
            await asyncio.sleep(0.0002)

    async def _collect(self) -> None:
        """Begin the turns of sessions that are marked ready, each up to the first question to its model."""
        while True:
            await self._rest()
            flat: list[bytes] = await command(self.app.store, "ZPOPMIN", READY, 64)
            marked = {flat[at].decode() for at in range(0, len(flat), 2)}
            marked |= {sid for sid, actor in self._actors.items() if actor.again and actor.task is None}
            if not marked:
                return
            found = list[tuple[tuple[object, ...], str]]()
            for sid in marked:
                running = self._actors.get(sid)
                if running is not None and running.task is not None:
                    running.again = True
                    continue
                state = await self.app.store.sessions.state(sid)
                found.append((self._rank(state), sid))
            for order, sid in sorted(found):
                self._start(sid, Actor(order, sid), self._claim_and_run(sid))
                await self._rest()
                await self._tick()

    async def _claim_and_run(self, sid: str) -> None:
        assert self.worker is not None
        for _ in range(20):
            try:
                await self.worker._claim_and_run(sid)
            except UnsettledError:
                continue
            return

    async def _rest(self) -> None:
        """Wait until all who go on are parked or done."""
        for name, actor in tuple(self._actors.items()):
            await actor.rests()
            task = actor.task
            if task is not None and not actor.parked:
                await task
                actor.task = None
                if not actor.again:
                    del self._actors[name]

    def _rank(self, state: SessionState | None) -> tuple[object, ...]:
        return (2, ()) if state is None else (0 if state.background is None else 1, self._order(state))

    def _order(self, state: SessionState) -> Copy:
        """Return which session this is: that of a lane, or of a script as its title says."""
        homes = [str(lane.address) for lane in self.world.lanes]
        if state.background is None:
            return (homes.index(state.home) if state.home in homes else len(homes),), ()
        parts = [part.split(".") for part in state.background.title.removeprefix("go ").split("#")]
        if not all(number.isdecimal() for part in parts for number in part):
            # What a plan called otherwise comes behind.
            return (len(homes),), ()
        place, copy = (tuple(map(int, part)) for part in parts)
        return place, copy


async def _nobody(_line: str) -> None:
    """Tell nobody."""


def _put_back(folder: Path, files: dict[str, str]) -> None:
    for name in (Area.SHARED, Area.SESSIONS):
        shutil.rmtree(folder / name, ignore_errors=True)
    for path, text in files.items():
        file = folder / Area.SHARED / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if text:
            file.write_text(text, "utf-8")
    (folder / Area.SESSIONS).mkdir(mode=0o700)


@asynccontextmanager
async def staged(world: World) -> AsyncGenerator[Stage]:
    """Open the application of a world in a folder of its own."""
    with quick_folder() as folder:
        async with _opened(Path(folder), world) as stage:
            yield stage


@asynccontextmanager
async def _opened(folder: Path, world: World) -> AsyncGenerator[Stage]:
    path, data = folder / "config.yaml", folder / "data"
    await asyncio.to_thread(path.write_text, world.config)
    sink = Sink(world.tools, world.office)
    config = await asyncio.to_thread(
        load_config, path, {"LOCKGATE_DATA_DIR": str(data)}, {**catalogue.ARGUMENTS, **sink.arguments()}
    )
    model = Adversary(_turnstile)
    channels = tuple(Recorder(name, dict(world.readers)) for name in ("console", "room"))
    await asyncio.to_thread(seed, data)
    secrets = await asyncio.to_thread(Secrets.load, config, {})
    clock = SystemClock()
    options = replace(StoreOptions(), debounce_ms=0, held_limit=world.held, inbox_limit=config.limits.inbox_items)
    store = await open_store(audit_key=secrets.audit, data=data, options=options, clock=clock)
    try:
        app = App(
            config=config,
            secrets=secrets,
            store=store,
            channels=list[Channel](channels),
            listened=(),
            clock=clock,
            environment={},
            parts=Extensions(tools=lambda _files, _sessions: sink.tools, model=lambda _: model),
        )
        await app.reloader.open()
        if world.broken is not None:
            app.gate.calls = world.broken(app.gate._judge, app.gate.output, app.gate.readers)
        stage = Stage(world, app, model, channels, sink)
        async with anyio.create_task_group() as tasks:
            await stage.begin(tasks)
            try:
                yield stage
            finally:
                await stage.end()
                await app.close()
    finally:
        await store.close()
