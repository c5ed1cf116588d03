"""The application with people on Slack: who reads there is asked when something is said, and nobody else is told."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from bot.app.app import App
from bot.sessions.audit import AuditRecord
from bot.sessions.log.event_types import ChatObserved
from channels.messages import Button, Outbound
from channels.port import ReaderKind
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, eventually, policy
from tests.channels.contract import until
from tests.channels.slack.kit import SlackStage, at, staged
from tests.harness import running
from tests.people import principal
from tests.sim.slack_people import Person
from tests.sim.slack_state import Channel, Message

pytestmark = pytest.mark.anyio


@dataclass
class Room:
    """A private channel of ann, who may know what is confidential, with the bot in it; ben may know nothing of it.

    `robot` is another bot, let in as ann is.
    """

    app: App
    stage: SlackStage
    ann: Person
    ben: Person
    robot: Person
    channel: Channel

    async def rows(self) -> AsyncIterator[AuditRecord]:
        """Walk what was decided in every session."""
        async for chain, _ in self.app.store.audit.heads():
            async for row in self.app.chains.records(chain):
                yield row

    def thread(self, root: Message) -> str:
        """Return what ann sees in a thread of it."""
        return "\n".join(self.ann.sees(self.channel, root))

    async def observed(self, root: Message) -> str:
        """Return what entered the session of a thread that was not said to the bot."""
        events = await self.app.store.sessions.events(self.app.session_id(at(self.channel, root.ts)))
        return str([event.body.text for event in events if isinstance(event.body, ChatObserved)])

    def shown(self, who: Person) -> str:
        """Return what somebody sees there, in threads and private chats as well."""
        places = [place for place in self.stage.server.state.channels.values() if who.id in place.members]
        return "\n".join(
            message.text for place in places for message in place.messages if message.shown_to in {"", who.id}
        )


@asynccontextmanager
async def room(
    folder: Path, overshoot: str = "allow", classification: str = "CONFIDENTIAL", observe: int = 0
) -> AsyncGenerator[Room]:
    async with staged() as stage:
        ann, ben = stage.server.user("ann"), stage.server.user("ben", is_restricted=True)
        robot = stage.server.user("robot", is_bot=True)
        channel = stage.server.channel("plans", ann, kind="private")
        team = stage.server.team.id
        people = {
            "ann": principal("console:owner", f"slack:{team}:{ann.id}", clearance="CONFIDENTIAL"),
            "ben": principal(f"slack:{team}:{ben.id}", role="member", clearance="PUBLIC"),
            "robot": principal(f"slack:{team}:{robot.id}", role="member", clearance="CONFIDENTIAL"),
        }
        plans = {"channel": "slack", "workspace": team, "chat": channel.id, "classification": classification}
        plans |= {"observe": observe}
        text = policy(
            principals=people,
            channels={
                "console": {"classification": "top", "overshoot": "allow"},
                "slack": {"classification": "CONFIDENTIAL", "overshoot": overshoot},
            },
            chats={"plans": plans},
            recipients={},
        )
        async with running(folder, text, channels=[stage.adapter]) as person:
            listening = asyncio.create_task(stage.adapter.serve(person.app.receive))
            try:
                await stage.server.sockets.connected()
                yield Room(person.app, stage, ann, ben, robot, channel)
            finally:
                listening.cancel()
                await asyncio.wait({listening})


async def test_a_question_is_answered_once_in_its_thread_however_often_it_is_told(tmp_path: Path) -> None:
    async with room(tmp_path) as there:
        there.stage.server.reach.extra = 3
        asked = await there.ann.mentions(there.channel, "what now?")
        await there.stage.server.until(lambda: "You said: what now?" in there.thread(asked))
        await there.ann.mentions(there.channel, "and then?", thread=asked)
        await there.stage.server.until(lambda: "You said: and then?" in there.thread(asked))
        assert there.shown(there.ann).count("You said") == 2
        assert not any("You said" in text for text in there.ann.sees(there.channel))


@pytest.mark.parametrize("change", ["a guest joins", "it is shared"])
async def test_an_answer_is_withheld_from_who_comes_before_it_is_said(tmp_path: Path, change: str) -> None:
    async with room(tmp_path) as there:
        server = there.stage.server
        # The answer is written and was to be said, but Slack asks to wait.
        fault = server.fails("chat.postMessage", status=429, retry_after=1)
        await there.ann.mentions(there.channel, "the plan")
        await until(lambda: fault.times == 0)
        if change == "a guest joins":
            await there.ben.joins(there.channel)
        else:
            await server.share(there.channel, server.workspace("elsewhere"))
        with anyio.fail_after(60):
            while not [row async for row in there.rows() if row.kind == "withheld"]:  # noqa: ASYNC110 - no event of it
                await anyio.sleep(0.01)
        assert "You said" not in there.shown(there.ann) + there.shown(there.ben)


async def test_a_button_pressed_by_somebody_else_says_so_to_them_alone(tmp_path: Path) -> None:
    async with room(tmp_path) as there:
        await there.ben.joins(there.channel)
        asked = Outbound(at(there.channel), "sure?", "k", buttons=(Button("Yes", "/approve 7"),))
        await there.stage.adapter.send(asked)
        message = there.channel.messages[-1]
        (button,) = (each for block in message.blocks for each in block["elements"] if each["type"] == "button")
        await there.ben.presses(message, button["action_id"])
        told = "There is nothing of that name here."
        await there.stage.server.until(lambda: told in there.shown(there.ben))
        assert told not in there.shown(there.ann)


async def test_a_command_typed_with_a_mention_is_answered_once_and_to_its_typist(tmp_path: Path) -> None:
    async with room(tmp_path) as there:
        await there.ben.joins(there.channel)
        await there.ann.mentions(there.channel, "!status")
        told = "This conversation has not begun"
        await there.stage.server.until(lambda: told in there.shown(there.ann))
        assert there.shown(there.ann).count(told) == 1
        assert told not in there.shown(there.ben)


async def test_two_bots_talking_to_each_other_stop(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with room(tmp_path / "one") as one, room(tmp_path / "other") as other:
        # Whatever one of them says, the other hears from a bot that is let in and calls it by name.
        for each in (one, other):
            await each.robot.joins(each.channel)
        asked = await one.ann.mentions(one.channel, "hello")
        await one.stage.server.until(lambda: "You said: hello" in one.thread(asked))
        root = await other.robot.says(other.channel, f"<@{other.stage.server.bot.user}> You said: hello", bot_id="B1")
        await other.robot.says(other.channel, f"<@{other.stage.server.bot.user}> !status", thread=root, bot_id="B1")
        # What a person says there afterwards is heard, so that what came before was heard too, and is nothing.
        asked = await other.ann.mentions(other.channel, "and here?")
        await other.stage.server.until(lambda: "You said: and here?" in other.thread(asked))
        assert other.thread(root).count("You said") == 1
        assert [state async for state in other.app.store.sessions.states() if "robot" in state.principal] == []
        assert len([state async for state in other.app.store.sessions.states()]) == 1


async def test_an_app_that_is_named_lets_its_channel_hear_and_another_does_not(tmp_path: Path) -> None:
    async with room(tmp_path) as there:
        here = at(there.channel)
        assert (await there.app.gate.readers.destination(here)).clearance == CONFIDENTIAL
        await there.robot.joins(there.channel)
        asked = await there.ann.mentions(there.channel, "what now?")
        await there.stage.server.until(lambda: "You said: what now?" in there.thread(asked))
        readers = (await there.stage.adapter.audience(here)).readers
        assert [one.kind for one in readers if one.account.endswith(there.robot.id)] == [ReaderKind.BOT]
        assert (await there.app.gate.readers.destination(here)).clearance == CONFIDENTIAL
        await there.stage.server.user("unnamed", is_bot=True).joins(there.channel)
        await eventually(lambda: _hears(there, PUBLIC))


async def _hears(there: Room, label: Label) -> bool:
    return (await there.app.gate.readers.destination(at(there.channel))).clearance == label


async def test_what_is_said_in_a_channel_is_known_to_a_thread_that_begins_later(tmp_path: Path) -> None:
    async with room(tmp_path, observe=5) as there:
        root = await there.ann.says(there.channel, "the pump leaks")
        await there.ann.says(there.channel, "since noon", thread=root)
        asked = await there.ann.mentions(there.channel, "what leaks?")
        await there.stage.server.until(lambda: "You said: what leaks?" in there.thread(asked))
        await there.ann.mentions(there.channel, "since when?", thread=root)
        await there.stage.server.until(lambda: "You said: since when?" in there.thread(root))
        begun, gone_on = [await there.observed(one) for one in (asked, root)]
        assert ["the pump leaks" in begun, "since noon" in begun] == [True, False]
        assert ["the pump leaks" in gone_on, "since noon" in gone_on] == [True, True]


async def test_what_a_channel_may_not_hear_goes_on_in_the_direct_message(tmp_path: Path) -> None:
    async with room(tmp_path, overshoot="ask", classification="INTERNAL") as there:
        server, direct = there.stage.server, there.ann.dm()
        await there.ann.says(direct, "hello")
        await server.until(lambda: "You said: hello" in there.shown(there.ann))
        asked = await there.ann.mentions(there.channel, '!read_file {"path": "confidential/pipeline.md"}')
        await server.until(lambda: "/continue" in there.shown(there.ann))
        offer = next(message for message in there.channel.messages if message.shown_to == there.ann.id)
        (button, *_) = (each for block in offer.blocks if block["type"] == "actions" for each in block["elements"])
        await there.ann.presses(offer, button["action_id"])
        await server.until(lambda: "Veldhaven" in str([message.text for message in direct.messages]))
        assert "Veldhaven" not in there.thread(asked)
        assert "Veldhaven" not in str([message.text for message in there.channel.messages])
