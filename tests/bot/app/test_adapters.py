"""The platforms that are configured: what is wrong with one is told before anything is listened to."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.app.adapters import admins, installer, menu, platforms, slack_manifest
from bot.config.channels import ChannelsSettings
from bot.config.load import load_config
from bot.core.errors import ConfigError
from bot.tools import catalogue
from tests.bot.kit import document
from tests.channels.contract import Kept
from tests.people import principal

SECRET = "s" * 16
INSTALL = {"client_id": "11.22", "url": "https://bot.example/back", "port": 8443}
HOOK = {"url": "https://bot.example/hook", "port": 8443}


class Nobody:
    """A right that nobody asks for here."""

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[Callable[[], bool]]:
        raise AssertionError(name)
        yield


def made(telegram: dict[str, object] | None, **environment: str) -> list[str]:
    return listened({"telegram": telegram}, environment)


def listened(channels: dict[str, dict[str, object] | None], environment: dict[str, str]) -> list[str]:
    settings = ChannelsSettings.model_validate(channels)
    return [adapter.name for adapter in platforms(settings, environment, lease=Nobody(), vault=Kept, in_force=document)]


def test_what_is_configured_is_made() -> None:
    assert made(None) == []
    assert made({"token": "T"}, T="1:a") == ["telegram"]
    assert made({"token": "T", "webhook": HOOK}, T="1:a", TELEGRAM_SECRET=SECRET) == ["telegram"]
    assert listened({"slack": {"token": "T", "app_token": "A"}}, {"T": "xoxb-1", "A": "xapp-1"}) == ["slack"]
    requested: dict[str, object] = {"token": "T", "http": {"port": 1}}
    assert listened({"slack": requested}, {"T": "xoxb-1", "SLACK_SIGNING_SECRET": SECRET}) == ["slack"]
    installing = {"SLACK_APP_TOKEN": "xapp-1", "SLACK_CLIENT_SECRET": SECRET}
    assert listened({"slack": {"install": INSTALL}}, installing) == ["slack"]


def test_menus_show_to_each_what_exists_for_him() -> None:
    people = {
        "owner": principal("console:owner", "console:phone"),
        "adam": principal("console:adam", role="admin", clearance="PUBLIC"),
        "boss": principal("console:boss", role="approver"),
    }
    shown = menu()
    everybody, groups, every = (
        {name for name, _ in commands} for commands in (shown.everybody, shown.groups, shown.all)
    )
    assert admins(document(principals=people)) == {"console:owner", "console:phone", "console:adam"}
    assert groups < everybody < every
    assert {"help", "pair", "stop"} <= everybody
    assert not {"pair"} & groups
    assert {"classify", "block", "allow", "policy", "deadletter", "release"} <= every - everybody
    assert "quit" not in every


def test_links_that_install_need_their_block() -> None:
    with pytest.raises(ConfigError, match="not configured"):
        installer(ChannelsSettings.model_validate({"slack": {}}), {}, Kept())


def test_the_manifest_says_what_is_configured() -> None:
    """Over sockets unless Slack calls, which then must be said where."""
    assert slack_manifest(ChannelsSettings.model_validate({"slack": {}})) == slack_manifest(ChannelsSettings())
    http = {"port": 1, "url": "https://bot.example/slack/events"}
    text = str(slack_manifest(ChannelsSettings.model_validate({"slack": {"http": http, "install": INSTALL}})))
    assert "https://bot.example/slack/events" in text
    assert "https://bot.example/back" in text
    with pytest.raises(ConfigError, match="url"):
        slack_manifest(ChannelsSettings.model_validate({"slack": {"http": {"port": 1}}}))


@pytest.mark.parametrize(
    "telegram, environment, problem",
    [
        ({}, {}, "the environment variable `TELEGRAM_TOKEN` is empty"),
        ({"webhook": HOOK}, {"TELEGRAM_TOKEN": "1:a"}, "the environment variable `TELEGRAM_SECRET` is empty"),
        (
            {"webhook": HOOK},
            {"TELEGRAM_TOKEN": "1:a", "TELEGRAM_SECRET": "short"},
            "the webhook's secret has 16 to 256 letters, digits, `_` or `-`",
        ),
    ],
)
def test_what_is_missing_is_told_without_any_value(
    telegram: dict[str, object], environment: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        made(telegram, **environment)
    assert str(refused.value) == problem
    assert not any(value in f"{refused.value} {refused.value.next_step}" for value in environment.values())


@pytest.mark.parametrize(
    "slack, environment, missing",
    [
        ({}, {"SLACK_APP_TOKEN": "xapp-1"}, "SLACK_TOKEN"),
        ({}, {"SLACK_TOKEN": "xoxb-1"}, "SLACK_APP_TOKEN"),
        ({"http": {"port": 1}}, {"SLACK_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}, "SLACK_SIGNING_SECRET"),
        ({"install": INSTALL}, {"SLACK_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}, "SLACK_CLIENT_SECRET"),
    ],
)
def test_what_slack_lacks_is_told_without_any_value(
    slack: dict[str, object], environment: dict[str, str], missing: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        listened({"slack": slack}, environment)
    assert str(refused.value) == f"the environment variable `{missing}` is empty"
    assert not any(value in f"{refused.value} {refused.value.next_step}" for value in environment.values())


@pytest.mark.parametrize(
    "text, problem",
    [
        (
            "channels: {telegram: {}}",
            (
                "1: `policy.channels` does not say what may be said there, write `channels: {"
                "console: {classification: top, inbound: PUBLIC, overshoot: allow, members: PUBLIC}, "
                "telegram: {classification: PUBLIC}}` under `policy`"
            ),
        ),
        (
            "channels: {api: {}}",
            (
                "1: `policy.channels` does not say what may be said there, write `channels: {"
                "console: {classification: top, inbound: PUBLIC, overshoot: allow, members: PUBLIC}, "
                "api: {classification: PUBLIC}}` under `policy`"
            ),
        ),
        (
            "channels: {telegram: {token: 1:a}}",
            "1: this is the name of an environment variable, the secret itself stands",
        ),
        ("channels: {telegram: {base_url: x}}", "1: a server's address begins with `https://` or `http://`"),
        ("channels: {telegram: {webhook: {url: http://x, port: 1}}}", "1: Telegram calls addresses that begin with"),
        (
            "channels: {slack: {install: {client_id: '1.2', url: http://bot.example/x, port: 1}}}",
            "1: Slack sends people back to addresses that begin with `https://` alone",
        ),
        ("channels: {telegraph: {}}", "1: unknown field `telegraph`, did you mean `telegram`?"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_config(path, {}, catalogue.ARGUMENTS)
    assert f"config.yaml:{problem}" in str(refused.value)
