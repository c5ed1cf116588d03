"""The HTTP server for metrics and health: two addresses that read, for Prometheus and for probes.

It asks for no password, so its answers tell no more than the clearance of metrics allows. Where this machine alone may
ask, a request has to name this machine: a web page whose own name was made to lead here reads nothing. `/health` is one
constant word: the reason why a process is not ready may name parts of the configuration.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.config.fields import only_here
from bot.telemetry.metrics import CONTENT_TYPE, Metrics
from channels.http import listening

READY: Final = "ready\n"
NOT_READY: Final = "not ready\n"

_PATIENCE: Final = 1.0


@asynccontextmanager
async def serving(metrics: Metrics, host: str, port: int) -> AsyncGenerator[None]:
    """Answer at an address while the block runs; on loopback, only requests whose `Host` is this machine.

    Raises:
        OSError: nobody can listen there.
    """
    guarded = only_here(host)

    @web.middleware
    async def named(request: web.Request, handler: Handler) -> web.StreamResponse:
        if guarded and not only_here(_host(request)):
            raise web.HTTPMisdirectedRequest
        return await handler(request)

    async def told(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    async def health(_request: web.Request) -> web.Response:
        status = HTTPStatus.OK if metrics.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return web.Response(text=READY if metrics.ready else NOT_READY, status=status)

    application = web.Application(client_max_size=1, middlewares=[named])
    application.router.add_get("/metrics", told)
    application.router.add_get("/health", health)
    async with listening(application, host, port, _PATIENCE):
        yield


def _host(request: web.Request) -> str:
    """Return the name by which a request asks, without its port; empty if it is malformed."""
    try:
        return urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return ""
