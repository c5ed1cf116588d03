"""A real API for tests: an application with its worker, uvicorn on a port of loopback, and programs with tokens."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import httpx2

from bot.access.authorize import Caller, Ingress
from bot.app import programs
from bot.app.app import App
from bot.app.extensions import Extensions
from bot.core.trust import trust
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from policy.labels import parse
from policy.request import Role
from tests.harness import Person, running

MAKER: Final = Caller("owner", Role.OWNER, parse("RESTRICTED~"), Ingress.COMMAND)
"""Who makes the tokens of tests."""

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})

CONSOLE: Final = {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"}


def api_config(
    policy: Mapping[str, object] = NOTHING,
    blocks: Mapping[str, object] = NOTHING,
    settings: Mapping[str, object] = NOTHING,
) -> str:
    """Return a config.yaml with an API on a free port, and these sections, blocks and settings of the API."""
    channels = {"console": CONSOLE, "api": {"classification": "top", "inbound": "PUBLIC"}}
    return json.dumps(
        {
            **blocks,
            "channels": {"api": {"port": 0, **settings}},
            "policy": {"channels": channels, **policy},
        }
    )


@dataclass(frozen=True)
class ApiHost:
    """An API that is served: `url` is where, `person` is at the console of its application."""

    person: Person
    url: str

    @property
    def app(self) -> App:
        return self.person.app

    async def token(
        self, name: str = "ci", scope: Scope = Scope.ADMIN, clearance: str = "RESTRICTED~", *, per_minute: int = 100_000
    ) -> str:
        """Make a token, as `lockgate token create` does; return its text."""
        request = TokenRequest(name, scope, parse(clearance), 0, per_minute)
        return (await self.app.token_keeper.create(request, MAKER)).text

    @asynccontextmanager
    async def client(self, token: str = "", **headers: str) -> AsyncGenerator[httpx2.AsyncClient]:
        """Connect as a program that shows a token, none if it is empty."""
        shown = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(
            base_url=self.url, headers={**shown, **headers}, verify=trust(), timeout=90
        ) as client:
            yield client


@asynccontextmanager
async def served(
    folder: Path, config: str = "", *, parts: Extensions | None = None, works: bool = True
) -> AsyncGenerator[ApiHost]:
    """Serve the API of an application in a folder; with `works` its worker runs, too."""
    async with running(folder, config or api_config(), parts=parts, serve=works) as person:
        if not works:
            await person.app.reloader.start(_untold)
        began = asyncio.get_running_loop().create_future()
        answering = asyncio.create_task(programs.answer(person.app, began.set_result))
        try:
            await asyncio.wait({began, answering}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            yield ApiHost(person, await began)
        finally:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering


async def _untold(_line: str) -> None:
    """Tell nobody."""
