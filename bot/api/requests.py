"""Who asks: what a handler gets of a request that came in, and what the entrance puts there."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, cast

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel

from bot.access.tokens import ApiCaller
from bot.api.errors import FORBIDDEN, INVALID, ApiRefusedError
from bot.sessions.api_tokens import Scope
from policy.labels import Label

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant

ASKED: Final = "lockgate.asked"
"""The key of an ASGI scope at which the entrance puts who asks."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request that came in: who asks, its id, and the most that they may read."""

    caller: ApiCaller
    request_id: str
    reader: Label


def asked(request: Request) -> ApiRequest:
    """Return who asks, as the entrance found it."""
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
"""Who asks, with a token that may read."""

Steering = Annotated[ApiRequest, Depends(Needs(Scope.STEER))]
"""Who asks, with a token that may steer."""

Administering = Annotated[ApiRequest, Depends(Needs(Scope.ADMIN))]
"""Who asks, with a token that may administer."""


async def known_query(request: Request) -> None:
    """Refuse parameters of the query that the route does not have, and those that are given twice.

    Raises ApiRefusedError: there is one.
    """
    given = [name for name, _ in request.query_params.multi_items()]
    if not given:
        return
    route = request.scope["route"]
    known = set(_parameters(route.dependant)) if isinstance(route, APIRoute) else set[str]()
    if not set(given) <= known or len(set(given)) < len(given):
        takes = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
        step = f"Parameters are given once, and this path takes {takes}. {INVALID.next_step}"
        raise ApiRefusedError(replace(INVALID, next_step=step))


def _parameters(dependant: "Dependant") -> Iterator[str]:
    """Yield the names of the parameters of the query that a route and what it depends on have."""
    for field in dependant.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (one.alias or name for name, one in kind.model_fields.items())
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from _parameters(inner)
