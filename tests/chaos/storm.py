"""A storm: many workers on one store, all of which are killed, stopped and cut off from it while inputs come.

The faults are those of a plan (`tests/chaos/storm_plan.py`). Workers speak to a platform that no fault hits. When the
last fault is over everything has to go on by itself; then `tests/chaos/storm_laws.py` looks at all sessions.
"""

import asyncio
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.app.app import App
from bot.app.opening import open_app
from bot.core.errors import StoreError
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import QueueMode
from bot.sessions.models import Status
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.servers.embedded_server import Supervisor
from channels.messages import Address, Inbound
from tests.chaos.fault_proxy import FaultProxy, fault_proxy
from tests.chaos.nursery import API
from tests.chaos.platform_server import ACCOUNT, Platform, PlatformChannel, platform
from tests.chaos.stepped_clock import SteppedClock
from tests.chaos.storm_laws import Checked, checked
from tests.chaos.storm_plan import Fault, FaultKind, Input, Plan, Size, Work, drawn
from tests.chaos.storm_readers import StormReaders, reading, storm_settings
from tests.chaos.storm_run_laws import check_runs
from tests.chaos.storm_runs import StormRuns, working
from tests.chaos.takeovers import Held, Takeovers
from tests.chaos.tap import killed
from tests.chaos.worker import parts, settings, write_settings
from tests.sim.ports import free_port
from tests.sim.receiver import receiver
from tests.store.world import KEY, kill, lives

_ROOT: Final = Path(__file__).parents[2]
_HEALED_SECONDS: Final = 90.0
_BEGIN_SECONDS: Final = 30.0
_TAKEN_SECONDS: Final = 0.1
_UNSAID: Final = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})


@dataclass
class Worker:
    """A process that is killed and begun again, by a line to the nursery; it has a way to the store of its own."""

    proxy: FaultProxy
    line: str
    pid: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a storm came to. `recovery` are seconds, by the kind of the fault; `seconds` is how long all took."""

    accepted: int
    faults: Counter[str]
    recovery: dict[str, list[float]]
    seconds: float
    steps_clock: bool
    checked: Checked


@dataclass
class Storm:
    """A storm under way."""

    plan: Plan
    clock: SteppedClock
    supervisor: Supervisor
    platform: Platform
    app: App
    front: FaultProxy
    watch: RedisStore
    nursery: asyncio.subprocess.Process
    workers: list[Worker]
    api: Worker
    readers: StormReaders
    runs: StormRuns
    faults: Counter[str] = field(default_factory=Counter[str])
    recovery: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    accepted: int = 0
    _nursing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _store: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def sids(self) -> dict[int, str]:
        """The session of each chat."""
        return {chat: self.app.session_id(address(chat)) for chat in {one.chat for one in self.plan.inputs}}

    async def run(self) -> None:
        """Let all of it come, and wait until everything has healed."""
        for worker in (*self.workers, self.api):
            await self.begin(worker)
        await self.readers.begin()
        await self.runs.begin()
        begun = asyncio.get_running_loop().time()
        chats = defaultdict[int, list[Input]](list)
        for one in self.plan.inputs:
            chats[one.chat].append(one)
        async with asyncio.TaskGroup() as tasks:
            for inputs in chats.values():
                tasks.create_task(self.speak(inputs, begun))
            tasks.create_task(self.readers.speak(self.plan.inputs[-1].at))
            for fault in self.plan.faults:
                tasks.create_task(self._come(fault, begun))
            for work in self.plan.work:
                tasks.create_task(self._work(work, begun))
        await self.runs.rest()
        await self.healed()

    async def healed(self) -> None:
        """Wait until nothing waits, runs or is still to be said. Raises TimeoutError."""
        async with asyncio.timeout(_HEALED_SECONDS):
            while not await self._quiet():  # noqa: ASYNC110 - the store tells nobody
                await asyncio.sleep(0.25)

    async def end_workers(self) -> None:
        """Kill all processes that were begun."""
        for worker in (*self.workers, self.api):
            if worker.pid:
                await killed(worker.pid)

    async def speak(self, inputs: Iterable[Input], begun: float) -> None:
        """Say in one chat what is to be said there, again and again until it is accepted."""
        for one in inputs:
            await _until(begun + one.at)
            inbound = Inbound(address(one.chat), ACCOUNT, one.text, f"{one.chat}-{one.number}")
            while True:
                try:
                    await self.app.router.receive(inbound)
                    if one.number == 0 and one.chat in self.plan.queued:
                        await self.app.store.queue.set_mode(self.sids[one.chat], QueueMode.QUEUE, ())
                    break
                except StoreError:
                    await asyncio.sleep(0.1)
            self.accepted += 1

    async def _work(self, work: Work, begun: float) -> None:
        await _until(begun + work.at)
        await self.runs.come(work)

    async def _come(self, fault: Fault, begun: float) -> None:
        await _until(begun + fault.at)
        match fault.kind:
            case FaultKind.KILL:
                await self.kill(self.workers[fault.worker], fault.seconds)
            case FaultKind.KILL_API:
                await self._kill_api(fault.seconds)
            case FaultKind.STOP:
                await self._stop(self.workers[fault.worker], fault.seconds)
            case FaultKind.KILL_STORE:
                await self._kill_store(fault.seconds)
            case FaultKind.CUT:
                [*(one.proxy for one in self.workers), self.front, self.api.proxy][fault.worker].arm(fault.cut)
            case FaultKind.LOSE_ANSWER:
                self.platform.lose_answer()
            case FaultKind.STEP_CLOCK if self.clock.there:
                await asyncio.to_thread(self.clock.step, fault.seconds)
                self.faults[fault.kind] += 1
            case FaultKind.STEP_CLOCK:
                pass

    async def begin(self, worker: Worker) -> None:
        """Begin a worker, and wait until it says what it is called."""
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        async with asyncio.timeout(_BEGIN_SECONDS):
            while True:
                async with self._nursing:
                    self.nursery.stdin.write(f"{worker.line}\n".encode())
                    worker.pid = int(await self.nursery.stdout.readline())
                processes, pid = self.platform.processes, worker.pid
                while pid not in processes and lives(pid):  # noqa: ASYNC110 - nobody tells of its end
                    await asyncio.sleep(0.02)
                if pid in processes:
                    return
                # It found no store, as one that is restarted by its supervisor in operation.
                await asyncio.sleep(0.2)

    async def kill(self, worker: Worker, pause: float) -> None:
        """Kill a worker, begin another `pause` seconds later, and wait until its sessions are taken over."""
        async with worker.lock, asyncio.TaskGroup() as tasks:
            held = await self._caught(worker)
            await killed(worker.pid)
            self.faults[FaultKind.KILL] += 1
            tasks.create_task(self._taken_over(FaultKind.KILL, held))
            await asyncio.sleep(pause)
            await self.begin(worker)

    async def _kill_api(self, pause: float) -> None:
        async with self.api.lock:
            await killed(self.api.pid)
            self.faults[FaultKind.KILL_API] += 1
            await asyncio.sleep(pause)
            await self.begin(self.api)

    async def _stop(self, worker: Worker, seconds: float) -> None:
        async with worker.lock, asyncio.TaskGroup() as tasks:
            held = await self._caught(worker)
            os.kill(worker.pid, signal.SIGSTOP)
            try:
                tasks.create_task(self._taken_over(FaultKind.STOP, held))
                await asyncio.sleep(seconds)
            finally:
                os.kill(worker.pid, signal.SIGCONT)
            self.faults[FaultKind.STOP] += 1

    async def _kill_store(self, pause: float) -> None:
        async with self._store:
            loop, before = asyncio.get_running_loop(), len(self.platform.shown)
            at = loop.time()
            kill(int(await asyncio.to_thread(self.supervisor.files.pid.read_text)))
            await asyncio.sleep(pause)
            await self.supervisor.attach()
            self.faults[FaultKind.KILL_STORE] += 1
            back = loop.time()
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEALED_SECONDS):
                # What was on its way to the platform before is no sign of life.
                while not (new := [one.at for one in self.platform.shown[before:] if one.at >= back]):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                self.recovery[FaultKind.KILL_STORE].append(new[0] - at)

    @property
    def takeovers(self) -> Takeovers:
        """Return a look at the sessions that workers hold."""
        return Takeovers(self.watch, tuple(self.sids.values()))

    async def _caught(self, worker: Worker) -> list[Held]:
        return await self.takeovers.caught(self.platform.processes.get(worker.pid, ""))

    async def _taken_over(self, kind: FaultKind, held: list[Held]) -> None:
        self.recovery[kind] += await self.takeovers.seconds(held)

    async def _quiet(self) -> bool:
        """Say whether nothing waits, runs or is still to be said."""
        try:
            for sid in (*self.sids.values(), *self.readers.sids):
                state = await self.watch.sessions.state(sid)
                if state is None or state.status is not Status.IDLE or state.waiting_items or state.turn is not None:
                    return False
                if any(one.state in _UNSAID for one in await self.watch.outbox.deliveries(sid)):
                    return False
            return await self.runs.quiet()
        except StoreError:
            return False


def address(chat: int) -> Address:
    """Return the address of a chat."""
    return Address("console", f"c{chat}")


async def _until(moment: float) -> None:
    await asyncio.sleep(max(moment - asyncio.get_running_loop().time(), 0))


async def stormed(folder: Path, seed: int, size: Size) -> Ended:
    """Run the storm of a seed in a folder, and check all that is left. Raises TimeoutError: it did not heal."""
    begun, plan = asyncio.get_running_loop().time(), drawn(seed, size)
    async with opened(folder, plan, size) as storm:
        try:
            await storm.run()
            await storm.readers.caught_up()
            told = storm.readers.violations()
        finally:
            await storm.end_workers()
        config = await asyncio.to_thread(settings, folder, storm.supervisor.url)
        async with open_app(config, [PlatformChannel(storm.platform.path)], {}, parts()) as app:
            found = await checked(app, plan, storm.sids, storm.platform.shown)
            await check_runs(app, storm.runs, storm.platform.shown, found)
        found.violations.extend(told)
        cuts = Counter[str]()
        for proxy in (storm.front, *(worker.proxy for worker in (*storm.workers, storm.api))):
            cuts.update({f"{FaultKind.CUT}_{cut}": count for cut, count in proxy.done.items()})
        faults = storm.faults + cuts + Counter({str(FaultKind.LOSE_ANSWER): storm.platform.lost})
        took = asyncio.get_running_loop().time() - begun
        return Ended(storm.accepted, faults, dict(storm.recovery), took, storm.clock.there, found)


@asynccontextmanager
async def opened(folder: Path, plan: Plan, size: Size) -> AsyncGenerator[Storm]:
    """Open all that a storm needs in a folder; its workers are not begun yet."""
    clock = await asyncio.to_thread(SteppedClock, folder)
    async with AsyncExitStack() as until:
        here, port = await until.enter_async_context(receiver()), free_port()
        # Most kills come while something is on its way.
        here.slow = _TAKEN_SECONDS
        await asyncio.to_thread(write_settings, folder, storm_settings(port, here))
        supervisor = Supervisor(folder / "data")
        # The server that it starts, now and again, inherits the variables.
        until.callback(_environment(clock.environment))
        await supervisor.attach()
        until.push_async_callback(supervisor.detach)
        socket = supervisor.files.socket
        told = await until.enter_async_context(platform(folder / "platform"))
        front = await until.enter_async_context(fault_proxy(folder / "front", socket))
        proxies = [
            await until.enter_async_context(fault_proxy(folder / f"worker{number}", socket))
            for number in range(size.workers + 1)
        ]
        *workers, api = [Worker(one, one.url) for one in proxies]
        api.line = f"{API}{api.proxy.url}"
        watch = await open_store(audit_key=KEY, url=supervisor.url)
        until.push_async_callback(watch.close)
        config = await asyncio.to_thread(settings, folder, front.url)
        app = await until.enter_async_context(open_app(config, [PlatformChannel(told.path)], {}, parts()))
        readers = await until.enter_async_context(reading(app, port, here, size.inputs))
        runs = await until.enter_async_context(working(app, watch, plan.work))
        nursery = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chaos.nursery", str(folder), supervisor.url, str(told.path)),
            cwd=_ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield Storm(plan, clock, supervisor, told, app, front, watch, nursery, workers, api, readers, runs)
        finally:
            nursery.kill()
            await nursery.wait()


def _environment(variables: dict[str, str]) -> Callable[[], None]:
    """Set variables of this process for those that it starts; return what takes them away."""
    os.environ.update(variables)

    def undo() -> None:
        for name in variables:
            os.environ.pop(name, None)

    return undo
