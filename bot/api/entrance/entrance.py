"""The entrance: it stands before the framework, and admits a request or refuses it (ADR 0039).

In this order: the token, the rate of its program, the form of the headers, the size of the body and the time it takes.
The framework reads a body before it asks its dependencies, so it would tell callers without a token about their JSON.
Here they get one constant sentence for any request. The body is read here as a whole, so that nothing behind waits for
it. The answer to any error behind it is one sentence and the request's id, and the error is logged once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio

from bot.api.entrance.caller_patience import CallerPatience
from bot.api.entrance.request_rates import PROGRAMS, STRANGERS, RequestRates, network
from bot.api.errors import (
    BUSY,
    INTERNAL,
    MALFORMED,
    NOT_SERVING,
    RATE_LIMITED,
    TOO_LARGE,
    TOO_SLOW,
    UNAUTHORIZED,
    UNAVAILABLE,
    ApiRefusedError,
    ErrorAnswer,
    answer_to,
)
from bot.api.requests import ASKED, ApiRequest
from bot.core.logs import bound
from bot.sessions.api_tokens import Scope as Need

if TYPE_CHECKING:
    from bot.access.tokens import ApiCaller
    from bot.api.services import ApiServices

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An application in ASGI's sense."""

IMPORT: Final = "/v1/import"
"""The one path that takes large bodies."""

BROKE: Final = "a request could not be answered"

STRANGERS_PER_MINUTE: Final = 60
"""Requests without a valid token that are looked at in a minute, for each address."""

_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
"""The headers of every answer, for browsers and caches."""

_CLOSE: Final = ((b"connection", b"close"),)

_LAST_WORD: Final = 1.0
"""Seconds for the refusal of a request that is ended with its process."""

_BODIES: Final = 4
"""How many of the largest bodies a process holds at a time, all together."""

_ONCE: Final = frozenset(
    {
        *(b"authorization", b"content-length", b"content-type", b"host", b"idempotency-key", b"last-event-id"),
        *(b"mcp-protocol-version", b"mcp-session-id", b"origin"),
    }
)
"""Headers that two parties could read differently if they came twice."""

_LOGGER: Final = logging.getLogger(__name__)


class Entrance:
    """Lets requests in to an ASGI application."""

    def __init__(self, inside: Asgi, services: "ApiServices", patience: CallerPatience) -> None:
        self._inside = inside
        self._patience = patience.body
        self._services = services
        self._settings = services.settings
        self._programs, self._strangers = (
            RequestRates(services.rates.uses(name), services.clock) for name in (PROGRAMS, STRANGERS)
        )
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        request_id = f"req_{self._services.ids.op()}"
        with bound(request=request_id):
            await self._answer(scope, receive, _Sender(send, request_id, last=_ambiguous(scope["headers"])))

    async def _answer(self, scope: Scope, receive: Receive, send: "_Sender") -> None:
        try:
            caller = await self._known(scope)
            await self._paced(caller)
            _plain(scope["headers"])
            scope[ASKED] = ApiRequest(caller, send.request_id, self._services.tokens.reader(caller))
            body = bytearray()
            try:
                await self._read(receive, body, self._most(scope, caller))
                await self._inside(scope, _Replay(body, receive), send)
            finally:
                self._held -= len(body)
        except asyncio.CancelledError:
            # This process ends, and does not wait for it any longer.
            with anyio.move_on_after(_LAST_WORD):
                await send.refuse(UNAVAILABLE)
            raise
        except Exception as error:
            answer = answer_to(error)
            if answer is INTERNAL:
                # Where the framework answered already, this is logged and nothing else.
                _LOGGER.exception(BROKE, extra={"reference": send.request_id})
            await send.refuse(answer)

    async def _known(self, scope: Scope) -> "ApiCaller":
        """Return who asks. Raises ApiRefusedError: none that is known; StoreError."""
        tokens, reloader = self._services.tokens, self._services.reloader
        text, address = _token(scope["headers"]), _address(scope)
        waits = self._strangers.spent(address, STRANGERS_PER_MINUTE)
        if waits and (text is None or tokens.authenticate(text) is None):
            raise ApiRefusedError(replace(RATE_LIMITED, retry_after=waits))
        if text is not None:
            # Tokens are made, changed and revoked in other processes.
            serves = await reloader.current_now()
            caller = tokens.authenticate(text)
            if caller is None:
                # It may have been made under a newer session key a moment ago.
                await tokens.follow()
                caller = tokens.authenticate(text)
            if caller is not None:
                if not serves:
                    raise ApiRefusedError(NOT_SERVING)
                return caller
        await self._strangers.use(address, STRANGERS_PER_MINUTE)
        raise ApiRefusedError(UNAUTHORIZED)

    async def _paced(self, caller: "ApiCaller") -> None:
        most = caller.token.per_minute or self._settings.requests_per_minute
        if waits := await self._programs.use(caller.token.name, most):
            raise ApiRefusedError(replace(RATE_LIMITED, retry_after=waits))

    def _most(self, scope: Scope, caller: "ApiCaller") -> int:
        """Return how large a body may be. Raises ApiRefusedError: it is larger, as its headers say."""
        large = scope["method"] == "POST" and scope["path"] == IMPORT and caller.may(Need.ADMIN)
        most = self._settings.most_import_bytes if large else self._settings.most_body_bytes
        if _length(scope["headers"]) > most:
            raise ApiRefusedError(TOO_LARGE)
        return most

    async def _read(self, receive: Receive, body: bytearray, most: int) -> None:
        """Read the whole body. Raises ApiRefusedError: it is too large or takes too long, or all together are."""
        room = _BODIES * max(self._settings.most_import_bytes, self._settings.most_body_bytes)
        try:
            with anyio.fail_after(self._patience):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        # The caller is gone, and reads no answer.
                        raise ApiRefusedError(TOO_SLOW)
                    chunk = message.get("body", b"")
                    body += chunk
                    self._held += len(chunk)
                    if len(body) > most:
                        raise ApiRefusedError(TOO_LARGE)
                    if self._held > room:
                        raise ApiRefusedError(BUSY)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise ApiRefusedError(TOO_SLOW) from None


class _Sender:
    """Sends an answer with the headers that all have, and knows whether it began; `last` ends the connection."""

    def __init__(self, send: Send, request_id: str, *, last: bool) -> None:
        self.request_id = request_id
        self._send = send
        self._last = last
        self._began = False

    async def __call__(self, message: Message) -> None:
        """Send a message of an answer."""
        if message["type"] == "http.response.start":
            self._began = True
            headers = (*message.get("headers", ()), *_HEADERS, (b"x-request-id", self.request_id.encode()))
            headers = (*headers, *_CLOSE) if self._last else headers
            message = {**message, "headers": [*headers]}
        await self._send(message)

    async def refuse(self, answer: ErrorAnswer) -> None:
        """Send a refusal, unless an answer began: that one is cut short."""
        if self._began:
            return
        body = answer.body(self.request_id)
        headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        headers.append((b"content-length", str(len(body)).encode()))
        await self({"type": "http.response.start", "status": int(answer.status), "headers": headers})
        await self({"type": "http.response.body", "body": body})


class _Replay:
    """Gives a body that was read once more; after it the caller's going is waited for."""

    def __init__(self, body: bytearray, receive: Receive) -> None:
        self._body: bytearray | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        """Return the next message of the request."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": bytes(body), "more_body": False}


def _token(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the token that the headers show, None without one that can be read."""
    shown = [value for name, value in headers if name == b"authorization"]
    if len(shown) != 1:
        return None
    scheme, _, token = shown[0].partition(b" ")
    if scheme.lower() != b"bearer" or not token.isascii():
        return None
    return token.decode("ascii").strip() or None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return network(client[0]) if client else ""


def _plain(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise ApiRefusedError: a header that everybody must read alike came twice, or the length is told in two ways."""
    names = [name for name, _ in headers]
    if _ambiguous(headers) or any(names.count(name) > 1 for name in _ONCE):
        raise ApiRefusedError(MALFORMED)


def _ambiguous(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Say whether the length of a body is told in two ways: a proxy may think that it ends elsewhere.

    The bytes after it on the connection may then be a request that nobody sent (RFC 9112, 6.1).
    """
    return {b"transfer-encoding", b"content-length"} <= {name for name, _ in headers}


def _length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    told = [value for name, value in headers if name == b"content-length"]
    return int(told[0]) if told and told[0].isdigit() else 0
