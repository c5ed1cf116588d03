"""The table of the Web API's methods, and what is checked before each: token, rotation, scope."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.sim import slack_chat, slack_places, slack_surfaces
from tests.sim.slack_state import TYPES, Event, Json, SlackError, State, Token

_SCOPES = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}


@dataclass(frozen=True)
class Method:
    """What it does, and the scope it needs; `*:read` is that of the channel's kind."""

    does: Callable[[State, Token, Json], Json]
    scope: str = ""
    app_level: bool = False


def auth_test(state: State, token: Token, _args: Json) -> Json:
    """`auth.test`."""
    team = state.teams[token.team]
    who = {"user": state.members[token.user].name, "user_id": token.user, "bot_id": f"B{token.user}"}
    where = {"team": team.name, "team_id": team.id, "enterprise_id": team.enterprise or None}
    return {"url": f"https://{team.name}.slack.invalid/", "is_enterprise_install": False, **who, **where}


def revoke(state: State, token: Token, _args: Json) -> Json:
    """`auth.revoke`: the token is dead, and the app is told."""
    token.revoked = True
    body: Json = {"type": "tokens_revoked", "tokens": {"oauth": [], "bot": [token.user]}}
    state.tell(Event(body, token.team))
    return {"revoked": True}


def uninstall(state: State, token: Token, args: Json) -> Json:
    """`apps.uninstall`: all tokens of the workspace are dead, and the app is told."""
    if (args.get("client_id"), args.get("client_secret")) != (state.app.client_id, state.app.client_secret):
        raise SlackError("bad_client_secret")
    for each in state.tokens.values():
        each.revoked = each.revoked or (each.team == token.team and not each.app_level)
    for channel in state.channels.values():
        channel.members = [user for user in channel.members if user != token.user]
    state.members[token.user].deleted = True
    state.tell(Event({"type": "tokens_revoked", "tokens": {"oauth": [], "bot": [token.user]}}, token.team))
    state.tell(Event({"type": "app_uninstalled"}, token.team))
    return {}


METHODS = {
    "auth.test": Method(auth_test),
    "auth.revoke": Method(revoke),
    "apps.uninstall": Method(uninstall),
    "apps.connections.open": Method(lambda _state, _token, _args: {}, "connections:write", app_level=True),
    "chat.postMessage": Method(slack_chat.post_message, "chat:write"),
    "chat.postEphemeral": Method(slack_chat.post_ephemeral, "chat:write"),
    "chat.update": Method(slack_chat.update, "chat:write"),
    "chat.delete": Method(slack_chat.delete, "chat:write"),
    "chat.startStream": Method(slack_chat.start_stream, "chat:write"),
    "chat.appendStream": Method(slack_chat.append_stream, "chat:write"),
    "chat.stopStream": Method(slack_chat.stop_stream, "chat:write"),
    "conversations.info": Method(slack_places.info, "*:read"),
    "conversations.members": Method(slack_places.members, "*:read"),
    "conversations.open": Method(slack_places.opened, "im:write"),
    "conversations.history": Method(slack_places.history, "*:history"),
    "conversations.replies": Method(slack_places.replies, "*:history"),
    "users.info": Method(slack_places.user_info, "users:read"),
    "users.conversations": Method(slack_places.user_conversations, "channels:read"),
    "bots.info": Method(slack_places.bot_info, "users:read"),
    "team.info": Method(slack_places.team_info, "team:read"),
    "views.open": Method(slack_surfaces.view_open),
    "views.update": Method(slack_surfaces.view_update),
    "views.publish": Method(slack_surfaces.view_publish),
    "assistant.threads.setStatus": Method(slack_surfaces.set_status, "assistant:write"),
    "assistant.threads.setTitle": Method(slack_surfaces.set_title, "assistant:write"),
    "assistant.threads.setSuggestedPrompts": Method(slack_surfaces.set_prompts, "assistant:write"),
    "files.info": Method(slack_surfaces.file_info, "files:read"),
    "files.getUploadURLExternal": Method(slack_surfaces.upload_url, "files:write"),
    "files.completeUploadExternal": Method(slack_surfaces.complete_upload, "files:write"),
}


def run(state: State, name: str, value: str, args: Json) -> Json:
    """Return a method's answer.

    Raises SlackError: the real one would refuse.
    """
    if (method := METHODS.get(name)) is None:
        raise SlackError("unknown_method")
    token = bearer(state, value)
    if token.app_level != method.app_level:
        raise SlackError("not_allowed_token_type")
    if (needed := _needed(state, method.scope, args)) and needed not in token.scopes:
        raise SlackError("missing_scope", needed=needed, provided=",".join(token.scopes))
    return method.does(state, token, args)


def bearer(state: State, value: str) -> Token:
    """Return the token of that value, if it is in force.

    Raises SlackError: it is not.
    """
    if not value:
        raise SlackError("not_authed")
    if (token := state.tokens.get(value)) is None:
        raise SlackError("invalid_auth")
    if token.user and state.members[token.user].deleted:
        raise SlackError("account_inactive")
    if token.revoked:
        raise SlackError("token_revoked")
    if token.expires and state.now() > token.expires:
        raise SlackError("token_expired")
    return token


def _needed(state: State, scope: str, args: Json) -> str:
    if not scope.startswith("*"):
        return scope
    channel = state.channels.get(str(args.get("channel", "")))
    return scope.replace("*", _SCOPES[TYPES[channel.kind]] if channel is not None else "channels")
