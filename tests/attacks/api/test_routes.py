"""What may not be known is absent, on every route of the application's own table (law `no_read_up`)."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from bot.api import application
from bot.api.services import ApiServices
from bot.sessions.api_tokens import Scope
from tests.attacks.api.cases import RouteCase, cases
from tests.attacks.api.targets import CONFIG, HIDDEN, OTHER, Heard, Situation, Targets, heard, program
from tests.bot.api.kit import MAKER, ApiHost, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

CASES: Final = cases()
NAMING: Final = tuple(case for case in CASES if "{" in case.path)
SCOPED: Final = tuple(case for case in CASES if case.scope is not Scope.READ)
LOWER: Final = {Scope.STEER: Scope.READ, Scope.ADMIN: Scope.STEER}


def test_every_route_has_a_case_and_every_case_a_route() -> None:
    framework = application._framework(_undefined())
    assert isinstance(framework, FastAPI)
    routes = [route for route in framework.routes if isinstance(route, APIRoute)]
    assert len(routes) == len(framework.routes), "a route that is none of ours"
    table = {f"{method} {route.path}" for route in routes for method in route.methods}
    assert table == {case.route for case in CASES}


@pytest.mark.parametrize("case", NAMING, ids=lambda case: case.name)
async def test_what_may_not_be_known_is_as_absent(case: RouteCase, tmp_path: Path) -> None:
    async with served(tmp_path, CONFIG) as host:
        token, targets = await program(host, Scope.ADMIN), Targets(host)
        await program(host, Scope.ADMIN, OTHER)
        async with host.client(token) as client:
            absent = await heard(client, case, await targets.path(case, Situation.ABSENT))
            own = await heard(client, case, await targets.path(case, Situation.LOW))
            archived = await heard(client, case, await targets.path(case, Situation.ARCHIVED))
            assert (absent.status, own.status, archived.status) == (404, case.low, case.archived)
            assert b'"code":"not_found"' in absent.body
            for situation in HIDDEN:
                blind = case.blind and situation in {Situation.RISEN, Situation.RESTED}
                found = await heard(client, case, await targets.path(case, situation))
                assert found == (own if blind else absent), situation


@pytest.mark.parametrize("case", SCOPED, ids=lambda case: case.name)
async def test_a_scope_that_is_too_low_tells_nothing(case: RouteCase, tmp_path: Path) -> None:
    async with served(tmp_path, CONFIG) as host:
        token, targets = await program(host, LOWER[case.scope]), Targets(host)
        await program(host, Scope.ADMIN, OTHER)
        told = set[Heard]()
        async with host.client(token) as client:
            for situation in (Situation.ABSENT, Situation.LOW, Situation.RISEN, Situation.ANOTHER):
                told.add(await heard(client, case, await targets.path(case, situation)))
        assert [(one.status, b'"code":"forbidden"' in one.body) for one in told] == [(403, True)]


async def test_a_token_that_does_not_count_hears_one_answer(tmp_path: Path) -> None:
    """Absent, malformed, unknown, expired and revoked: the same bytes on every route, and on none."""
    async with served(tmp_path, CONFIG) as host:
        tokens, targets = await _useless(host), Targets(host)
        paths = [(case, await targets.path(case, Situation.LOW)) for case in CASES]
        broken = RouteCase(route="POST /v1/sessions", scope=Scope.STEER, low=201, content="{")
        nowhere = RouteCase(route="GET /v1/nowhere", scope=Scope.READ, low=404)
        paths += [(one, one.path) for one in (broken, nowhere)]
        told = set[Heard]()
        for token in tokens:
            async with host.client(token) as client:
                for case, path in paths[:: len(tokens)] if token else paths:
                    told.add(await heard(client, case, path))
        assert [one.status for one in told] == [401]


async def _useless(host: ApiHost) -> list[str]:
    good, revoked = await program(host, Scope.ADMIN, "good"), await program(host, Scope.ADMIN, "revoked")
    await program(host, Scope.ADMIN)
    await host.app.token_keeper.revoke("revoked", MAKER.principal)
    expired = (await host.app.token_keeper.rotate("good", 1, MAKER.principal)).text
    await asyncio.sleep(0.05)
    known, _, secret = expired.rpartition("_")
    return ["", "x", good, revoked, expired, f"{known}_{secret[::-1]}", f"{known}_", "lg__"]


def _undefined() -> ApiServices:
    """Return what stands for the services of routes that are listed and not called."""
    return application._Described()  # pyright: ignore[reportReturnType]
