"""`/taint` tells who reads here now: an admin by name, anyone else by number, and never above the place."""

from pathlib import Path

import pytest

from bot.access import present_readers
from bot.access.authorize import Caller, Ingress
from channels.port import Audience
from policy import explain
from policy.request import Destination, Role
from tests.bot.kit import CONFIDENTIAL, INTERNAL, TOP, document
from tests.bot.rooms import CHANNELS, CHATS, PEOPLE, TEAM, talking, team
from tests.harness import running

pytestmark = pytest.mark.anyio

LOWER = {"team": {**CHATS["team"], "classification": "INTERNAL"}}
HERE = Destination("room:team", "room", INTERNAL, shared=True)


async def test_in_a_private_chat_it_is_one_line(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        told = await owner.say("/taint")
        assert told.splitlines()[-1].strip() == f"You alone read here, cleared for {TOP}."


async def test_in_a_shared_chat_an_admin_reads_names_and_a_member_numbers(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel", "eve", "zoe"), chats=LOWER) as people:
        together = "4 people read here, together cleared for PUBLIC: 2 known, 1 guest, at least 1 unknown."
        await people.say("mel", "hello")
        await people.say("mel", "/taint")
        await people.say("ann", "/taint")
        assert people.rooms.alone("mel")[-1].splitlines()[-1] == together
        assert people.rooms.alone("ann")[-1].splitlines()[-4:] == [
            together,
            "- ann, admin, cleared for CONFIDENTIAL",
            "- eve, guest, cleared for PUBLIC",
            "- mel, member, cleared for INTERNAL",
        ]
        assert together not in str(people.rooms.heard(TEAM))


def said(audience: Audience, *, role: Role = Role.ADMIN) -> tuple[str, ...]:
    known = document(principals=PEOPLE, channels=CHANNELS)
    caller = Caller("ann", role, CONFIDENTIAL, Ingress.COMMAND)
    return present_readers.lines(known, audience, HERE, caller=caller, reader=CONFIDENTIAL)


def test_readers_that_nobody_lists_are_said_to_be_unknown() -> None:
    unknown = "The readers here are not known, so they are cleared for INTERNAL."
    assert said(Audience(frozenset(), complete=False)) == (unknown,)
    assert said(Audience.of("room:mel", complete=False, shared=True)) == (
        "1 person reads here, together cleared for INTERNAL: 1 known.",
        present_readers.UNLISTED,
        "- mel, member, cleared for INTERNAL",
    )


def test_a_clearance_above_the_asker_is_not_told() -> None:
    everybody = Audience.of("console:owner", "room:ann", "room:mel", shared=True)
    assert said(everybody)[1:] == (
        "- ann, admin, cleared for CONFIDENTIAL",
        "- mel, member, cleared for INTERNAL",
        f"- owner, owner, cleared for {explain.ABOVE}",
    )
    assert len(said(everybody, role=Role.APPROVER)) == 1
