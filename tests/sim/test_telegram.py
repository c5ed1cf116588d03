"""The played Telegram answers the unmodified `telegram.Bot` as the real one does: messages, chats, commands, files."""

import re
from collections.abc import AsyncGenerator

import aiohttp
import pytest
from telegram import (
    Bot,
    BotCommand,
    BotCommandScopeChat,
    BotCommandScopeChatMember,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, NetworkError

from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_state import BOT_ID
from tests.sim.telegram_world import PNG

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncGenerator[Telegram]:
    async with telegram() as played:
        yield played


@pytest.fixture
async def bot(server: Telegram) -> AsyncGenerator[Bot]:
    async with Bot(server.token, base_url=server.base_url, base_file_url=server.base_file_url) as made:
        yield made


def buttons(*names: str, data: str = "token") -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton(name, callback_data=data) for name in names]])


def refused(sentence: str, kind: type[Exception] = BadRequest) -> pytest.RaisesExc[Exception]:
    # The library writes the sentences with a capital and the rest small.
    return pytest.RaisesExc(kind, match=re.compile(re.escape(sentence), re.IGNORECASE))


# --- messages


async def test_message_is_shown_with_what_can_be_clicked(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    text = "see http://a.de, @bob, /help and a link"
    link = MessageEntity("text_link", len(text) - 4, 4, url="https://b.de")
    sent = await bot.send_message(alice.private.id, text, entities=[link])

    (shown,) = alice.private.shows
    assert shown.id == sent.message_id
    assert alice.private.said == [text]
    assert shown.clickable == ["http://a.de,", "@bob", "/help", "link"]


async def test_nothing_is_clickable_within_code(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    await bot.send_message(alice.private.id, "http://a.de", entities=[MessageEntity("code", 0, 11)])

    assert alice.private.shows[0].clickable == []


async def test_text_is_measured_in_utf_16_after_trimming(server: Telegram, bot: Bot) -> None:
    chat = server.user("Alice").private
    await bot.send_message(chat.id, "  " + "😀" * 2048 + "\n")

    with refused("message is too long"):
        await bot.send_message(chat.id, "😀" * 2048 + "x")
    with refused("text must be non-empty"):
        await bot.send_message(chat.id, "\u200b")
    with refused("message text is empty"):
        await bot.send_message(chat.id, "")


@pytest.mark.parametrize(
    "entity,sentence",
    [
        (MessageEntity("bold", 9, 1), "entity begins after the end of the text at UTF-16 offset 9"),
        (
            MessageEntity("bold", 0, 6),
            "entity beginning at UTF-16 offset 0 ends after the end of the text at UTF-16 offset 6",
        ),
        (MessageEntity("bold", -1, 1), "entity beginning at UTF-16 offset -1"),
        (MessageEntity("bold", 0, 2), "ends in a middle of a UTF-16 symbol"),
        (MessageEntity("bold", 2, 1), "begins in a middle of a UTF-16 symbol"),
        (MessageEntity("sparkle", 0, 1), "can't parse MessageEntity: Unsupported type specified"),
        (MessageEntity("text_link", 0, 1), 'Can\'t find field "url"'),
        (MessageEntity("text_link", 0, 1, url="localhost"), "entity URL 'localhost' is invalid: Wrong HTTP URL"),
    ],
)
async def test_entity_that_does_not_fit_is_refused(
    server: Telegram, bot: Bot, entity: MessageEntity, sentence: str
) -> None:
    chat = server.user("Alice").private
    with refused(sentence):
        await bot.send_message(chat.id, "a😀bc", entities=[entity])
    assert chat.shows == []


async def test_entities_that_overlap_are_refused(server: Telegram, bot: Bot) -> None:
    chat = server.user("Alice").private
    with refused("entity beginning at UTF-16 offset 3 ends after the end of the text at UTF-16 offset 12"):
        await bot.send_message(chat.id, "x" * 20, entities=[MessageEntity("bold", 0, 6), MessageEntity("italic", 3, 9)])


async def test_entities_beyond_a_hundred_are_ignored(server: Telegram, bot: Bot) -> None:
    chat = server.user("Alice").private
    await bot.send_message(chat.id, "x" * 101, entities=[MessageEntity("bold", place, 1) for place in range(101)])

    assert len(chat.shows[0].entities) == 100
    assert server.state.ignored_entities == 1


@pytest.mark.parametrize("given", ["{", '"bold"', "[1]"])
async def test_entities_that_cannot_be_read_are_refused(server: Telegram, bot: Bot, given: str) -> None:
    with refused("can't parse"):
        await bot.send_message(server.user("Alice").private.id, "x", api_kwargs={"entities": given})


@pytest.mark.parametrize(
    "mode,source,text,kinds",
    [
        ("HTML", '<b>a <i>b</i></b> &lt; <a href="http://a.de">c</a>', "a b < c", ["bold", "italic", "text_link"]),
        ("HTML", "<pre>x</pre>", "x", ["pre"]),
        ("MarkdownV2", r"*a _b_* \. `c` [d](http://a.de)", "a b . c d", ["bold", "italic", "code", "text_link"]),
    ],
)
async def test_parse_modes(server: Telegram, bot: Bot, mode: str, source: str, text: str, kinds: list[str]) -> None:
    chat = server.user("Alice").private
    await bot.send_message(chat.id, source, parse_mode=mode)

    assert chat.said == [text]
    assert [entity["type"] for entity in chat.shows[0].entities] == kinds


@pytest.mark.parametrize(
    "mode,source,sentence",
    [
        ("HTML", "<x>", 'Unsupported start tag "x" at byte offset 0'),
        ("HTML", "ab<b>", 'Can\'t find end tag corresponding to start tag "b"'),
        ("HTML", "<b></i>", "Unexpected end tag at byte offset 3"),
        ("HTML", "a <b", "Unclosed start tag at byte offset 2"),
        ("MarkdownV2", "a.", "Character '.' is reserved and must be escaped with the preceding '\\'"),
        ("MarkdownV2", "ä *b", "Can't find end of Bold entity at byte offset 3"),
        ("Klingon", "x", "unsupported parse_mode"),
    ],
)
async def test_markup_that_is_broken_is_refused(
    server: Telegram, bot: Bot, mode: str, source: str, sentence: str
) -> None:
    with refused(sentence):
        await bot.send_message(server.user("Alice").private.id, source, parse_mode=mode)


async def test_keyboards_are_checked(server: Telegram, bot: Bot) -> None:
    chat = server.user("Alice").private
    await bot.send_message(chat.id, "ok", reply_markup=buttons("yes", "no", data="x" * 64))

    assert [button["text"] for button in chat.shows[0].buttons] == ["yes", "no"]
    for markup, sentence in (
        (buttons("yes", data="ü" * 33), "BUTTON_DATA_INVALID"),
        (buttons("yes", data=""), "BUTTON_DATA_INVALID"),
        (buttons(""), "must be of type String"),
        (InlineKeyboardMarkup([[InlineKeyboardButton("x")]]), "Text buttons are unallowed"),
        (InlineKeyboardMarkup([[InlineKeyboardButton("x", url="javascript:1")]]), "BUTTON_URL_INVALID"),
        (buttons(*("x",) * 101), "REPLY_MARKUP_TOO_LONG"),
    ):
        with refused(sentence):
            await bot.send_message(chat.id, "ok", reply_markup=markup)


async def test_replies(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    asked = alice.says(None, "what is it?")
    reply = ReplyParameters(asked.id, quote="is it")
    answer = await bot.send_message(
        alice.id, "that", reply_parameters=reply, link_preview_options=LinkPreviewOptions(is_disabled=True)
    )

    assert answer.reply_to_message is not None
    assert answer.reply_to_message.text == "what is it?"
    assert answer.quote is not None
    assert answer.quote.position == 5
    assert alice.private.shows[-1].json["link_preview_options"] == {"is_disabled": True}
    with refused("QUOTE_TEXT_INVALID"):
        await bot.send_message(alice.id, "x", reply_parameters=ReplyParameters(asked.id, quote="else"))
    with refused("message to be replied not found"):
        await bot.send_message(alice.id, "x", reply_parameters=ReplyParameters(9))
    await bot.send_message(alice.id, "x", reply_parameters=ReplyParameters(9, allow_sending_without_reply=True))


async def test_edits_and_deletions(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    sent = await bot.send_message(alice.private.id, "one", reply_markup=buttons("go"))
    with refused("message is not modified"):
        await bot.edit_message_text("one", alice.id, sent.message_id, reply_markup=buttons("go"))
    await bot.edit_message_text("two", alice.id, sent.message_id, reply_markup=buttons("go"))
    await bot.edit_message_reply_markup(alice.id, sent.message_id)

    (shown,) = alice.private.shows
    assert shown.versions == ["one", "two"]
    assert shown.buttons == []
    with refused("message is not modified"):
        await bot.edit_message_reply_markup(alice.id, sent.message_id)
    with refused("message text is empty"):
        await bot.edit_message_text("", alice.id, sent.message_id)
    await bot.delete_message(alice.id, sent.message_id)
    assert shown.deleted
    assert alice.private.shows == []
    with refused("message to delete not found"):
        await bot.delete_message(alice.id, sent.message_id)
    with refused("message to edit not found"):
        await bot.edit_message_text("three", alice.id, sent.message_id)


async def test_others_messages_are_not_the_bots(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    group = server.group("Team", alice)
    said = alice.says(group, "mine")
    with refused("message can't be edited"):
        await bot.edit_message_text("yours", group.id, said.id)
    with refused("message can't be deleted"):
        await bot.delete_message(group.id, said.id)
    server.bot_becomes(group, "administrator")
    await bot.delete_message(group.id, said.id)


async def test_topics(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    forum = server.supergroup("Forum", alice, forum=True)
    topic = server.topic(forum, "Plans", alice)
    sent = await bot.send_message(forum.id, "here", message_thread_id=topic)
    await bot.send_chat_action(forum.id, "typing", message_thread_id=topic)

    assert sent.is_topic_message
    assert forum.shows[-1].topic == topic
    assert forum.actions == [("typing", topic)]
    with refused("message thread not found"):  # General goes without its number
        await bot.send_message(forum.id, "here", message_thread_id=1)
    await bot.send_chat_action(forum.id, "typing", message_thread_id=1)
    server.close_topic(forum, topic)
    with refused("TOPIC_CLOSED"):
        await bot.send_message(forum.id, "here", message_thread_id=topic)
    server.delete_topic(forum, topic)
    with refused("message thread not found"):
        await bot.send_message(forum.id, "here", message_thread_id=topic)
    assert forum.said == []


async def test_reply_in_a_plain_supergroup_has_a_thread_that_is_no_topic(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    chat = server.supergroup("Plain", alice)
    first = alice.says(chat, "/start")
    sent = await bot.send_message(chat.id, "x", reply_parameters=ReplyParameters(first.id))

    assert sent.message_thread_id == first.id
    assert not sent.is_topic_message
    assert chat.shows[-1].topic is None


async def test_ephemeral_messages_where_the_server_knows_them(server: Telegram, bot: Bot) -> None:
    alice, bob = server.user("Alice"), server.user("Bob")
    group = server.group("Team", alice)
    only = {"receiver_user_id": alice.id}
    await bot.send_message(group.id, "for all, as the server ignores it", api_kwargs=only)
    server.state.ephemeral = True
    sent = await bot.send_message(group.id, "for Alice", api_kwargs=only)

    assert [shown.seen_by for shown in group.shows] == [None, alice.id]
    assert sent.message_id == 0
    assert sent.api_kwargs["ephemeral_message_id"] > 0
    with refused("USER_NOT_PARTICIPANT"):
        await bot.send_message(group.id, "x", api_kwargs={"receiver_user_id": bob.id})
    with refused("can be sent only to groups"):
        await bot.send_message(alice.private.id, "x", api_kwargs=only)


async def test_actions_and_reactions(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    said = alice.says(None, "hello")
    await bot.send_chat_action(alice.id, "typing")
    await bot.set_message_reaction(alice.id, said.id, "👀")

    assert alice.private.actions == [("typing", None)]
    assert said.reactions == ["👀"]
    with refused("wrong parameter action in request"):
        await bot.send_chat_action(alice.id, "dancing")
    with refused("REACTIONS_TOO_MANY"):
        await bot.set_message_reaction(alice.id, said.id, ["👀", "👍"])
    with refused("REACTION_INVALID"):
        await bot.set_message_reaction(alice.id, said.id, "ok")
    with refused("message to react not found"):
        await bot.set_message_reaction(alice.id, 1, "👀")


# --- files


async def test_files_go_both_ways(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    sent = await bot.send_document(alice.private.id, b"content", filename="a.txt", caption="see")
    assert sent.document is not None
    assert sent.document.file_name == "a.txt"
    again = await bot.send_document(alice.id, sent.document.file_id)
    assert again.document is not None
    picture = await bot.send_photo(alice.id, PNG)
    file = await bot.get_file(sent.document.file_id)

    assert await file.download_as_bytearray() == b"content"
    assert len(picture.photo) == 1
    assert alice.private.said == ["see", "", ""]


async def test_files_are_checked(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    chat = alice.private.id
    with refused("message caption is too long"):
        await bot.send_document(chat, b"x", caption="😀" * 513)
    with refused("file must be non-empty"):
        await bot.send_document(chat, b"")
    with refused("IMAGE_PROCESS_FAILED"):
        await bot.send_photo(chat, b"no picture")
    with refused("wrong file identifier"):
        await bot.send_document(chat, "unknown")
    with refused("Request Entity Too Large", NetworkError):
        await bot.send_document(chat, b"x" * 50_000_001)
    with refused("wrong file_id"):
        await bot.get_file("unknown")
    large = alice.says(None, document=("large.bin", b"x" * 20_000_001))
    with refused("file is too big"):
        await bot.get_file(large.json["document"]["file_id"])


async def test_file_of_another_token_is_not_given(server: Telegram, bot: Bot) -> None:
    said = server.user("Alice").says(None, document=("a.txt", b"secret"))
    file = await bot.get_file(said.json["document"]["file_id"])
    assert file.file_path is not None
    with pytest.raises(InvalidToken):
        await bot.request.retrieve(file.file_path.replace(server.token, "7:wrong"))
    with pytest.raises(InvalidToken):
        await bot.request.retrieve(file.file_path + "x")


# --- chats and people


async def test_who_is_in_a_chat(server: Telegram, bot: Bot) -> None:
    alice, bob, eve = server.user("Alice"), server.user("Bob"), server.user("Eve")
    group = server.supergroup("Team", alice, bob)
    server.user("Helper", bot=True).joins(group, "administrator")

    statuses = [(await bot.get_chat_member(group.id, person.id)).status for person in (alice, bob, eve)]
    assert statuses == ["creator", "member", "left"]
    assert await bot.get_chat_member_count(group.id) == 4
    assert [member.user.id for member in await bot.get_chat_administrators(group.id)] == [alice.id]
    assert (await bot.get_chat(group.id)).title == "Team"
    bob.leaves(group, "kicked")
    assert (await bot.get_chat_member(group.id, bob.id)).status == "kicked"
    for person, sentence in ((77, "user not found"), (-7, "invalid user_id specified")):
        with refused(sentence):
            await bot.get_chat_member(group.id, person)
    with refused("there are no administrators in the private chat"):
        await bot.get_chat_administrators(alice.private.id)


async def test_members_of_a_channel_are_told_to_administrators(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    channel = server.channel("News", alice)
    assert (await bot.get_chat_member(channel.id, alice.id)).status == "creator"
    server.bot_becomes(channel, "member")
    with refused("member list is inaccessible"):
        await bot.get_chat_member(channel.id, alice.id)
    assert (await bot.get_chat_member(channel.id, BOT_ID)).status == "member"


async def test_where_the_bot_may_not_write(server: Telegram, bot: Bot) -> None:
    alice, bob = server.user("Alice"), server.user("Bob")
    group = server.group("Team", alice)
    alice.says(None, "/start")
    alice.blocks()
    for chat, sentence in ((alice.id, "bot was blocked by the user"), (bob.id, "bot can't initiate conversation")):
        with refused(sentence, Forbidden):
            await bot.send_message(chat, "x")
    alice.unblocks()
    await bot.send_message(alice.id, "x")
    with refused("chat not found"):
        await bot.send_message(-5, "x")
    await bot.leave_chat(group.id)
    with refused("bot is not a member of the group chat", Forbidden):
        await bot.send_message(group.id, "x")
    server.bot_becomes(group, "kicked", by=alice)
    with refused("bot was kicked from the group chat", Forbidden):
        await bot.get_chat(group.id)
    with refused("can't be changed in private chats"):
        await bot.leave_chat(alice.id)


async def test_group_that_moved_names_its_new_id(server: Telegram, bot: Bot) -> None:
    group = server.group("Team", server.user("Alice"))
    new = server.migrate(group)
    with pytest.raises(ChatMigrated) as raised:
        await bot.send_message(group.id, "x")

    assert raised.value.new_chat_id == new.id
    await bot.send_message(new.id, "x")
    assert [list(update["message"])[-1] for update in server.state.updates[1:]] == [
        "migrate_to_chat_id",
        "migrate_from_chat_id",
    ]


# --- commands and tokens


async def test_commands_by_scope(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    scope = BotCommandScopeChatMember(server.group("Team", alice).id, alice.id)
    await bot.set_my_commands([BotCommand("help", "what there is")])
    await bot.set_my_commands([BotCommand("stop", "end it")], scope=scope)

    assert [command.command for command in await bot.get_my_commands()] == ["help"]
    assert [command.command for command in await bot.get_my_commands(scope)] == ["stop"]
    await bot.delete_my_commands(scope)
    assert await bot.get_my_commands(scope) == ()
    with refused("chat not found"):
        await bot.set_my_commands([], scope=BotCommandScopeChat(-9))
    with refused("Unsupported type specified"):
        await bot.do_api_request("getmycommands", {"scope": {"type": "moon"}})
    with refused("Can't find field"):
        await bot.do_api_request("getmycommands", {"scope": {"type": "chat"}})


@pytest.mark.parametrize(
    "commands,sentence",
    [
        ([BotCommand("Help", "x")], "BOT_COMMAND_INVALID"),
        ([BotCommand("h" * 33, "x")], "BOT_COMMAND_INVALID"),
        ([BotCommand("help", "")], "BOT_COMMAND_DESCRIPTION_INVALID"),
        ([BotCommand("help", "😀" * 129)], "BOT_COMMAND_DESCRIPTION_INVALID"),
        ([BotCommand(f"c{number}", "x") for number in range(101)], "BOT_COMMANDS_TOO_MUCH"),
    ],
)
async def test_commands_are_checked(server: Telegram, bot: Bot, commands: list[BotCommand], sentence: str) -> None:
    with refused(sentence):
        await bot.set_my_commands(commands)
    assert server.state.commands == {}


async def test_wrong_tokens(server: Telegram, bot: Bot) -> None:
    async with aiohttp.ClientSession() as session:
        for token, code, sentence in (("7:wrong", 401, "Unauthorized"), ("nonsense", 404, "Not Found")):
            async with session.get(f"{server.base_url}{token}/getMe") as answer:
                assert answer.status == code
                assert await answer.json() == {"ok": False, "error_code": code, "description": sentence}
    server.state.token = "7:revoked"  # noqa: S105 - it opens nothing
    with pytest.raises(InvalidToken):
        await bot.get_me()


async def test_unknown_methods_and_arguments(server: Telegram, bot: Bot) -> None:
    with pytest.raises(Exception, match=r"(?i)not found"):
        await bot.do_api_request("makeCoffee")
    for method, values, sentence in (
        ("getChat", {}, "chat_id is empty"),
        ("getChat", {"chat_id": "x"}, "invalid chat_id specified"),
        ("setMyCommands", {}, 'parameter "commands" is required'),
        ("setMyCommands", {"commands": "["}, "can't parse commands JSON object"),
        ("sendDocument", {"chat_id": server.user("Alice").private.id}, "there is no document in the request"),
    ):
        with refused(sentence):
            await bot.do_api_request(method.lower(), values)
