"""The application: every area of the API mounted, its errors in one shape, and its document.

An area is a module with an `APIRouter`; it stands in `ROUTERS`, and nowhere else. Routes are made once in a process:
a request finds the services of the application that it came to in its scope.
"""

import re
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from bot.api import (
    audit_routes,
    copy_routes,
    event_routes,
    oversight_routes,
    session_routes,
    webhook_routes,
    whoami_routes,
)
from bot.api.copy_routes import EXPORTS, ExportQueue
from bot.api.entrance.caller_patience import PATIENCE, CallerPatience
from bot.api.entrance.entrance import Asgi, Entrance, Receive, Scope, Send
from bot.api.errors import INTERNAL, INVALID, METHOD, NOT_FOUND, ErrorAnswer, answer_to, invalid
from bot.api.event_routes import STREAMS
from bot.api.knowledge import routes as memory_routes
from bot.api.lineage import routes as lineage_routes
from bot.api.mcp_server.mount import METHODS, McpMount
from bot.api.mcp_server.mount import PATH as MCP
from bot.api.openapi_document import described
from bot.api.requests import SERVICES, asked, fields_at, known_query, listed
from bot.api.runs import routes as run_routes
from bot.api.services import ApiServices
from bot.api.shapes import ErrorDocument
from bot.api.streams import EventStreams
from bot.api.workflows import routes as workflow_routes
from bot.core.errors import LockgateError
from bot.operations.told_events import EventTeller

if TYPE_CHECKING:
    from pydantic import JsonValue

ROUTERS: Final[tuple[APIRouter, ...]] = (
    whoami_routes.ROUTER,
    session_routes.ROUTER,
    event_routes.ROUTER,
    run_routes.RUNS,
    run_routes.SCHEDULES,
    memory_routes.ROUTER,
    workflow_routes.ROUTER,
    oversight_routes.QUESTIONS,
    oversight_routes.APPROVALS,
    oversight_routes.GRANTS,
    oversight_routes.SIMULATIONS,
    copy_routes.ROUTER,
    audit_routes.ROUTER,
    lineage_routes.ROUTER,
    webhook_routes.ROUTER,
)
"""The routes of every area of the API, in the order of its document."""

VERSION: Final = "1"
PREFIX: Final = "/v1"

_REFUSALS: Final = (400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 500, 503)
_METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")
_MOST_NAMED: Final = 5
_UNKNOWN: Final = "extra_forbidden"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


_MOUNT: Final = "lockgate.mcp"
"""The key of an ASGI scope at which the application puts its mount of MCP."""


def make_api(
    services: ApiServices,
    mcp: McpMount,
    patience: CallerPatience = PATIENCE,
    framework: FastAPI | None = None,
) -> Asgi:
    """Return the API as an ASGI application: the entrance, and behind it the framework, beside its routes those of MCP.

    The caller has `mcp` serve, beside this. `framework` is that of other routes, None for those of every area.
    """
    behind = cast("Asgi", framework or shipped())
    teller = EventTeller(services.reading, services.gate, services.tokens, services.clock)
    own = {
        SERVICES: services,
        STREAMS: EventStreams(services, teller),
        EXPORTS: ExportQueue(),
        _MOUNT: mcp,
    }

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        scope.update(own)
        await behind(scope, receive, send)

    return Entrance(inside, services, patience)


def document() -> "dict[str, JsonValue]":
    """Return the API's document, OpenAPI 3.1."""
    return described(deepcopy(shipped().openapi()), ROUTERS, PREFIX)


@cache
def shipped() -> FastAPI:
    """Return the framework with the routes of every area: one for a process, as making it is slow."""
    return framework_of(ROUTERS)


def framework_of(routers: Sequence[APIRouter]) -> FastAPI:
    """Return a framework that answers requests by these routes, for any application of a process."""
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
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorDocument, "description": HTTPStatus(status).phrase} for status in _REFUSALS
    }
    for router in routers:
        api.include_router(router, prefix=PREFIX, responses=refusals, dependencies=[Depends(known_query)])
    api.router.routes.append(Route(MCP, _Mounted(), methods=[*METHODS]))
    return api


class _Mounted:
    """Passes a request for MCP to the mount of the application that it came to."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await scope[_MOUNT](scope, receive, send)


def _told(request: Request, answer: ErrorAnswer) -> Response:
    return Response(answer.body(asked(request).request_id), int(answer.status), {**answer.headers})


async def _refused(request: Request, error: Exception) -> Response:
    answer = answer_to(error)
    if answer is INTERNAL:
        raise error
    return _told(request, answer)


async def _invalid(request: Request, error: Exception) -> Response:
    """Answer a request of another form than is documented: its fields are named, and nothing is told of a value."""
    found = cast("RequestValidationError", error).errors()
    if not _is_json(request) and any(one["type"] == "model_attributes_type" for one in found):
        return _told(request, invalid("Send `Content-Type: application/json`."))
    wrong = "; ".join(dict.fromkeys(_wrong(request, one) for one in found[:_MOST_NAMED]))
    return _told(request, invalid(f"{wrong[0].upper()}{wrong[1:]}."))


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _wrong(request: Request, error: "dict[str, Any]") -> str:
    """Return the fault of a field: its place, and the expected value."""
    place, kind = _place(error["loc"]), error["type"]
    if kind == "json_invalid":
        return f"the body is not JSON, see its character {error['loc'][-1]}"
    if kind == "missing":
        return f"`{place}` is missing"
    if kind == "extra_forbidden":
        around = error["loc"][:-1]
        known = listed(fields_at(request, around), "fields")
        # A field that is unknown is not named: it may be a value that was put in the wrong place.
        return f"`{_place(around)}` takes {known}, and no other field"
    if kind == "model_attributes_type":
        return f"`{place}` should be a JSON object"
    if kind == "string_pattern_mismatch":
        return f"`{place}` does not have the form that is documented"
    # The framework's own sentence: it tells the expected value and never the given one.
    expected = error["msg"].removeprefix("Value error, ")
    return f"`{place}` is not as documented: {expected[:1].lower()}{expected[1:]}"


def _place(parts: "Sequence[int | str]") -> str:
    """Return where an error is; a name that cannot be a field's is not told."""
    return ".".join(str(part) if isinstance(part, int) or _NAME.fullmatch(part) else "…" for part in parts)


async def _unrouted(request: Request, error: Exception) -> Response:
    """Answer the framework's own refusals: an unknown path, or a method that a path does not have."""
    status = cast("HTTPException", error).status_code
    if status != HTTPStatus.METHOD_NOT_ALLOWED:
        return _told(request, NOT_FOUND if status == HTTPStatus.NOT_FOUND else INVALID)
    response = _told(request, METHOD)
    response.headers["allow"] = ", ".join(filter(lambda method: _takes(request, method), _METHODS))
    return response


def _takes(request: Request, method: str) -> bool:
    """Say whether a request would be routed with another method: the framework names those of one route alone."""
    asked_so = {**request.scope, "method": method}
    return any(route.matches(asked_so)[0] is Match.FULL for route in request.app.routes)


async def _broken(request: Request, _error: Exception) -> Response:
    """Answer any other error; the entrance logs it."""
    return _told(request, INTERNAL)
