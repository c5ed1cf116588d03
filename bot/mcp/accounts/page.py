"""The server of the page where people come back: one address, constant answers, and no log of requests."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.mcp.accounts.connecting import NOT_KEPT, NOT_OURS, ReturnAnswer

Take = Callable[[Mapping[str, str]], Awaitable[ReturnAnswer]]
"""Take a person who comes back with these parameters, and return the page to show."""

_SECONDS: Final = 5.0
_LOGGER: Final = logging.getLogger(__name__)
_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    # The page has a code for one person, so no other page may show it as a part of itself.
    ("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
    # The library would name itself and its version.
    ("Server", "lockgate"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)


@asynccontextmanager
async def serving(path: str, host: str, port: int, take: Take) -> AsyncGenerator[int]:
    """Serve the page at a path while the block runs, and yield the port; for port 0 that is any free one.

    Raises OSError: the address cannot be listened at.
    """

    async def back(request: web.Request) -> web.Response:
        answer = await take(request.query)
        return page(answer.status, answer.text)

    def page(status: HTTPStatus, text: str) -> web.Response:
        return web.Response(status=status, text=f"{text}\n", headers=dict(_HEADERS))

    @web.middleware
    async def alike(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException:
            return page(HTTPStatus.FORBIDDEN, NOT_OURS)
        except Exception:  # noqa: BLE001 - any failure has one page
            # Its words may hold a token.
            _LOGGER.error("a person who came back could not be taken in")  # noqa: TRY400
            return page(HTTPStatus.SERVICE_UNAVAILABLE, NOT_KEPT)

    app = web.Application(client_max_size=1, middlewares=[alike])
    # A program that only looks at a link asks with HEAD, and must not use it up.
    app.router.add_get(path, back, allow_head=False)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
