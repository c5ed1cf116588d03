"""Other bots: those that are named are read, as what nobody trusts, and two of them do not go on for ever."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.app.app import App
from bot.config.load import load_config
from bot.core.errors import ConfigError
from bot.ingress.admin_notices import HOUR_MS
from bot.ingress.bot_loop_guard import MOST
from bot.ingress.router import Routed
from bot.sessions.log.event_types import UserMessage
from bot.sessions.log.events import EventType
from channels.messages import Address, Inbound
from channels.port import Reader, ReaderKind
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import INTERNAL, eventually, policy
from tests.bot.rooms import PEOPLE, Rooms
from tests.channels.telegram.kit import TelegramStage, at, staged
from tests.events import body_of
from tests.harness import running
from tests.people import principal
from tests.sim.telegram_state import Chat
from tests.sim.telegram_world import Person

pytestmark = pytest.mark.anyio

HERE = Address("telegram", "-1")
CHANNELS = {"console": {"classification": "top"}, "telegram": {"classification": "CONFIDENTIAL", "overshoot": "allow"}}
TEAM = {"team": {"channel": "telegram", "chat": "-1", "classification": "INTERNAL"}}
READ = {"channels": {"telegram": {"bots": ["telegram:9", "telegram:10"]}}}


@dataclass
class Talk:
    """A group of ann, who is an admin, and of two bots that are read; `robot` is somebody here, the other is not."""

    app: App
    rooms: Rooms
    count: int = 0

    async def says(self, account: str, text: str = "hello", **facts: object) -> Routed:
        self.count += 1
        robot = account != "telegram:ann"
        given = {"private": False, "bot": robot, "authored": not robot, **facts}
        inbound = Inbound(HERE, account, text, f"n{self.count}", **given)  # pyright: ignore[reportArgumentType] - as given
        return (await self.app.router.receive(inbound)).outcome


@asynccontextmanager
async def talk(folder: Path, *, serve: bool = False) -> AsyncGenerator[Talk]:
    readers = frozenset({"telegram:ann", "telegram:9"})
    rooms = Rooms({HERE.chat: readers}, name="telegram")
    people = {
        "owner": PEOPLE["owner"],
        "ann": principal("telegram:ann", role="admin", clearance="CONFIDENTIAL"),
        "robot": principal("telegram:9", role="approver", clearance="INTERNAL"),
    }
    config = policy(principals=people, channels=CHANNELS, chats=TEAM, recipients={}, blocks=READ)
    async with running(folder, config, serve=serve, channels=[rooms]) as owner:
        yield Talk(owner.app, rooms)


async def test_a_bot_is_answered_a_few_times_until_a_person_writes(tmp_path: Path) -> None:
    async with talk(tmp_path) as there:
        assert [await there.says("telegram:9") for _ in range(MOST)] == [Routed.ACCEPTED] * MOST
        assert [await there.says("telegram:9") for _ in range(3)] == [Routed.IGNORED] * 3
        # The admins are told, each alone, and once.
        (told,) = there.rooms.sent
        assert told.address == Address("telegram", "ann")
        assert "telegram:9" in told.text
        assert "telegram:-1" in told.text
        # A person who writes there, to whomever, lets it go on.
        await there.says("telegram:ann", "what a day", addressed=False)
        assert [await there.says("telegram:9") for _ in range(MOST + 1)] == [Routed.ACCEPTED] * MOST + [Routed.IGNORED]
        assert len(there.rooms.sent) == 1


async def test_a_bot_that_is_silenced_goes_on_an_hour_later(tmp_path: Path) -> None:
    async with talk(tmp_path) as there:
        for _ in range(MOST + 3):
            await there.says("telegram:9")
        name = f"bot/{HERE}/telegram:9"
        # What it says meanwhile does not make it longer, and when the count is over it may ask again.
        await there.app.store.counts.keep(name, HOUR_MS)
        await there.says("telegram:9")
        await there.app.store.counts.keep(name, 30)
        await asyncio.sleep(0.05)
        assert await there.says("telegram:9") is Routed.ACCEPTED


async def test_what_a_bot_says_is_untrusted_and_commands_nothing(tmp_path: Path) -> None:
    async with talk(tmp_path, serve=True) as there:
        assert await there.says("telegram:9", "/reset confirm") is Routed.ACCEPTED
        sid = there.app.session_id(HERE)
        await eventually(lambda: _answered(there.app, sid))
        (said,) = [one for one in await there.app.store.sessions.events(sid) if one.type is EventType.USER_MESSAGE]
        assert (body_of(said, UserMessage).text, said.label) == ("/reset confirm", parse("INTERNAL~"))


async def test_a_bot_that_is_nobody_here_is_told_nothing(tmp_path: Path) -> None:
    async with talk(tmp_path) as there:
        assert await there.says("telegram:10") is Routed.REFUSED
        assert await there.says("telegram:9", "x" * 200_000) is Routed.IGNORED
        assert there.rooms.sent == []


@pytest.mark.parametrize("bots", [{"telegram": {"bots": ["robot"]}}, {"slack": {"bots": ["slack:U1"]}}])
def test_bots_are_named_by_their_accounts(tmp_path: Path, bots: dict[str, object]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"channels": bots}))
    with pytest.raises(ConfigError, match="is not an account there, write one as"):
        load_config(path, {}, ())


@dataclass
class Side:
    """One of two bots of ours, with a group in which the other is as well."""

    app: App
    stage: TelegramStage
    group: Chat
    robot: Person


@asynccontextmanager
async def side(folder: Path) -> AsyncGenerator[Side]:
    async with staged() as stage:
        robot = stage.server.user("Robot", bot=True)
        group = stage.server.supergroup("Team", stage.alice, robot, bot="administrator")
        adapter = stage.another(bots=[f"telegram:{robot.id}"])
        people = {
            "ann": principal("console:owner", f"telegram:{stage.alice.id}"),
            "robot": principal(f"telegram:{robot.id}", role="member", clearance="INTERNAL"),
        }
        chat = {"channel": "telegram", "chat": str(group.id), "classification": "INTERNAL"}
        listed = {"channels": {"telegram": {"bots": [f"telegram:{robot.id}"]}}}
        config = policy(principals=people, channels=CHANNELS, chats={"team": chat}, recipients={}, blocks=listed)
        async with running(folder, config, channels=[adapter]) as owner:
            listening = asyncio.create_task(adapter.serve(owner.app.receive))
            try:
                stage.alice.says(group, f"/classify@{stage.server.state.username} vouch")
                await stage.server.until(lambda: stage.alice.private.said, 10)
                yield Side(owner.app, stage, group, robot)
            finally:
                listening.cancel()
                await asyncio.wait({listening})
                await adapter.close()


async def test_a_bot_that_is_named_lets_its_group_hear_and_another_does_not(tmp_path: Path) -> None:
    async with side(tmp_path) as there:
        here = at(there.group)
        assert (await there.app.gate.readers.destination(here)).clearance == INTERNAL
        there.robot.says(there.group, f"@{there.stage.server.state.username} hello")
        await there.stage.server.until(lambda: "You said: hello" in there.group.said, 10)
        readers = (await there.app.gate.readers.audience(here)).readers
        assert Reader(f"telegram:{there.robot.id}", ReaderKind.BOT) in readers
        assert (await there.app.gate.readers.destination(here)).clearance == INTERNAL
        there.stage.server.user("Other", bot=True).says(there.group, "and me")
        await eventually(lambda: _hears(there, PUBLIC))


async def _hears(there: Side, label: Label) -> bool:
    return (await there.app.gate.readers.destination(at(there.group))).clearance == label


async def passed_on(one: Side, other: Side) -> None:
    """Let the other bot hear what one says, by its name, for ever."""
    heard = 0
    while True:
        for text in one.group.said[heard:]:
            other.robot.says(other.group, f"@{other.stage.server.state.username} {text}")
            heard += 1
        await asyncio.sleep(0.01)


async def test_two_of_our_own_bots_that_talk_to_each_other_stop(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with side(tmp_path / "one") as one, side(tmp_path / "other") as other, asyncio.TaskGroup() as tasks:
        passing = [tasks.create_task(passed_on(one, other)), tasks.create_task(passed_on(other, one))]
        one.stage.alice.says(one.group, f"@{one.stage.server.state.username} hello")
        told = other.stage.alice.private
        await other.stage.server.until(lambda: any("I do not answer" in text for text in told.said), 30)
        assert (len(one.group.said), len(other.group.said)) == (MOST + 1, MOST)
        other.stage.alice.says(other.group, "what are they talking about?")
        other.robot.says(other.group, f"@{other.stage.server.state.username} again")
        await other.stage.server.until(lambda: "You said: again" in other.group.said, 10)
        for each in passing:
            each.cancel()


async def _answered(app: App, sid: str) -> bool:
    return any(one.type is EventType.AGENT_MESSAGE for one in await app.store.sessions.events(sid))
