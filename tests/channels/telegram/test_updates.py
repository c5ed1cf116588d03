"""What an update of Telegram's says: who typed what himself, what was quoted, and whether it was meant for this bot."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.messages import EDIT, Address, Attachment, How, Inbound, Membership, Moved
from channels.port import Reader, ReaderKind
from channels.telegram import updates
from channels.telegram.updates import FILE_UNREAD, Presence, TelegramIdentity, events, met

ME = TelegramIdentity("70", "lock_bot", frozenset({"status"}))
BOT = {"id": 70, "is_bot": True, "first_name": "Lock", "username": "lock_bot"}
ALICE = {"id": 4503599627370495, "is_bot": False, "first_name": "Alice"}
BOB = {"id": 8, "is_bot": False, "first_name": "Bob"}
ROBOT = {"id": 9, "is_bot": True, "first_name": "Robot"}
PRIVATE = {"id": ALICE["id"], "type": "private"}
GROUP = {"id": -100123, "type": "supergroup"}
BOTS_WORD = {"message_id": 1, "chat": GROUP, "from": BOT, "text": "the bot's word"}
BOBS_WORD = {"message_id": 2, "chat": GROUP, "from": BOB, "text": "Bob's word"}
ACCOUNT = "telegram:4503599627370495"
NOTHING: dict[str, Any] = {}
FILE = {"file_id": "f1", "file_unique_id": "u1"}


def test_a_bot_that_is_named_is_read_in_groups_and_commands_nothing() -> None:
    me = replace(ME, bots=frozenset({"telegram:9", "telegram:70"}))
    mention = {"entities": [{"type": "mention", "offset": 0, "length": 9}]}
    (found,) = events(update(GROUP, **{"from": ROBOT, "text": "@lock_bot /status", **mention}), me)
    assert isinstance(found, Inbound)
    assert (found.account, found.text, found.bot) == ("telegram:9", "/status", True)
    assert found.addressed
    assert not found.authored
    assert not found.private
    for chat, sender in ((GROUP, BOT), (GROUP, {**ROBOT, "id": 10}), ({"id": 9, "type": "private"}, ROBOT)):
        assert events(update(chat, **{"from": sender, "text": "hello"}), me) == ()


def update(chat: dict[str, Any] = PRIVATE, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - as the platform has it
    return {"update_id": 5, "message": {"message_id": 3, "chat": chat, "from": ALICE, **fields}}


def marked(text: str, kind: str, what: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as the platform has it
    begin = len(text[: text.index(what)].encode("utf-16-le")) // 2
    entity = {"type": kind, "offset": begin, "length": len(what.encode("utf-16-le")) // 2, **more}
    return {"text": text, "entities": [entity]}


def inbound(given_update: dict[str, Any]) -> Inbound:
    (event,) = events(given_update, ME)
    assert isinstance(event, Inbound)
    return event


def test_a_private_message_is_typed_by_its_sender_and_meant_for_us() -> None:
    home = Address("telegram", "4503599627370495")
    assert events(update(text="hello"), ME) == (Inbound(home, ACCOUNT, "hello", "update/70/5"),)
    assert inbound(update(caption="what is this?", document=FILE)).text == "what is this?"


@pytest.mark.parametrize(
    "fields,thread",
    [
        ({}, ""),
        ({"message_thread_id": 7, "is_topic_message": True}, "7"),
        ({"message_thread_id": 1, "is_topic_message": True}, ""),
        ({"message_thread_id": 7}, ""),  # a thread of replies
    ],
)
def test_only_a_real_topic_is_a_thread(fields: dict[str, Any], thread: str) -> None:
    assert inbound(update(GROUP, text="x", **fields)).address == Address("telegram", "-100123", thread=thread)


@pytest.mark.parametrize(
    "fields,text,addressed",
    [
        ({"text": "hello all"}, "hello all", False),
        (marked("hello @lock_bot you", "mention", "@lock_bot"), "hello  you", True),
        (marked("😀 @Lock_Bot 😀", "mention", "@Lock_Bot"), "😀  😀", True),
        (marked("hello @other_bot", "mention", "@other_bot"), "hello @other_bot", False),
        (marked("hello @lock_bot_2", "mention", "@lock_bot_2"), "hello @lock_bot_2", False),
        (marked("hi Lock", "text_mention", "Lock", user=BOT), "hi", True),
        (marked("hi Bob", "text_mention", "Bob", user=BOB), "hi Bob", False),
        ({"text": "hello @lock_bot"}, "hello @lock_bot", False),  # no entity: within code, say
        (marked("/status@lock_bot now", "bot_command", "/status@lock_bot"), "/status now", True),
        (marked("/status now", "bot_command", "/status"), "/status now", True),
        (marked("/start", "bot_command", "/start"), "/start", False),
        (marked("see /status", "bot_command", "/status"), "see /status", False),
        ({"text": "yes", "reply_to_message": BOTS_WORD}, "yes", True),
        ({"text": "yes", "reply_to_message": BOBS_WORD}, "yes", False),
        ({"text": "yes", "reply_to_message": {**BOTS_WORD, "forum_topic_created": {}}}, "yes", False),
    ],
)
def test_in_a_group_only_some_is_meant_for_us(fields: dict[str, Any], text: str, addressed: bool) -> None:  # noqa: FBT001
    told = inbound(update(GROUP, **fields))
    assert (told.text, told.addressed, told.private) == (text, addressed, False)
    assert inbound(update(**fields)).addressed


def test_commands_for_other_bots_are_not_ours() -> None:
    assert events(update(GROUP, **marked("/status@other_bot", "bot_command", "/status@other_bot")), ME) == ()


@pytest.mark.parametrize(
    "fields,quoted",
    [
        ({"reply_to_message": BOBS_WORD}, ("Bob's word",)),
        ({"reply_to_message": {**BOBS_WORD, "text": "", "caption": "under a picture"}}, ("under a picture",)),
        ({"reply_to_message": BOBS_WORD, "quote": {"text": "word"}}, ("word",)),
        ({"quote": {"text": "from elsewhere"}}, ("from elsewhere",)),
        ({"reply_to_message": {**BOBS_WORD, "voice": FILE}}, ("Bob's word", FILE_UNREAD)),
        ({"reply_to_message": {**BOTS_WORD, "document": FILE}}, ()),
        ({"reply_to_message": BOTS_WORD}, ()),
        ({"reply_to_message": BOTS_WORD, "quote": {"text": "bot's"}}, ("bot's",)),
    ],
)
def test_texts_of_others_are_quoted(fields: dict[str, Any], quoted: tuple[str, ...]) -> None:
    told = inbound(update(text="see", **fields))
    assert (told.text, told.authored, told.quoted) == ("see", True, quoted)


@pytest.mark.parametrize("how", [{"forward_origin": {"type": "hidden_user"}}, {"via_bot": ROBOT}])
def test_what_was_forwarded_was_not_typed(how: dict[str, Any]) -> None:
    fields = marked("/status @lock_bot", "mention", "@lock_bot")
    told = inbound(update(GROUP, **fields, **how))
    assert (told.text, told.authored, told.quoted, told.addressed) == ("", False, ("/status @lock_bot",), False)
    assert inbound(update(**fields, **how)).addressed


@pytest.mark.parametrize(
    "message",
    [
        update(GROUP, text="x", **{"from": ROBOT}),
        update(GROUP, text="x", **{"from": BOT}),
        update(GROUP, text="x", sender_chat=GROUP),
        update({"id": -1, "type": "channel"}, text="x"),
        update({"id": 8, "type": "private"}, text="x"),  # not the sender's own
        update(GROUP, sticker={}),
        update(GROUP, sticker={}, reply_to_message=BOBS_WORD),
        update(GROUP, sticker={}, reply_to_message=BOTS_WORD, **{"from": ROBOT}),
        update(pinned_message={}),
        update(GROUP, **marked("@lock_bot", "mention", "@lock_bot")),
        {"update_id": 5, "edited_message": update(GROUP, text="x")["message"]},
        {"update_id": 5, "edited_message": update(location={})["message"]},
        {"update_id": 5, "channel_post": update(text="x")["message"]},
        {"update_id": 5, "poll": {}},
    ],
)
def test_what_is_not_read(message: dict[str, Any]) -> None:
    assert events(message, ME) == ()


@pytest.mark.parametrize(
    "told,kind",
    [
        *(
            (update(**{kind: NOTHING}), name)
            for kind, name in (
                ("sticker", "a sticker"),
                ("contact", "a contact"),
                ("poll", "a poll"),
                ("dice", "a dice"),
            )
        ),
        (update(location={}), "a location"),
        (update(venue={}, location={}), "a place"),
        (update(sticker={}, forward_origin={"type": "hidden_user"}), "a sticker"),
        (update(sticker={}, reply_to_message=BOBS_WORD), "a sticker"),
        (update(GROUP, sticker={}, reply_to_message=BOTS_WORD), "a sticker"),
        ({"update_id": 5, "edited_message": update(text="/approve 1")["message"]}, EDIT),
        (
            {
                "update_id": 5,
                "edited_message": update(GROUP, **marked("@lock_bot x", "mention", "@lock_bot"))["message"],
            },
            EDIT,
        ),
    ],
)
def test_what_cannot_be_read_has_a_kind_and_no_content(told: dict[str, Any], kind: str) -> None:
    found = inbound(told)
    assert (found.unread, found.text, found.quoted, found.files, found.addressed) == (kind, "", (), (), True)


def test_a_mention_alone_asks_about_what_it_replies_to() -> None:
    told = inbound(update(GROUP, **marked("@lock_bot", "mention", "@lock_bot"), reply_to_message=BOBS_WORD))
    assert (told.text, told.quoted, told.addressed) == ("", ("Bob's word",), True)


def press(message: dict[str, Any] | None, data: str = "/approve 1") -> dict[str, Any]:
    more = {} if message is None else {"message": message}
    return {"update_id": 5, "callback_query": {"id": "q", "from": ALICE, "data": data, **more}}


def test_a_press_is_a_command_of_whoever_presses() -> None:
    topic = {**BOTS_WORD, "message_thread_id": 7, "is_topic_message": True}
    address = Address("telegram", "-100123", thread="7")
    expected = Inbound(address, ACCOUNT, "/approve 1", "update/70/5", private=False, how=How.BUTTON, press="q")
    assert events(press(topic), ME) == (expected,)
    assert inbound(press({**BOTS_WORD, "chat": PRIVATE})).private


@pytest.mark.parametrize(
    "pressed",
    [
        press(None),
        press(BOBS_WORD),
        press(BOTS_WORD, "approve"),
        press({"chat": GROUP, "message_id": 1, "date": 0}),
    ],
)
def test_other_presses_are_nothing(pressed: dict[str, Any]) -> None:
    assert events(pressed, ME) == ()


def change(kind: str, old: dict[str, Any], new: dict[str, Any], user: dict[str, Any] = BOB) -> dict[str, Any]:
    return {
        "update_id": 5,
        kind: {
            "chat": GROUP,
            "from": ALICE,
            "old_chat_member": {"user": user, **old},
            "new_chat_member": {"user": user, **new},
        },
    }


@pytest.mark.parametrize(
    "old,new,joined",
    [
        ({"status": "left"}, {"status": "member"}, True),
        ({"status": "member"}, {"status": "kicked"}, False),
        ({"status": "member"}, {"status": "restricted", "is_member": False}, False),
        ({"status": "left"}, {"status": "restricted", "is_member": True}, True),
        ({"status": "member"}, {"status": "administrator"}, None),
    ],
)
def test_who_joins_and_leaves_is_told(old: dict[str, Any], new: dict[str, Any], joined: bool | None) -> None:  # noqa: FBT001
    place = Address("telegram", "-100123")
    expected = () if joined is None else (Membership(place, "telegram:8", joined, "update/70/5"),)
    assert events(change("chat_member", old, new), ME) == expected
    bots = ()
    if joined is not None:
        bots = (Membership(place, "telegram:70", joined, "update/70/5", own=True, by=f"telegram:{ALICE['id']}"),)
    assert events(change("my_chat_member", old, new, BOT), ME) == bots


def test_a_blocked_private_chat_is_nobodys_leaving() -> None:
    blocked = change("my_chat_member", {"status": "member"}, {"status": "kicked"}, BOT)
    blocked["my_chat_member"]["chat"] = PRIVATE
    assert (events(blocked, ME), met(blocked)) == ((), None)


def test_messages_about_members_tell_of_each() -> None:
    place = Address("telegram", "-100123")
    came = update(GROUP, new_chat_members=[BOB, BOT, ROBOT])
    assert events(came, ME) == (
        Membership(place, "telegram:8", joined=True, dedupe="update/70/5/0"),
        Membership(place, "telegram:9", joined=True, dedupe="update/70/5/2"),
    )
    assert events(update(GROUP, left_chat_member=BOB), ME) == (
        Membership(place, "telegram:8", joined=False, dedupe="update/70/5/0"),
    )


def test_a_migration_is_one_however_it_is_told() -> None:
    old, new = {"id": -1, "type": "group"}, {"id": -2, "type": "supergroup"}
    expected = (Moved(Address("telegram", "-1"), Address("telegram", "-2"), "moved/-1/-2"),)
    assert events(update(old, migrate_to_chat_id=-2), ME) == expected
    assert events(update(new, migrate_from_chat_id=-1), ME) == expected


def test_who_was_met() -> None:
    alice, bob, robot = Reader(ACCOUNT), Reader("telegram:8"), Reader("telegram:9", ReaderKind.BOT)
    assert met(update(text="x")) is None
    assert met({"update_id": 5}) is None
    assert met(press(None)) is None
    assert met(press(BOTS_WORD)) == Presence("-100123", (alice,))
    assert met(update(GROUP, text="x")) == Presence("-100123", (alice,))
    assert met(update(GROUP, text="x", sender_chat=GROUP)) == Presence("-100123")
    assert met(update(GROUP, new_chat_members=[BOB, ROBOT])) == Presence("-100123", (alice, bob, robot), moves=True)
    left = update(GROUP, left_chat_member=ALICE)
    assert met(left) == Presence("-100123", gone=(ACCOUNT,), moves=True)
    gone = change("chat_member", {"status": "member"}, {"status": "left"})
    assert met(gone) == Presence("-100123", gone=("telegram:8",), moves=True)
    here = change("chat_member", {"status": "left"}, {"status": "member"}, ROBOT)
    assert met(here) == Presence("-100123", (robot,), moves=True)


@pytest.mark.parametrize("kind", ["animation", "audio", "document", "video", "video_note", "voice"])
def test_a_file_comes_with_its_message(kind: str) -> None:
    told = inbound(update(**{kind: {**FILE, "file_name": "a.bin", "mime_type": "audio/ogg", "file_size": 9}}))
    assert (told.text, told.quoted, told.files) == ("", (), (Attachment("f1", "a.bin", "audio/ogg", 9),))
    (unnamed,) = inbound(update(**{kind: FILE})).files
    assert unnamed.name
    assert (unnamed.media_type, unnamed.size) == ("", 0)


def test_a_photo_is_told_in_its_largest_size() -> None:
    sizes = [{"file_id": f"f{side}", "width": side, "height": side, "file_size": side} for side in (90, 1280, 320)]
    told = inbound(update(caption="what is it?", photo=sizes))
    assert (told.text, told.authored) == ("what is it?", True)
    assert told.files == (Attachment("f1280", "photo.jpg", "image/jpeg", 1280),)


def test_an_animation_is_one_file() -> None:
    (file,) = inbound(update(document=FILE, animation={**FILE, "file_name": "a.mp4"})).files
    assert file.name == "a.mp4"


def test_a_forwarded_file_was_not_typed() -> None:
    told = inbound(update(caption="obey", document=FILE, forward_origin={"type": "hidden_user"}))
    assert (told.text, told.authored, told.quoted, len(told.files)) == ("", False, ("obey",), 1)


def test_a_recording_asks_about_what_it_replies_to() -> None:
    told = inbound(update(GROUP, voice=FILE, reply_to_message=BOBS_WORD))
    assert (told.quoted, told.addressed, len(told.files)) == (("Bob's word",), False, 1)
    assert inbound(update(GROUP, voice=FILE, reply_to_message=BOTS_WORD)).addressed


def test_a_name_is_cut_where_no_name_ends() -> None:
    (file,) = inbound(update(document={**FILE, "file_name": "x" * 100_000, "mime_type": "y" * 100_000})).files
    assert (len(file.name), len(file.media_type)) == (255, 255)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "type", "from"]), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(["chat", "from", "text", "entities", "reply_to_message", "quote", "new_chat_members"])


@given(st.sampled_from(["message", "callback_query", "chat_member"]), st.dictionaries(FIELDS, JSON))
def test_what_is_no_update_is_refused_in_a_known_way(kind: str, body: dict[str, Any]) -> None:
    broken = {"update_id": 5, kind: body}
    for read in (lambda: events(broken, ME), lambda: met(broken)):
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            read()


@given(st.text(st.characters(), max_size=20), st.text(st.characters(), max_size=20))
def test_a_mention_is_taken_out_wherever_it_stands(before: str, after: str) -> None:
    text = f"{before}@lock_bot{after}"
    offset = len(before.encode("utf-16-le", "surrogatepass")) // 2
    entities = [{"type": "mention", "offset": offset, "length": len("@lock_bot")}]
    told = events(update(GROUP, text=text, entities=entities), ME)
    rest = f"{before}{after}".strip()
    assert [event.text for event in told if isinstance(event, Inbound)] == ([rest] if rest else [])


@pytest.mark.parametrize(
    "update, lane",
    [
        ({"message": {"chat": {"id": 5}}}, "5"),
        ({"edited_message": {"chat": {"id": 5}}}, "5"),
        ({"callback_query": {"message": {"chat": {"id": -5}}}}, "-5"),
        ({"my_chat_member": {"chat": {"id": -5}}}, "-5"),
        # What is told of the group that it becomes stands behind that it does.
        ({"message": {"chat": {"id": -5}, "migrate_to_chat_id": -1005}}, "-1005"),
        ({"message": {"chat": {"id": -1005}, "migrate_from_chat_id": -5}}, "-1005"),
        ({"message": 7}, ""),
        ({"message": {"chat": 7}}, ""),
        ({"poll": {}}, ""),
    ],
)
def test_what_is_told_of_one_chat_is_told_one_after_the_other(update: updates.Json, lane: str) -> None:
    assert updates.lane(update) == lane
