"""Binding every address that `lockgate run` listens at, and asking public addresses whether they lead here.

Where a port is free the probe listens there for a moment with an answer that nobody can guess, and asks the public
address for it. Where a process of this installation listens already, its refusal of an unsigned request is the proof.
"""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from bot.config.model import Config
from bot.core.faults import unreached
from bot.core.ids import Ids
from bot.operations.diagnostics import Diagnosis
from channels.http import listening, named_proxy

PATIENCE: Final = 8.0
"""Seconds that a public address may take to answer."""

NOT_HERE: Final = "it leads to another server"
ELSEWHERE: Final = "its answer is that of another server or of a proxy that does not reach this machine"
_OURS: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED})
"""The answers of our listeners to a request that proves nothing."""


@dataclass(frozen=True, slots=True)
class ListeningPlace:
    """An address of this machine: the `field` that names it, and its public address, empty where it has none."""

    field: str
    host: str
    port: int
    url: str = ""


def places(config: Config) -> Iterator[ListeningPlace]:
    """Yield every address that the processes of a configuration listen at."""
    channels = config.channels
    if channels.api is not None:
        yield ListeningPlace("channels.api", channels.api.host, channels.api.port)
    if channels.telegram is not None and (hook := channels.telegram.webhook) is not None:
        yield ListeningPlace("channels.telegram.webhook", hook.host, hook.port, hook.url)
    if channels.slack is not None and (http := channels.slack.http) is not None:
        yield ListeningPlace("channels.slack.http", http.host, http.port, http.url or "")
    if channels.slack is not None and (install := channels.slack.install) is not None:
        yield ListeningPlace("channels.slack.install", install.host, install.port, install.url)


async def ports(config: Config, served: Callable[[], bool], ids: Ids, patience: float = PATIENCE) -> list[Diagnosis]:
    """Try every address, side by side; `served` tells whether processes of this installation run, and reads files.

    `ids` makes the answers that nobody can guess.
    """
    running = await asyncio.to_thread(served)
    async with asyncio.TaskGroup() as together:
        tasks = [
            together.create_task(_tried(place, patience, running=running, token=ids.owner()))
            for place in places(config)
        ]
    return [diagnosis for task in tasks for diagnosis in task.result()]


async def _tried(place: ListeningPlace, patience: float, *, running: bool, token: str) -> list[Diagnosis]:
    subject, address = f"port {place.port} of {place.host}", f"`{place.field}`"
    try:
        async with _answering(place, token):
            found = [Diagnosis(subject, note=f"free for {address}")]
            return [*found, *await _public(place, token, patience)]
    except OSError as error:
        # The library words errors of binding anew, so that their number alone tells.
        number, why = error.errno or 0, os.strerror(error.errno or 0).lower()
        if isinstance(error, socket.gaierror):
            why = "its name cannot be resolved"
        if number == errno.EADDRINUSE and running:
            found = [Diagnosis(subject, note=f"taken, maybe by `lockgate run` of this data directory for {address}")]
            return [*found, *await _public(place, "", patience)]
    if number == errno.EADDRINUSE:
        step = f"end the program there, which `ss -ltnp sport = :{place.port}` names, or change {address}"
        return [Diagnosis(subject, "another program listens there", step)]
    if number == errno.EACCES:
        step = f"give {address} a port above 1023, and let a proxy listen at the lower one"
        return [Diagnosis(subject, "this user may not listen there", step)]
    return [Diagnosis(subject, f"nothing can listen there, {why}", f"mend `host` and `port` of {address}")]


@asynccontextmanager
async def _answering(place: ListeningPlace, token: str) -> AsyncGenerator[None]:
    """Listen at an address while the block runs. Telegram and Slack send refused requests again.

    Raises OSError: nobody can listen there.
    """

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=token)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with listening(app, place.host, place.port, 0.5):
        yield


async def _public(place: ListeningPlace, token: str, patience: float) -> list[Diagnosis]:
    """Ask a public address; `token` is the answer of this process there, empty where another one listens."""
    if not place.url:
        return []
    told = urlsplit(place.url)
    subject, field = f"public address at {told.hostname}", f"`{place.field}.url`"
    problem = await _asked(place.url, token, patience)
    if problem is None:
        return [Diagnosis(subject, note="it leads to this machine")]
    problem, step = problem
    return [
        Diagnosis(
            subject, problem, step or f"let its proxy pass requests to {place.host}:{place.port}, or mend {field}"
        )
    ]


async def _asked(url: str, token: str, patience: float) -> tuple[str, str] | None:
    """Return why an address does not lead here and how to mend that, None if it does."""
    limits = aiohttp.ClientTimeout(total=patience)
    try:
        async with (
            aiohttp.ClientSession(timeout=limits, proxy=named_proxy(url)) as session,
            session.post(url, data=b"{}", allow_redirects=False) as answer,
        ):
            text = (await answer.content.read(1000)).decode("utf-8", "replace")
            status = answer.status
    except TimeoutError:
        return f"no answer in {patience:g} seconds", "open it in the firewall, or start the proxy in front"
    except (aiohttp.ClientError, OSError) as error:
        fault = unreached(error)
        return fault.cause, fault.step
    if token:
        return None if text == token else (f"{NOT_HERE} (status {status})", "")
    return None if status in _OURS else (f"{ELSEWHERE} (status {status})", "")
