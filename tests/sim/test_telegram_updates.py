"""The played Telegram tells what people do, by polling and by webhook, and goes wrong as it is told to."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, Update
from telegram.error import BadRequest, Conflict, NetworkError, RetryAfter

from tests.sim.telegram import Telegram, telegram

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncGenerator[Telegram]:
    async with telegram() as played:
        yield played


@pytest.fixture
async def bot(server: Telegram) -> AsyncGenerator[Bot]:
    async with Bot(server.token, base_url=server.base_url, base_file_url=server.base_file_url) as made:
        yield made


def texts(updates: tuple[Update, ...]) -> list[str | None]:
    return [update.effective_message.text for update in updates if update.effective_message]


# --- polling


async def test_an_offset_confirms(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    for text in ("one", "two", "three"):
        alice.says(None, text)
    first = await bot.get_updates(limit=2)

    assert texts(first) == ["one", "two"]
    assert texts(await bot.get_updates(limit=2)) == ["one", "two"]
    assert texts(await bot.get_updates(offset=first[-1].update_id + 1)) == ["three"]
    assert texts(await bot.get_updates(offset=-1)) == ["three"]
    assert await bot.get_updates(offset=first[-1].update_id + 2) == ()


async def test_a_long_poll_ends_with_the_first_update(server: Telegram, bot: Bot) -> None:
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(bot.get_updates(timeout=30))
        await server.until(lambda: server.state.poll)
        server.user("Alice").says(None, "hello")
    assert texts(poll.result()) == ["hello"]


async def test_a_long_poll_ends_with_its_time(bot: Bot) -> None:
    begun = time.monotonic()

    assert await bot.get_updates(timeout=1) == ()
    assert time.monotonic() - begun >= 1


async def test_a_second_poller_ends_the_first(server: Telegram, bot: Bot) -> None:
    async def first() -> None:
        with pytest.raises(Conflict, match="terminated by other getUpdates request"):
            await bot.get_updates(timeout=30)

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        await server.until(lambda: server.state.poll)
        async with Bot(server.token, base_url=server.base_url) as other:
            assert await other.get_updates(timeout=0) == ()


async def test_no_polling_while_a_webhook_is_set(server: Telegram, bot: Bot) -> None:
    async def first() -> None:
        with pytest.raises(Conflict, match="terminated by setWebhook request"):
            await bot.get_updates(timeout=30)

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        await server.until(lambda: server.state.poll)
        await bot.set_webhook("https://bot.example/hook")
    with pytest.raises(Conflict, match="webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert await bot.get_updates() == ()


async def test_only_what_was_asked_for_is_told(server: Telegram, bot: Bot) -> None:
    alice, bob = server.user("Alice"), server.user("Bob")
    group = server.group("Team", alice, bot="administrator")
    bob.joins(group)  # not told as `chat_member`, unless asked for
    alice.reacts(alice.says(group, "hello"), "👍")
    usual = await bot.get_updates()
    await bot.get_updates(offset=usual[-1].update_id + 1, allowed_updates=["chat_member", "message_reaction"])
    bob.leaves(group)
    alice.reacts(alice.says(group, "again"), "👍")
    asked = await bot.get_updates()
    await bot.get_updates(allowed_updates=[])
    assert server.state.allowed is None

    assert [kind(update) for update in usual] == ["my_chat_member", "message", "message"]
    assert [kind(update) for update in asked] == ["chat_member", "message_reaction"]
    assert asked[0].chat_member is not None
    assert asked[0].chat_member.new_chat_member.status == "left"


def kind(update: Update) -> str:
    return next(name for name in update.to_dict() if name != "update_id")


async def test_updates_can_be_delivered_again(server: Telegram, bot: Bot) -> None:
    server.user("Alice").says(None, "once")
    (first,) = await bot.get_updates()
    await bot.get_updates(offset=first.update_id + 1)
    server.repeat_updates()

    assert [update.update_id for update in await bot.get_updates(offset=first.update_id + 1)] == [first.update_id]


# --- what people do


async def test_messages_of_every_kind_reach_the_bot(server: Telegram, bot: Bot) -> None:
    alice, bob = server.user("Alice"), server.user("Bob")
    first = alice.says(None, "plain")
    alice.says(None, "answer", reply_to=first, quote="lai")
    alice.says(None, "theirs", forward_of=bob)
    alice.says(None, "hidden", forward_of="Somebody")
    alice.says(None, "mine", forward_of=first)
    alice.says(None, "look", photo=b"\xff\xd8")
    alice.says(None, document=("a.txt", b"x"))
    alice.says(None, voice=b"ogg")
    alice.edits(first, "plainer")
    plain, answer, theirs, hidden, mine, look, document, voice, edited = await bot.get_updates()

    assert plain.update_id + 8 == edited.update_id
    assert answer.message is not None
    assert answer.message.quote is not None
    assert (answer.message.quote.text, answer.message.quote.position) == ("lai", 1)
    origins = [
        update.message and update.message.forward_origin and update.message.forward_origin.type
        for update in (theirs, hidden, mine)
    ]
    assert origins == ["user", "hidden_user", "user"]
    assert look.message is not None
    assert look.message.caption == "look"
    assert len(look.message.photo) == 1
    assert document.message is not None
    assert document.message.document is not None
    assert voice.message is not None
    assert voice.message.voice is not None
    assert edited.edited_message is not None
    assert edited.edited_message.text == "plainer"


async def test_ids_have_fifty_two_bits(server: Telegram) -> None:
    assert server.user("Alice").id.bit_length() == 52


async def test_presses_are_answered_once_in_time(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    keyboard = InlineKeyboardMarkup(
        [[InlineKeyboardButton("yes", callback_data="t1"), InlineKeyboardButton("no", callback_data="t2")]]
    )
    await bot.send_message(alice.private.id, "sure?", reply_markup=keyboard)
    query, late = alice.presses(alice.private.shows[-1], "no"), alice.presses(alice.private.shows[-1], 0)
    one, two = await bot.get_updates()
    assert one.callback_query is not None
    assert two.callback_query is not None

    assert (one.callback_query.data, two.callback_query.data) == ("t2", "t1")
    await bot.answer_callback_query(one.callback_query.id, "done", show_alert=True)
    assert query.answer == {"text": "done", "show_alert": True}
    with pytest.raises(BadRequest, match=r"(?i)message_too_long"):
        await bot.answer_callback_query(two.callback_query.id, "x" * 201)
    server.expire_queries()
    with pytest.raises(BadRequest, match=r"(?i)query is too old and response timeout expired or query ID is invalid"):
        await bot.answer_callback_query(two.callback_query.id)
    assert late.answer is None


async def test_privacy_mode_hides_what_is_not_for_the_bot(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    group = server.group("Team", alice)
    sent = await bot.send_message(group.id, "hello")
    alice.says(group, "among us")
    alice.says(group, "/status@another_bot")
    alice.says(group, "/help")
    alice.says(group, "/help@sim_lockgate_bot")
    alice.says(group, "ask @sim_lockgate_bot")
    shown = group.find(sent.message_id)
    alice.says(group, "yes", reply_to=shown)

    assert texts(await bot.get_updates(offset=server.state.updates[1]["update_id"])) == [
        *("/help", "/help@sim_lockgate_bot", "ask @sim_lockgate_bot", "yes"),
    ]
    assert not (await bot.get_me()).can_read_all_group_messages
    server.state.privacy = False
    alice.says(group, "all of it")
    assert texts(await bot.get_updates())[-1] == "all of it"


async def test_a_bot_that_is_not_there_is_told_nothing(server: Telegram, bot: Bot) -> None:
    alice = server.user("Alice")
    group = server.group("Team", alice, bot="left")
    alice.says(group, "/help")
    alice.says(None, "/start")
    alice.blocks()
    alice.says(None, "more")

    assert [kind(update) for update in await bot.get_updates()] == ["message", "my_chat_member"]


# --- webhooks


@dataclass
class Hook:
    """Somebody's endpoint: it answers with the statuses given, then with 200."""

    statuses: list[int] = field(default_factory=list[int])
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    url: str = ""
    posted: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, request: web.Request) -> web.Response:
        self.seen.append((request.headers.get("X-Telegram-Bot-Api-Secret-Token", ""), await request.json()))
        self.posted.set()
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)


@asynccontextmanager
async def endpoint(*statuses: int) -> AsyncGenerator[Hook]:
    hook, app = Hook(list(statuses)), web.Application()
    app.router.add_post("/hook", hook.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hook.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield hook
    finally:
        await runner.cleanup()


async def seen(hook: Hook, number: int) -> list[int]:
    async with asyncio.timeout(60):
        while len(hook.seen) < number:
            await hook.posted.wait()
            hook.posted.clear()
    return [update["update_id"] for _, update in hook.seen]


async def test_updates_are_posted_until_they_are_taken(server: Telegram, bot: Bot) -> None:
    async with endpoint(500, 503) as hook:
        await bot.set_webhook(hook.url, secret_token="s3cret_-", allowed_updates=["message"])  # noqa: S106
        alice = server.user("Alice")
        alice.says(None, "one")
        alice.says(None, "two")
        ids = await seen(hook, 4)

        assert [number - ids[0] for number in ids] == [0, 0, 0, 1]
        assert {secret for secret, _ in hook.seen} == {"s3cret_-"}
        info = await bot.get_webhook_info()
        assert (info.url, info.allowed_updates) == (hook.url, ("message",))
        assert info.last_error_message is not None
        assert info.last_error_message.startswith("Wrong response from the webhook: 503")
        server.repeat_updates()
        assert (await seen(hook, 5))[-1] == ids[-1]
        await bot.delete_webhook()
        alice.says(None, "three")
    assert texts(await bot.get_updates()) == ["three"]


async def test_an_endpoint_that_is_away_is_asked_again(server: Telegram, bot: Bot) -> None:
    async with endpoint() as hook:
        away = hook.url
    await bot.set_webhook(away)
    server.user("Alice").says(None, "hello")
    await server.until(lambda: server.state.webhook.error)

    info = await bot.get_webhook_info()
    assert info.pending_update_count == 1
    assert info.last_error_message is not None
    assert info.last_error_message.startswith("Connection failed")


@pytest.mark.parametrize(
    "url,more,sentence",
    [
        ("http://bot.example", {}, "An HTTPS URL must be provided for webhook"),
        ("https://bot.example:8000", {}, "only on ports 80, 88, 443 or 8443"),
        ("https://bot.example", {"secret_token": "with space"}, "secret token contains unallowed characters"),
        ("https://bot.example", {"secret_token": "x" * 257}, "secret token contains unallowed characters"),
        ("https://bot.example", {"max_connections": 101}, "max_connections must be between 1 and 100"),
    ],
)
async def test_webhooks_are_checked(bot: Bot, url: str, more: dict[str, Any], sentence: str) -> None:
    with pytest.RaisesExc(BadRequest, match=re.compile(re.escape(sentence), re.IGNORECASE)):
        await bot.set_webhook(url, **more)


async def test_what_waits_can_be_dropped(server: Telegram, bot: Bot) -> None:
    server.user("Alice").says(None, "old")
    await bot.delete_webhook(drop_pending_updates=True)
    assert await bot.get_updates() == ()
    server.user("Bob").says(None, "old")
    await bot.set_webhook("https://bot.example", drop_pending_updates=True)
    assert server.state.updates == []


# --- faults


async def test_too_many_requests(server: Telegram, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "true")  # or the library warns that it will change
    alice, bob = server.user("Alice").private, server.user("Bob").private
    server.fails("sendMessage", retry_after=7, chat=alice.id)
    await bot.send_message(bob.id, "another chat")
    with pytest.raises(RetryAfter) as raised:
        await bot.send_message(alice.id, "too fast")
    await bot.send_message(alice.id, "in time")

    assert raised.value.retry_after == timedelta(seconds=7)
    assert alice.said == ["in time"]


async def test_errors_of_the_server(server: Telegram, bot: Bot) -> None:
    chat = server.user("Alice").private
    server.fails(status=502, times=2)
    for _ in range(2):
        with pytest.raises(NetworkError, match="Bad Gateway"):
            await bot.send_message(chat.id, "x")
    await bot.send_message(chat.id, "y")

    assert chat.said == ["y"]
    assert [call["text"] for call in server.asked("sendMessage")] == ["x", "x", "y"]


async def test_a_lost_reply_was_done(server: Telegram, bot: Bot) -> None:
    chat = server.user("Alice").private
    server.loses("sendMessage")
    with pytest.raises(NetworkError):
        await bot.send_message(chat.id, "seen")

    assert chat.said == ["seen"]


async def test_a_slow_answer_was_done(server: Telegram, bot: Bot) -> None:
    chat = server.user("Alice").private
    server.slows("sendMessage", seconds=2)
    with pytest.raises(NetworkError, match="Timed out"):
        await bot.send_message(chat.id, "seen", read_timeout=0.2)

    await server.until(lambda: chat.said == ["seen"])


async def test_waiting_for_what_does_not_come_ends(server: Telegram) -> None:
    with pytest.raises(TimeoutError):
        await server.until(lambda: False, seconds=0.05)
