"""Who joins a chat that an admin vouched for: somebody not cleared takes the vouching away."""

from pathlib import Path

import pytest

from bot.app.opening import open_app
from channels.messages import Address, Membership, Moved
from tests.bot.kit import INTERNAL, policy
from tests.bot.rooms import Rooms
from tests.harness import running
from tests.people import principal

pytestmark = pytest.mark.anyio

CREW = Address("room", "crew")
PEOPLE = {
    "owner": principal("console:owner"),
    "ben": principal("room:ben", role="member", clearance="CONFIDENTIAL"),
}
CHANNELS = {"console": {"classification": "top"}, "room": {"classification": "CONFIDENTIAL"}}
VOUCHED = {"channel": "room", "chat": "crew", "classification": "INTERNAL", "members_vouched": True}


@pytest.mark.parametrize(
    "account, joined, stays",
    [
        pytest.param("room:ben", True, True, id="somebody cleared joins"),
        pytest.param("room:eve", True, False, id="somebody unknown joins"),
        pytest.param("room:eve", False, True, id="somebody leaves"),
    ],
)
async def test_an_uncleared_join_drops_what_was_vouched_for(
    tmp_path: Path, account: str, *, joined: bool, stays: bool
) -> None:
    config = policy(principals=PEOPLE, channels=CHANNELS, chats={"crew": VOUCHED})
    # The platform lists nobody but ben and does not know of all.
    rooms = Rooms({"crew": frozenset({"room:ben"})}, complete=False)
    async with running(tmp_path, config, serve=False, channels=[rooms]) as owner:
        assert (await owner.app.gate.readers.destination(CREW)).clearance == INTERNAL
        await owner.app.receive(Membership(CREW, account, joined, "m1"))
        assert (await owner.app.gate.readers.destination(CREW)).clearance == (INTERNAL if stays else None)
        rows = [row async for row in owner.app.chains.records("audit") if row.kind == "classify"]
        assert [row.body["joined"] for row in rows] == ([] if stays else [account])


async def test_a_join_that_two_processes_hear_is_audited_and_told_once(tmp_path: Path) -> None:
    people = {**PEOPLE, "ann": principal("room:ann", role="admin", clearance="CONFIDENTIAL")}
    config = policy(principals=people, channels=CHANNELS, chats={"crew": VOUCHED})
    rooms = Rooms({"crew": frozenset({"room:ben"})}, complete=False)
    async with running(tmp_path, config, serve=False, channels=[rooms]) as owner:
        async with open_app(owner.app.config, [rooms], {}) as other:
            for app in (owner.app, other):
                await app.receive(Membership(CREW, "room:eve", joined=True, dedupe="m1"))
                await app.receive(Moved(CREW, Address("room", "crew-2"), "m2"))
        rows = [row.kind async for row in owner.app.chains.records("audit")]
        assert (rows.count("classify"), rows.count("moved")) == (1, 1)
        assert sum("vouches for the members" in said for said in rooms.said) == 1


async def test_a_chat_nobody_vouched_for_stays_as_it_is(tmp_path: Path) -> None:
    plain = {name: value for name, value in VOUCHED.items() if name != "members_vouched"}
    config = policy(principals=PEOPLE, channels=CHANNELS, chats={"crew": plain})
    async with running(tmp_path, config, serve=False, channels=[Rooms()]) as owner:
        await owner.app.receive(Membership(CREW, "room:eve", joined=True, dedupe="m1"))
        assert [row async for row in owner.app.chains.records("audit") if row.kind == "classify"] == []


async def test_a_chat_with_another_id_is_another_chat(tmp_path: Path) -> None:
    config = policy(principals=PEOPLE, channels=CHANNELS, chats={"crew": VOUCHED})
    moved = Address("room", "crew-2")
    rooms = Rooms({"crew-2": frozenset({"room:ben"})})
    async with running(tmp_path, config, serve=False, channels=[rooms]) as owner:
        await owner.app.receive(Moved(CREW, moved, "m1"))
        assert (await owner.app.gate.readers.destination(moved)).clearance is None
        (row,) = [row async for row in owner.app.chains.records("audit") if row.kind == "moved"]
        assert row.body == {"from": str(CREW), "to": str(moved)}
