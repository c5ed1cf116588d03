"""The methods that ask about chats and people, register commands, answer presses and set where updates go."""

import json
import re
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from tests.sim.telegram_args import Args, chat_of
from tests.sim.telegram_state import BOT_ID, PRESENT, Chat, Json, State, Webhook, bad, statuses
from tests.sim.telegram_text import units

DOWNLOAD_LIMIT: Final = 20_000_000
ANSWER_LIMIT: Final = 200
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
_COMMAND: Final = re.compile(r"[a-z0-9_]{1,32}")
_PORTS: Final = frozenset({443, 80, 88, 8443})
_SCOPES: Final = MappingProxyType(
    {
        **dict.fromkeys(("default", "all_private_chats", "all_group_chats", "all_chat_administrators"), ()),
        **dict.fromkeys(("chat", "chat_administrators"), ("chat_id",)),
        "chat_member": ("chat_id", "user_id"),
    }
)
_RIGHTS: Final = (
    *("can_manage_chat", "can_delete_messages", "can_manage_video_chats", "can_restrict_members"),
    *("can_promote_members", "can_change_info", "can_invite_users", "can_post_stories", "can_edit_stories"),
    "can_delete_stories",
)
_GIFTS: Final = (*("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels"),)


def get_me(state: State, _args: Args) -> Json:
    """`getMe`."""
    reads = {"can_read_all_group_messages": not state.privacy, "can_join_groups": True}
    return {**state.bot, **reads, "supports_inline_queries": False, "has_topics_enabled": False}


def set_webhook(state: State, args: Args) -> bool:
    """`setWebhook`; unlike the real one it also posts to this machine, without TLS and on any port."""
    url, secret = args.text("url"), args.text("secret_token")
    if secret and not _SECRET.fullmatch(secret):
        raise bad("secret token contains unallowed characters")
    parts = urlsplit(url)
    local = parts.hostname in {"127.0.0.1", "localhost", "::1"}
    if url and not local and parts.scheme != "https":
        raise bad("bad webhook: An HTTPS URL must be provided for webhook")
    if url and not local and (parts.port or 443) not in _PORTS:
        raise bad("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443")
    connections = args.number("max_connections", 40)
    if not 1 <= connections <= 100:
        raise bad("max_connections must be between 1 and 100")
    allow(state, args)
    if args.flag("drop_pending_updates"):
        state.updates.clear()
    if state.poll is not None and url:
        state.poll.set_result("terminated by setWebhook request")
        state.poll = None
    state.webhook = Webhook(url, secret, connections)
    state.wake()
    return True


def delete_webhook(state: State, args: Args) -> bool:
    """`deleteWebhook`."""
    if args.flag("drop_pending_updates"):
        state.updates.clear()
    state.webhook = Webhook()
    state.wake()
    return True


def webhook_info(state: State, _args: Args) -> Json:
    """`getWebhookInfo`."""
    hook = state.webhook
    info: Json = {"url": hook.url, "has_custom_certificate": False, "pending_update_count": len(state.updates)}
    if hook.url:
        info |= {"max_connections": hook.connections, "ip_address": "127.0.0.1"}
    if hook.error:
        info |= {"last_error_date": hook.error_date, "last_error_message": hook.error}
    return info | ({"allowed_updates": sorted(state.allowed)} if state.allowed is not None else {})


def allow(state: State, args: Args) -> None:
    """Take the kinds of updates that a call asks for; an empty list asks for the usual ones, none for no change."""
    asked: list[str] | None = args.json("allowed_updates")
    if asked is not None:
        state.allowed = frozenset(asked) if asked else None


def answer_query(state: State, args: Args) -> bool:
    """`answerCallbackQuery`."""
    query = state.queries.get(args.text("callback_query_id"))
    if query is None or time.monotonic() - query.at > state.query_life:
        raise bad("query is too old and response timeout expired or query ID is invalid")
    if units(args.text("text")) > ANSWER_LIMIT:
        raise bad("MESSAGE_TOO_LONG")
    query.answer = {"text": args.text("text"), "show_alert": args.flag("show_alert")}
    state.wake()
    return True


def _scope(state: State, args: Args) -> str:
    scope: Json = args.json("scope") or {"type": "default"}
    needed = _SCOPES.get(str(scope.get("type")))
    if needed is None:
        raise bad("can't parse BotCommandScope: Unsupported type specified")
    kept: Json = {"type": scope["type"]}
    for name in needed:
        if name not in scope:
            raise bad(f"can't parse BotCommandScope: Can't find field \"{name}\"")
        kept[name] = int(scope[name])
    if "chat_id" in kept and kept["chat_id"] not in state.chats:
        raise bad("chat not found")
    return json.dumps([kept, args.text("language_code")])


def set_commands(state: State, args: Args) -> bool:
    """`setMyCommands`."""
    commands: list[Json] | None = args.json("commands")
    if commands is None:
        raise bad('parameter "commands" is required')
    if len(commands) > 100:
        raise bad("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not _COMMAND.fullmatch(str(command.get("command", "")).removeprefix("/")):
            raise bad("BOT_COMMAND_INVALID")
        if not 1 <= units(str(command.get("description", ""))) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
    state.commands[_scope(state, args)] = commands
    return True


def get_commands(state: State, args: Args) -> list[Json]:
    """`getMyCommands`."""
    return state.commands.get(_scope(state, args), [])


def delete_commands(state: State, args: Args) -> bool:
    """`deleteMyCommands`."""
    state.commands.pop(_scope(state, args), None)
    return True


def get_chat(state: State, args: Args) -> Json:
    """`getChat`."""
    gifts = dict.fromkeys(_GIFTS, False)
    return {**chat_of(state, args).json, "accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": gifts}


def membership(state: State, chat: Chat, person: int) -> Json:
    """Return somebody's membership as the API writes it."""
    status = chat.members.get(person, "left")
    base: Json = {"status": status, "user": state.who(person)}
    match status:
        case "creator":
            return {**base, "is_anonymous": False}
        case "administrator":
            return {**base, "can_be_edited": False, "is_anonymous": False, **dict.fromkeys(_RIGHTS, True)}
        case "kicked":
            return {**base, "until_date": 0}
        case _:
            return base


def get_member(state: State, args: Args) -> Json:
    """`getChatMember`."""
    chat = chat_of(state, args)
    person = args.number("user_id")
    if person != BOT_ID and person not in state.people:
        raise bad("invalid user_id specified" if person <= 0 else "user not found")
    if chat.type == "channel" and chat.members.get(BOT_ID) != "administrator" and person != BOT_ID:
        raise bad("member list is inaccessible")
    return membership(state, chat, person)


def get_administrators(state: State, args: Args) -> list[Json]:
    """`getChatAdministrators`; other bots are left out."""
    chat = chat_of(state, args)
    if chat.type == "private":
        raise bad("there are no administrators in the private chat")
    found = statuses(chat, {"creator", "administrator"})
    return [membership(state, chat, person) for person in found if person == BOT_ID or not state.who(person)["is_bot"]]


def get_member_count(state: State, args: Args) -> int:
    """`getChatMemberCount`."""
    return len(statuses(chat_of(state, args), PRESENT))


def leave_chat(state: State, args: Args) -> bool:
    """`leaveChat`."""
    chat = chat_of(state, args)
    if chat.type == "private":
        raise bad("chat member status can't be changed in private chats")
    chat.members[BOT_ID] = "left"
    state.wake()
    return True


def get_file(state: State, args: Args) -> Json:
    """`getFile`."""
    stored = state.files.get(args.text("file_id"))
    if stored is None:
        raise bad("wrong file_id or the file is temporarily unavailable")
    if len(stored.data) > DOWNLOAD_LIMIT:
        raise bad("file is too big")
    file_id = args.text("file_id")
    path = state.kept_at or f"documents/{file_id}/{stored.name}"
    return {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(stored.data), "file_path": path}


METHODS: Final[Mapping[str, Callable[[State, Args], Any]]] = MappingProxyType(
    {
        "getMe": get_me,
        "setWebhook": set_webhook,
        "deleteWebhook": delete_webhook,
        "getWebhookInfo": webhook_info,
        "answerCallbackQuery": answer_query,
        "setMyCommands": set_commands,
        "getMyCommands": get_commands,
        "deleteMyCommands": delete_commands,
        "getChat": get_chat,
        "getChatMember": get_member,
        "getChatAdministrators": get_administrators,
        "getChatMemberCount": get_member_count,
        "leaveChat": leave_chat,
        "getFile": get_file,
    }
)
