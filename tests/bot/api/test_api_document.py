"""The document of the API: it is valid, it is printed, and every answer over real HTTP is one that it documents."""

import json
import re
from pathlib import Path
from unittest.mock import ANY

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from typer.testing import CliRunner

from bot.app.programs import document
from bot.cli.main import app
from bot.config.api import ApiSettings
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


def test_every_route_has_a_name_a_summary_and_its_scope() -> None:
    told = json.loads(json.dumps(document()))
    routes = [route for methods in told["paths"].values() for route in methods.values()]
    assert len({route["operationId"] for route in routes}) == len(routes)
    for route in routes:
        assert re.fullmatch(r"(get|post|delete)_[a-z_]+", route["operationId"])
        assert 10 < len(route["summary"]) < 130
        assert not route["summary"].endswith(".")
        ((scope,),) = [one["token"] for one in route["security"]]
        assert route["description"].endswith(f"Needs the scope `{scope}`.")
        assert all(one["description"] for one in route.get("parameters", ()))
    names = {route["operationId"] for route in routes}
    assert {"post_sessions", "get_session", "get_session_turn", "post_session_cancel", "get_audit_verify"} <= names
    assert {tag for route in routes for tag in route["tags"]} == {tag["name"] for tag in told["tags"]}
    assert "Bearer" in told["components"]["securitySchemes"]["token"]["description"]
    assert told["servers"] == [{"url": ApiSettings().url, "description": ANY}]


def test_every_body_that_is_sent_has_an_example_and_examples_are_valid() -> None:
    told = json.loads(json.dumps(document()))
    schemas = told["components"]["schemas"]
    sent = {
        content["schema"]["$ref"].rpartition("/")[2]
        for methods in told["paths"].values()
        for route in methods.values()
        for content in route.get("requestBody", {"content": {}})["content"].values()
        if "$ref" in content["schema"]
    }
    shown = {name for name, schema in schemas.items() if "examples" in schema}
    assert sent <= shown
    assert "ErrorDocument" in shown
    for name in shown:
        checker = Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": told["components"]})
        for example in schemas[name]["examples"]:
            checker.validate(example)  # pyright: ignore[reportUnknownMemberType] - jsonschema's own


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scope", [None, Scope.ADMIN])
async def test_every_answer_is_documented(tmp_path: Path, scope: Scope | None) -> None:
    """A few answers of each route; `poe fuzz-api` looks at many, and with tokens of every scope."""
    async with served(tmp_path) as host:
        token = "" if scope is None else await host.token("explorer", scope)
        found = await explore(host, tmp_path, token, "--max-examples", "3", "--generation-deterministic", *QUICKLY)
    assert found.code == 0, found.told
