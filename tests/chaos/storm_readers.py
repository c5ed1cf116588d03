"""Programs that follow their sessions through a storm: each is told each event once, whatever breaks on the way.

The API is served by the process that takes inputs in, whose way to the store is cut as everybody's. Every program
begins a session, speaks in it, and hangs up now and again by itself.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any, Final

import httpx2

from bot.app import programs
from bot.app.app import App
from bot.core.errors import StoreError
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from policy.labels import parse
from tests.bot.api.kit import MAKER, api_config
from tests.bot.api.listening import Listener

READERS: Final = 4
SETTINGS: Final = api_config(
    blocks={"store": {"lease_seconds": 2}}, settings={"heartbeat_seconds": 1, "requests_per_minute": 1_000_000}
)
_WORDS: Final = 8
_TRIES_SECONDS: Final = 0.1
_PATIENCE: Final = 60.0


@dataclass
class StormReader:
    """A program, its session, and what it was told of that."""

    number: int
    listener: Listener
    random: Random
    connections: int = 0

    async def speak(self, seconds: float) -> None:
        """Begin the session and speak in it for as long as a storm takes."""
        body = {"input": f"program-{self.number}-0;", "key": f"storm-{self.number}"}
        begun = await self._ask("POST", "/v1/sessions", json=body)
        self.listener.sid = begun["id"]
        for word in range(1, _WORDS + 1):
            await asyncio.sleep(self.random.uniform(0, 2 * seconds / _WORDS))
            key = {"idempotency-key": f"word-{word}"}
            text = {"text": f"program-{self.number}-{word};"}
            await self._ask("POST", f"/v1/sessions/{self.listener.sid}/messages", json=text, headers=key)

    async def follow(self) -> None:
        """Listen until cancelled, on as many connections as it takes."""
        while True:
            if self.listener.sid:
                async with self.listener.connected() as one:
                    self.connections += one.status == HTTPStatus.OK
                    with suppress(TimeoutError):
                        await one.until(lambda: bool(one.end) or one.status != HTTPStatus.OK, self._patience())
                    assert one.end != "unavailable"
            await asyncio.sleep(_TRIES_SECONDS)

    async def log(self) -> list[int]:
        """Return the seqs of all events, as pages tell them."""
        seqs, after = list[int](), 0
        while after is not None:
            page = await self._ask("GET", f"/v1/sessions/{self.listener.sid}/events?after={after}")
            seqs += [event["seq"] for event in page["events"]]
            after = page["next"]
        return seqs

    def _patience(self) -> float:
        return self.random.uniform(0.1, 3.0)

    async def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as the client takes it
        """Ask until there is an answer."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                with suppress(httpx2.TransportError):
                    answer = await self.listener.client.request(method, path, **more)
                    if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                        assert answer.is_success, answer.text
                        return answer.json()
                await asyncio.sleep(_TRIES_SECONDS)


@dataclass
class StormReaders:
    """All programs of a storm."""

    readers: list[StormReader] = field(default_factory=list[StormReader])

    @property
    def sids(self) -> list[str]:
        """Their sessions."""
        return [one.listener.sid for one in self.readers]

    async def speak(self, seconds: float) -> None:
        """Let all of them speak."""
        async with asyncio.TaskGroup() as tasks:
            for one in self.readers:
                tasks.create_task(one.speak(seconds))

    async def violations(self) -> list[str]:
        """Return what does not hold, once everything has healed."""
        found = list[str]()
        for one in self.readers:
            expected = await one.log()
            with suppress(TimeoutError):
                await one.listener.until(lambda one=one, expected=expected: len(one.listener.told) >= len(expected))
            if one.listener.seqs != expected:
                found.append(f"streams_tell_once: program {one.number}: {one.listener.seqs} and not {expected}")
            told = "".join(str(event["body"]) for event in one.listener.told)
            missing = [word for word in range(_WORDS + 1) if f"program-{one.number}-{word};" not in told]
            if missing:
                found.append(f"accepted_once_in_order: program {one.number}: {missing}")
        return found


@asynccontextmanager
async def reading(app: App, seed: int) -> AsyncGenerator[StormReaders]:
    """Serve the API of an application, and let programs follow their sessions there."""
    asked = TokenRequest("storm", Scope.STEER, parse("RESTRICTED~"), 0, 1_000_000)
    token = (await app.token_keeper.create(asked, MAKER)).text
    began = asyncio.get_running_loop().create_future()
    answering = asyncio.create_task(programs.answer(app, began.set_result))
    url = await began
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=20) as client:
        readers = [StormReader(n, Listener(client, ""), Random(f"{seed}-{n}")) for n in range(READERS)]  # noqa: S311
        following = [asyncio.create_task(one.follow()) for one in readers]
        try:
            yield StormReaders(readers)
        finally:
            for task in (*following, answering):
                task.cancel()
            for task in (*following, answering):
                with suppress(asyncio.CancelledError, StoreError):
                    await task
