"""The platforms this installation listens to. Tokens stand in the environment, here the names of the variables."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, JsonValue

from bot.config.api import ApiSettings
from bot.config.fields import Block, Variable, WebAddress
from bot.config.shipped import extended
from bot.sessions.background.delegation import SESSION
from policy.document.model import Document
from policy.document.reading import API
from policy.errors import Problem, nearest

NO_API: Final = "`channels.api` is not configured"
ADD_API: Final = (
    "write `api: {}` under `channels`, and `api: {classification: …}` under `policy.channels`, see docs/api.md"
)


def _public_url(url: str) -> str:
    if not url.startswith("https://") and not _on_this_machine(url):
        raise ValueError("Telegram calls addresses that begin with `https://` alone")
    return url


def _on_this_machine(url: str) -> bool:
    """Say whether an address is this machine's own, where a Bot API server of one's own or a simulator may call it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        own = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
    return parts.scheme == "http" and own and parts.username is None and parts.password is None


class WebhookSettings(Block):
    """Where Telegram reaches us: `url` as it is on the internet, `host` and `port` to listen at on this machine.

    `secret` names the environment variable that holds Telegram's proof of itself.
    """

    url: Annotated[str, AfterValidator(_public_url)]
    secret: Variable = "TELEGRAM_SECRET"  # noqa: S105 - the name of a variable
    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)


def _accounts(form: str, example: str) -> AfterValidator:
    """Return the validator of a list of a platform's accounts, which look like an example."""

    def read(accounts: tuple[str, ...]) -> tuple[str, ...]:
        for account in accounts:
            if not re.fullmatch(form, account):
                raise ValueError(f"`{account}` is not an account there, write one as `{example}`")
        return accounts

    return AfterValidator(read)


class TelegramSettings(Block):
    """A Telegram bot: `token` names the environment variable that holds its token.

    With a `webhook` Telegram calls us, else we ask it. `base_url` is another Bot API server than Telegram's own. `bots`
    are the accounts of other bots that are read.
    """

    token: Variable = "TELEGRAM_TOKEN"  # noqa: S105 - the name of a variable
    webhook: WebhookSettings | None = None
    bots: Annotated[tuple[str, ...], _accounts(r"telegram:[0-9]+", "telegram:4711")] = Field(default=(), strict=False)
    base_url: WebAddress | None = None


def _back_url(url: str) -> str:
    # Slack itself takes nothing else; an address of this machine is for trying things out.
    if not url.startswith("https://") and not _on_this_machine(url):
        raise ValueError("Slack sends people back to addresses that begin with `https://` alone")
    return url


class RequestSettings(Block):
    """Where Slack's requests come in: `host` and `port` to listen at on this machine.

    `secret` names the environment variable that holds the key with which Slack signs its requests. `url` is the address
    as it is on the internet, which the app's manifest tells Slack.
    """

    url: WebAddress | None = None

    secret: Variable = "SLACK_SIGNING_SECRET"  # noqa: S105 - the name of a variable
    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)


class InstallSettings(Block):
    """The settings for installing a Slack app in further workspaces: its `client_id`, as api.slack.com shows it.

    `client_secret` names the environment variable that holds its secret. `url` is where Slack sends people back to, as
    it is on the internet, `host` and `port` where we listen for them on this machine.
    """

    client_id: str = Field(pattern=r"^[0-9]+\.[0-9]+$")
    client_secret: Variable = "SLACK_CLIENT_SECRET"  # noqa: S105 - the name of a variable
    url: Annotated[str, AfterValidator(_back_url)]
    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)


class SlackSettings(Block):
    """A Slack app: `token` names the environment variable that holds its bot's token.

    With `http` Slack calls us, else we open sockets with the token in `app_token`. `base_url` is another Web API than
    Slack's own. With `install` further workspaces can install it, each with a token of its own; then there need be none
    in `token`. `bots` are the accounts of other apps that are read.
    """

    token: Variable = "SLACK_TOKEN"  # noqa: S105 - the name of a variable
    app_token: Variable = "SLACK_APP_TOKEN"  # noqa: S105 - the name of a variable
    http: RequestSettings | None = None
    install: InstallSettings | None = None
    bots: Annotated[tuple[str, ...], _accounts(r"slack:[A-Z0-9]+:[A-Z0-9]+", "slack:T0123:U0123")] = Field(
        default=(), strict=False
    )
    base_url: WebAddress | None = None


def _other_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", name):
        raise ValueError("a channel's name has 1 to 32 of `a` to `z`, `0` to `9`, `-` and `_`, a letter first")
    if name in _TAKEN:
        raise ValueError(f"`{name}` is a channel of Lockgate's own, choose another name")
    return name


_TAKEN: Final = frozenset({"api", "console", "slack", "telegram", SESSION})

OtherName = Annotated[str, AfterValidator(_other_name)]


class ChannelsSettings(Block):
    """The platforms and the HTTP API, None for those that are not listened to.

    `others` are the channels of plugins that are listened to, by name, with settings that the plugin reads.
    """

    telegram: TelegramSettings | None = Field(default=None)
    slack: SlackSettings | None = Field(default=None)
    api: ApiSettings | None = Field(default=None)
    others: dict[OtherName, dict[str, JsonValue]] = Field(default_factory=dict[str, dict[str, JsonValue]])

    @property
    def listened(self) -> tuple[str, ...]:
        """The names of the channels that are listened to: platforms, the API, and channels of plugins."""
        own = {"telegram": self.telegram, "slack": self.slack, API: self.api}
        return (*(name for name, settings in own.items() if settings is not None), *self.others)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The names of the platforms that are listened to."""
        return tuple(name for name in self.listened if name != API)

    @property
    def bots(self) -> dict[str, tuple[str, ...]]:
        """The accounts of other bots that are read, by platform."""
        found = {"telegram": self.telegram, "slack": self.slack}
        return {name: settings.bots for name, settings in found.items() if settings is not None}


def unlabelled(channels: ChannelsSettings, policy: Document | None) -> Iterator[Problem]:
    """Yield a problem for every platform that the policy does not classify."""
    for name in channels.listened:
        if policy is not None and name not in policy.channels:
            # A section replaces the shipped one, so one with the new entry alone would drop the console.
            how = extended("channels", policy.channels, f"{name}: {{classification: PUBLIC}}")
            missing = f"`policy.channels` does not say what may be said there, {how}"
            block = ("channels", "others") if name in channels.others else ("channels",)
            yield Problem((*block, name), missing)


def unknown_channels(channels: ChannelsSettings, known: frozenset[str]) -> Iterator[Problem]:
    """Yield a problem for every channel of `others` that no plugin brings."""
    for name in channels.others:
        if name not in known:
            yield Problem(("channels", "others", name), f"no plugin has a channel `{name}`{nearest(name, known)}")
