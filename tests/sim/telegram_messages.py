"""The methods that put messages into chats, change them and take them away."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tests.sim.telegram_args import Args, chat_of, topic_of
from tests.sim.telegram_state import BOT_ID, ApiError, Chat, Json, Shown, State, Stored, bad
from tests.sim.telegram_text import CAPTION_LIMIT, checked, units

UPLOAD_LIMIT: Final = 50_000_000
CALLBACK_LIMIT: Final = 64
BUTTONS: Final = 100
ACTIONS: Final = frozenset(
    {
        *("typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document"),
        *("choose_sticker", "find_location", "record_video_note", "upload_video_note"),
    }
)
_DOES: Final = ("url", "callback_data", "web_app", "login_url", "switch_inline_query", "copy_text", "pay")


def send_message(state: State, args: Args) -> Json:
    """`sendMessage`."""
    if not args.text("text"):
        raise bad("message text is empty")
    chat = chat_of(state, args)
    seen_by = _receiver(state, chat, args)
    text, entities = checked(state, args.text("text"), args.values.get("entities"), args.text("parse_mode"))
    preview = args.json("link_preview_options")
    more: Json = {"link_preview_options": preview} if preview else {}
    body = {"text": text, **({"entities": entities} if entities else {}), **more}
    return _sent(state, chat, args, body, seen_by)


def send_document(state: State, args: Args) -> Json:
    """`sendDocument`."""
    file_id, stored = _uploaded(state, args, "document")
    document = {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_name": stored.name, "mime_type": stored.mime}
    return _captioned(state, args, {"document": {**document, "file_size": len(stored.data)}})


def send_photo(state: State, args: Args) -> Json:
    """`sendPhoto`."""
    file_id, stored = _uploaded(state, args, "photo")
    if not stored.data.startswith((b"\x89PNG", b"\xff\xd8")):
        raise bad("IMAGE_PROCESS_FAILED")
    size = {"file_id": file_id, "file_unique_id": f"u{file_id}", "width": 90, "height": 90}
    return _captioned(state, args, {"photo": [{**size, "file_size": len(stored.data)}]})


def edit_text(state: State, args: Args) -> Json:
    """`editMessageText`."""
    shown = _own(state, args)
    if not args.text("text"):
        raise bad("message text is empty")
    if "text" not in shown.json:
        raise bad("there is no text in the message to edit")
    text, entities = checked(state, args.text("text"), args.values.get("entities"), args.text("parse_mode"))
    return _edited(shown, {"text": text, "entities": entities}, args)


def edit_caption(state: State, args: Args) -> Json:
    """`editMessageCaption`."""
    shown = _own(state, args)
    if "text" in shown.json:
        raise bad("there is no caption in the message to edit")
    given, mode = args.values.get("caption_entities"), args.text("parse_mode")
    text, entities = checked(state, args.text("caption"), given, mode, CAPTION_LIMIT)
    return _edited(shown, {"caption": text, **({"caption_entities": entities} if entities else {})}, args)


def edit_markup(state: State, args: Args) -> Json:
    """`editMessageReplyMarkup`."""
    return _edited(_own(state, args), {}, args)


def delete_message(state: State, args: Args) -> bool:
    """`deleteMessage`."""
    chat = chat_of(state, args)
    shown = chat.find(args.number("message_id"))
    if shown is None:
        raise bad("message to delete not found")
    allowed = shown.by_bot or chat.type == "private" or chat.members[BOT_ID] == "administrator"
    if not allowed:
        raise bad("message can't be deleted")
    shown.deleted = True
    state.wake()
    return True


def send_action(state: State, args: Args) -> bool:
    """`sendChatAction`."""
    chat = chat_of(state, args)
    # The one method that takes General by its number.
    topic = 1 if args.number("message_thread_id") == 1 and chat.forum else topic_of(chat, args)
    if args.text("action") not in ACTIONS:
        raise bad("wrong parameter action in request")
    chat.actions.append((args.text("action"), topic))
    state.wake()
    return True


def react(state: State, args: Args) -> bool:
    """`setMessageReaction`."""
    chat = chat_of(state, args)
    shown = chat.find(args.number("message_id"))
    if shown is None:
        raise bad("message to react not found")
    reactions: list[Json] = args.json("reaction") or []
    if len(reactions) > 1:
        raise bad("REACTIONS_TOO_MANY")
    if any(reaction.get("type") != "emoji" or reaction.get("emoji", "a").isascii() for reaction in reactions):
        raise bad("REACTION_INVALID")
    shown.reactions = [reaction["emoji"] for reaction in reactions]
    state.wake()
    return True


def _receiver(state: State, chat: Chat, args: Args) -> int | None:
    # A server that does not know a parameter ignores it: what was meant for one is then shown to all.
    if not args.number("receiver_user_id") or not state.ephemeral:
        return None
    if chat.type not in {"group", "supergroup"}:
        raise bad("ephemeral messages can be sent only to groups")
    if not chat.holds(args.number("receiver_user_id")):
        raise bad("USER_NOT_PARTICIPANT")
    return args.number("receiver_user_id")


def _captioned(state: State, args: Args, body: Json) -> Json:
    chat = chat_of(state, args)
    if args.text("caption"):
        given, mode = args.values.get("caption_entities"), args.text("parse_mode")
        text, entities = checked(state, args.text("caption"), given, mode, CAPTION_LIMIT)
        body |= {"caption": text, **({"caption_entities": entities} if entities else {})}
    return _sent(state, chat, args, body, None)


def _uploaded(state: State, args: Args, name: str) -> tuple[str, Stored]:
    given = args.text(name)
    stored = args.files.get(given.removeprefix("attach://") if given.startswith("attach://") else name)
    if stored is None:
        if given not in state.files:
            raise bad("wrong file identifier/HTTP URL specified" if given else f"there is no {name} in the request")
        return given, state.files[given]
    if not stored.data:
        raise bad("file must be non-empty")
    if len(stored.data) > UPLOAD_LIMIT:
        raise ApiError(413, "Request Entity Too Large")
    return state.store(stored.name, stored.data, stored.mime), stored


def _sent(state: State, chat: Chat, args: Args, body: Json, seen_by: int | None) -> Json:
    if chat.muted:
        file = next((name for name in ("photo", "document") if name in body), "")
        raise bad(f"not enough rights to send {f'{file}s' if file else 'text messages'} to the chat")
    topic = topic_of(chat, args)
    if topic is not None:
        body |= {"message_thread_id": topic, "is_topic_message": True}
    body |= _reply(state, chat, args)
    markup = _keyboard(args)
    body |= {"reply_markup": markup} if markup else {}
    body |= {"disable_notification": True} if args.flag("disable_notification") else {}
    return state.seen(state.keep(chat, body, by_bot=True, seen_by=seen_by))


def _reply(state: State, chat: Chat, args: Args) -> Json:
    asked: Json = args.json("reply_parameters") or {}
    number = asked.get("message_id") or args.number("reply_to_message_id")
    if not number:
        return {}
    replied = chat.find(int(number))
    if replied is None:
        if asked.get("allow_sending_without_reply") or args.flag("allow_sending_without_reply"):
            return {}
        raise bad("message to be replied not found")
    quote = asked.get("quote", "")
    if quote and quote not in replied.text:
        raise bad("QUOTE_TEXT_INVALID")
    position = units(replied.text[: replied.text.find(quote)]) if quote else 0
    return {
        "reply_to_message": state.seen(replied),
        **({"quote": {"text": quote, "position": position}} if quote else {}),
    }


def _keyboard(args: Args) -> Json:
    markup: Json = args.json("reply_markup") or {}
    if "inline_keyboard" not in markup:
        return {}
    rows: list[list[Json]] = markup["inline_keyboard"]
    buttons = [button for row in rows for button in row]
    if len(buttons) > BUTTONS:
        raise bad("REPLY_MARKUP_TOO_LONG")
    for button in buttons:
        if not button.get("text"):
            raise bad('can\'t parse inline keyboard button: Field "text" must be of type String')
        if sum(name in button for name in _DOES) != 1:
            raise bad("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
        data = button.get("callback_data")
        if data is not None and not 1 <= len(data.encode()) <= CALLBACK_LIMIT:
            raise bad("BUTTON_DATA_INVALID")
        if "url" in button and not str(button["url"]).startswith(("http://", "https://", "tg://")):
            raise bad("BUTTON_URL_INVALID")
    return {"inline_keyboard": [row for row in rows if row]} if buttons else {}


def _own(state: State, args: Args) -> Shown:
    shown = chat_of(state, args).find(args.number("message_id"))
    if shown is None:
        raise bad("message to edit not found")
    if not shown.by_bot:
        raise bad("message can't be edited")
    return shown


def _edited(shown: Shown, content: Json, args: Args) -> Json:
    # An edit that names no keyboard takes it away.
    new = {**content, "reply_markup": _keyboard(args)}
    if all(shown.json.get(name, [] if name == "entities" else {}) == value for name, value in new.items()):
        raise bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a "
            "current content and reply markup of the message"
        )
    shown.json |= {**new, "edit_date": shown.json["date"] + 1}
    for name in ("entities", "reply_markup"):
        if not shown.json.get(name, True):
            del shown.json[name]
    if "text" in content:
        shown.versions.append(content["text"])
    return shown.json


METHODS: Final[Mapping[str, Callable[[State, Args], Any]]] = MappingProxyType(
    {
        "sendMessage": send_message,
        "sendDocument": send_document,
        "sendPhoto": send_photo,
        "editMessageText": edit_text,
        "editMessageCaption": edit_caption,
        "editMessageReplyMarkup": edit_markup,
        "deleteMessage": delete_message,
        "sendChatAction": send_action,
        "setMessageReaction": react,
    }
)
