"""A stream through everything that can break: two API processes and three workers on one store, all killed in turn."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from bot.store.redis_store import RedisStore
from tests.bot.api.crew import Crew
from tests.bot.api.kit import ApiHost, api_config
from tests.bot.api.listening import Listener, store_of
from tests.clocks import LEASE_SECONDS
from tests.harness import running
from tests.journeys.machine import Machine
from tests.servers import SERVERS
from tests.store.world import kill, pid_of

pytestmark = pytest.mark.anyio

CONFIG: Final = api_config(blocks={"store": {"lease_seconds": LEASE_SECONDS}}, settings={"heartbeat_seconds": 1})
_PATIENCE: Final = 120.0


@dataclass
class Program:
    """A program that uses whichever API process answers."""

    crew: Crew
    token: str
    sid: str = ""

    async def ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as the client takes it
        """Ask one process after another until one answers."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                for url in list(self.crew.urls.values()):
                    try:
                        async with self.connected(url) as client:
                            answer = await client.request(method, path, **more)
                    except httpx2.TransportError:
                        continue
                    if answer.status_code < 500:
                        assert answer.is_success, answer.text
                        return answer.json()
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def connected(self, url: str) -> AsyncGenerator[httpx2.AsyncClient]:
        headers = {"authorization": f"Bearer {self.token}"}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
            yield client

    async def say(self, text: str) -> None:
        key = {"idempotency-key": text}
        await self.ask("POST", f"/v1/sessions/{self.sid}/messages", json={"text": text}, headers=key)

    async def follow(self, one: Listener, done: asyncio.Event) -> int:
        """Listen at one process after another until it is done; return how often it was asked for."""
        asked = 0
        while not done.is_set():
            urls = list(self.crew.urls.values()) or [""]
            asked += 1
            if url := urls[asked % len(urls)]:
                async with self.connected(url) as one.client, one.connected():
                    while one.status == 200 and not one.end and not done.is_set():  # noqa: ASYNC110 - two things end it
                        await asyncio.sleep(0.02)
            assert one.end != "unavailable"
            await asyncio.sleep(0.05)
        return asked


@pytest.mark.timeout(600)
async def test_a_stream_outlives_api_worker_and_store(tmp_path: Path) -> None:
    place = await SERVERS.place(tmp_path / "data", embedded=True)
    async with running(tmp_path, CONFIG, serve=False, embedded=True) as owner:
        host = ApiHost(owner, "")
        crew = Crew(Machine(tmp_path), place)
        program = Program(crew, await host.token())
        names = ("api-1", "api-2", "worker-1", "worker-2", "worker-3")
        try:
            async with asyncio.TaskGroup() as tasks:
                for name in names:
                    tasks.create_task(crew.start(name))
            begun = await program.ask("POST", "/v1/sessions", json={"input": "message-0;", "key": "one"})
            program.sid = begun["id"]
            await _through(program, store_of(host))
        finally:
            await crew.end()


async def _through(program: Program, store: RedisStore) -> None:
    """Talk while everything breaks, and see that the stream told all of it once."""
    crew, done = program.crew, asyncio.Event()
    one = Listener(httpx2.AsyncClient(), program.sid)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(program.follow(one, done))
        said = 0

        async def talk(count: int) -> None:
            nonlocal said
            for _ in range(count):
                said += 1
                await program.say(f"message-{said};")

        await talk(3)
        for broken in ("api-1", "worker-1", "store", "api-2"):
            talking = tasks.create_task(talk(3))
            if broken == "store":
                kill(await asyncio.to_thread(pid_of, store))
            else:
                await crew.kill(broken)
                await crew.start(broken)
            await talking
        expected = await _settled(program)
        await one.until(lambda: one.seqs[-1:] == expected[-1:], _PATIENCE)
        done.set()
    # At least one of the APIs that were killed had it.
    assert following.result() >= 2
    assert one.seqs == expected
    texts = [event["body"]["text"] for event in one.told if event["type"] == "user.message"]
    assert re.findall(r"message-(\d+);", "".join(texts)) == [str(n) for n in range(said + 1)]


async def _settled(program: Program) -> list[int]:
    """Wait until all that was said was answered; return the seqs of all events, page by page."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            session = await program.ask("GET", f"/v1/sessions/{program.sid}")
            if session["status"] == "idle":
                break
            await asyncio.sleep(0.1)
    seqs, after = list[int](), 0
    while after is not None:
        page = await program.ask("GET", f"/v1/sessions/{program.sid}/events?after={after}&limit=50")
        seqs += [event["seq"] for event in page["events"]]
        after = page["next"]
    return seqs
