"""What may not be known is absent, on every route of the application's own table (law `no_read_up`)."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

import pytest
from fastapi.routing import APIRoute, APIRouter
from starlette.routing import BaseRoute

from bot.api import application
from bot.sessions.api_tokens import Scope
from tests.attacks.api.cases import RouteCase, cases
from tests.attacks.api.targets import (
    ADMINISTERS,
    CONFIG,
    OTHER,
    READS,
    STEERS,
    Heard,
    Situation,
    Targets,
    heard,
)
from tests.bot.api.kit import MAKER, ApiHost, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

CASES: Final = cases()
NAMES: Final = MappingProxyType({Scope.READ: READS, Scope.STEER: STEERS, Scope.ADMIN: ADMINISTERS})
LOWER: Final = MappingProxyType({Scope.STEER: Scope.READ, Scope.ADMIN: Scope.STEER})


def test_every_route_has_a_case_and_every_case_a_route() -> None:
    table = {
        f"{method.upper()} {path}"
        for path, methods in cast("dict[str, dict[str, object]]", application.document()["paths"]).items()
        for method in methods
    }
    assert table == {case.route for case in CASES}
    # None is served that the document leaves out.
    every = [method for route in _routes(application.shipped().routes) for method in route.methods or ()]
    assert len(every) == len(table)


def _routes(routes: Iterable[BaseRoute]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif isinstance(included := getattr(route, "original_router", None), APIRouter):
            yield from _routes(included.routes)


@pytest.mark.parametrize("scope", Scope)
async def test_what_may_not_be_known_is_as_absent(scope: Scope, tmp_path: Path) -> None:
    """A program with the least scope of a route hears of what is hidden what it hears of what there never was."""
    wrong = dict[str, object]()
    async with served(tmp_path, CONFIG) as host:
        await host.token(OTHER, Scope.ADMIN)
        targets = Targets(host, NAMES[scope])
        async with host.client(await host.token(NAMES[scope], scope)) as client:
            for case in CASES:
                if case.scope is not scope or "{" not in case.path:
                    continue
                absent = await heard(client, case, await targets.path(case, Situation.ABSENT))
                own = await heard(client, case, await targets.path(case, Situation.LOW))
                if (absent.status, own.status) != (404, case.low):
                    wrong[case.name] = (absent, own)
                if case.archived is not None:
                    archived = await heard(client, case, await targets.path(case, Situation.ARCHIVED))
                    if archived.status != case.archived:
                        wrong[f"{case.name}: {Situation.ARCHIVED}"] = archived
                for situation in targets.hidden(case):
                    blind = case.blind and situation in {Situation.RISEN, Situation.RESTED}
                    found = await heard(client, case, await targets.path(case, situation))
                    if found != (own if blind else absent):
                        wrong[f"{case.name}: {situation}"] = found
    assert wrong == {}


async def test_a_scope_that_is_too_low_tells_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, CONFIG) as host:
        await host.token(OTHER, Scope.ADMIN)
        tokens = {scope: await host.token(NAMES[scope], scope) for scope in LOWER.values()}
        told = set[Heard]()
        for scope, token in tokens.items():
            targets = Targets(host, NAMES[scope])
            async with host.client(token) as client:
                for case in CASES:
                    if LOWER.get(case.scope) is scope:
                        for situation in (Situation.ABSENT, Situation.RISEN, Situation.ANOTHER):
                            told.add(await heard(client, case, await targets.path(case, situation)))
        assert [(one.status, b'"code":"forbidden"' in one.body) for one in told] == [(403, True)]


@pytest.mark.parametrize("half", [0, 1])
async def test_a_token_that_does_not_count_hears_one_answer(half: int, tmp_path: Path) -> None:
    """None, malformed, unknown, expired and revoked: the same bytes on every route, and on none.

    Half of the routes at a time, as strangers are answered so many times a minute.
    """
    broken = RouteCase(route="POST /v1/sessions", scope=Scope.STEER, low=201, content="{")
    nowhere = RouteCase(route="PUT /v1/nowhere", scope=Scope.READ, low=404)
    async with served(tmp_path, CONFIG) as host:
        tokens, targets = await _useless(host), Targets(host, STEERS)
        await host.token(STEERS, Scope.ADMIN)
        await host.token(OTHER, Scope.ADMIN)
        paths = [(case, await targets.path(case, Situation.RISEN)) for case in CASES[half::2]]
        paths += [(one, one.path) for one in (broken, nowhere)]
        told = set[Heard]()
        for number, (case, path) in enumerate(paths):
            async with host.client(tokens[number % len(tokens)]) as client:
                told.add(await heard(client, case, path))
        assert [one.status for one in told] == [401]
        assert len(paths) > len(tokens)


async def _useless(host: ApiHost) -> list[str]:
    good, revoked = await host.token("good", Scope.ADMIN), await host.token("revoked", Scope.ADMIN)
    await host.app.token_keeper.revoke("revoked", MAKER.principal)
    expired = (await host.app.token_keeper.rotate("good", 1, MAKER.principal)).text
    await asyncio.sleep(0.05)
    known, _, secret = expired.rpartition("_")
    return ["", "x", good, revoked, expired, f"{known}_{secret[::-1]}", f"{known}_", "lg__"]
