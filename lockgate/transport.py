"""One request to the API: its token, its repetition, and its answer as a value or as an error.

A request is repeated only where that changes nothing: if it only reads, carries an idempotency key, never reached the
API, or was refused for now. The token goes to the address that it was given for and to no other: redirects are not
followed.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from lockgate.errors import ApiError, LockgateClientError, UnexpectedAnswerError, UnreachableError
from lockgate.retries import Retry, for_now, never_reached

Query = Mapping[str, str | int | None]
"""Parameters of an address; one that is None is left out."""

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

_CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0
_SILENCE_SECONDS: Final = 60.0
_JSON: Final = "application/json"
_LINES: Final = "application/jsonl"
_STREAM: Final = "text/event-stream"
_BETWEEN: Final = frozenset({502, 503, 504})
"""The status codes by which a proxy reports an API that it cannot reach."""


class Told(BaseModel):
    """A frozen value of an answer; unknown fields of a newer API are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Problem(Told):
    code: str
    message: str
    next_step: str = ""


class _Refusal(Told):
    error: _Problem
    request_id: str = ""


AnyTold = TypeVar("AnyTold", bound=Told)


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request.

    Args:
        method: of HTTP.
        path: below the version, beginning with a slash.
        query: the parameters of the address.
        body: JSON, or a file of lines as it is; None for no body.
        headers: beside those of every request.
        repeatable: it may be sent again although it may have been done.
        seconds: how long its answer may take.
    """

    method: str
    path: str
    query: Query | None = None
    body: JsonValue | bytes = None
    headers: Mapping[str, str] | None = None
    repeatable: bool = False
    seconds: float = READ_SECONDS


class Transport:
    """Sends requests, and sends them again.

    Args:
        patience: for how many seconds a request, or a stream that broke off, is tried again.
    """

    def __init__(self, patience: float) -> None:
        self._opened: httpx2.AsyncClient | None = None
        self._patience = patience

    def opened(self, http: httpx2.AsyncClient) -> None:
        """Send requests by this from now on: it knows the address and the token."""
        self._opened = http

    async def close(self) -> None:
        """Send no more requests."""
        http, self._opened = self._http, None
        await http.aclose()

    @property
    def _http(self) -> httpx2.AsyncClient:
        if self._opened is None:
            raise RuntimeError("the client is not open, use it within `async with Client(…) as client`")
        return self._opened

    def retry(self) -> Retry:
        """Return a new counter of a request's tries."""
        return Retry(self._patience)

    async def value(self, ask: ClientRequest, shape: type[AnyTold]) -> AnyTold:
        """Return the API's answer.

        Raises:
            ApiError: it refuses.
            UnreachableError: it does not answer.
            UnexpectedAnswerError: it answers something else.
        """
        return read(shape, await self.content(ask))

    async def content(self, ask: ClientRequest) -> bytes:
        """Return the answer as it is; raises as `value` does."""
        retry = self.retry()
        while True:
            try:
                response = await self._send(ask)
            except httpx2.RequestError as error:
                problem = unanswered(error)
                repeatable = ask.repeatable or never_reached(error)
                await retry.after(problem, again=for_now(problem, repeatable=repeatable))
                continue
            problem = problem_of(response)
            if problem is None:
                return response.content
            await retry.after(problem, again=for_now(problem, repeatable=ask.repeatable))

    async def _send(self, ask: ClientRequest) -> httpx2.Response:
        typed: dict[str, str] = {}
        content: bytes | None = None
        if isinstance(ask.body, bytes):
            typed, content = {"Content-Type": _LINES}, ask.body
        elif ask.body is not None:
            typed, content = {"Content-Type": _JSON}, json.dumps(ask.body, allow_nan=False).encode()
        return await self._http.request(
            ask.method,
            ask.path,
            params=_given(ask.query),
            headers={**(ask.headers or {}), **typed},
            content=content,
            timeout=httpx2.Timeout(ask.seconds, connect=_CONNECT_SECONDS),
        )

    @asynccontextmanager
    async def listening(self, path: str, query: Query) -> AsyncGenerator[httpx2.EventSource]:
        """Open a stream, which is never silent for a minute.

        Raises:
            ApiError: it is refused.
            UnexpectedAnswerError: the answer is not a stream. httpx2.RequestError: there is no connection, or it broke
                off.
        """
        timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        async with self._http.sse(path, params=_given(query), timeout=timeout, max_event_size=None) as source:
            if not source.response.is_success:
                await source.response.aread()
            problem = problem_of(source.response)
            if problem is not None:
                raise problem
            if not source.response.headers.get("Content-Type", "").startswith(_STREAM):
                raise UnexpectedAnswerError("the answer is no stream of events")
            yield source


def read(shape: type[AnyTold], content: str | bytes) -> AnyTold:
    """Read a value.

    Raises UnexpectedAnswerError: it is not of this shape.
    """
    try:
        return shape.model_validate_json(content)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, each["loc"])) or "all of it" for each in error.errors())
        raise UnexpectedAnswerError(f"the API answered no {shape.__name__}: {fields}") from None


def unanswered(error: httpx2.RequestError) -> LockgateClientError:
    """Return the error for a request without an answer, or with one that cannot be decoded."""
    if isinstance(error, httpx2.DecodingError):
        return UnexpectedAnswerError("the answer is not encoded as its headers say")
    asked = error.request.url
    place = f"{asked.scheme}://{asked.netloc.decode('ascii')}"
    return UnreachableError(f"the API at {place} does not answer: {str(error) or type(error).__name__}")


def problem_of(response: httpx2.Response) -> LockgateClientError | None:
    """Return the error in an answer, None if it is not an error."""
    if response.is_success:
        return None
    try:
        refusal = _Refusal.model_validate_json(response.content)
    except ValidationError:
        between = response.status_code in _BETWEEN
        kind = UnreachableError if between else UnexpectedAnswerError
        return kind(f"the answer is not of the API, its status is {response.status_code}")
    told = refusal.error
    after = response.headers.get("Retry-After", "")
    return ApiError(
        response.status_code,
        told.code,
        told.message,
        next_step=told.next_step,
        request_id=refusal.request_id,
        retry_after=float(after) if after.isascii() and after.isdigit() else 0.0,
    )


def _given(query: Query | None) -> dict[str, str | int]:
    return {name: value for name, value in (query or {}).items() if value is not None}
