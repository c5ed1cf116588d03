"""Being told of updates by Telegram itself, at an address of this machine.

Telegram is answered 200 when an update is kept, and not before: any other answer makes it tell it again. Whoever knows
the address but not the secret is told nothing, and what is too long is not read. Until the bot knows its own name an
update cannot be understood, so it is to be told again.
"""

import asyncio
import hmac
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiohttp import web

from channels.listening import listening

if TYPE_CHECKING:
    from channels.telegram import wire
    from channels.telegram.poll import Take

LONGEST: Final = 1_000_000
"""The longest update that is read, in bytes; real ones have a few thousand."""

_LOGGER: Final = logging.getLogger(__name__)
_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{16,256}")


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where Telegram reaches us: `url` as it is on the internet, `host` and `port` to listen at on this machine.

    `secret` is what Telegram proves itself by: 16 to 256 letters, digits, `_` or `-`.

    Raises ValueError: the secret is none.
    """

    url: str
    secret: str = field(repr=False)
    host: str
    port: int

    def __post_init__(self) -> None:
        if not _SECRET.fullmatch(self.secret):
            raise ValueError("the webhook's secret has 16 to 256 letters, digits, `_` or `-`")


class Endpoint:
    """Listens for a webhook. `longest` is how long, in seconds, reading an update may take.

    `ready` tells whether updates can be taken in by now.
    """

    def __init__(self, webhook: Webhook, longest: float, ready: Callable[[], bool]) -> None:
        self._webhook = webhook
        self._longest = longest
        self._ready = ready

    @asynccontextmanager
    async def open(self, take: "Take") -> AsyncGenerator[None]:
        """Hand on every update while the block runs; one that `take` fails with is told again.

        Raises OSError: the address cannot be listened at.
        """

        async def post(request: web.Request) -> web.Response:
            return web.Response(status=await self._status(request, take))

        app = web.Application(client_max_size=LONGEST)
        app.router.add_post(urlsplit(self._webhook.url).path or "/", post)
        async with listening(app, self._webhook.host, self._webhook.port, self._longest):
            yield

    async def _status(self, request: web.Request, take: "Take") -> HTTPStatus:
        given = request.headers.get(_HEADER, "").encode("utf-8", "surrogateescape")
        genuine = hmac.compare_digest(given, self._webhook.secret.encode())
        if not genuine or not self._ready():
            return HTTPStatus.SERVICE_UNAVAILABLE if genuine else HTTPStatus.FORBIDDEN
        try:
            async with asyncio.timeout(self._longest):
                update: wire.Json | None = json.loads(await request.read())
        except web.HTTPRequestEntityTooLarge:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        except (ValueError, TimeoutError, RecursionError):
            return HTTPStatus.BAD_REQUEST
        if not isinstance(update, dict) or not isinstance(update.get("update_id"), int):
            return HTTPStatus.BAD_REQUEST
        try:
            await take(update)
        except Exception:
            # The application has errors of its own; Telegram tells the update again.
            facts = {"subject": "channel telegram", "address": f"{self._webhook.host}:{self._webhook.port}"}
            _LOGGER.warning("an update could not be kept, it is told again", extra=facts, exc_info=True)
            return HTTPStatus.SERVICE_UNAVAILABLE
        return HTTPStatus.OK
