"""A method that a path does not have is refused with those that it has, in every area of the API."""

from http import HTTPStatus
from pathlib import Path

import pytest

from tests.bot.api.kit import served

pytestmark = pytest.mark.anyio


async def test_a_refused_method_names_those_of_the_path(tmp_path: Path) -> None:
    paths = {
        "/v1/whoami": "GET",
        "/v1/sessions": "GET, POST",
        "/v1/sessions/none": "DELETE, GET",
        "/v1/approvals": "GET",
        "/v1/webhooks": "GET, POST",
        "/v1/webhooks/none/secret": "POST",
        "/v1/audit/verify": "GET",
    }
    async with served(tmp_path) as host, host.client(await host.token()) as client:
        told = {path: await client.put(path) for path in paths}
    assert {answer.status_code for answer in told.values()} == {HTTPStatus.METHOD_NOT_ALLOWED}
    assert {path: answer.headers["allow"] for path, answer in told.items()} == paths
