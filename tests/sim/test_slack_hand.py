"""Typing into the played Slack: what a person at the keyboard does and sees, with a bolt app on the other side."""

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from tests.sim.slack import slack
from tests.sim.slack_hand import Hand
from tests.sim.test_slack_events import BUTTONS, Bot, bot_of, socketed

pytestmark = pytest.mark.anyio


@pytest.fixture
async def typed() -> AsyncIterator[tuple[Hand, Bot]]:
    async with slack() as played:
        bot = bot_of(played)
        async with socketed(played, bot):
            alice = played.user("alice")
            yield Hand(played, alice, played.channel("general", alice)), bot


async def lines(hand: Hand, *typed: str) -> list[str]:
    told: list[str] = []
    for line in typed:
        told += await hand.does(line)
    return told + list(hand.news())


async def test_people_write_and_the_bot_is_heard(typed: tuple[Hand, Bot]) -> None:
    hand, _ = typed
    assert hand.prompt == "alice#general> "
    assert await lines(hand, "hello") == ["  1 #general alice:", "    hello"]
    await hand.does("bob!#general> @ you there?")
    await hand.played.until(lambda: len(hand.where.messages) == 3)
    told = list(hand.news())
    assert "  3 #general ↳ lockgate:" in told
    assert told[-1] == "    heard you there?"
    assert (hand.prompt, hand.who.member.is_ultra_restricted) == ("bob#general> ", True)
    assert await lines(hand, "+1 indeed") == ["  4 #general ↳ bob:", "    indeed"]


async def test_buttons_are_numbered_and_pressed(typed: tuple[Hand, Bot]) -> None:
    hand, bot = typed
    await bot.app.client.chat_postMessage(channel=hand.where.id, text="agree?", blocks=BUTTONS)
    assert "    [1] Yes" in await lines(hand)
    await hand.does("/press 1")
    await hand.played.until(lambda: hand.where.messages[0].text == "alice agreed")
    assert list(hand.news()) == ["  1~ #general lockgate:", "    alice agreed"]


async def test_commands_homes_joins_and_mistakes(typed: tuple[Hand, Bot]) -> None:
    hand, _ = typed
    assert "    did status" in await lines(hand, "/lockgate status")
    home = await lines(hand, "/home")
    assert home[0] == "  home of alice:"
    assert "    [1] Yes" in home
    await hand.does("/press 1")
    await hand.does("/join dave general")
    await hand.does("/share general")
    assert hand.played.user("dave").id in hand.where.members
    assert hand.where.shared_with
    assert "alice@> hello" in "".join(await hand.does("/help"))
    assert list(await hand.does("/press 9")) == ["  Slack refuses: list index out of range"]
    assert hand.where.kind == "public"
    await hand.does("alice@> psst")
    assert hand.prompt == "alice@> "


@pytest.mark.parametrize("fault", ["?429", "?500", "?cut", "?dead", "?twice", "?disconnect"])
async def test_faults_by_hand(fault: str) -> None:
    async with slack() as played:
        alice = played.user("alice")
        hand = Hand(played, alice, played.channel("general", alice))
        assert list(await hand.does(fault)) == ["  so be it"]
        assert list(await hand.does("?none")) == ["  no such fault, see /help"]


async def test_the_command_serves_and_ends_with_its_input() -> None:
    made = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.sim.slack_hand", "--port", "0"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await made.communicate(b"hello\n/help\n")
    assert made.returncode == 0
    assert b"signing secret  signing-secret" in told
    assert b"    hello" in told
