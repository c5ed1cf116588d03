"""A session that cannot be read is nobody's trouble but its own, on every platform and from intake to answer."""

# pyright: reportPrivateUsage=false

import asyncio
import io
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.app.app import App
from bot.operations.diagnostics import channel
from bot.sessions.log.event_types import UserMessage
from bot.sessions.models import SCHEMA
from channels.messages import Address
from tests.bot.kit import eventually, policy
from tests.channels.contract import until
from tests.channels.slack.kit import SlackStage
from tests.channels.slack.kit import at as slack_at
from tests.channels.slack.kit import staged as slack_staged
from tests.channels.telegram.kit import TelegramStage, at, staged
from tests.harness import Person, running
from tests.people import principal
from tests.sim.telegram_world import Person as Someone
from tests.store.world import put_state

pytestmark = pytest.mark.anyio

PLATFORM = {"classification": "INTERNAL", "overshoot": "allow"}


def configured(*accounts: str, room: int = 100) -> str:
    people = {
        f"p{number}": principal(account, role="member", clearance="INTERNAL") for number, account in enumerate(accounts)
    }
    owner = principal("console:owner")
    channels = {"console": {"classification": "top"}, "telegram": PLATFORM, "slack": PLATFORM}
    limits = {"limits": {"inbox_items": room}}
    return policy(principals={"owner": owner, **people}, channels=channels, recipients={}, blocks=limits)


@dataclass
class Bot:
    """A bot on Telegram with two people, alice and bob, who each have a chat with it."""

    app: App
    played: TelegramStage
    bob: Someone

    @property
    def alice(self) -> Someone:
        return self.played.alice

    async def break_off(self, field: str = "version", value: str = "99") -> None:
        """Let alice be answered once, and write something into the record of that session."""
        self.alice.says(None, "before")
        await until(lambda: "You said: before" in self.alice.private.said)
        await damage(self.app, at(self.alice.private), field, value)

    async def mend(self) -> None:
        await damage(self.app, at(self.alice.private), "version", str(SCHEMA))


async def damage(app: App, home: Address, field: str, value: str) -> None:
    """Write something into a record that no program wrote, once nothing of its session is on its way."""
    if value != str(SCHEMA):
        await Person(app, io.StringIO(), home).settled()
    await put_state(app.store, app.session_id(home), **{field: value})


@asynccontextmanager
async def bot(folder: Path, *, room: int = 100) -> AsyncGenerator[Bot]:
    """Run a bot; with `room` for few messages no worker makes more."""
    async with staged() as played:
        bob = played.server.user("Bob")
        config = configured(f"telegram:{played.alice.id}", f"telegram:{bob.id}", room=room)
        async with running(folder, config, channels=[played.adapter], serve=room > 2) as owner:
            listening = asyncio.create_task(played.adapter.serve(owner.app.receive))
            try:
                yield Bot(owner.app, played, bob)
            finally:
                listening.cancel()
                await asyncio.wait({listening})


@pytest.mark.parametrize(
    "field, value", [("version", "99"), ("taint", "NOSUCH"), ("taint", "CONFIDENTIAL{"), ("lineage", "{")]
)
async def test_one_damaged_session_silences_nobody_else(tmp_path: Path, field: str, value: str) -> None:
    async with bot(tmp_path) as there:
        await there.break_off(field, value)
        for number in range(3):
            there.alice.says(None, f"lost {number}")
        there.bob.says(None, "hello")
        await until(lambda: "You said: hello" in there.bob.private.said)
        there.bob.says(None, "/help")
        await until(lambda: len(there.bob.private.said) == 2)


async def test_what_was_said_meanwhile_is_answered_in_order_when_the_record_can_be_read(tmp_path: Path) -> None:
    async with bot(tmp_path) as there:
        await there.break_off()
        for number in range(3):
            there.alice.says(None, f"word {number}")
        await until(lambda: not there.played.server.state.updates)
        (home,) = there.alice.private.said
        assert home == "You said: before"
        await there.mend()
        alice = Person(there.app, io.StringIO(), at(there.alice.private), f"telegram:{there.alice.id}")

        async def said() -> bool:
            told = [event.body.text for event in await alice.events() if isinstance(event.body, UserMessage)]
            return told == ["before", "word 0", "word 1", "word 2"]

        await eventually(said)


async def test_in_a_chat_whose_session_is_damaged_commands_are_answered(tmp_path: Path) -> None:
    async with bot(tmp_path) as there:
        await there.break_off()
        there.alice.says(None, "lost")
        await until(lambda: not there.played.server.state.updates)
        there.alice.says(None, "/help")
        await until(lambda: len(there.alice.private.said) == 2)


async def test_what_is_parked_is_told_to_no_one_who_is_not_cleared_for_everything(tmp_path: Path) -> None:
    async with bot(tmp_path) as there:
        await there.break_off()
        there.alice.says(None, "lost")
        await until(lambda: not there.played.server.state.updates)
        top = there.app.config.policy.top
        told = [one for one in await channel(there.played.adapter, top) if "could not be taken in" in one.problem]
        assert [one.label for one in told] == [top]
        assert there.alice.private.said == ["You said: before"]


async def test_a_member_whose_inbox_is_full_delays_nobody(tmp_path: Path) -> None:
    async with bot(tmp_path, room=2) as there:
        for number in range(12):
            there.alice.says(None, f"more {number}")
        await until(lambda: [text for text in there.alice.private.said if "busy" in text])
        began = time.monotonic()
        there.bob.says(None, "/help")
        await until(lambda: there.bob.private.said)
        assert time.monotonic() - began < 8


async def test_what_is_said_behind_a_slow_reply_is_kept_before_that_is_said(tmp_path: Path) -> None:
    async with bot(tmp_path, room=2) as there:
        there.played.server.slows("sendMessage", seconds=4, times=8)
        for _ in range(8):
            there.alice.says(None, "/help")
        there.alice.says(None, "hello")
        sid = there.app.session_id(at(there.alice.private))

        async def kept() -> bool:
            return bool(await there.app.store.sessions.waiting(sid))

        await eventually(kept)
        assert len(there.alice.private.said) < 3


async def test_updates_are_confirmed_while_what_is_to_be_said_waits_for_its_pace(tmp_path: Path) -> None:
    async with bot(tmp_path, room=2) as there:
        for number in range(12):
            there.alice.says(None, f"more {number}")
        there.alice.says(None, "/status")
        # All of it was taken in, while what is to be said of it waits for its pace.
        began = time.monotonic()
        await until(lambda: not there.played.server.state.updates)
        assert time.monotonic() - began < 8


@asynccontextmanager
async def slack_bot(folder: Path) -> AsyncGenerator[tuple[App, SlackStage]]:
    async with slack_staged() as played:
        account = f"slack:{played.server.team.id}:{played.alice.id}"
        async with running(folder, configured(account), channels=[played.adapter]) as owner:
            listening = asyncio.create_task(played.adapter.serve(owner.app.receive))
            try:
                await played.server.sockets.connected(1)
                yield owner.app, played
            finally:
                listening.cancel()
                await asyncio.wait({listening})


async def test_on_slack_what_a_damaged_session_refuses_is_not_lost(tmp_path: Path) -> None:
    async with slack_bot(tmp_path) as (app, played):
        home = slack_at(played.alice.dm())
        await played.alice.says(played.alice.dm(), "before")
        await until(lambda: "You said: before" in played.shown())
        await damage(app, home, "version", "99")
        await played.alice.says(played.alice.dm(), "meanwhile")
        assert not played.server.reach.attempts[-1].failed
        assert "You said: meanwhile" not in played.shown()
        await damage(app, home, "version", str(SCHEMA))
        await until(lambda: "You said: meanwhile" in played.shown())
