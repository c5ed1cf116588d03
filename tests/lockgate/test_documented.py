"""Every route of the API is told on its page with its scope, and has a call in the client that its page tells."""

import re
import sys
from functools import cache
from typing import cast

import pytest
from fastapi.routing import APIRoute

from bot.api.application import PREFIX, ROUTERS, document
from bot.api.errors import ErrorAnswer
from bot.api.requests import Needs
from bot.sessions.log.events import EventType
from bot.sessions.webhooks import UNAVAILABLE
from lockgate.client import Client
from tests.conventions.documents import text_of

CALL = re.compile(r"`client\.([\w.]+)\(")
ROW = re.compile(r"^\| `((?:GET|POST|DELETE) /v1/[^`]+)` \|(.*)$", re.MULTILINE)


@cache
def routes() -> frozenset[str]:
    """Return the routes of the API as pages write them."""
    paths = cast("dict[str, dict[str, object]]", document()["paths"])
    return frozenset(f"{method.upper()} {path}" for path, methods in paths.items() for method in methods)


def told(page: str) -> dict[str, str]:
    """Return the rows of a page about routes."""
    return {found[1]: found[2] for found in ROW.finditer(text_of(page))}


@pytest.mark.parametrize("page", ["docs/api.md", "docs/client.md"])
def test_every_route_is_told_and_none_that_is_not(page: str) -> None:
    assert set(told(page)) == routes()


def scopes() -> dict[str, str]:
    """Return the routes, each with the scope that it needs."""
    return {
        f"{method} {PREFIX}{route.path_format}": needed.scope.value
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
        for needed in (one.call for one in route.dependant.dependencies)
        if isinstance(needed, Needs)
    }


def test_every_route_is_told_with_its_scope() -> None:
    assert {route: row.split("|")[0].strip() for route, row in told("docs/api.md").items()} == scopes()


def test_every_call_that_is_told_is_there() -> None:
    client = Client("https://bot.example.org", "lg_a_b")
    for row in told("docs/client.md").values():
        for call in CALL.findall(row):
            part: object = client
            for name in call.split("."):
                part = getattr(part, name)
            assert callable(part)


def test_every_call_of_the_client_is_told() -> None:
    client = Client("https://bot.example.org", "lg_a_b")
    calls = {call for row in told("docs/client.md").values() for call in CALL.findall(row)}
    for place in ("sessions", "runs", "schedules", "memories", "workflows", "approvals", "grants", "audit", "webhooks"):
        part = getattr(client, place)
        for name in dir(part):
            known = f"{place}.{name}" in calls or f"`{name}`" in text_of("docs/client.md")
            assert name.startswith("_") or known, f"{place}.{name}"


def test_every_type_of_event_is_told() -> None:
    types = {*map(str, EventType), UNAVAILABLE}
    rows = set(re.findall(r"`([a-z]+\.[a-z]+)`", text_of("docs/api.md").partition("\n## Events\n")[2]))
    assert types <= rows


def test_every_code_of_a_refusal_is_told() -> None:
    assert document()
    modules = [module for name, module in sys.modules.items() if name.startswith("bot.api.")]
    answers = {one.code for module in modules for one in vars(module).values() if isinstance(one, ErrorAnswer)}
    assert answers - set(re.findall(r"`([a-z_]+)`", text_of("docs/api.md"))) == set()
