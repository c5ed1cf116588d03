"""A shared chat: a principal of its own, that may do no more than whoever asks there, and tells him alone."""

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.app import App, open_app
from bot.config.load import load_config
from bot.endings import DENIED_HERE
from bot.principals import of_chat
from bot.router import NOT_CLASSIFIED, Outcome, Receipt
from bot.sessions.deliveries import DeliveryState
from bot.sessions.events import EventType
from bot.tools import catalogue
from channels.base import Audience
from channels.message import Address, How, Inbound, Outbound, Signal
from policy.labels import parse
from tests.bot.kit import CONFIDENTIAL, bang, eventually, policy
from tests.harness import Person

pytestmark = pytest.mark.anyio

TEAM = Address("town", "square")
THREAD = Address("town", "square", thread="7")
PEOPLE = {
    "owner": {"role": "owner", "clearance": "top", "accounts": ["console:owner"]},
    "ann": {"role": "admin", "clearance": "CONFIDENTIAL", "accounts": ["town:ann"]},
    "mel": {"role": "member", "clearance": "INTERNAL", "accounts": ["town:mel"]},
    "eve": {"role": "guest", "clearance": "PUBLIC", "accounts": ["town:eve"]},
}
CHANNELS = {
    "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    "town": {"classification": "CONFIDENTIAL", "overshoot": "allow"},
}
CHATS = {"square": {"channel": "town", "chat": "square", "classification": "CONFIDENTIAL"}}


@dataclass
class Town:
    """A place with a square where the people named read, and with everybody's own house; it keeps what was said."""

    square: tuple[str, ...] = ("town:ann", "town:mel")
    name: str = "town"
    marks_repeats: bool = False
    previews: bool = False
    said: list[Outbound] = field(default_factory=list[Outbound])

    async def send(self, outbound: Outbound) -> str:
        self.said.append(outbound)
        return ""

    async def preview(self, outbound: Outbound) -> None:
        raise NotImplementedError

    async def signal(self, address: Address, signal: Signal) -> None:
        pass

    async def audience(self, address: Address) -> Audience:
        if address.chat == TEAM.chat:
            return Audience.of(*self.square, shared=True)
        return Audience.of(f"town:{address.chat}")

    def heard(self, address: Address) -> list[str]:
        """Return what was said at an address."""
        return [outbound.text for outbound in self.said if outbound.address == address]


@asynccontextmanager
async def town(folder: Path, square: Town, **sections: object) -> AsyncGenerator[App]:
    """Open an application in a town; its worker does not run."""
    path = folder / "config.yaml"
    path.write_text(policy(**{"principals": PEOPLE, "channels": CHANNELS, "chats": CHATS, **sections}))
    environment = {"LOCKGATE_DATA_DIR": str(folder / "data")}
    settings = await asyncio.to_thread(load_config, path, environment, catalogue.ARGUMENTS)
    async with open_app(settings, [square], {}) as app:
        yield app


@asynccontextmanager
async def busy_town(folder: Path, square: Town, **sections: object) -> AsyncGenerator["Square"]:
    """Open an application in a town, with its worker running."""
    async with town(folder, square, **sections) as app, asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(app.serve())
        yield Square(app, square)
        serving.cancel()


@dataclass
class Square:
    """People who talk at the square."""

    app: App
    town: Town
    spoken: int = 0

    async def say(self, who: str, text: str, address: Address = TEAM, **facts: object) -> Receipt:
        """Say something to the bot and wait until its session rests."""
        self.spoken += 1
        given = {"private": address.chat != TEAM.chat, **facts}
        inbound = Inbound(address, f"town:{who}", text, f"n{self.spoken}", **given)  # pyright: ignore[reportArgumentType] - as given
        receipt = await self.app.router.receive(inbound)
        await Person(self.app, io.StringIO(), address, f"town:{who}").settled()
        return receipt


async def test_what_is_not_meant_for_the_bot_is_nothing_to_it(tmp_path: Path) -> None:
    async with town(tmp_path, Town()) as app:
        receipt = await app.router.receive(Inbound(TEAM, "town:ann", "lunch?", "1", private=False, addressed=False))
        assert receipt.outcome is Outcome.IGNORED
        assert await app.store.state(receipt.sid) is None


async def test_a_chat_is_a_principal_with_its_own_session(tmp_path: Path) -> None:
    async with busy_town(tmp_path, Town(square=("town:ann",))) as square:
        receipt = await square.say("ann", "hello")
        state = await square.app.store.state(receipt.sid)
        assert state is not None
        assert state.principal == of_chat(TEAM) == "chat:town::square:"
        assert state.taint == CONFIDENTIAL
        assert square.town.heard(TEAM) == ["You said: hello"]
        rows = [row async for row in square.app.chains.records(receipt.sid) if row.kind == "decision"]
        assert {row.actor for row in rows} == {"ann"}
        # Nobody finds it among his own.
        await square.say("ann", "/sessions")
        assert receipt.sid not in str(square.town.said)


async def test_threads_are_sessions_of_one_chat(tmp_path: Path) -> None:
    async with busy_town(tmp_path, Town(square=("town:ann",))) as square:
        first, second = await square.say("ann", "one"), await square.say("ann", "two", THREAD)
        assert first.sid != second.sid
        assert square.town.heard(THREAD) == ["You said: two"]


async def test_whoever_asks_there_reads_no_more_than_he_may(tmp_path: Path) -> None:
    async with busy_town(tmp_path, Town(), chats={"square": {**CHATS["square"], "inbound": "PUBLIC"}}) as square:
        receipt = await square.say("mel", bang("read_file", path="confidential/pipeline.md"))
        state = await square.app.store.state(receipt.sid)
        assert state is not None
        assert state.taint.level < CONFIDENTIAL.level
        assert "Veldhaven" not in str(square.town.said)


async def test_an_answer_above_a_reader_is_withheld_and_its_asker_is_told_alone(tmp_path: Path) -> None:
    async with busy_town(tmp_path, Town()) as square:
        await square.say("ann", bang("read_file", path="confidential/pipeline.md"))
        assert square.town.heard(TEAM) == [DENIED_HERE]
        (told,) = square.town.heard(Address("town", "square", recipient="ann"))
        assert "no_write_down" in told
        assert "Veldhaven" not in str(square.town.said)


async def test_what_a_command_tells_goes_to_whoever_typed_it(tmp_path: Path) -> None:
    async with busy_town(tmp_path, Town(square=("town:ann",))) as square:
        await square.say("ann", "hello")
        await square.say("ann", "/taint")
        assert square.town.heard(TEAM) == ["You said: hello"]
        (told,) = square.town.heard(Address("town", "square", recipient="ann"))
        assert "taint CONFIDENTIAL" in told


@pytest.mark.parametrize("who", ["eve", "stranger"])
@pytest.mark.parametrize("text", ["hello", "/status"])
async def test_a_stranger_in_a_shared_chat_learns_nothing_at_all(tmp_path: Path, who: str, text: str) -> None:
    async with busy_town(tmp_path, Town()) as square:
        receipt = await square.say(who, text)
        assert receipt.outcome is Outcome.REFUSED
        assert square.town.said == []
        assert await square.app.store.state(receipt.sid) is None


async def test_a_chat_nobody_classified_is_isolated(tmp_path: Path) -> None:
    async with busy_town(tmp_path, Town(), chats={}) as square:
        receipt = await square.say("ann", "hello")
        assert receipt.outcome is Outcome.ANSWERED
        assert await square.app.store.state(receipt.sid) is None
        assert [said.text for said in square.town.said] == [NOT_CLASSIFIED]
        assert square.town.said[0].address.recipient == "ann"


async def test_what_others_wrote_is_untrusted_whoever_quotes_it(tmp_path: Path) -> None:
    async with busy_town(tmp_path, Town(square=("town:ann",))) as square:
        receipt = await square.say("ann", "look at this", quoted=("do as I say\nnow",))
        state = await square.app.store.state(receipt.sid)
        assert state is not None
        assert state.taint == parse("CONFIDENTIAL~")
        assert "> do as I say\n> now" in square.town.heard(TEAM)[0]
        # What the next turn reads is the log.
        (asked,) = [one for one in await square.app.store.events(receipt.sid) if one.type is EventType.USER_MESSAGE]
        assert "> do as I say\n> now" in str(asked.body["text"])


async def test_a_rule_on_messages_sees_what_is_quoted(tmp_path: Path) -> None:
    rule = {"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "BLOCK"}
    async with busy_town(tmp_path, Town(square=("town:ann",)), rules=[rule]) as square:
        await square.say("ann", "look at this", quoted=("4111 1111 1111 1111",))
        assert square.town.heard(TEAM) == [DENIED_HERE]


async def test_a_button_is_no_more_than_the_command_it_stands_for(tmp_path: Path) -> None:
    async with busy_town(tmp_path, Town()) as square:
        for text in ("/reset confirm", "hello", "/quit"):
            receipt = await square.say("ann", text, how=How.BUTTON)
            assert receipt.outcome is Outcome.IGNORED
        assert (await square.say("mel", "/approve zzzz", how=How.BUTTON)).outcome is Outcome.ANSWERED
        (told,) = square.town.heard(Address("town", "square", recipient="mel"))
        assert told == "there is nothing of that name here"


async def test_a_person_who_is_removed_while_a_turn_waits_gets_nothing_more(tmp_path: Path) -> None:
    people = {name: entry for name, entry in PEOPLE.items() if name != "ann"}
    async with town(tmp_path, Town()) as app:
        await app.router.receive(Inbound(TEAM, "town:ann", "hello", "1", private=False))
    async with busy_town(tmp_path, Town(), principals=people) as square:

        async def told() -> bool:
            found = await square.app.store.deliveries(square.app.session_id(TEAM))
            return bool(found) and all(one.state is not DeliveryState.PENDING for one in found)

        await eventually(told)
        assert "You said" not in str(square.town.said)


async def test_a_child_of_a_shared_chat_may_do_no_more_than_who_asked_for_it(tmp_path: Path) -> None:
    chats = {"square": {**CHATS["square"], "inbound": "PUBLIC"}}
    async with busy_town(tmp_path, Town(), chats=chats) as square:
        await square.say("mel", bang("sessions_spawn", task=bang("read_file", path="confidential/pipeline.md")))

        async def reported() -> bool:
            return len(square.town.heard(TEAM)) > 1

        await eventually(reported)
        assert "Veldhaven" not in str(square.town.said)
