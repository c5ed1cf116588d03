"""The keyboard of `poe sim-telegram`: what a line does, and what is told of the bot."""

from collections.abc import AsyncGenerator

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup

from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_by_hand import HELP, Hand

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncGenerator[Telegram]:
    async with telegram(privacy=False) as played:
        yield played


@pytest.fixture
async def bot(server: Telegram) -> AsyncGenerator[Bot]:
    async with Bot(server.token, base_url=server.base_url, base_file_url=server.base_file_url) as made:
        yield made


async def test_lines_are_said_by_whom_the_prompt_names(server: Telegram, bot: Bot) -> None:
    hand = Hand(server)
    for line in ("hello", "", "bob@team> from bob", "/join", "/429", "/file a.txt content", "/forward theirs"):
        hand.line(line)
    updates = await bot.get_updates()
    said = [
        (update.effective_user and update.effective_user.first_name, update.effective_message) for update in updates
    ]

    assert [(who, message.text) for who, message in said if message and message.text] == [
        *(("alice", "hello"), ("bob", "from bob"), ("bob", "theirs")),
    ]
    assert server.faults[0].retry_after == 3


async def test_a_line_with_a_backslash_goes_on_in_the_next_one(server: Telegram, bot: Bot) -> None:
    hand = Hand(server)
    for line in ("bob@private> !one {}\\", "!two {}", "after"):
        assert hand.line(line) == ""
    updates = await bot.get_updates()
    assert [update.effective_message and update.effective_message.text for update in updates] == [
        "!one {}\n!two {}",
        "after",
    ]


async def test_what_the_bot_does_is_told_once(server: Telegram, bot: Bot) -> None:
    hand = Hand(server)
    hand.line("hello")
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("yes", callback_data="t")]])
    await bot.send_chat_action(hand.chat.id, "typing")
    sent = await bot.send_message(hand.chat.id, "sure?", reply_markup=keyboard)
    assert hand.news() == [
        f"  alice is telegram:{hand.person.id}",
        "  [alice@private] … typing",
        "  [alice@private] the bot says: sure?\n      1) yes",
    ]
    assert hand.news() == []

    hand.line("/press 1")
    hand.line("/reply no")
    assert [update.callback_query and update.callback_query.data for update in await bot.get_updates()] == [
        *(None, "t", None),
    ]
    await bot.edit_message_text("gone", hand.chat.id, sent.message_id)
    assert hand.news() == ["  [alice@private] the bot changed: gone"]
    await bot.delete_message(hand.chat.id, sent.message_id)
    assert hand.news() == ["  [alice@private] the bot changed: (deleted)"]


async def test_what_cannot_be_done_is_told(server: Telegram) -> None:
    hand = Hand(server)
    assert hand.line("/press 1") == "  there is nothing to do that with"
    assert hand.line("/press none") == "  there is nothing to do that with"
    hand.line("bob@team> hello")
    assert hand.line("alice@team> hello") == "  alice is not in team: /join"
    hand.line("/join")
    bob, alice = hand.people["bob"].id, hand.people["alice"].id
    assert hand.line("/who").splitlines() == [
        f"  bob: creator, telegram:{bob}",
        "  Lockgate (sim): member, mentioned as @sim_lockgate_bot",
        f"  alice: member, telegram:{alice}",
    ]
    assert hand.news() == [f"  alice is telegram:{alice}", f"  bob is telegram:{bob}"]
    hand.line("/leave")
    assert hand.line("hello") == "  alice is not in team: /join"
    assert hand.line("/?") == HELP
