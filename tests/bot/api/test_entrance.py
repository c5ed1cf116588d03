"""The entrance: who comes in, and what everybody else learns."""

from pathlib import Path

import pytest

from bot.sessions.api_tokens import Scope
from tests.bot.api.kit import served

pytestmark = pytest.mark.anyio


async def test_a_token_tells_who_it_is(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host:
        token = await host.token("ci", Scope.READ, "INTERNAL~")
        async with host.client(token) as client:
            answer = await client.get("/v1/whoami")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "name": "ci",
        "principal": "program:ci",
        "scope": "read",
        "clearance": "INTERNAL~",
        "expires_at": 0,
    }
