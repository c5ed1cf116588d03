"""What the owner alone can mend: they are told in private which and what to do, and a chat reads one sentence."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from bot.agent.models import UNUSABLE
from channels.messages import Address, Outbound
from channels.port import Audience, GoneError
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, INTERNAL, Scripted, eventually, parts, policy
from tests.bot.rooms import CHANNELS, CHATS, PEOPLE, TEAM, Rooms
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

OLGA = Address("room", "olga")
ADA = Address("room", "ada")
HOLDERS = {
    **PEOPLE,
    "owner": principal("console:owner", "room:olga"),
    "ada": principal("room:ada", role="admin", clearance="CONFIDENTIAL"),
}
KEY = "model `offline`: it does not accept the key (status 401); put a valid key into the environment"


def config(principals: object = HOLDERS, shared: Sequence[str] = (), **room: str) -> str:
    channels = {**CHANNELS, "room": {**CHANNELS["room"], **room}}
    chats = {name: {**CHATS["team"], "chat": name, "inbound": "PUBLIC"} for name in ("team", *shared)}
    return policy(
        principals=principals, channels=channels, chats=chats, recipients={}, models={"offline": {"clearance": "top"}}
    )


def failing(status: int = 401) -> Scripted:
    return Scripted(ModelHTTPError(status, "m", "hunter2"))


def at(person: Person, address: Address, account: str) -> Person:
    return Person(person.app, person.output, address, account)


async def told(rooms: Rooms, where: Address = OLGA, count: int = 1) -> list[str]:
    """Return what was said somewhere, once so much was, and what soon follows."""

    async def heard() -> bool:
        return len(rooms.heard(where)) >= count

    await eventually(heard)
    await asyncio.sleep(1.2)
    return rooms.heard(where)


def fails(subject: str, label: Label | None) -> None:
    facts = {"subject": subject, "cause": "it does not accept the key", "step": "mend it", "label": label}
    logging.getLogger("bot.agent.models").warning("x", extra={**facts, "alert": True})


async def test_the_owner_is_told_in_private_and_the_chat_reads_one_sentence(tmp_path: Path) -> None:
    rooms = Rooms({"team": frozenset({"room:mel", "room:ann"})})
    async with running(tmp_path, config(), parts=parts(model=failing()), channels=[rooms]) as owner:
        mel = at(owner, TEAM, "room:mel")
        for _ in range(2):
            await mel.send("hello", private=False)
            await mel.settled()
        assert await told(rooms) == [KEY]
    assert rooms.heard(TEAM) == [UNUSABLE, UNUSABLE]
    assert not rooms.heard(ADA)
    assert "hunter2" not in str(rooms.said)


async def test_one_who_administers_is_told_by_their_own_turn(tmp_path: Path) -> None:
    rooms = Rooms()
    async with running(tmp_path, config(), parts=parts(model=failing()), channels=[rooms]) as owner:
        assert f"{UNUSABLE}\n  {KEY}" in await owner.say("hello")
        await at(owner, ADA, "room:ada").say("hello")
        await at(owner, Address("room", "mel"), "room:mel").say("hello")
    assert rooms.heard(ADA) == [f"{UNUSABLE}\n{KEY}"]
    assert rooms.heard(Address("room", "mel")) == [UNUSABLE]


async def test_where_the_configuration_may_not_be_known_nothing_of_it_is_told(tmp_path: Path) -> None:
    rooms = Rooms()
    async with running(
        tmp_path, config(classification="PUBLIC"), parts=parts(model=failing()), channels=[rooms]
    ) as owner:
        await at(owner, OLGA, "room:olga").say("hello")
        await asyncio.sleep(1.5)
    assert rooms.heard(OLGA) == [UNUSABLE]


@pytest.mark.parametrize("status", [429, 503])
async def test_what_may_pass_is_no_alert_and_says_try_again(tmp_path: Path, status: int) -> None:
    rooms = Rooms()
    # The pauses between attempts would take their time.
    blocks = config()[:-1] + ', "model": {"retries": 0}}'
    async with running(tmp_path, blocks, parts=parts(model=failing(status)), channels=[rooms]) as owner:
        said = await owner.say("hello")
        await asyncio.sleep(1.5)
    assert f"answered with status {status}; try again" in said
    assert not rooms.said


async def test_each_thing_is_told_once_an_hour_and_each_level_by_itself(tmp_path: Path) -> None:
    """What a session above met with takes nothing away from what is told of one below, or the other way round."""
    rooms = Rooms()
    async with running(tmp_path, config(classification="INTERNAL"), channels=[rooms]) as owner:
        fails("one", CONFIDENTIAL)
        await asyncio.sleep(1.5)
        assert not rooms.said
        fails("one", PUBLIC)
        fails("two", INTERNAL)
        await told(rooms, count=2)
        fails("one", PUBLIC)
        fails("one", None)
        await asyncio.sleep(1.5)
        assert owner.app.failures.newest()
    assert sorted(rooms.heard(OLGA)) == [f"{one}: it does not accept the key; mend it" for one in ("one", "two")]


async def test_what_was_told_above_is_told_below_as_well(tmp_path: Path) -> None:
    """So that what is told of a session below depends on no session above."""
    rooms = Rooms()
    async with running(tmp_path, config(), channels=[rooms]):
        fails("one", CONFIDENTIAL)
        assert len(await told(rooms)) == 1
        fails("one", PUBLIC)
        assert len(await told(rooms, count=2)) == 2
        fails("one", PUBLIC)
        fails("one", CONFIDENTIAL)
        await asyncio.sleep(1.5)
    assert len(rooms.heard(OLGA)) == 2


async def test_who_could_not_be_told_is_told_the_next_time(tmp_path: Path) -> None:
    class Deaf(Rooms):
        """A channel that takes nothing at first."""

        async def send(self, outbound: Outbound) -> str:
            if not self.signals:
                self.signals.append((outbound.address, next(iter(()), None)))  # pyright: ignore[reportArgumentType]
                raise GoneError("the bot was blocked")
            return await super().send(outbound)

    rooms = Deaf()
    async with running(tmp_path, config(), channels=[rooms]) as owner:
        fails("one", PUBLIC)

        async def refused() -> bool:
            return bool(rooms.signals)

        await eventually(refused)
        await asyncio.sleep(0.2)
        assert not rooms.said
        # Where the bot was blocked nothing is tried for an hour, unless something is taken in from there.
        await at(owner, OLGA, "room:olga").send("/help")

        async def answered() -> bool:
            return bool(rooms.heard(OLGA))

        await eventually(answered)
        rooms.sent.clear()
        fails("one", PUBLIC)
        assert await told(rooms) == ["one: it does not accept the key; mend it"]


async def test_a_shared_chat_is_nobodys_private_one(tmp_path: Path) -> None:
    rooms = Rooms({"olga": frozenset({"room:olga", "room:mel"})})
    text = config(shared=["olga"])
    async with running(tmp_path, text, parts=parts(model=failing()), channels=[rooms]) as owner:
        await at(owner, OLGA, "room:olga").say("hello")
        await asyncio.sleep(1.5)
    assert rooms.heard(OLGA) == [UNUSABLE]


async def test_where_it_is_not_known_who_reads_the_owner_is_not_told(tmp_path: Path) -> None:
    """What the policy lets be told there is decided against who reads there now."""

    class Unknown(Rooms):
        async def audience(self, address: Address) -> Audience:
            return replace(await super().audience(address), complete=False)

    rooms = Unknown()
    async with running(tmp_path, config(), channels=[rooms]):
        fails("one", PUBLIC)
        await asyncio.sleep(1.5)
    assert not rooms.said
