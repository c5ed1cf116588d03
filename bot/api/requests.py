"""The caller: the facts that a handler gets of a request that came in, and those that the entrance puts there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, cast

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bot.access.tokens import ApiCaller
from bot.api.errors import FORBIDDEN, ApiRefusedError, invalid
from bot.api.services import ApiServices
from bot.sessions.api_tokens import Scope
from policy.labels import Label

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant

ASKED: Final = "lockgate.asked"
"""The key of an ASGI scope at which the entrance puts who asks."""

SERVICES: Final = "lockgate.services"
"""The key of an ASGI scope at which the application puts the services of its routes."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request that came in: its caller, its id, and the caller's clearance."""

    caller: ApiCaller
    request_id: str
    reader: Label


def asked(request: Request) -> ApiRequest:
    """Return the request as the entrance found it."""
    return cast("ApiRequest", request.scope[ASKED])


@dataclass(frozen=True, slots=True)
class Needs:
    """Lets a request in whose token has a scope; a dependency of every route."""

    scope: Scope

    async def __call__(self, request: Request) -> ApiRequest:
        """Return who asks. Raises ApiRefusedError: the token's scope does not include this."""
        found = asked(request)
        if not found.caller.may(self.scope):
            raise ApiRefusedError(FORBIDDEN)
        return found


Reading = Annotated[ApiRequest, Depends(Needs(Scope.READ))]
"""The caller, with a token that may read."""

Steering = Annotated[ApiRequest, Depends(Needs(Scope.STEER))]
"""The caller, with a token that may steer."""

Administering = Annotated[ApiRequest, Depends(Needs(Scope.ADMIN))]
"""The caller, with a token that may administer."""


async def _services(request: Request) -> ApiServices:
    return cast("ApiServices", request.scope[SERVICES])


Services = Annotated[ApiServices, Depends(_services)]
"""The services of the application that answers: routes are made once, for every application of a process."""


async def known_query(request: Request) -> None:
    """Refuse parameters of the query that the route does not have, and those that are given twice.

    Raises ApiRefusedError: there is one.
    """
    given = [name for name, _ in request.query_params.multi_items()]
    if not given:
        return
    route = request.scope["route"]
    known = set(_parameters(route.dependant)) if isinstance(route, APIRoute) else set[str]()
    if not set(given) <= known:
        raise ApiRefusedError(invalid(f"This route takes {listed(known, 'parameters')}."))
    if len(set(given)) < len(given):
        raise ApiRefusedError(invalid("Send each parameter once."))


def fields_at(request: Request, place: Sequence[int | str]) -> set[str]:
    """Return the names of the fields that a route's body has at a place, which begins with `body`."""
    route = request.scope["route"]
    field = route.body_field if isinstance(route, APIRoute) else None
    model: object = None if field is None else field.field_info.annotation
    for part in place[1:]:
        fields = _fields(model)
        model = fields[part].annotation if isinstance(part, str) and part in fields else None
    return {one.alias or name for name, one in _fields(model).items()}


def _fields(model: object) -> Mapping[str, FieldInfo]:
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}


def listed(names: Iterable[str], what: str) -> str:
    """Return names of the document for people."""
    return ", ".join(f"`{name}`" for name in sorted(names)) or f"no {what}"


def _parameters(dependant: "Dependant") -> Iterator[str]:
    """Yield the names of the query parameters of a route and of its dependencies."""
    for field in dependant.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (one.alias or name for name, one in _fields(kind).items())
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from _parameters(inner)
