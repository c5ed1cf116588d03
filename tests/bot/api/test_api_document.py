"""The document of the API: it is valid, it is printed, and every answer over real HTTP is one that it documents."""

import json
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from typer.testing import CliRunner

from bot.app.programs import document
from bot.cli.main import app
from bot.sessions.api_tokens import Scope
from tests.bot.api.explored import explore
from tests.bot.api.kit import served

QUICKLY = ("--phases", "fuzzing,stateful")

pytestmark = pytest.mark.anyio


def test_the_document_is_openapi_3_1_and_printed() -> None:
    printed = CliRunner().invoke(app, ["openapi"])
    told = json.loads(printed.stdout)
    assert (printed.exit_code, told) == (0, document())
    assert told["openapi"].startswith("3.1")
    assert not list(OpenAPIV31SpecValidator(told).iter_errors())


def test_every_route_documents_its_refusals_and_what_it_does() -> None:
    told = json.loads(json.dumps(document()))
    for path, methods in told["paths"].items():
        assert path.startswith("/v1/")
        for route in methods.values():
            assert {"401", "403", "404", "405", "413", "422", "429", "500", "503"} <= set(route["responses"])
            assert route["description"].strip()
            assert "HTTPValidationError" not in json.dumps(route)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scope", [None, Scope.ADMIN])
async def test_every_answer_is_documented(tmp_path: Path, scope: Scope | None) -> None:
    """A few answers of each route; `poe fuzz-api` looks at many, and with tokens of every scope."""
    async with served(tmp_path) as host:
        token = "" if scope is None else await host.token("explorer", scope)
        found = await explore(host, tmp_path, token, "--max-examples", "3", "--generation-deterministic", *QUICKLY)
    assert found.code == 0, found.told
