"""The application: every area of the API mounted, its errors in one shape, and its document.

An area is a module with `router(services)`; it stands in `AREAS`, and nowhere else.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from bot.api import event_routes, oversight_routes, session_routes, webhook_routes, whoami_routes
from bot.api.entrance import Asgi, Entrance
from bot.api.errors import INTERNAL, INVALID, METHOD, NOT_FOUND, ErrorAnswer, answer_to
from bot.api.requests import asked, known_query
from bot.api.services import ApiServices
from bot.api.shapes import ErrorDocument
from bot.core.errors import LockgateError

if TYPE_CHECKING:
    from pydantic import JsonValue

AREAS: Final[tuple[Callable[[ApiServices], APIRouter], ...]] = (
    whoami_routes.router,
    session_routes.router,
    event_routes.router,
    oversight_routes.router,
    webhook_routes.router,
)
"""Every area of the API, in the order of its document."""

VERSION: Final = "1"
PREFIX: Final = "/v1"

_REFUSALS: Final = (400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 500, 503)


def make_api(services: "ApiServices") -> Asgi:
    """Return the API as an ASGI application: the entrance, and behind it the framework."""
    return Entrance(cast("Asgi", _framework(services)), services)


def document() -> "dict[str, JsonValue]":
    """Return the API's document, OpenAPI 3.1."""
    return cast("dict[str, JsonValue]", _framework(cast("ApiServices", _Described())).openapi())


class _Described:
    """Stands in for the services of routes that are described and not called."""

    def __getattr__(self, name: str) -> "_Described":
        """Return a part of it."""
        return self


def refusals() -> "dict[int | str, dict[str, Any]]":
    """Return how each route documents its refusals."""
    return {status: {"model": ErrorDocument, "description": HTTPStatus(status).phrase} for status in _REFUSALS}


def _framework(services: "ApiServices") -> FastAPI:
    api = FastAPI(
        title="Lockgate",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            LockgateError: _refused,
            RequestValidationError: _invalid,
            HTTPException: _unrouted,
            Exception: _broken,
        },
    )
    for area in AREAS:
        api.include_router(area(services), prefix=PREFIX, responses=refusals(), dependencies=[Depends(known_query)])
    return api


def _told(request: Request, answer: ErrorAnswer) -> Response:
    return Response(answer.body(asked(request).request_id), int(answer.status), {**answer.headers})


async def _refused(request: Request, error: Exception) -> Response:
    answer = answer_to(error)
    if answer is INTERNAL:
        raise error
    return _told(request, answer)


async def _invalid(request: Request, _error: Exception) -> Response:
    return _told(request, INVALID)


async def _unrouted(request: Request, error: Exception) -> Response:
    """Answer what the framework itself refuses."""
    status = cast("HTTPException", error).status_code
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        response = _told(request, METHOD)
        response.headers.update(cast("HTTPException", error).headers or {})
        return response
    return _told(request, NOT_FOUND if status == HTTPStatus.NOT_FOUND else INVALID)


async def _broken(request: Request, _error: Exception) -> Response:
    """Answer what nothing else answers; the entrance logs it."""
    return _told(request, INTERNAL)
