"""Several processes share the work: one listens, another runs the turns, and either may be killed."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.store.servers.embedded_server import Supervisor
from tests.clocks import LEASE_SECONDS
from tests.journeys.machine import Machine, Process
from tests.journeys.test_telegram import call, config, hears
from tests.sim.telegram import Telegram, telegram

pytestmark = pytest.mark.anyio


class Crew:
    """Processes of one installation, by role."""

    def __init__(self, machine: Machine, server: Telegram, text: str, store: dict[str, object]) -> None:
        (machine.folder / "config.yaml").write_text(json.dumps({**json.loads(text), "store": store}))
        self._machine = machine
        self._token = server.token
        self._running: dict[str, Process] = {}

    async def start(self, role: str, *, fresh: bool = False) -> None:
        machine = self._machine.fresh if fresh else self._machine
        self._running[role] = await asyncio.to_thread(machine.start, "run", "--role", role, BOT_TOKEN=self._token)

    async def kill(self, role: str) -> None:
        process = self._running.pop(role)
        process.kill()
        await asyncio.to_thread(process.communicate)

    async def tells(self, role: str, words: str) -> str:
        """Wait until a process tells something; return what it told until then."""
        screen, told = self._running[role].stderr, ""
        assert screen is not None
        while words not in told:
            line = await asyncio.to_thread(screen.readline)
            assert line, f"{words!r} was not told"
            told += line.decode()
        return told

    def lives(self, role: str) -> bool:
        return self._running[role].poll() is None

    async def end(self) -> str:
        """End them as an operator does; return what they told."""
        for process in self._running.values():
            process.terminate()
        ended = [await asyncio.to_thread(process.communicate, timeout=60) for process in self._running.values()]
        told = "".join(err.decode() for _, err in ended)
        assert [process.returncode for process in self._running.values()] == [0] * len(ended), told
        self._running.clear()
        return told


@asynccontextmanager
async def crew(
    machine: Machine, server: Telegram, text: str, *roles: str, store: dict[str, object] | None = None
) -> AsyncGenerator[Crew]:
    """Start processes of these roles, and end those that run in the end."""
    running = Crew(machine, server, text, {"lease_seconds": LEASE_SECONDS} if store is None else store)
    try:
        for role in roles:
            await running.start(role)
        yield running
    finally:
        told = await running.end()
    assert "Traceback" not in told
    assert server.token not in told


async def test_one_listens_another_runs_the_turns_and_either_may_be_killed(tmp_path: Path) -> None:
    async with telegram() as server:
        ann = server.user("Ann")
        text = json.loads(config(server, ann))
        # Read only for a chat whose readers are known to be cleared: whoever runs the turn has to ask who they are.
        text["policy"]["channels"]["telegram"]["overshoot"] = "block"
        async with crew(Machine(tmp_path), server, json.dumps(text), "channels", "worker") as running:
            ann.says(None, "one")
            await hears(server, ann.private, "You said: one")
            ann.says(None, call("read_file", path="confidential/pipeline.md"))
            await hears(server, ann.private, "Veldhaven")
            await running.kill("worker")
            ann.says(None, "two")
            # What needs no turn is answered without a worker.
            ann.says(None, "/whoami")
            await hears(server, ann.private, "You are ann")
            assert "You said: two" not in ann.private.said
            await running.start("worker", fresh=True)
            await hears(server, ann.private, "You said: two")
            await running.kill("channels")
            ann.says(None, "three")
            await asyncio.sleep(0.2)
            await running.start("channels", fresh=True)
            await hears(server, ann.private, "You said: three")
        answers = [said for said in ann.private.said if said.startswith("You said")]
        assert answers == ["You said: one", "You said: two", "You said: three"]


async def test_what_waits_to_be_said_is_said_without_a_worker(tmp_path: Path) -> None:
    """A turn whose answer the platform refuses for a while is ended; its worker is gone when it can be said."""
    async with telegram() as server:
        ann = server.user("Ann")
        async with crew(Machine(tmp_path), server, config(server, ann), "channels", "worker") as running:
            ann.says(None, "one")
            await hears(server, ann.private, "You said: one")
            refusal = server.fails("sendMessage", retry_after=8)
            ann.says(None, "two")
            while refusal.times:  # noqa: ASYNC110 - the server tells of no refusal
                await asyncio.sleep(0.02)
            await running.kill("worker")
            assert "You said: two" not in ann.private.said
            await hears(server, ann.private, "You said: two")


async def test_who_polls_is_back_soon_after_a_kill(tmp_path: Path) -> None:
    """The right to poll does not wait for a worker's lease, which lasts ten minutes here."""
    async with telegram() as server:
        ann = server.user("Ann")
        async with crew(Machine(tmp_path), server, config(server, ann), "all", store={"lease_seconds": 600}) as running:
            ann.says(None, "/whoami")
            await hears(server, ann.private, "You are ann")
            await running.kill("all")
            ann.says(None, "one")
            await running.start("all")
            async with asyncio.timeout(60):
                await hears(server, ann.private, "You said: one")


async def test_a_process_that_starts_before_its_store_waits_for_it(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / "elsewhere")
    await supervisor.attach()
    url = supervisor.url
    await supervisor.detach()
    async with telegram() as server:
        ann = server.user("Ann")
        async with crew(Machine(tmp_path), server, config(server, ann), "all", store={"url": url}) as running:
            ann.says(None, "one")
            before = await running.tells("all", "waiting for it")
            # Long enough for it to look again, and say no more.
            await asyncio.sleep(2.5)
            assert running.lives("all")
            await supervisor.attach()
            try:
                await hears(server, ann.private, "You said: one")
            finally:
                told = before + await running.end()
                await supervisor.detach()
        assert told.count("waiting for it") == 1
