"""Programs that follow their sessions through a storm: each is told each event once, whatever breaks on the way.

The API is served by a process of its own, which is killed and begun again, and whose way to the store is cut as
everybody's. Every program begins a session, speaks in it, and hangs up now and again by itself. A webhook has the
events of all of them sent to a receiver, each at least once and in order.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any, Final

import httpx2

from bot.app.app import App
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from policy.labels import parse
from tests.bot.api.kit import MAKER, api_config
from tests.bot.api.listening import Listener
from tests.sim.receiver import Receiver

READERS: Final = 4
_WORDS: Final = 8
_TRIES_SECONDS: Final = 0.1
_PATIENCE: Final = 150.0
_CAUGHT_UP_SECONDS: Final = 60.0


@dataclass
class StormReader:
    """A program, its session, and what it was told of that."""

    number: int
    listener: Listener
    random: Random
    connections: int = 0

    async def begin(self) -> None:
        """Begin the session."""
        body = {"input": f"program-{self.number}-0;", "key": f"storm-{self.number}"}
        begun = await self.ask("POST", "/v1/sessions", json=body)
        self.listener.sid = begun["id"]

    async def speak(self, seconds: float) -> None:
        """Speak in the session for as long as a storm takes."""
        for word in range(1, _WORDS + 1):
            await asyncio.sleep(self.random.uniform(0, 2 * seconds / _WORDS))
            key = {"idempotency-key": f"word-{word}"}
            text = {"text": f"program-{self.number}-{word};"}
            await self.ask("POST", f"/v1/sessions/{self.listener.sid}/messages", json=text, headers=key)

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
            page = await self.ask("GET", f"/v1/sessions/{self.listener.sid}/events?after={after}")
            seqs += [event["seq"] for event in page["events"]]
            after = page["next"]
        return seqs

    def _patience(self) -> float:
        return self.random.uniform(0.1, 3.0)

    async def ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as the client takes it
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
    """All programs of a storm, and the receiver of their webhook."""

    readers: list[StormReader]
    here: Receiver
    logs: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    @property
    def sids(self) -> list[str]:
        """Their sessions."""
        return [one.listener.sid for one in self.readers]

    async def begin(self) -> None:
        """Make the webhook, and begin all sessions."""
        body, key = {"url": self.here.url}, {"idempotency-key": "storm"}
        await self.readers[0].ask("POST", "/v1/webhooks", json=body, headers=key)
        for one in self.readers:
            await one.begin()

    async def speak(self, seconds: float) -> None:
        """Let all of them speak."""
        async with asyncio.TaskGroup() as tasks:
            for one in self.readers:
                tasks.create_task(one.speak(seconds))

    async def caught_up(self, seconds: float = _CAUGHT_UP_SECONDS) -> None:
        """Read the logs once everything has healed, and wait until all of them was told, or should have been."""
        self.logs = {one.listener.sid: await one.log() for one in self.readers}
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.violations():  # noqa: ASYNC110 - two sides tell, and each look is one of memory
                    await asyncio.sleep(_TRIES_SECONDS)

    def violations(self) -> list[str]:
        """Return what does not hold of what was told."""
        found = [line for one in self.readers for line in self.violations_of(one)]
        if len(set(self.here.ids)) != sum(map(len, self.logs.values())):
            found.append(f"webhooks_keep_ids: {len(set(self.here.ids))} ids")
        return found

    def violations_of(self, one: StormReader) -> list[str]:
        """Return what does not hold of what was told to one program."""
        found, sid, heard = list[str](), one.listener.sid, one.listener.seqs
        if heard != self.logs[sid]:
            found.append(f"streams_tell_once: program {one.number}: {heard} and not {self.logs[sid]}")
        told = "".join(str(event["body"]) for event in one.listener.told)
        missing = [word for word in range(_WORDS + 1) if f"program-{one.number}-{word};" not in told]
        if missing:
            found.append(f"accepted_once_in_order: program {one.number}: {missing}")
        sent = self.here.seqs(sid)
        # What is sent again was sent before: the first time of each is in order.
        if list(dict.fromkeys(sent)) != self.logs[sid]:
            found.append(f"webhooks_tell_all_in_order: program {one.number}: {sent} and not {self.logs[sid]}")
        return found


def storm_settings(port: int, here: Receiver) -> str:
    """Return the configuration of a storm, whose API listens at a port and whose webhook goes to a receiver."""
    webhooks = {"unsafe_allow_private_addresses": [f"127.0.0.1:{here.port}"]}
    return api_config(
        blocks={"store": {"lease_seconds": 2}, "webhooks": webhooks, "runs": {"failures": 1, "cool_down_seconds": 1}},
        settings={"port": port, "heartbeat_seconds": 1, "requests_per_minute": 1_000_000},
    )


@asynccontextmanager
async def reading(app: App, port: int, here: Receiver, seed: int) -> AsyncGenerator[StormReaders]:
    """Let programs follow their sessions at a port, with a token that is made by another process."""
    asked = TokenRequest("storm", Scope.STEER, parse("RESTRICTED~"), 0, 1_000_000)
    token = (await app.token_keeper.create(asked, MAKER)).text
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=20) as client:
        readers = [StormReader(n, Listener(client, ""), Random(f"{seed}-{n}")) for n in range(READERS)]  # noqa: S311
        following = [asyncio.create_task(one.follow()) for one in readers]
        try:
            yield StormReaders(readers, here)
        finally:
            for task in following:
                task.cancel()
            for task in following:
                with suppress(asyncio.CancelledError):
                    await task
