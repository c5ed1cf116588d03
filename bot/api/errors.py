"""How requests are refused: one shape, a stable code for each kind, and the next step where there is one.

The sentence for an error is from this table, or the one of a `RequestError`, which is for its asker. An error of the
store or of this machine gets a constant sentence: its words are for operators. An absent, forbidden or another
principal's item has one sentence and one next step, which do not tell the cases apart (law `no_read_up`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bot.core.errors import (
    ArchivedError,
    BusyError,
    CursorError,
    DedupeConflictError,
    DeletedError,
    ForeignError,
    FullError,
    IllegalMoveError,
    LockgateError,
    NotFoundError,
    OperatorError,
    RequestError,
    StoreError,
    sentence,
)
from bot.sessions.installation.losses import LOG_TRUNCATED

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """A refusal: its status, stable code, sentence, next step, and after how many seconds to try again, if ever."""

    status: int
    code: str
    message: str
    next_step: str = ""
    retry_after: int = 0

    def document(self, request_id: str) -> "dict[str, JsonValue]":
        """Return the body that tells it."""
        told: dict[str, JsonValue] = {"code": self.code, "message": self.message}
        if self.next_step:
            told["next_step"] = self.next_step
        return {"error": told, "request_id": request_id}

    def body(self, request_id: str) -> bytes:
        """Return the body as it is sent."""
        return json.dumps(self.document(request_id), ensure_ascii=False, separators=(",", ":")).encode()

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers beside those that every answer has."""
        headers = {"content-type": "application/json"}
        if self.retry_after:
            headers["retry-after"] = str(self.retry_after)
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        return headers


class ApiRefusedError(LockgateError):
    """A request is refused with an answer of the API's own."""

    code = "api_refused"

    def __init__(self, answer: ErrorAnswer) -> None:
        super().__init__(answer.message, next_step=answer.next_step)
        self.answer = answer


UNAUTHORIZED: Final = ErrorAnswer(
    HTTPStatus.UNAUTHORIZED,
    "unauthorized",
    "This needs a token that is valid now.",
    "Send `Authorization: Bearer TOKEN` with a token that `lockgate token list` calls `live`.",
)
FORBIDDEN: Final = ErrorAnswer(
    HTTPStatus.FORBIDDEN,
    "forbidden",
    "The scope of this token does not include that.",
    "`GET /v1/whoami` tells its scope, and docs/api.md which one each route needs; use a token with a higher one.",
)
NOT_FOUND: Final = ErrorAnswer(
    HTTPStatus.NOT_FOUND,
    "not_found",
    "There is nothing of that name here.",
    "Check the path, which begins with `/v1/`, and that its ids are of this program's own.",
)
METHOD: Final = ErrorAnswer(
    HTTPStatus.METHOD_NOT_ALLOWED,
    "method_not_allowed",
    "This path does not have that method.",
    "Use a method that `Allow` names.",
)
TOO_SLOW: Final = ErrorAnswer(
    HTTPStatus.REQUEST_TIMEOUT,
    "too_slow",
    "The request did not arrive in time.",
    "Send the whole request at once.",
)
TOO_LARGE: Final = ErrorAnswer(
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "too_large",
    "The body of this request is too large.",
    "Send less at a time; the operator can raise `most_body_bytes` or `most_import_bytes` of `channels.api`.",
)
INVALID: Final = ErrorAnswer(
    HTTPStatus.UNPROCESSABLE_ENTITY,
    "invalid",
    "This request does not have the form that is documented.",
    "`lockgate openapi` prints the fields of each request.",
)
MALFORMED: Final = ErrorAnswer(
    HTTPStatus.BAD_REQUEST,
    "malformed",
    "This is not an HTTP request that can be read.",
    "Send HTTP/1.1 with headers that are each sent once.",
)
NO_CONNECTION: Final = ErrorAnswer(
    HTTPStatus.NOT_FOUND,
    "no_connection",
    "There is no such connection of MCP here.",
    "Begin another one with `initialize`.",
)
NO_ORIGIN: Final = ErrorAnswer(
    HTTPStatus.FORBIDDEN,
    "origin",
    "No web page may use MCP here.",
    "Connect from a program that is no web page: it sends no `Origin`.",
)
NO_MCP: Final = ErrorAnswer(
    HTTPStatus.NOT_IMPLEMENTED,
    "mcp_missing",
    "This installation does not serve MCP.",
    "The operator can install `lockgate[mcp]`.",
)
RATE_LIMITED: Final = ErrorAnswer(
    HTTPStatus.TOO_MANY_REQUESTS,
    "rate_limited",
    "Too many requests.",
    "Wait as many seconds as `Retry-After` tells.",
)
INTERNAL: Final = ErrorAnswer(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "internal",
    "Something went wrong here.",
    "Tell the operator the `request_id`, which is in their log.",
)
BUSY: Final = ErrorAnswer(HTTPStatus.TOO_MANY_REQUESTS, "busy", "Busy.", "Try again in a moment.", retry_after=1)
UNAVAILABLE: Final = ErrorAnswer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "unavailable",
    "This installation cannot answer now.",
    "Try again in a moment; the operator learns more from `lockgate doctor`.",
    retry_after=2,
)
NOT_SERVING: Final = ErrorAnswer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "not_serving",
    "This process takes nothing in, as another policy is in force.",
    "Try again in a moment; an admin can use `/policy reload`.",
    retry_after=5,
)


def log_truncated(after: int, last: int) -> ErrorAnswer:
    """Return the refusal of a request for the events behind one that the log does not have: its last is another."""
    return ErrorAnswer(
        HTTPStatus.CONFLICT,
        LOG_TRUNCATED,
        f"The log of this session ends at {last}, before {after}.",
        f"Ask for the events after {last}: the store lost later ones, or the number is not of this session.",
    )


_BY_KIND: Final[Mapping[type[LockgateError], ErrorAnswer]] = MappingProxyType(
    {
        NotFoundError: NOT_FOUND,
        ForeignError: NOT_FOUND,
        DeletedError: NOT_FOUND,
        ArchivedError: ErrorAnswer(HTTPStatus.CONFLICT, ArchivedError.code, ""),
        IllegalMoveError: ErrorAnswer(HTTPStatus.CONFLICT, IllegalMoveError.code, ""),
        DedupeConflictError: ErrorAnswer(HTTPStatus.CONFLICT, DedupeConflictError.code, ""),
        BusyError: BUSY,
        FullError: ErrorAnswer(HTTPStatus.CONFLICT, FullError.code, ""),
        CursorError: ErrorAnswer(HTTPStatus.BAD_REQUEST, CursorError.code, ""),
        RequestError: ErrorAnswer(HTTPStatus.BAD_REQUEST, RequestError.code, ""),
        StoreError: UNAVAILABLE,
        OperatorError: UNAVAILABLE,
    }
)
"""The answer to each kind of error; one without a sentence uses the error's own, and its code."""


def invalid(step: str) -> ErrorAnswer:
    """Return the refusal of a request of another form than is documented, with the sentence that says how it is."""
    return replace(INVALID, next_step=f"{step} {INVALID.next_step}")


def answer_to(error: BaseException) -> ErrorAnswer:
    """Return the answer to a request that an error ended; an error of an unknown kind is internal."""
    if isinstance(error, ApiRefusedError):
        return error.answer
    if not isinstance(error, LockgateError):
        return INTERNAL
    known = next((_BY_KIND[kind] for kind in type(error).mro() if kind in _BY_KIND), INTERNAL)
    if known.message:
        return known
    return replace(known, code=error.code, message=sentence(str(error)), next_step=sentence(error.next_step))
