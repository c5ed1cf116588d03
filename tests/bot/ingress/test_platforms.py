"""People on Telegram and Slack: messages that are not read, links to the bot, and buttons that were used."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.access.pairing import ASK_OWNER
from bot.app.app import App
from bot.commands.table import LINKED, WELCOME
from bot.ingress.spent_buttons import left
from bot.ingress.unread_kinds import EDITED, UNREAD
from channels.port import Platform
from tests.bot.kit import Scripted, parts, policy
from tests.channels.contract import until
from tests.channels.slack.kit import staged as slack_staged
from tests.channels.telegram.kit import TelegramStage
from tests.channels.telegram.kit import staged as telegram_staged
from tests.harness import running
from tests.people import principal

pytestmark = pytest.mark.anyio

CODE = "23456789"


@asynccontextmanager
async def listening(folder: Path, platform: Platform, account: str, model: Scripted) -> AsyncGenerator[App]:
    """Open an application that listens to a platform, of which one person is an admin."""
    config = policy(
        principals={"owner": principal("console:owner"), "alice": principal(account, role="admin")},
        channels={
            "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
            platform.name: {"classification": "INTERNAL", "inbound": "PUBLIC", "overshoot": "allow"},
        },
    )
    async with running(folder, config, parts=parts(model=model), channels=[platform]) as owner:
        serving = asyncio.create_task(platform.serve(owner.app.receive))
        try:
            yield owner.app
        finally:
            serving.cancel()
            await asyncio.wait({serving})


@asynccontextmanager
async def at_telegram(folder: Path, model: Scripted) -> AsyncGenerator[TelegramStage]:
    async with telegram_staged() as played, listening(folder, played.adapter, f"telegram:{played.alice.id}", model):
        yield played


async def test_what_is_not_read_is_told_in_one_line_and_a_stranger_learns_no_more_than_ever(tmp_path: Path) -> None:
    model = Scripted("read")
    async with at_telegram(tmp_path, model) as played:
        alice, server = played.alice, played.server
        eve, said = server.user("Eve"), alice.private
        group = server.supergroup("Crew", alice, eve, bot="administrator")
        for kind in ("sticker", "sticker", "location", "contact", "pinned"):
            alice.sends(None, kind)
        alice.sends(group, "sticker")
        typed = alice.says(None, "hello")
        alice.edits(typed, "/approve 1")
        for kind in ("sticker", "dice"):
            eve.sends(None, kind)
        alice.sends(None, "venue")
        await until(lambda: "a place" in str(said.said))
        await until(lambda: "read" in said.said)
        told = [UNREAD.format(kind=kind) for kind in ("a sticker", "a location", "a contact", "a place")]
        assert sorted(text for text in said.said if "I was added" not in text) == sorted([*told, EDITED, "read"])
        assert group.said == []
        assert eve.private.said == [ASK_OWNER.format(account=f"telegram:{eve.id}")]
        assert len(model.asked) == 1


async def test_a_link_to_the_bot_greets_and_does_nothing_and_a_code_in_it_is_an_admins_to_type(tmp_path: Path) -> None:
    model = Scripted("never")
    async with at_telegram(tmp_path, model) as played:
        alice, server = played.alice, played.server
        eve = server.user("Eve")
        for text in ("/start", "/start spring-sale", f"/start {CODE.upper()}", f"/start {'x' * 4_000}"):
            alice.says(None, text)
        eve.says(None, f"/start {CODE}")
        await until(lambda: len(alice.private.said) == 4)
        await until(lambda: eve.private.said)
        linked = alice.private.said[2]
        others = [text for text in alice.private.said if text != linked]
        assert [text.startswith(WELCOME) and "/whoami" in text for text in others] == [True] * 3
        assert not any("sale" in text or "xxx" in text for text in others)
        assert linked.startswith(LINKED.format(code=CODE))
        assert eve.private.said == [ASK_OWNER.format(account=f"telegram:{eve.id}")]
        assert model.asked == []


async def test_a_used_button_takes_the_buttons_of_its_set_away_at_telegram(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, Scripted("never")) as played:
        alice, server = played.alice, played.server
        group = server.supergroup("Crew", alice, bot="administrator")
        alice.says(group, f"@{server.state.username} hello")
        await until(lambda: any(one.buttons for one in alice.private.shows))
        notice = next(one for one in alice.private.shows if one.buttons)
        assert [key["text"] for key in notice.buttons] == ["PUBLIC", "INTERNAL", "Block"]
        text = notice.text
        alice.presses(notice, "PUBLIC")
        await until(lambda: not notice.buttons)
        assert notice.text == text


async def test_a_used_button_takes_the_buttons_of_its_set_away_at_slack(tmp_path: Path) -> None:
    async with slack_staged() as played:
        server, alice = played.server, played.alice
        account = f"slack:{server.team.id}:{alice.id}"
        async with listening(tmp_path, played.adapter, account, Scripted("never")):
            await server.sockets.connected(1)
            crew = server.channel("crew", alice)
            await alice.says(crew, f"<@{server.bot.user}> hello")
            private = alice.dm()
            await until(lambda: any("PUBLIC" in str(one.blocks) for one in private.messages))
            notice = next(one for one in private.messages if "PUBLIC" in str(one.blocks))
            (keys,) = (block for block in notice.blocks if block["type"] == "actions")
            text = notice.text
            await alice.presses(notice, keys["elements"][1]["action_id"])
            await until(lambda: "actions" not in str(notice.blocks))
            assert notice.text == text


@pytest.mark.parametrize(
    "pressed,shown,staying",
    [
        ("/classify t:1 PUBLIC", ("/classify t:1 PUBLIC", "/block chat t:1", "/classify t:2 PUBLIC"), 1),
        ("/continue c", ("/continue c", "/background c bob", "/deny c"), 0),
        ("/approve c", ("/approve c", "/deny c"), 2),
        ("/deny c", ("/approve c", "/deny c"), 2),
        ("/held accept h", ("/held show h", "/held accept h", "/held drop h"), 3),
        ("/held accept h", ("/held accept h", "/held drop h", "/held accept i", "/held drop i"), 2),
        ("/runs stop r", ("/runs log r", "/runs pause r", "/runs stop r"), 1),
        ("/runs log r", ("/runs log r", "/runs stop r"), 2),
        ("/skills approve s 1 x", ("/skills approve s 1 x", "/skills reject s 1 x"), 0),
        ("/workflow later w", ("/workflow resume w", "/workflow later w"), 0),
        ("/delete s confirm", ("/delete s confirm",), 0),
        ("/status", ("/status",), 1),
    ],
)
def test_only_buttons_about_the_same_thing_are_spent(pressed: str, shown: tuple[str, ...], staying: int) -> None:
    assert len(left(pressed, shown)) == staying
