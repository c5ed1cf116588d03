"""The operators' chat: calls that another person has to approve are asked about there, if its readers are cleared."""

import re
from pathlib import Path

import pytest

from bot.delivery.approval_prompts import IN_OPERATORS_CHAT
from channels.messages import Address, How
from policy.document.model import load
from policy.errors import DocumentError
from tests.bot.kit import bang
from tests.bot.rooms import PEOPLE, People, Rooms, talking
from tests.people import principal

pytestmark = pytest.mark.anyio

OPS = Address("room", "ops")
ANN = Address("room", "ann")
MEL = Address("room", "mel")
CLOCK = bang("current_time")
ASK = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
EVERYBODY = {**PEOPLE, "moe": principal("room:moe", role="member", clearance="CONFIDENTIAL")}


def chats(**ops: object) -> dict[str, object]:
    there = {"channel": "room", "chat": "ops", "classification": "CONFIDENTIAL", "approvals": True}
    team = {"channel": "room", "chat": "team", "classification": "INTERNAL", "inbound": "PUBLIC"}
    return {"team": team, "ops": {**there, **ops}}


def rooms(*operators: str, complete: bool = True) -> Rooms:
    there = {"team": frozenset({"room:mel"}), "ops": frozenset(f"room:{one}" for one in operators)}
    return Rooms(there, complete=complete)


async def asked(people: People, address: Address = MEL) -> str:
    """Have a call asked about; return its id."""
    await people.say("mel", CLOCK, address)
    sid = people.app.session_id(address)
    (approval,) = await people.app.store.approvals.of(sid)
    return approval.id


async def test_a_question_goes_there_and_is_answered_there_by_who_may(tmp_path: Path) -> None:
    async with talking(tmp_path, rooms("ann", "moe"), principals=EVERYBODY, chats=chats(), rules=[ASK]) as people:
        name = await asked(people)
        (told,) = people.rooms.heard(OPS)
        assert "May `current_time` run" in told
        assert IN_OPERATORS_CHAT not in told
        # Where it was asked, people are told where it waits; nobody is asked in private beside.
        assert people.rooms.heard(MEL)[-1].endswith(
            f"Another person than `mel` has to answer: an owner, an admin or an approver.\n{IN_OPERATORS_CHAT}"
        )
        assert people.rooms.heard(ANN) == []
        (question,) = [one for one in people.rooms.sent if one.address == OPS]
        assert [button.command for button in question.buttons] == [f"/approve {name}", f"/deny {name}"]
        # A reader who may not answer is answered as if there were no such question.
        await people.say("moe", f"/approve {name}", OPS, how=How.BUTTON)
        assert "There is nothing of that name here" in people.rooms.heard(Address("room", "ops", recipient="moe"))[-1]
        await people.say("ann", f"/approve {name}", OPS, how=How.BUTTON)
        await people.settled(MEL)
        assert f"{name} approved" in people.rooms.heard(Address("room", "ops", recipient="ann"))[-1]
        assert "current_time: " in people.rooms.heard(MEL)[-1]


@pytest.mark.parametrize(
    "there, operators, why",
    [
        ({"classification": "PUBLIC"}, ("ann",), "the chat is below the question"),
        ({}, ("ann", "eve"), "a reader is below it"),
        ({"blocked": True}, ("ann",), "it is blocked"),
        ({"approvals": False}, ("ann",), "no chat is named"),
        ({}, ("moe",), "nobody there may answer"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else None,
)
async def test_otherwise_it_goes_to_private_chats_as_before(
    tmp_path: Path, there: dict[str, object], operators: tuple[str, ...], why: str
) -> None:
    async with talking(tmp_path, rooms(*operators), principals=EVERYBODY, chats=chats(**there), rules=[ASK]) as people:
        await people.say("mel", "hello", MEL)
        await people.say("mel", "/taint raise INTERNAL", MEL)
        await asked(people)
        assert people.rooms.heard(OPS) == [], why
        assert IN_OPERATORS_CHAT not in "\n".join(people.rooms.said)
        assert re.search("May `current_time` run", people.rooms.heard(ANN)[-1])


@pytest.mark.parametrize("operators, private", [(("moe",), 1), (("moe", "ann"), 0)])
async def test_unlisted_readers_do_not_keep_it_from_people_who_may_answer(
    tmp_path: Path, operators: tuple[str, ...], private: int
) -> None:
    there = rooms(*operators, complete=False)
    async with talking(tmp_path, there, principals=EVERYBODY, chats=chats(), rules=[ASK]) as people:
        await asked(people)
        assert len(people.rooms.heard(OPS)) == 1
        assert len(people.rooms.heard(ANN)) == private


async def test_a_question_of_that_chat_itself_is_not_repeated_there(tmp_path: Path) -> None:
    async with talking(
        tmp_path,
        rooms("ann", "mel"),
        principals=EVERYBODY,
        chats=chats(inbound="PUBLIC", classification="INTERNAL"),
        rules=[ASK],
    ) as people:
        await asked(people, OPS)
        assert len(people.rooms.heard(OPS)) == 1


async def test_what_the_asker_may_approve_stays_with_them(tmp_path: Path) -> None:
    """Laws `untrusted_cannot_command` and `others_cannot_command` ask the asker."""
    async with talking(tmp_path, rooms("ann"), principals=EVERYBODY, chats=chats()) as people:
        await people.say("mel", "hello", MEL)
        await people.say("mel", "/taint raise PUBLIC~", MEL)
        await people.say("mel", bang("write_file", path="public/note.md", text="mine"), MEL)
        assert "May `write_file` run" in people.rooms.heard(MEL)[-1]
        assert people.rooms.heard(OPS) == []


def test_two_operators_chats_are_an_error() -> None:
    here = {"channel": "console", "classification": "PUBLIC", "approvals": True}
    raw = {"chats": {"a": {**here, "chat": "x"}, "b": {**here, "chat": "y"}}}
    with pytest.raises(DocumentError, match="`a` and `b` both have `approvals: true`, keep it at one of them"):
        load(raw, tools=())
