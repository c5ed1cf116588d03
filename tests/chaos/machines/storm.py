"""A storm over two machines that share a store of several servers, while processes, servers and cables fail.

People write on both platforms, programs by the API, files go from one machine to the other. The faults are those of a
plan (`tests/chaos/machines/plan.py`). When the last one is over everything has to go on by itself; then
`tests/chaos/machines/laws.py` looks at all that is left.

What a primary lost is known to the processes that wrote it. So none of them is killed from the beginning of a fault
that loses something until they have compared what they know with what is left.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.app.app import App
from bot.app.opening import open_app
from bot.app.plugins import find_plugin
from bot.cli.roles import ProcessRole
from bot.config.file.source import STORE_VARIABLE
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import StoreError
from bot.files.objects import BucketAddress
from bot.sessions.approvals import ApprovalState
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import QueueMode
from bot.sessions.models import Status
from bot.tools import catalogue
from tests.buckets import BucketServer
from tests.chaos.machines.balancer import balancer
from tests.chaos.machines.machine import HOSTS, Job, StormMachine, configuration, shared_keys, storm_machine
from tests.chaos.machines.network import HERE, Door, Network, network
from tests.chaos.machines.plan import LOSSY, NAMES, MachineFault, MachinePlan, MachineSize, PlannedFault
from tests.chaos.machines.platforms import Platforms, platforms
from tests.chaos.storm_readers import StormReaders, reading
from tests.chaos.takeovers import Held, Takeovers
from tests.fleets import ClusterFleet, Kind, SentinelFleet, Wire, cluster, sentinels, wait_until
from tests.sim.ports import free_port
from tests.sim.receiver import receiver

_HEALED_SECONDS: Final = 90.0
_MANY: Final = 1 << 30
_CALM_SECONDS: Final = 4.0
"""After a fault of the store: two looks of a process for what is lost."""

_WELL_SECONDS: Final = 60.0
_UNSAID: Final = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})
_NODE_MS: Final = 1_500
"""After how much silence a node of a Cluster counts as gone: less is too little where all is on two processors."""


@dataclass(frozen=True, slots=True)
class Span:
    """A fault from its beginning until all servers were well again, in seconds of the loop's clock."""

    kind: MachineFault
    at: float
    over: float


@dataclass
class MachineStorm:
    """A storm under way. `desk` looks at the store from elsewhere; it runs no turns."""

    plan: MachinePlan
    played: Platforms
    fleet: ClusterFleet | SentinelFleet
    wires: Network
    machines: dict[str, StormMachine]
    desk: App
    readers: StormReaders
    faults: Counter[MachineFault] = field(default_factory=Counter[MachineFault])
    takeovers: defaultdict[MachineFault, list[float]] = field(default_factory=lambda: defaultdict(list))
    spans: list[Span] = field(default_factory=list[Span])
    unhealed: list[str] = field(default_factory=list[str])
    _store: asyncio.Lock = field(default_factory=asyncio.Lock)
    _lossy: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def sids(self) -> dict[int, str]:
        """The session of each chat in which something is said."""
        chats = sorted({one.chat for one in self.plan.inputs})
        return {chat: self.desk.session_id(self.played.address(chat)) for chat in chats}

    async def run(self) -> None:
        """Let all of it come, and wait until everything has healed."""
        await self._begin()
        begun = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            keeping = [tasks.create_task(machine.keep()) for machine in self.machines.values()]
            tasks.create_task(self._speak(begun))
            programs = tasks.create_task(self.readers.speak(self.plan.inputs[-1].at))
            coming = [tasks.create_task(self._come(fault, begun)) for fault in self.plan.faults]
            await asyncio.wait({programs, *coming})
            await self._healed()
            for task in keeping:
                task.cancel()

    async def end(self) -> None:
        """Kill all processes that run still."""
        for machine in self.machines.values():
            for job in machine.jobs:
                if job.running is not None and job.running.poll() is None:
                    await machine.end(job)

    async def _begin(self) -> None:
        """Begin all processes and programs; return when each platform is listened to and somebody runs turns."""
        async with asyncio.TaskGroup() as tasks:
            for machine in self.machines.values():
                for job in machine.jobs:
                    tasks.create_task(machine.begin(job))
        await self.readers.begin()
        async with asyncio.timeout(_WELL_SECONDS):
            await self.played.slack.sockets.connected()
            while self.played.telegram.state.poll is None:  # noqa: ASYNC110 - the platform tells nobody
                await asyncio.sleep(0.05)

    async def _speak(self, begun: float) -> None:
        queued = set(self.plan.queued)
        for one in self.plan.inputs:
            await _until(begun + one.at)
            await self.played.say(one)
            for chat in tuple(queued):
                # There is nothing to set in a chat before its first message was taken in.
                with suppress(StoreError):
                    if await self.desk.store.sessions.state(sid := self.sids.get(chat, "")) is not None:
                        await self.desk.store.queue.set_mode(sid, QueueMode.QUEUE, ())
                        queued.discard(chat)

    async def _come(self, fault: PlannedFault, begun: float) -> None:
        await _until(begun + fault.at)
        machine = self.machines[fault.machine]
        match fault.kind:
            case MachineFault.KILL_WORKER:
                await self._kill(machine, machine.workers[fault.worker], fault)
            case MachineFault.KILL_LISTENER:
                await self._kill(machine, machine.of(ProcessRole.CHANNELS)[0], fault)
            case MachineFault.KILL_API:
                await self._kill(machine, machine.of(ProcessRole.API)[0], fault)
            case MachineFault.END_WORKER:
                await self._kill(machine, machine.workers[fault.worker], fault, kindly=True)
            case MachineFault.LOSE_ANSWER:
                self.played.lose_answer(NAMES.index(fault.machine))
                self.faults[fault.kind] += 1
            case _:
                await self._harm_store(fault)

    async def _kill(self, machine: StormMachine, job: Job, fault: PlannedFault, *, kindly: bool = False) -> None:
        """Kill a process, begin another a while later, and wait until its sessions are taken over."""
        loop, takeovers = asyncio.get_running_loop(), Takeovers(self.desk.store, tuple(self.sids.values()))
        async with asyncio.TaskGroup() as tasks, self._lossy, job.lock:
            held = await takeovers.caught(machine.process(job)) if job.role is ProcessRole.WORKER else []
            at = loop.time()
            code = await machine.end(job, kindly=kindly)
            self.faults[fault.kind] += 1
            if kindly and code:
                self.unhealed.append(f"ends_in_order: {machine.name}: exit code {code}")
            tasks.create_task(self._taken_over(fault.kind, takeovers, held))
            await asyncio.sleep(fault.seconds)
            await machine.begin(job)
        self.spans.append(Span(fault.kind, at, loop.time()))

    async def _taken_over(self, kind: MachineFault, takeovers: Takeovers, held: Sequence[Held]) -> None:
        self.takeovers[kind] += await takeovers.seconds(held)

    async def _harm_store(self, fault: PlannedFault) -> None:
        """Have servers or cables fail, and wait until all are well; then leave some calm before the next fault."""
        loop = asyncio.get_running_loop()
        async with self._store, self._lossy if fault.kind in LOSSY else nullcontext():
            at = loop.time()
            match fault.kind:
                case MachineFault.HAND_OVER:
                    await asyncio.to_thread(self._hand_over)
                case MachineFault.KILL_PRIMARY:
                    await asyncio.to_thread(self.fleet.lose)
                    await asyncio.sleep(fault.seconds)
                    await asyncio.to_thread(self.fleet.mend)
                case MachineFault.CUT_MACHINE:
                    await self._apart({fault.machine: ()}, fault.seconds)
                case MachineFault.CUT_PRIMARY:
                    await self._apart({await asyncio.to_thread(self._sought): ()}, fault.seconds)
                case _:
                    server = await asyncio.to_thread(self._sought)
                    await self._apart({server: (fault.machine,), fault.machine: (server,)}, fault.seconds)
            await asyncio.to_thread(wait_until, self.fleet.ready, _WELL_SECONDS)
            self.faults[fault.kind] += 1
            self.spans.append(Span(fault.kind, at, loop.time()))
            await asyncio.sleep(_CALM_SECONDS)

    def _hand_over(self) -> None:
        """Have replicas take over; one that gives up, as it got no processor in time, is not asked again."""
        before = set(self.fleet.primaries)
        self.fleet.hand_over()
        wait_until(lambda: bool(set(self.fleet.primaries) - before), _WELL_SECONDS)

    def _sought(self) -> str:
        wait_until(self.fleet.ready, _WELL_SECONDS)
        return self.fleet.sought

    async def _apart(self, places: Mapping[str, Sequence[str]], seconds: float) -> None:
        """Cut places off for a while, each but from some."""
        await asyncio.to_thread(self.wires.part, places)
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(self.wires.part, {})

    async def _healed(self) -> None:
        """Wait until nothing waits, runs or is still to be said; what does not get there is noted.

        On a busy machine that takes long. So it is over when nothing more was finished for a while.
        """
        loop, waits, least = asyncio.get_running_loop(), ["the storm"], _MANY
        until = loop.time() + _HEALED_SECONDS
        while waits and loop.time() < until:
            waits, left = await self._waiting()
            if left < least:
                until, least = loop.time() + _HEALED_SECONDS, left
            await asyncio.sleep(0.25)
        self.unhealed += [f"crash_heals: {line}" for line in waits]

    async def _waiting(self) -> tuple[list[str], int]:
        """Return what is not at rest, and how many inputs, turns and texts that are."""
        waits, left = [] if self.played.all_taken else ["platforms: a message is not taken in"], 0
        try:
            for sid in (*self.sids.values(), *self.readers.sids):
                state = await self.desk.store.sessions.state(sid)
                if state is None:
                    # Nothing that was lost comes back; the laws look for it.
                    continue
                if state.status is not Status.IDLE or state.waiting_items or state.turn is not None:
                    waits.append(f"{state.home}: {state.status}, {state.waiting_items} wait, turn {state.turn}")
                    waits += [f"{state.home}: asked {line}" for line in await self._asked(sid)]
                    left += state.waiting_items + (state.turn is not None)
                unsaid = [one for one in await self.desk.store.outbox.deliveries(sid) if one.state in _UNSAID]
                waits += [f"{state.home}: unsaid {one.key}: {one.state}" for one in unsaid]
                left += len(unsaid)
        except StoreError as error:
            return [*waits, f"the store: {error}"], _MANY
        return waits, left

    async def _asked(self, sid: str) -> list[str]:
        """Return the open questions of a session with the states of their copies: each has to be answerable."""
        deliveries = await self.desk.store.outbox.deliveries(sid)
        return [
            f"{one.asked_in}: {one.state}, copies "
            f"{[(copy.key, copy.state.value, copy.receipt) for copy in deliveries if copy.asked == one.asked_in]}"
            for one in await self.desk.store.approvals.of(sid)
            if one.state is ApprovalState.PENDING
        ]


async def _until(moment: float) -> None:
    await asyncio.sleep(max(moment - asyncio.get_running_loop().time(), 0))


@dataclass(frozen=True, slots=True)
class Setting:
    """What a storm is of: the kind of its store, its seed, its size, and the folder that has all files of it.

    A primary takes no writes while fewer than `replicas` servers follow it closely.
    """

    kind: Kind
    seed: int
    size: MachineSize
    folder: Path
    replicas: int = 1


@asynccontextmanager
async def opened(setting: Setting, plan: MachinePlan) -> AsyncGenerator[MachineStorm]:
    """Open all that a storm needs; its processes are not begun yet."""
    async with AsyncExitStack() as until:
        played = await until.enter_async_context(platforms(setting.size.people))
        here = await until.enter_async_context(receiver())
        fleet, wires = await _fleet(setting, until)
        ports = [free_port() for _ in NAMES]
        buckets = await asyncio.to_thread(BucketServer)
        until.callback(buckets.close)
        bucket = await asyncio.to_thread(buckets.fresh)
        environment = _environment(setting.seed, played, bucket)
        machines = dict[str, StormMachine]()
        for name, port in zip(NAMES, ports, strict=True):
            place = setting.folder / name
            await asyncio.to_thread(_configure, place, configuration(played, here, port, bucket))
            variables = {**environment, STORE_VARIABLE: fleet.url_at(HOSTS[name])}
            workers = setting.size.workers
            machines[name] = storm_machine(place, name, port=port, environment=variables, workers=workers)
        config = await asyncio.to_thread(desk_config, setting.folder, fleet.url)
        desk = await until.enter_async_context(open_app(config, [], environment))
        port = await until.enter_async_context(balancer(ports))
        readers = await until.enter_async_context(reading(desk, port, here, setting.seed))
        storm = MachineStorm(plan, played, fleet, wires, machines, desk, readers)
        try:
            yield storm
        finally:
            await storm.end()


async def _fleet(setting: Setting, until: AsyncExitStack) -> tuple[ClusterFleet | SentinelFleet, Network]:
    """Start the servers of the store, which reach one another, and are reached, over a network that may break."""
    made, sync = list[Network](), ExitStack()
    until.push_async_callback(asyncio.to_thread, sync.close)

    @contextmanager
    def wiring(wires: Sequence[Wire]) -> Generator[None]:
        doors = [Door(HERE, one.front, one.port, one.place) for one in wires if one.front != one.port]
        for name, host in HOSTS.items():
            doors += [
                Door(host, one.front, one.port, one.place, caller=name, translated=one.front == one.port)
                for one in wires
            ]
        with network(doors, {one.source: one.place for one in wires}) as opened:
            made.append(opened)
            yield

    settings = {
        "min-replicas-to-write": str(setting.replicas),
        "min-replicas-max-lag": "2",
        "cluster-node-timeout": str(_NODE_MS),
    }
    if setting.kind is Kind.SENTINEL:
        del settings["cluster-node-timeout"]
    run = cluster if setting.kind is Kind.CLUSTER else sentinels
    fleet = await asyncio.to_thread(sync.enter_context, run(wiring=wiring, settings=settings))
    return fleet, made[0]


def _environment(seed: int, played: Platforms, bucket: BucketAddress) -> dict[str, str]:
    return {
        **shared_keys(seed),
        "AWS_ACCESS_KEY_ID": bucket.key,
        "AWS_SECRET_ACCESS_KEY": bucket.secret,
        "TELEGRAM_TOKEN": played.telegram.token,
        "SLACK_TOKEN": played.slack.bot.value,
        "SLACK_APP_TOKEN": played.slack.app_token,
    }


def _configure(place: Path, text: str) -> None:
    place.mkdir()
    (place / "config.yaml").write_text(text, encoding="utf-8")


def desk_config(folder: Path, url: str) -> Config:
    """Return the configuration of the process that watches the store, with a data directory of its own."""
    where = {"LOCKGATE_DATA_DIR": str(folder / "desk"), STORE_VARIABLE: url}
    return load_config(folder / NAMES[0] / "config.yaml", where, catalogue.ARGUMENTS, find_plugin)
