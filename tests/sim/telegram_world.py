"""People and chats of a played Telegram, driven as people do: they say, press, edit, join, leave and block."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.sim.telegram_calls import membership
from tests.sim.telegram_kinds import KINDS, pieces
from tests.sim.telegram_state import BOT_ID, FIRST_PERSON, Chat, Json, Query, Shown, State
from tests.sim.telegram_text import found, units

PNG: Final = b"\x89PNG\r\n\x1a\n a picture that nobody looks at"


@dataclass(frozen=True)
class Person:
    """Somebody with an account."""

    state: State
    json: Json

    @property
    def id(self) -> int:
        """The account's number."""
        return self.json["id"]

    @property
    def private(self) -> Chat:
        """The chat with the bot alone; it is there once the person has started it."""
        if self.id not in self.state.chats:
            members = {self.id: "member", BOT_ID: "member"}
            self.state.chats[self.id] = Chat(self.id, "private", self.json["first_name"], members=members)
        return self.state.chats[self.id]

    def says(  # noqa: PLR0913 - what people can do with a message
        self,
        chat: Chat | None,
        text: str = "",
        *,
        reply_to: Shown | None = None,
        quote: str = "",
        forward_of: "Person | Shown | str | None" = None,
        topic: int | None = None,
        photo: bytes | None = None,
        document: tuple[str, bytes] | None = None,
        voice: bytes | None = None,
        more: Json | None = None,
    ) -> Shown:
        """Write into a chat, None for the one with the bot; the bot is told if it may read it.

        `forward_of` is a message, a person, or the name of somebody who hides the account. `more` are further fields.
        """
        chat = chat or self.private
        body: Json = {"from": self.json, **(more or {})}
        body |= _media(self.state, photo=photo, document=document, voice=voice)
        if text:
            name, entities = ("caption" if {"photo", "document", "voice"} & body.keys() else "text"), found(text, [])
            where = "entities" if name == "text" else "caption_entities"
            body |= {name: text, **({where: entities} if entities else {})}
        if forward_of is not None:
            body["forward_origin"] = _origin(forward_of)
        if topic is not None:
            body |= {"message_thread_id": topic, "is_topic_message": True}
        if reply_to is not None:
            body["reply_to_message"] = self.state.seen(reply_to)
            if quote:
                position = units(reply_to.text[: reply_to.text.index(quote)])
                body["quote"] = {"text": quote, "position": position}
        shown = self.state.keep(chat, body, by_bot=False)
        if bot_reads(self.state, shown):
            self.state.tell("message", self.state.seen(shown))
        return shown

    def pastes(self, chat: Chat | None, text: str, **more: Any) -> list[Shown]:  # noqa: ANN401 - as for `says`
        """Send a text of any length, which the client cuts into messages; `more` is said with the first of them."""
        first, *others = pieces(text)
        return [self.says(chat, first, **more), *(self.says(chat, piece) for piece in others)]

    def album(
        self,
        chat: Chat | None,
        *files: tuple[str, bytes],
        caption: str = "",
        at: int = 0,
        forward_of: "Person | Shown | str | None" = None,
        number: str = "",
    ) -> list[Shown]:
        """Send files as an album, with a caption below the file at this place; `number` is that of an album begun."""
        group = {"media_group_id": number or f"13{next(self.state.ids):015d}"}
        return [
            self.says(chat, caption if place == at else "", document=file, more=group, forward_of=forward_of)
            for place, file in enumerate(files)
        ]

    def sends(self, chat: Chat | None, kind: str, **more: Any) -> Shown:  # noqa: ANN401 - as for `says`
        """Send something that is neither text nor a file, see `KINDS`."""
        return self.says(chat, more=dict(KINDS[kind]), **more)

    def presses(self, message: Shown, button: str | int) -> Query:
        """Press a button, by its text or its place from 0."""
        buttons = message.buttons
        pressed = buttons[button] if isinstance(button, int) else next(b for b in buttons if b["text"] == button)
        number = f"query-{next(self.state.ids)}"
        body: Json = {"id": number, "from": self.json, "chat_instance": f"i{message.chat.id}"}
        body |= {"data": pressed["callback_data"], "message": self.state.seen(message)}
        self.state.queries[number] = Query(body, time.monotonic())
        self.state.tell("callback_query", body)
        return self.state.queries[number]

    def edits(self, message: Shown, text: str) -> None:
        """Change a message of one's own."""
        message.json |= {"text": text, "entities": found(text, []), "edit_date": int(time.time())}
        message.versions.append(text)
        if bot_reads(self.state, message):
            self.state.tell("edited_message", self.state.seen(message))

    def reacts(self, message: Shown, emoji: str) -> None:
        """Put a reaction under a message; only a bot that is an administrator is told, in a group."""
        if message.chat.type == "private" or message.chat.members.get(BOT_ID) == "administrator":
            new = [{"type": "emoji", "emoji": emoji}]
            where: Json = {"chat": message.chat.json, "message_id": message.id, "user": self.json}
            self.state.tell("message_reaction", {**where, "date": _now(), "old_reaction": [], "new_reaction": new})

    def joins(self, chat: Chat, status: str = "member") -> None:
        """Come into a chat, or get another status in it."""
        came = not chat.holds(self.id)
        moved(self.state, chat, self.id, status, by=self.json)
        if came and chat.type != "channel":
            _service(self.state, chat, self.json, {"new_chat_members": [self.json]})

    def leaves(self, chat: Chat, status: str = "left") -> None:
        """Go out of a chat."""
        moved(self.state, chat, self.id, status, by=self.json)
        if chat.type != "channel":
            _service(self.state, chat, self.json, {"left_chat_member": self.json})

    def blocks(self) -> None:
        """Block the bot."""
        self.private.blocked = True
        moved(self.state, self.private, BOT_ID, "kicked", by=self.json)

    def unblocks(self) -> None:
        """Let the bot write again."""
        self.private.blocked = False
        moved(self.state, self.private, BOT_ID, "member", by=self.json)


@dataclass
class World:
    """Everybody and everything; what the server answers from."""

    state: State = field(default_factory=State)

    def user(self, name: str, *, bot: bool = False) -> Person:
        """Make an account."""
        number = FIRST_PERSON + len(self.state.people)
        json: Json = {"id": number, "is_bot": bot, "first_name": name, "username": name.lower(), "language_code": "en"}
        self.state.people[number] = json
        return Person(self.state, json)

    def group(self, title: str, *people: Person, bot: str = "member") -> Chat:
        """Make a small group; the first of the people owns it, and `bot` is the bot's status in it."""
        return self._chat(-(4_000_000 + len(self.state.chats)), "group", title, people, bot)

    def supergroup(self, title: str, *people: Person, bot: str = "member", forum: bool = False) -> Chat:
        """Make a supergroup, with topics if it is a forum."""
        chat = self._chat(-(1_002_000_000_000 + len(self.state.chats)), "supergroup", title, people, bot)
        chat.forum = forum
        return chat

    def channel(self, title: str, *people: Person, bot: str = "administrator") -> Chat:
        """Make a channel."""
        return self._chat(-(1_002_000_000_000 + len(self.state.chats)), "channel", title, people, bot)

    def _chat(self, number: int, kind: str, title: str, people: tuple[Person, ...], bot: str) -> Chat:
        members = {person.id: "creator" if place == 0 else "member" for place, person in enumerate(people)}
        chat = Chat(number, kind, title, members=members)
        self.state.chats[number] = chat
        if bot != "left":
            self.bot_becomes(chat, bot, by=people[0] if people else None)
        return chat

    def bot_becomes(self, chat: Chat, status: str, *, by: Person | None = None) -> None:
        """Give the bot another status: `member`, `administrator`, `left` or `kicked`."""
        moved(self.state, chat, BOT_ID, status, by=by.json if by else self.state.bot)

    def topic(self, chat: Chat, name: str, by: Person) -> int:
        """Open a topic and return its number."""
        body = {"forum_topic_created": {"name": name, "icon_color": 0}, "is_topic_message": True}
        shown = self.state.keep(chat, {"from": by.json, **body}, by_bot=False)
        shown.json["message_thread_id"] = shown.id
        chat.topics[shown.id] = name
        self.state.tell("message", shown.json)
        return shown.id

    def restrict(self, chat: Chat, *, muted: bool = True) -> None:
        """Take from the bot, in a chat that it stays in, the right to write; or give it back."""
        chat.muted = muted

    def close_topic(self, chat: Chat, topic: int) -> None:
        """Close a topic."""
        chat.closed.add(topic)

    def delete_topic(self, chat: Chat, topic: int) -> None:
        """Delete a topic and what stands in it; bots are not told."""
        del chat.topics[topic]
        for shown in chat.shows:
            shown.deleted = shown.json.get("message_thread_id") == topic

    def migrate(self, group: Chat) -> Chat:
        """Make a supergroup of a group, as Telegram does by itself."""
        new = self.supergroup(group.title, bot="left")
        new.members = dict(group.members)
        owner = next((self.state.who(person) for person in group.members if person != BOT_ID), self.state.bot)
        _service(self.state, group, owner, {"migrate_to_chat_id": new.id})
        _service(self.state, new, owner, {"migrate_from_chat_id": group.id})
        group.migrated_to = new.id
        return new

    def repeat_updates(self, number: int = 1) -> None:
        """Deliver the newest updates once more, also if they were confirmed."""
        self.state.again += list(self.state.given.values())[-number:]
        self.state.wake()

    def expire_queries(self) -> None:
        """Let every press be too old to be answered."""
        for query in self.state.queries.values():
            query.at = float("-inf")

    async def until(self, holds: Callable[[], Any], seconds: float = 60.0) -> None:
        """Wait until something holds.

        Raises TimeoutError: it does not, in this time.
        """
        async with asyncio.timeout(seconds):
            while not holds():
                await self.state.changed.wait()


def moved(state: State, chat: Chat, person: int, status: str, *, by: Json) -> None:
    """Change a membership; the bot is told of its own, and as administrator of others'."""
    old = membership(state, chat, person)
    chat.members[person] = status
    new = membership(state, chat, person)
    body: Json = {"chat": chat.json, "from": by, "date": _now(), "old_chat_member": old, "new_chat_member": new}
    if person == BOT_ID:
        state.tell("my_chat_member", body)
    elif chat.members.get(BOT_ID) == "administrator":
        state.tell("chat_member", body)
    state.wake()


def bot_reads(state: State, shown: Shown) -> bool:
    """Tell whether the bot is told of a message: in privacy mode only of what is meant for it."""
    chat = shown.chat
    if not chat.holds(BOT_ID) or chat.blocked:
        return False
    if chat.type == "private" or not state.privacy or chat.members[BOT_ID] == "administrator":
        return True
    command = re.match(r"/\w+(@\w+)?", shown.text)
    commanded = command is not None and command.group(1) in {None, f"@{state.username}"}
    replied = shown.json.get("reply_to_message", {}).get("from", {}).get("id") == BOT_ID
    return commanded or replied or f"@{state.username}" in shown.marked("mention")


def _service(state: State, chat: Chat, by: Json, body: Json) -> None:
    shown = state.keep(chat, {"from": by, **body}, by_bot=False)
    if chat.holds(BOT_ID):
        state.tell("message", shown.json)


def _now() -> int:
    return int(time.time())


def _origin(forwarded: Person | Shown | str) -> Json:
    if isinstance(forwarded, str):
        return {"type": "hidden_user", "date": _now(), "sender_user_name": forwarded}
    sender = forwarded.json if isinstance(forwarded, Person) else forwarded.json["from"]
    return {"type": "user", "date": _now(), "sender_user": sender}


def _media(state: State, *, photo: bytes | None, document: tuple[str, bytes] | None, voice: bytes | None) -> Json:
    if photo is not None:
        file_id = state.store("photo.jpg", photo, "image/jpeg")
        size = {"file_id": file_id, "file_unique_id": f"u{file_id}", "width": 90, "height": 90, "file_size": len(photo)}
        return {"photo": [size]}
    if document is not None:
        name, data = document
        file_id = state.store(name, data)
        told = {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_name": name, "file_size": len(data)}
        return {"document": told}
    if voice is not None:
        file_id = state.store("voice.ogg", voice, "audio/ogg")
        told = {"file_id": file_id, "file_unique_id": f"u{file_id}", "duration": 1, "mime_type": "audio/ogg"}
        return {"voice": {**told, "file_size": len(voice)}}
    return {}
