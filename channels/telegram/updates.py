"""An update of the Bot API, as values of the application. Pure: JSON in, values out.

Only text that its sender typed counts as typed: a forward and a text that came by an inline bot are quoted. So is the
text that is replied to, unless it is this bot's own. An edit is never a second command, so edited messages are not
read, and their sender learns that. Messages of senders that write as a chat are not read, as no person could be held to
them. Bots are read only if they are named, only in groups, and their texts count as typed by no person. `met` tells
apart from that who was seen in which chat.

A sticker is not a file. A file's name and size come from its sender and Telegram; Telegram names no photo and no
recording, so those get a name by their kind.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from channels.messages import EDIT, Address, Attachment, Event, How, Inbound, Membership, Moved
from channels.port import Reader, ReaderKind

Json = Mapping[str, Any]

_NAMES: Final = MappingProxyType(
    {
        "animation": "animation.mp4",
        "audio": "audio.mp3",
        "document": "document",
        "video": "video.mp4",
        "video_note": "video.mp4",
        "voice": "voice.ogg",
    }
)
_LONGEST: Final = 255


_UNREAD: Final = MappingProxyType(
    {
        "sticker": "a sticker",
        "venue": "a place",
        "location": "a location",
        "contact": "a contact",
        "poll": "a poll",
        "checklist": "a checklist",
        "dice": "a dice",
        "game": "a game",
        "story": "a story",
        "paid_media": "paid media",
        "gift": "a gift",
        "giveaway": "a giveaway",
        "invoice": "an invoice",
    }
)
"""The kinds of messages that are not read. A message of any other kind tells of the chat and not to this bot."""


def attached(message: Json) -> tuple[Attachment, ...]:
    """Return the files of a message, each once: an animation also comes as a document.

    Raises KeyError or TypeError: it is not a message as the Bot API describes them.
    """
    found = dict[str, Attachment]()
    for kind, name in _NAMES.items():
        if (file := message.get(kind)) is not None:
            found.setdefault(str(file["file_id"]), _attachment(file, name))
    if sizes := message.get("photo"):
        largest = max(sizes, key=lambda size: size["width"] * size["height"])
        found[str(largest["file_id"])] = _attachment(largest, "photo.jpg", "image/jpeg")
    return tuple(found.values())


def _attachment(file: Json, name: str, media_type: str = "") -> Attachment:
    return Attachment(
        handle=str(file["file_id"]),
        name=str(file.get("file_name") or name)[:_LONGEST],
        media_type=str(file.get("mime_type") or media_type)[:_LONGEST],
        size=int(file.get("file_size") or 0),
    )


NAME: Final = "telegram"
UPDATES: Final = ("message", "edited_message", "callback_query", "chat_member", "my_chat_member")
"""The kinds of updates to ask for. The usual ones leave out who joins and leaves."""

GENERAL: Final = 1
"""The topic that is there always, and is never named when something is sent."""


_CHATS: Final = frozenset({"private", "group", "supergroup"})
_PRESENT: Final = frozenset({"creator", "administrator", "member"})
FILE_UNREAD: Final = "[a file, which is not read here]"
"""The text in the place of a file in a message that is replied to: a user who wants it read sends it themselves."""


@dataclass(frozen=True, slots=True)
class TelegramIdentity:
    """The identity of this bot: the number and name of its account, and the commands it offers, without their slash.

    `bots` are the accounts of other bots that are read.
    """

    id: str
    username: str
    commands: frozenset[str] = frozenset()
    bots: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Presence:
    """The accounts that an update showed in a shared chat, and the accounts that are gone from it."""

    chat: str
    present: tuple[Reader, ...] = ()
    gone: tuple[str, ...] = ()
    moves: bool = False
    """An account joined or left the chat, so cached facts about its readers are stale."""


def events(update: Json, me: TelegramIdentity) -> tuple[Event, ...]:
    """Return the events of an update, in order; none for one that is not meant for us.

    Raises AttributeError, KeyError, TypeError or ValueError: it is not an update as the Bot API describes them.
    """
    dedupe = f"update/{me.id}/{update['update_id']}"
    if (message := update.get("message")) is not None:
        told = tuple(_service(message, me, dedupe))
        found = None if told else _inbound(message, me, dedupe)
        return told if found is None else (found,)
    if (edited := update.get("edited_message")) is not None:
        # A location that moves is edited all the time.
        changed = None if "location" in edited else _inbound(edited, me, dedupe)
        unread = changed and _unread(changed, EDIT)
        return () if unread is None else (unread,)
    if (query := update.get("callback_query")) is not None:
        pressed = _pressed(query, me, dedupe)
        return () if pressed is None else (pressed,)
    for kind in ("chat_member", "my_chat_member"):
        if (change := update.get(kind)) is not None:
            changed = _changed(change, me, dedupe)
            return () if changed is None else (changed,)
    return ()


def met(update: Json) -> Presence | None:
    """Return the accounts that an update showed in a shared chat, None if it tells nothing of one."""
    for kind in ("message", "edited_message", "callback_query"):
        if (told := update.get(kind)) is not None:
            message = _within(told, "message") if kind == "callback_query" else told
            if "chat" not in message or message["chat"]["type"] == "private":
                return None
            came, left = message.get("new_chat_members", []), message.get("left_chat_member")
            here = [told["from"]] if "from" in told and "sender_chat" not in told else []
            gone = (account(left),) if left else ()
            present = tuple(one for one in map(_reader, (*here, *came)) if one.account not in gone)
            return Presence(str(message["chat"]["id"]), present, gone, moves=bool(came or left))
    for kind in ("chat_member", "my_chat_member"):
        if (change := update.get(kind)) is not None and change["chat"]["type"] != "private":
            who, chat = change["new_chat_member"]["user"], str(change["chat"]["id"])
            if _is_present(change["new_chat_member"]):
                return Presence(chat, (_reader(who),), moves=True)
            return Presence(chat, gone=(account(who),), moves=True)
    return None


def lane(update: Json) -> str:
    """Return the lane of an update: the chat's id, for a group that moves its new id."""
    try:
        told = next(update[kind] for kind in UPDATES if kind in update)
        message = told if "chat" in told else told["message"]
        return str(message.get("migrate_to_chat_id", message["chat"]["id"]))
    except (AttributeError, KeyError, StopIteration, TypeError):
        return ""


def commands(update: Json, me: TelegramIdentity) -> bool:
    """Say whether an update is a command, which the order of a session's updates does not concern."""
    try:
        return any(isinstance(event, Inbound) and event.text.startswith("/") for event in events(update, me))
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def account(user: Json) -> str:
    """Return a user's account."""
    return f"{NAME}:{user['id']}"


def moved(old: str, new: str) -> Moved:
    """Return that a group has another id now. It comes in several ways, and is the same every time."""
    return Moved(Address(NAME, old), Address(NAME, new), f"moved/{old}/{new}")


def _within(json: Json, name: str) -> Json:
    """Return an object in another, an empty one if it is not there."""
    found: Json | None = json.get(name)
    return {} if found is None else found


def _reader(user: Json) -> Reader:
    return Reader(account(user), ReaderKind.BOT if user["is_bot"] else ReaderKind.STRANGER)


def _is_present(member: Json) -> bool:
    return member["status"] in _PRESENT or (member["status"] == "restricted" and bool(member.get("is_member")))


def _address(message: Json) -> Address:
    # A thread of replies has a number too in a supergroup without topics; only a topic is a place of its own.
    topic = message.get("message_thread_id") if message.get("is_topic_message") else None
    return Address(NAME, str(message["chat"]["id"]), thread="" if topic in {None, GENERAL} else str(topic))


def _service(message: Json, me: TelegramIdentity, dedupe: str) -> Iterator[Event]:
    chat = message["chat"]
    if "migrate_to_chat_id" in message:
        yield moved(str(chat["id"]), str(message["migrate_to_chat_id"]))
    if "migrate_from_chat_id" in message:
        yield moved(str(message["migrate_from_chat_id"]), str(chat["id"]))
    came: list[Json] = message.get("new_chat_members", [])
    went: list[Json] = [message["left_chat_member"]] if "left_chat_member" in message else []
    for number, user in enumerate((*came, *went)):
        # of the bot itself `my_chat_member` tells
        if str(user["id"]) != me.id:
            place = Address(NAME, str(chat["id"]))
            yield Membership(place, account(user), joined=number < len(came), dedupe=f"{dedupe}/{number}")


def _changed(change: Json, me: TelegramIdentity, dedupe: str) -> Membership | None:
    before, after = _is_present(change["old_chat_member"]), _is_present(change["new_chat_member"])
    if change["chat"]["type"] == "private" or before == after:
        return None
    place = Address(NAME, str(change["chat"]["id"]))
    user = change["new_chat_member"]["user"]
    own = str(user["id"]) == me.id
    return Membership(place, account(user), after, dedupe, own, account(change["from"]) if own else "")


def _pressed(query: Json, me: TelegramIdentity, dedupe: str) -> Inbound | None:
    """Read a press on a button: a command under a message of this bot that can still be seen."""
    message, data = _within(query, "message"), query.get("data", "")
    if not data.startswith("/") or str(_within(message, "from").get("id")) != me.id:
        return None
    private = message["chat"]["type"] == "private"
    return Inbound(
        _address(message),
        account(query["from"]),
        data,
        dedupe,
        private=private,
        how=How.BUTTON,
        press=str(query["id"]),
    )


def _inbound(message: Json, me: TelegramIdentity, dedupe: str) -> Inbound | None:
    chat, sender = message["chat"], message.get("from")
    if chat["type"] not in _CHATS or sender is None or "sender_chat" in message:
        return None
    bot = bool(sender["is_bot"])
    if bot and (chat["type"] == "private" or str(sender["id"]) == me.id or account(sender) not in me.bots):
        return None
    private = chat["type"] == "private"
    # A chat with one person has that person's number; otherwise another person would read there.
    if private and chat["id"] != sender["id"]:
        return None
    text, quoted, files, authored = _text(message), _quoted(message, me), attached(message), True
    called = _replies_to(message, me)
    if "forward_origin" in message or "via_bot" in message:
        text, quoted, authored = "", (text, *quoted) if text else (), False
    elif text:
        read = _typed(text, message.get("entities", message.get("caption_entities", [])), me)
        if read is None:
            return None
        text, called = read[0], called or read[1]
    elif not files:
        quoted = ()
    unread = "" if text or quoted or files else next((name for kind, name in _UNREAD.items() if kind in message), "")
    if not (text or quoted or files or unread) or (unread and (bot or not (private or called))):
        return None
    return Inbound(
        _address(message),
        account(sender),
        text,
        dedupe,
        authored and not bot,
        quoted,
        private,
        addressed=private or called,
        files=files,
        bot=bot,
        unread=unread,
    )


def _unread(changed: Inbound, kind: str) -> Inbound | None:
    """Return a message without its content, as of a kind that is not read; None if it was not meant for this bot."""
    if changed.bot or not changed.addressed:
        return None
    return replace(changed, text="", quoted=(), files=(), authored=True, unread=kind)


def _text(message: Json) -> str:
    return message.get("text") or message.get("caption") or ""


def _replies_to(message: Json, me: TelegramIdentity) -> bool:
    """Tell whether a message is a reply to one of this bot; the first of a topic is replied to by all in it."""
    replied = _within(message, "reply_to_message")
    return str(_within(replied, "from").get("id")) == me.id and "forum_topic_created" not in replied


def _quoted(message: Json, me: TelegramIdentity) -> tuple[str, ...]:
    if "quote" in message:
        return (message["quote"]["text"],)
    if _replies_to(message, me):
        return ()
    replied = _within(message, "reply_to_message")
    return tuple(filter(None, (_text(replied), FILE_UNREAD if attached(replied) else "")))


def _typed(text: str, entities: list[Json], me: TelegramIdentity) -> tuple[str, bool] | None:
    """Return a text without the bot's name, and whether it had it or is a command of ours; None if another's."""
    called, name = False, f"@{me.username}".lower()
    for entity in sorted(entities, key=lambda entity: entity["offset"], reverse=True):
        before, marked, after = _cut(text, entity["offset"], entity["length"])
        mentions = entity["type"] == "mention" and marked.lower() == name
        if mentions or (entity["type"] == "text_mention" and str(entity["user"]["id"]) == me.id):
            text, called = before + after, True
        elif entity["type"] == "bot_command" and not before:
            command, at, whose = marked.partition("@")
            if at and f"@{whose}".lower() != name:
                return None
            text, called = command + after, called or bool(at) or command[1:] in me.commands
    return text.strip(), called


def _cut(text: str, offset: int, length: int) -> tuple[str, str, str]:
    """Cut a text before and after an entity, which counts UTF-16 code units."""
    units, begin, end = text.encode("utf-16-le", "surrogatepass"), 2 * offset, 2 * (offset + length)
    before, marked, after = (
        part.decode("utf-16-le", "surrogatepass") for part in (units[:begin], units[begin:end], units[end:])
    )
    return before, marked, after
