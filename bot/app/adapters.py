"""The platforms this process listens to: a part of the composition root, which makes their adapters and runs them.

Events of an adapter go one way, through the router. Their libraries are imported when one is made.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from bot.access.authorize import at_least
from bot.app.plugins import NO_PLUGINS, Plugins
from bot.commands.table import BUILT_IN, Commands
from bot.config.channels import ChannelsSettings, InstallSettings, SlackSettings, WebhookSettings
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError
from channels.port import ChannelSetup, Platform
from policy.document.model import Document
from policy.document.programs import is_program
from policy.request import Role

if TYPE_CHECKING:
    from pydantic import JsonValue

    from channels.port import ChannelVault, Lease
    from channels.slack.oauth import SlackInstaller
    from channels.telegram.menu import CommandMenu
    from channels.telegram.webhook import Webhook

_PRIVATE: Final = frozenset({"pair", "continue"})
"""Commands that make no sense in a group."""

_HIDDEN: Final = frozenset({"quit"})
"""Commands that are only a console's."""


def platforms(
    settings: ChannelsSettings,
    environment: Mapping[str, str],
    *,
    lease: "Lease",
    vault: "Callable[[], ChannelVault]",
    in_force: "Callable[[], Document]",
    plugins: Plugins = NO_PLUGINS,
) -> tuple[Platform, ...]:
    """Return an adapter for every configured platform; `vault` returns the adapters' vault.

    `plugins` bring channels: one of them is made where `channels.others` configures it.

    The policy that is `in_force` at a call tells who the admins are, for menus, and whether chats are observed, for
    reported faults.

    Raises ConfigError: a token is not in the environment, or a plugin's channel cannot be made.
    """
    made = list[Platform]()
    if settings.telegram is not None:
        from channels.telegram.adapter import SERVER, Telegram

        base, webhook = settings.telegram.base_url, settings.telegram.webhook
        made.append(
            Telegram(
                _token(environment, settings.telegram.token),
                lease,
                vault(),
                menu=menu(plugins.commands),
                admins=lambda: admins(in_force()),
                now_ms=SystemClock().wall_ms,
                webhook=None if webhook is None else _webhook(environment, webhook),
                chats=lambda: _chats(in_force(), Telegram.name),
                observes=lambda: _observes(in_force(), Telegram.name),
                bots=settings.telegram.bots,
                server=base or SERVER,
            )
        )
    if settings.slack is not None:
        made.append(
            _slack(settings.slack, environment, in_force, lease=lease, vault=vault(), commands=plugins.commands)
        )
    shown = tuple((command.name, command.help) for command in plugins.commands.rows if command.public)
    for name, written in settings.others.items():
        setup = ChannelSetup(written, environment, lease, vault(), now_ms=SystemClock().wall_ms, commands=shown)
        made.append(plugins.channels[name].made(setup))
    return tuple(made)


def menu(commands: Commands = BUILT_IN) -> "CommandMenu":
    """Return which commands are shown while people type; who may give one is decided when it is given."""
    from channels.telegram.menu import CommandMenu

    shown = [command for command in commands.rows if command.name not in _HIDDEN]
    public = [command for command in shown if command.public]
    return CommandMenu(
        tuple((command.name, command.help) for command in public),
        tuple((command.name, command.help) for command in public if command.name not in _PRIVATE),
        tuple((command.name, command.help) for command in shown),
    )


def admins(policy: Document) -> frozenset[str]:
    """Return the accounts of admins."""
    people = [
        person
        for name, person in policy.principals.items()
        if at_least(person.role, Role.ADMIN) and not is_program(name)
    ]
    return frozenset(account for person in people for account in person.accounts)


def installer(settings: ChannelsSettings, environment: Mapping[str, str], vault: "ChannelVault") -> "SlackInstaller":
    """Return the installer of the bot in further Slack workspaces.

    Raises ConfigError: it is not configured, or its secret is not in the environment.
    """
    slack = settings.slack
    if slack is None or slack.install is None:
        raise ConfigError("`channels.slack.install` is not configured", next_step="see docs/slack.md")
    return _installer(slack, slack.install, environment, vault)


def slack_manifest(settings: ChannelsSettings) -> dict[str, "JsonValue"]:
    """Return the manifest of the Slack app that a configuration needs; with none of it, that for Socket Mode.

    Raises ConfigError: it does not say where Slack is to call.
    """
    from channels.slack.setup import manifest

    slack = settings.slack
    if slack is None:
        return manifest()
    if slack.http is not None and slack.http.url is None:
        raise ConfigError("`channels.slack.http.url` is not configured", next_step="say there where Slack is to call")
    return manifest(
        events="" if slack.http is None else slack.http.url or "",
        back="" if slack.install is None else slack.install.url,
    )


def _chats(policy: Document, channel: str) -> frozenset[str]:
    """Return the chats of a channel that a policy names."""
    named = (*policy.chats.values(), *policy.places)
    return frozenset(one.chat for one in named if one.channel == channel)


def _observes(policy: Document, channel: str) -> bool:
    """Say whether anything is to be observed on a channel, as the file says."""
    chats = [chat.observe for chat in policy.chats.values() if chat.channel == channel]
    return any((policy.channel(channel).observe, *chats))


def _slack(
    settings: SlackSettings,
    environment: Mapping[str, str],
    in_force: Callable[[], Document],
    *,
    lease: "Lease",
    vault: "ChannelVault",
    commands: Commands,
) -> Platform:
    from channels.slack.adapter import Slack
    from channels.slack.clients import SERVER
    from channels.slack.transport import RequestEndpoint

    http, install = settings.http, settings.install
    token = environment.get(settings.token, "").strip() if install else _token(environment, settings.token)
    return Slack(
        token,
        _token(environment, settings.app_token)
        if http is None
        else RequestEndpoint(http.host, http.port, _token(environment, http.secret)),
        lease=lease,
        vault=vault,
        now_ms=SystemClock().wall_ms,
        installer=None if install is None else _installer(settings, install, environment, vault),
        commands=[command.name for command in commands.rows if command.name not in _HIDDEN],
        bots=settings.bots,
        chats=lambda: _chats(in_force(), Slack.name),
        server=settings.base_url or SERVER,
    )


def _installer(
    slack: SlackSettings, settings: InstallSettings, environment: Mapping[str, str], vault: "ChannelVault"
) -> "SlackInstaller":
    from channels.slack.clients import SERVER
    from channels.slack.oauth import OAuth, SlackInstaller

    secret = _token(environment, settings.client_secret)
    oauth = OAuth(settings.client_id, secret, settings.url, settings.host, settings.port)
    return SlackInstaller(oauth, vault, slack.base_url or SERVER)


def _webhook(environment: Mapping[str, str], settings: WebhookSettings) -> "Webhook":
    from channels.telegram.webhook import Webhook

    try:
        return Webhook(settings.url, _token(environment, settings.secret), settings.host, settings.port)
    except ValueError as error:
        raise ConfigError(str(error), next_step=f"put another one into {settings.secret}") from None


def _token(environment: Mapping[str, str], variable: str) -> str:
    token = environment.get(variable, "").strip()
    if not token:
        raise ConfigError(f"the environment variable `{variable}` is empty", next_step=f"put the token into {variable}")
    return token
