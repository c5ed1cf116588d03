"""The arguments of one call, as a form, a query or JSON brought them, and the chat they name."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.sim.telegram_state import BOT_ID, ApiError, Chat, Json, State, Stored, bad


@dataclass(frozen=True)
class Args:
    """What a method was called with; values are texts, or what JSON had, and files came beside them."""

    values: Json
    files: dict[str, Stored] = field(default_factory=dict[str, Stored])

    def text(self, name: str) -> str:
        """Return a text, empty if it was not given."""
        value = self.values.get(name, "")
        return value if isinstance(value, str) else str(value)

    def number(self, name: str, default: int = 0) -> int:
        """Return a whole number."""
        value = self.values.get(name, "")
        try:
            return default if value in ("", None) else int(value)
        except ValueError:
            raise bad(f"invalid {name} specified") from None

    def flag(self, name: str) -> bool:
        """Return a yes or no."""
        return str(self.values.get(name, "")).lower() in {"true", "1", "yes"}

    def json(self, name: str) -> Any:  # noqa: ANN401 - it may be anything
        """Return a value that is written as JSON, None if it was not given."""
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value else None
        except ValueError:
            raise bad(f"can't parse {name.replace('_', ' ')} JSON object") from None


def chat_of(state: State, args: Args) -> Chat:
    """Return the chat that a call is about.

    Raises ApiError: there is none, or the bot may not be there.
    """
    if not args.text("chat_id"):
        raise bad("chat_id is empty")
    chat = state.chats.get(args.number("chat_id"))
    if chat is None:
        if args.number("chat_id") in state.people:
            raise ApiError(403, "Forbidden: bot can't initiate conversation with a user")
        raise bad("chat not found")
    if chat.migrated_to is not None:
        raise ApiError(
            400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=chat.migrated_to
        )
    if chat.blocked:
        raise ApiError(403, "Forbidden: bot was blocked by the user")
    if not chat.holds(BOT_ID):
        kicked = chat.members.get(BOT_ID) == "kicked"
        raise ApiError(
            403, f"Forbidden: bot {'was kicked from' if kicked else 'is not a member of'} the {chat.type} chat"
        )
    return chat


def topic_of(chat: Chat, args: Args) -> int | None:
    """Return the topic to write into.

    Raises ApiError: it is not there. General is written to without naming it.
    """
    topic = args.number("message_thread_id")
    if not topic:
        return None
    if topic not in chat.topics:
        raise bad("message thread not found")
    if topic in chat.closed:
        raise bad("TOPIC_CLOSED")
    return topic
