"""The Slack app as Lockgate needs it: the scopes it asks for, the events it is told, and its surfaces. Pure.

A scope or an event that nothing here uses is asked for by nobody: a test compares both with what the adapter calls and
listens to.
"""

from typing import Any, Final

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
"""What a workspace lets the bot do."""

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
"""What the bot is told."""

_NAME: Final = "Lockgate"
_SHORT: Final = "What a conversation has read decides where it may speak."
_COMMANDS: Final = "Command the bot, and be answered alone"
_PROMPTS: Final = (
    ("Who am I here?", "!whoami"),
    ("What may be said here?", "!status"),
    ("What can I ask for?", "!help"),
)


def manifest(*, events: str = "", back: str = "") -> dict[str, Any]:
    """Return the app's manifest.

    `events` is where Slack calls us, as it is on the internet, empty for Socket Mode; `back` is where people are sent
    back to who install the bot in other workspaces, empty where nobody does.
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
