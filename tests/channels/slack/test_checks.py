"""What is wrong with the connection to Slack is told with how to mend it."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from email.utils import formatdate
from types import SimpleNamespace

import pytest

from channels.slack.checks import troubles
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


@pytest.mark.parametrize(
    "error",
    [
        *("invalid_auth", "token_revoked", "account_inactive"),
        *("not_authed", "token_expired", "not_allowed_token_type"),
    ],
)
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


NOW = 1_900_000_000
GIVEN = {"Date": formatdate(NOW, usegmt=True), "X-OAuth-Scopes": ", ".join(SCOPES)}


class Answer(dict[str, str]):
    """What `auth.test` answers, with its headers."""

    headers: dict[str, str]


async def found(headers: dict[str, str], **told: str) -> list[str]:
    """Return what is found by an answer with these headers."""
    answer = Answer(told or {"bot_id": "B1"})
    answer.headers = headers

    async def auth_test() -> Answer:
        return answer

    asked = await troubles(SimpleNamespace(auth_test=auth_test), lambda: NOW * 1000)
    return [one.problem for one in asked]


async def test_a_token_of_a_person_is_none_of_a_bot() -> None:
    assert await found(GIVEN, user_id="U1") == ["the token is not that of a bot"]


async def test_what_slack_does_not_tell_is_no_trouble() -> None:
    assert await found({}) == []
    assert await found({**GIVEN, "Date": "soon"}) == []
    lower = {name.lower(): value for name, value in GIVEN.items()}
    assert await found(lower) == []
    assert len(await found({**lower, "x-oauth-scopes": "chat:write"})) == 1


@pytest.mark.parametrize("away, wrong", [(60, False), (61, True), (-60, False), (-61, True)])
async def test_a_clock_may_be_a_minute_off(away: int, *, wrong: bool) -> None:
    assert bool(await found({**GIVEN, "Date": formatdate(NOW - away, usegmt=True)})) is wrong
