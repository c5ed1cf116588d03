"""Requests of Slack's, where it reaches this bot over the internet: listening, and knowing that they are Slack's.

A request proves itself by its signature over the bytes of its body and the time it was made, which is compared in
constant time; one that is older than five minutes counts no more. Nothing of it is read before. It is answered with 200
when it is kept, and otherwise Slack tells it again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from aiohttp import web
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier

from channels.base import Began, untold
from channels.listening import listening

PATH: Final = "/slack/events"
"""Where events, commands and presses on buttons are all told."""

LONGEST: Final = 1_000_000
"""Of a request's body, in bytes; a message with its blocks and attachments is far below."""

_OK: Final = 200
_JSON: Final = "application/json"

Answer = Callable[[str, Mapping[str, str]], Awaitable[BoltResponse]]
"""Keep what came in a body with its headers. Raises ValueError: the body is none of Slack's."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen on this machine, and the secret that Slack signs with.

    Raises ValueError: the secret is empty.
    """

    host: str
    port: int
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.secret.strip():
            raise ValueError("the signing secret is empty")


class Endpoint:
    """Listens. `longest` is how long, in seconds, reading a request may take."""

    def __init__(self, listening: Listening, longest: float) -> None:
        self._listening = listening
        self._longest = longest
        self._verifier = SignatureVerifier(listening.secret)

    async def run(self, answer: Answer, began: Began = untold) -> None:
        """Hand on every request until cancelled; `began` is told when they can come.

        Raises OSError: the address cannot be listened at.
        """

        async def post(request: web.Request) -> web.Response:
            return await self._response(request, answer)

        app = web.Application(client_max_size=LONGEST)
        app.router.add_post(PATH, post)
        async with listening(app, self._listening.host, self._listening.port, self._longest):
            began()
            await asyncio.Event().wait()

    async def _response(self, request: web.Request, answer: Answer) -> web.Response:
        stamp = request.headers.get("X-Slack-Request-Timestamp", "")
        signature = request.headers.get("X-Slack-Signature", "")
        if not (stamp.isascii() and stamp.isdecimal() and signature.isascii()):
            return web.Response(status=HTTPStatus.UNAUTHORIZED)
        try:
            async with asyncio.timeout(self._longest):
                raw = await request.read()
            if not self._verifier.is_valid(raw, stamp, signature):
                return web.Response(status=HTTPStatus.UNAUTHORIZED)
            kept = await answer(raw.decode(), request.headers)
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except (ValueError, TimeoutError):
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        if kept.status != _OK:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        kind = kept.headers.get("content-type", [_JSON if kept.body.startswith("{") else "text/plain"])[0]
        return web.Response(text=kept.body, content_type=kind.partition(";")[0])
