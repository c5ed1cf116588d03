"""The app asks for what the adapter calls and listens to, and for nothing else."""

import ast
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.commands import table
from channels.slack import events
from channels.slack.setup import EVENTS, SCOPES, manifest, troubles
from tests.channels.slack.kit import FAST, SlackStage, staged
from tests.sim.slack_api import METHODS

FOLDER = Path(events.__file__).parent
KINDS = ("channels", "groups", "im", "mpim")
OF_EVENTS = {
    "agent_session_stopped": {"assistant:write"},
    "app_home_opened": set[str](),
    "app_mention": {"app_mentions:read"},
    "app_uninstalled": set[str](),
    "channel_id_changed": {"channels:read", "groups:read"},
    "channel_left": {"channels:read"},
    "channel_shared": {"channels:read", "groups:read"},
    "channel_unshared": {"channels:read", "groups:read"},
    "group_left": {"groups:read"},
    "member_joined_channel": {"channels:read", "groups:read"},
    "member_left_channel": {"channels:read", "groups:read"},
    "message.channels": {"channels:history"},
    "message.groups": {"groups:history"},
    "message.im": {"im:history"},
    "message.mpim": {"mpim:history"},
    "tokens_revoked": set[str](),
    "user_change": {"users:read"},
}
"""The scopes that being told of each event takes, as docs.slack.dev lists them."""


def sources() -> Iterator[ast.Module]:
    for path in FOLDER.glob("*.py"):
        yield ast.parse(path.read_text())


def called() -> set[str]:
    """Return the methods of the Web API that the adapter calls, by the client's own names for them."""
    found = {node.attr for tree in sources() for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    methods = {name.replace("_", ".") for name in found if "_" in name.strip("_") and hasattr(AsyncWebClient, name)}
    texts = {node.value for tree in sources() for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return (methods | {str(text) for text in texts}) & (METHODS.keys() | {"oauth.v2.access"})


def scopes_of(methods: set[str]) -> set[str]:
    asked = {METHODS[name].scope for name in methods if name in METHODS and not METHODS[name].app_level} - {""}
    return {f"{kind}{scope[1:]}" for scope in asked for kind in KINDS if scope[0] == "*"} | {
        scope for scope in asked if scope[0] != "*"
    }


def listened() -> set[str]:
    """Return the types of event that `wire` does something with."""
    tree = ast.parse(Path(events.__file__).read_text())
    event = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_event")
    cases = {
        str(node.value.value)
        for node in ast.walk(event)
        if isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant)
    }
    return cases | events._CHANGES | events._PEOPLE | events._ENDS  # pyright: ignore[reportPrivateUsage]


def test_every_call_that_the_adapter_makes_is_known_to_this_test() -> None:
    assert {"chat.postMessage", "users.info", "views.publish", "oauth.v2.access", "auth.test"} <= called()


def test_the_scopes_are_those_of_its_calls_and_events() -> None:
    needed = scopes_of(called()) | {"commands"} | set[str]().union(*(OF_EVENTS[event] for event in EVENTS))
    texts = {node.value for tree in sources() for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    if any("url_private" in str(text) for text in texts):
        needed.add("files:read")
    assert set(SCOPES) == needed
    assert list(SCOPES) == sorted(set(SCOPES))


def test_the_events_are_those_that_are_listened_to() -> None:
    asked = {event.partition(".")[0] for event in EVENTS}
    assert asked == listened()
    assert {event for event in EVENTS if event.startswith("message.")} == {
        f"message.{kind}" for kind in ("channels", "groups", "im", "mpim")
    }


def test_over_sockets_no_address_is_named() -> None:
    made = manifest()
    assert made["settings"]["socket_mode_enabled"] is True
    assert "url" not in str(made)
    assert "agent_view" in made["features"]
    assert "assistant_view" not in made["features"]
    assert made["features"]["app_home"]["home_tab_enabled"] is True


def test_over_http_everything_is_called_at_one_address() -> None:
    made = manifest(events="https://bot.example/slack", back="https://bot.example/back")
    settings = made["settings"]
    assert settings["socket_mode_enabled"] is False
    assert settings["event_subscriptions"]["request_url"] == "https://bot.example/slack"
    assert settings["interactivity"] == {"is_enabled": True, "request_url": "https://bot.example/slack"}
    assert [command["url"] for command in made["features"]["slash_commands"]] == ["https://bot.example/slack"]
    assert made["oauth_config"]["redirect_urls"] == ["https://bot.example/back"]


def test_what_is_not_supported_is_off() -> None:
    settings = manifest()["settings"]
    assert (settings["token_rotation_enabled"], settings["org_deploy_enabled"]) == (False, False)


def test_slack_takes_its_texts() -> None:
    made = manifest()
    assert len(made["display_information"]["name"]) <= 35
    assert len(made["display_information"]["description"]) <= 140
    assert len(made["features"]["agent_view"]["agent_description"]) <= 300
    prompts: list[dict[str, str]] = made["features"]["agent_view"]["suggested_prompts"]
    assert 1 <= len(prompts) <= 4


def test_what_it_suggests_are_commands_there_are() -> None:
    for prompt in manifest()["features"]["agent_view"]["suggested_prompts"]:
        assert table.BUILT_IN.find(prompt["message"].removeprefix("!")) is not None


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


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut": "before"}, {"delay": 60}])
async def test_slack_that_is_away(fault: dict[str, object]) -> None:
    async with staged(timing=replace(FAST, call=1)) as played:
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
