"""The Slack app that Lockgate needs, and the faults of its connection, each with how to mend it.

`manifest` has its scopes, its events, and its surfaces. It asks for no scope and no event that is unused here: a test
compares both with the adapter's calls and listeners. `troubles` is for `lockgate doctor`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from channels.http import skewed
from channels.port import Trouble
from channels.slack.errors import FAILURES, code

COMMAND: Final = "/lockgate"
"""The one slash command; Slack gives an app few, and everything goes by its subcommands."""

SCOPES: Final = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "users:read",
)
"""The bot's scopes in a workspace."""

EVENTS: Final = (
    "agent_session_stopped",
    "app_home_opened",
    "app_mention",
    "app_uninstalled",
    "channel_id_changed",
    "channel_left",
    "channel_shared",
    "channel_unshared",
    "group_left",
    "member_joined_channel",
    "member_left_channel",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "tokens_revoked",
    "user_change",
)
"""The events that the bot receives."""

_NAME: Final = "Lockgate"
_SHORT: Final = "The data that a conversation has read decide where it may speak."
_COMMANDS: Final = "Command the bot, and be answered alone"
_PROMPTS: Final = (
    ("Who am I here?", "!whoami"),
    ("What may be said here?", "!status"),
    ("What can I ask for?", "!help"),
)


def manifest(*, events: str = "", back: str = "") -> dict[str, Any]:
    """Return the app's manifest.

    Args:
        events: the internet address at which Slack calls us, empty for Socket Mode.
        back: the address to which people return after they install the bot in other workspaces, empty where none do.
    """
    called = {"request_url": events} if events else {}
    command = {"command": COMMAND, "description": _COMMANDS, "usage_hint": "help", "should_escape": False}
    return {
        "_metadata": {"major_version": 2, "minor_version": 1},
        "display_information": {"name": _NAME, "description": _SHORT},
        "features": {
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "agent_view": {
                "agent_description": _SHORT,
                "suggested_prompts": [{"title": title, "message": message} for title, message in _PROMPTS],
            },
            "bot_user": {"display_name": _NAME, "always_online": True},
            "slash_commands": [command | ({"url": events} if events else {})],
        },
        "oauth_config": {
            **({"redirect_urls": [back]} if back else {}),
            "scopes": {"bot": list(SCOPES)},
        },
        "settings": {
            "event_subscriptions": {**called, "bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True, **called},
            "org_deploy_enabled": False,
            "socket_mode_enabled": not events,
            "token_rotation_enabled": False,
        },
    }


AWAY: Final = Trouble("Slack cannot be reached", "look at the network of this machine")
NOBODY: Final = Trouble("no workspace has installed the bot", "`lockgate slack install` makes a link that does")
UNREADABLE: Final = Trouble(
    "the tokens of workspaces cannot be read",
    "give back the key they were kept under, or let the workspaces install the bot again",
)

_INSTALL: Final = "install the app in the workspace again and put its Bot User OAuth Token into the environment"
_NOT_ACCEPTED: Final = Trouble("Slack does not accept the bot's token", _INSTALL)
_NOT_A_BOT: Final = Trouble("the token is not that of a bot", _INSTALL)
_REFUSED: Final = frozenset(
    {"account_inactive", "invalid_auth", "not_authed", "token_expired", "token_revoked", "not_allowed_token_type"}
)
_MOST: Final = 300
"""Seconds, from which on Slack's requests are taken for old ones."""


async def troubles(client: Any, now_ms: Callable[[], int]) -> tuple[Trouble, ...]:  # noqa: ANN401 - as in `Workspace`
    """Ask Slack about the token of a client; `now_ms` is the clock of this machine, in milliseconds since 1970."""
    try:
        answer: Any = await client.auth_test()
    except FAILURES as error:
        return (_NOT_ACCEPTED if code(error) in _REFUSED else AWAY,)
    headers = {str(name).lower(): str(value) for name, value in dict(answer.headers).items()}
    return tuple(_told(answer, headers, now_ms()))


def _told(answer: Any, headers: dict[str, str], now_ms: int) -> Iterator[Trouble]:  # noqa: ANN401 - Slack's JSON
    if not answer.get("bot_id"):
        yield _NOT_A_BOT
    if "x-oauth-scopes" in headers:
        given = {scope.strip() for scope in headers["x-oauth-scopes"].split(",")}
        if lacking := sorted(set(SCOPES) - given):
            listed = ", ".join(f"`{scope}`" for scope in lacking)
            yield Trouble(
                f"the app lacks the scopes {listed}", "add them under OAuth & Permissions and install it again"
            )
    yield from skewed(headers, now_ms, f"from {_MOST} s on nothing of Slack's is believed")
