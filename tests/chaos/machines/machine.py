"""Two machines of one installation: each has files of its own, and processes of `lockgate run` in several roles.

They share three keys, a store and the configuration, and reach the store by doors of their own. A process that ends
without being told is started again, as a service manager does.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Thread
from types import MappingProxyType
from typing import BinaryIO, Final

from bot.app.keys import AUDIT_KEY_VARIABLE, SESSION_KEY_VARIABLE, VAULT_KEY_VARIABLE
from bot.cli.roles import ProcessRole
from bot.files.objects import BucketAddress
from tests.chaos.machines import steps
from tests.chaos.machines.plan import NAMES, SHARED
from tests.chaos.machines.platforms import Platforms
from tests.journeys.machine import Machine, Process
from tests.people import principal
from tests.sim.receiver import Receiver

HOSTS: Final[Mapping[str, str]] = MappingProxyType({name: f"127.0.{place}.1" for place, name in enumerate(NAMES, 2)})
"""The address of each machine's doors; as long as that of the servers, see `Door.translated`."""

_LOOK_SECONDS: Final = 0.2


def shared_keys(seed: int) -> dict[str, str]:
    """Return the variables of the three keys that both machines have."""
    random = Random(f"keys of {seed}")  # noqa: S311 - they guard nothing
    return {name: random.randbytes(32).hex() for name in (AUDIT_KEY_VARIABLE, SESSION_KEY_VARIABLE, VAULT_KEY_VARIABLE)}


def configuration(played: Platforms, here: Receiver, port: int, bucket: BucketAddress) -> str:
    """Return the configuration of a machine whose API listens at a port, and whose files are in a bucket."""
    people = {f"p{chat}": principal(played.account(chat), role="member") for chat in played.chats}
    platform = {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"}
    return json.dumps(
        {
            "plugins": [steps.__name__],
            "store": {"lease_seconds": 2},
            "files": {"bucket": {"name": bucket.name, "endpoint": bucket.endpoint, "region": bucket.region}},
            "webhooks": {"unsafe_allow_private_addresses": [f"127.0.0.1:{here.port}"]},
            "limits": {"person_messages_per_minute": 1000},
            "channels": {
                "telegram": {"base_url": f"http://127.0.0.1:{played.telegram.port}"},
                "slack": {"base_url": played.slack.api},
                "api": {"port": port, "heartbeat_seconds": 1, "requests_per_minute": 1_000_000},
            },
            "policy": {
                "principals": {"owner": principal("console:owner"), **people},
                "channels": {
                    **dict.fromkeys(("console", "telegram", "slack"), platform),
                    "api": {"classification": "top", "inbound": "PUBLIC"},
                },
                "folders": {SHARED: {"floor": "PUBLIC", "integrity": "TRUSTED", "clearance": "top"}},
                "recipients": {},
            },
        }
    )


@dataclass
class Job:
    """A process that a machine is to have; none runs while somebody has the `lock`, who begins it again."""

    role: ProcessRole
    running: Process | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class StormMachine:
    """A machine. `told` is what its processes logged, and `restarts` the last line of each that ended by itself."""

    name: str
    folder: Path
    port: int
    environment: Mapping[str, str]
    jobs: list[Job] = field(default_factory=list[Job])
    told: list[str] = field(default_factory=list[str])
    restarts: list[str] = field(default_factory=list[str])

    @property
    def workers(self) -> list[Job]:
        """Its workers."""
        return self.of(ProcessRole.WORKER)

    def of(self, role: ProcessRole) -> list[Job]:
        """Return its processes of a role."""
        return [job for job in self.jobs if job.role is role]

    @property
    def data(self) -> Path:
        """Its data directory."""
        return Machine(self.folder).data

    def process(self, job: Job) -> str:
        """Return the name of a process in the store, empty before it has one."""
        with suppress(OSError):
            if job.running is not None:
                return (self.folder / str(job.running.pid)).read_text(encoding="ascii")
        return ""

    async def begin(self, job: Job) -> None:
        """Begin a process."""
        more = {**self.environment, steps.MACHINE: self.name, steps.PROCESSES: str(self.folder)}
        running = await asyncio.to_thread(lambda: Machine(self.folder).start("run", "--role", job.role.value, **more))
        for pipe in (running.stdout, running.stderr):
            assert pipe is not None
            Thread(target=self._listen, args=(pipe, running.pid), daemon=True).start()
        job.running = running

    async def end(self, job: Job, *, kindly: bool = False) -> int:
        """End a process, in order or by a kill, and return its exit code."""
        assert job.running is not None
        if kindly:
            job.running.terminate()
        else:
            job.running.kill()
        return await asyncio.to_thread(job.running.wait)

    async def keep(self) -> None:
        """Begin again what ended without being told, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for job in self.jobs:
                if job.running is not None and job.running.poll() is not None and not job.lock.locked():
                    self.restarts.append(
                        f"{self.name} {job.role} {job.running.returncode}: {self._last(job.running.pid)}"
                    )
                    await self.begin(job)

    def _listen(self, pipe: BinaryIO, pid: int) -> None:
        with pipe:
            for line in pipe:
                self.told.append(f"{pid} {line.decode(errors='replace').rstrip()}")

    def _last(self, pid: int) -> str:
        return next((line for line in reversed(self.told) if line.startswith(f"{pid} ")), "")


def storm_machine(folder: Path, name: str, *, port: int, environment: Mapping[str, str], workers: int) -> StormMachine:
    """Return a machine in a folder that has its configuration; the environment names its way to the store."""
    roles = (*(ProcessRole.WORKER,) * workers, ProcessRole.CHANNELS, ProcessRole.API)
    return StormMachine(name, folder, port, environment, [Job(role) for role in roles])
