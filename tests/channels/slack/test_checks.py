"""What is wrong with the connection to Slack is told with how to mend it."""

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from channels.slack.manifest import SCOPES
from tests.channels.slack.kit import FAST, SlackStage, staged

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[SlackStage]:
    async with staged() as made:
        yield made


async def problems(played: SlackStage) -> list[str]:
    return [one.problem for one in await played.adapter.troubles()]


async def test_nothing_is_wrong(played: SlackStage) -> None:
    assert await problems(played) == []


@pytest.mark.parametrize("error", ["invalid_auth", "token_revoked", "account_inactive"])
async def test_a_token_that_is_not_accepted(played: SlackStage, error: str) -> None:
    played.server.fails("auth.test", error=error)
    assert await problems(played) == ["Slack does not accept the bot's token"]


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut": "before"}, {"delay": 1}])
async def test_slack_that_is_away(fault: dict[str, object]) -> None:
    async with staged(timing=replace(FAST, call=0.3)) as played:
        played.server.fails("auth.test", **fault)
        assert await problems(played) == ["Slack cannot be reached"]


async def test_scopes_that_are_missing_are_named(played: SlackStage) -> None:
    token = played.server.bot
    token.scopes = tuple(scope for scope in SCOPES if scope not in {"users:read", "chat:write"})
    assert await problems(played) == ["the app lacks the scopes `chat:write`, `users:read`"]


@pytest.mark.parametrize(
    "skew, told",
    [
        (30, []),
        (200, ["the clock of this machine is {} s ahead"]),
        (-200, ["the clock of this machine is {} s behind"]),
    ],
)
async def test_a_clock_that_is_wrong(played: SlackStage, skew: int, told: list[str]) -> None:
    played.skew = skew
    found = await problems(played)
    assert len(found) == len(told)
    for one, expected in zip(found, told, strict=True):
        assert one in {expected.format(abs(skew) + near) for near in (-2, -1, 0, 1, 2)}
