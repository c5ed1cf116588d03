"""What a played Telegram knows: people, chats, messages, updates, files, commands. No protocol, no checks."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

Json = dict[str, Any]

BOT_ID: Final = 7_000_000_001
TOKEN: Final = f"{BOT_ID}:SIM-AAH_a-token-that-opens-nothing"
# Identifiers may use 52 bits; people here use all of them.
FIRST_PERSON: Final = 2**52 - 1_000_000
UNASKED: Final = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
GENERAL: Final = 1
PRESENT: Final = frozenset({"creator", "administrator", "member"})


class ApiError(Exception):
    """What Telegram answers instead: the code, its sentence, and the parameters some errors have."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


def bad(description: str) -> ApiError:
    """Return a 400."""
    return ApiError(400, f"Bad Request: {description}")


@dataclass(eq=False)
class Shown:
    """A message as it stands in a chat. `versions` are the texts it had; `seen_by` is whom alone it is shown to."""

    json: Json
    chat: "Chat"
    by_bot: bool
    versions: list[str] = field(default_factory=list[str])
    deleted: bool = False
    seen_by: int | None = None
    reactions: list[str] = field(default_factory=list[str])

    @property
    def id(self) -> int:
        """Its number in the chat, 0 if it is ephemeral."""
        return self.json["message_id"]

    @property
    def text(self) -> str:
        """Its text or caption."""
        return str(self.json.get("text", self.json.get("caption", "")))

    @property
    def topic(self) -> int | None:
        """The topic it stands in."""
        return self.json.get("message_thread_id") if self.json.get("is_topic_message") else None

    @property
    def entities(self) -> list[Json]:
        """How it is formatted, with what Telegram found by itself."""
        return self.json.get("entities", self.json.get("caption_entities", []))

    def marked(self, *kinds: str) -> list[str]:
        """Return the stretches of the text with these entities."""
        units = self.text.encode("utf-16-le")
        found = [entity for entity in self.entities if entity["type"] in kinds]
        places = [(2 * entity["offset"], 2 * (entity["offset"] + entity["length"])) for entity in found]
        return [units[begin:end].decode("utf-16-le") for begin, end in places]

    @property
    def clickable(self) -> list[str]:
        """Return what a reader can click in the text."""
        return self.marked("url", "text_link", "mention", "text_mention", "bot_command", "hashtag", "email")

    @property
    def buttons(self) -> list[Json]:
        """The buttons below it, row after row."""
        rows: list[list[Json]] = self.json.get("reply_markup", {}).get("inline_keyboard", [])
        return [button for row in rows for button in row]


@dataclass(eq=False)
class Chat:
    """A chat: who is in it with which status, its topics, what it shows, and what else happened in it."""

    id: int
    type: str
    title: str = ""
    forum: bool = False
    members: dict[int, str] = field(default_factory=dict[int, str])
    topics: dict[int, str] = field(default_factory=dict[int, str])
    closed: set[int] = field(default_factory=set[int])
    messages: list[Shown] = field(default_factory=list[Shown])
    actions: list[tuple[str, int | None]] = field(default_factory=list[tuple[str, int | None]])
    migrated_to: int | None = None
    blocked: bool = False
    muted: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: count(101))

    @property
    def json(self) -> Json:
        """The chat as messages name it."""
        named = {"first_name": self.title} if self.type == "private" else {"title": self.title}
        return {"id": self.id, "type": self.type, **named, **({"is_forum": True} if self.forum else {})}

    @property
    def shows(self) -> list[Shown]:
        """What stands in it now."""
        return [message for message in self.messages if not message.deleted]

    @property
    def said(self) -> list[str]:
        """The texts that the bot's messages have now, in order."""
        return [message.text for message in self.shows if message.by_bot]

    def find(self, number: int) -> Shown | None:
        """Return the message of this number, unless it is gone."""
        return next((message for message in self.shows if message.id == number and number), None)

    def holds(self, person: int) -> bool:
        """Tell whether somebody is in it."""
        return self.members.get(person) in PRESENT


@dataclass
class Webhook:
    """Where updates are posted to, while `url` is set."""

    url: str = ""
    secret: str = ""
    connections: int = 40
    error: str = ""
    error_date: int = 0


@dataclass
class Stored:
    """A file."""

    name: str
    data: bytes
    mime: str = "application/octet-stream"


@dataclass
class Query:
    """A press on a button that the bot was told of. `answer` is what the presser was shown."""

    json: Json
    at: float
    answer: Json | None = None


@dataclass
class State:
    """All of it. `privacy` is the bot's privacy mode, `ephemeral` whether the server knows ephemeral messages.

    `query_life` is how long, in seconds, a press can be answered. `kept_at` is the path at which a server of
    one's own says all files are, where it hands out none. `spare` takes out of updates what may be left out.
    """

    token: str = TOKEN
    username: str = "sim_lockgate_bot"
    privacy: bool = True
    ephemeral: bool = False
    query_life: float = 60.0
    kept_at: str = ""
    spare: Callable[[Json], Json] = dict
    people: dict[int, Json] = field(default_factory=dict[int, Json])
    chats: dict[int, Chat] = field(default_factory=dict[int, Chat])
    updates: list[Json] = field(default_factory=list[Json])
    again: list[Json] = field(default_factory=list[Json])
    given: dict[int, Json] = field(default_factory=dict[int, Json])
    allowed: frozenset[str] | None = None
    webhook: Webhook = field(default_factory=Webhook)
    poll: "asyncio.Future[str] | None" = None
    files: dict[str, Stored] = field(default_factory=dict[str, Stored])
    commands: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    queries: dict[str, Query] = field(default_factory=dict[str, Query])
    ignored_entities: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    numbers: Iterator[int] = field(default_factory=lambda: count(900_000_001))
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def bot(self) -> Json:
        """The bot as a user."""
        return {"id": BOT_ID, "is_bot": True, "first_name": "Lockgate (sim)", "username": self.username}

    def who(self, person: int) -> Json:
        """Return a user."""
        return self.bot if person == BOT_ID else self.people[person]

    def wake(self) -> None:
        """Wake whoever waits for something to happen."""
        self.changed.set()
        self.changed = asyncio.Event()

    def tell(self, kind: str, payload: Json) -> None:
        """Make an update, if the bot asked for such ones."""
        asked = kind in self.allowed if self.allowed is not None else kind not in UNASKED
        if asked:
            self.updates.append({"update_id": next(self.numbers), kind: self.spare(payload)})
        self.wake()

    def confirm(self, offset: int) -> None:
        """Forget the updates before an offset; a negative one counts from the end."""
        if offset < 0:
            offset = self.updates[offset]["update_id"] if len(self.updates) >= -offset else 0
        self.updates = [update for update in self.updates if update["update_id"] >= offset]

    def due(self, limit: int) -> list[Json]:
        """Return what to deliver now: what is to be delivered again, then what is new."""
        again, self.again = self.again, []
        found = [*again, *self.updates][: max(limit, len(again))]
        self.given |= {update["update_id"]: update for update in found}
        return found

    def keep(self, chat: Chat, json: Json, *, by_bot: bool, seen_by: int | None = None) -> Shown:
        """Put a message into a chat."""
        number = 0 if seen_by else next(chat.numbers)
        author = self.bot if by_bot else json.pop("from")
        full = {"message_id": number, "date": int(time.time()), "chat": chat.json, "from": author, **json}
        replied: Json = json.get("reply_to_message", {})
        if replied and chat.type == "supergroup" and not chat.forum:
            # A thread of replies has a number too, though the chat has no topics.
            full["message_thread_id"] = replied.get("message_thread_id", replied["message_id"])
        if seen_by:
            full |= {"ephemeral_message_id": next(self.ids), "receiver_user_id": seen_by}
        shown = Shown(full, chat, by_bot, [str(json.get("text", json.get("caption", "")))], seen_by=seen_by)
        chat.messages.append(shown)
        self.wake()
        return shown

    def store(self, name: str, data: bytes, mime: str = "application/octet-stream") -> str:
        """Keep a file and return its id."""
        file_id = f"sim-file-{next(self.ids)}"
        self.files[file_id] = Stored(name, data, mime)
        return file_id

    def seen(self, shown: Shown) -> Json:
        """Return a message as the API gives it: a reply's message without its own replies."""
        inner: Json = shown.json.get("reply_to_message", {})
        if not inner:
            return shown.json
        return {**shown.json, "reply_to_message": {k: v for k, v in inner.items() if k != "reply_to_message"}}


def statuses(chat: Chat, among: Iterable[str]) -> list[int]:
    """Return who has one of these statuses in a chat."""
    wanted = set(among)
    return [person for person, status in chat.members.items() if status in wanted]
