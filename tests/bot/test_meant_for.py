"""What is for one person alone is not said where somebody else is spoken to by now."""

from pathlib import Path

import pytest

from bot import principals
from bot.outbox import NOT_THEIRS
from bot.sessions.deliveries import DeliveryState
from channels.message import Address
from tests.bot.board import Board
from tests.bot.kit import bang, document, eventually, policy
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

DESK = Address("board", "desk")
CHANNELS = {"board": {"classification": "CONFIDENTIAL", "overshoot": "allow"}, "console": {"classification": "top"}}


def person(role: str, *accounts: str) -> dict[str, object]:
    return {"role": role, "clearance": "CONFIDENTIAL", "accounts": list(accounts)}


def sits_at_the_desk(name: str) -> str:
    """Return a policy by which somebody has the desk's account, and ann another one besides."""
    ann = ("board:ann", *(("board:desk",) if name == "ann" else ()))
    people = {"owner": person("owner", "console:owner"), "ann": person("approver", *ann)}
    if name not in {"ann", "nobody"}:
        people[name] = person("approver", "board:desk")
    if name == "nobody":
        del people["ann"]
    recipients = {"desk": {"channel": "board", "chat": "desk", "clearance": "CONFIDENTIAL"}}
    rule = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    return policy(principals=people, channels=CHANNELS, recipients=recipients, rules=[rule])


async def became(owner: Person, sid: str, state: DeliveryState) -> None:
    """Wait until all that a session said, at the least one thing, is that."""

    async def done() -> bool:
        found = await owner.app.store.deliveries(sid)
        return bool(found) and {one.state for one in found if one.address == str(DESK)} == {state}

    await eventually(done)


@pytest.mark.parametrize("now, state", [("ann", "sent"), ("ben", "failed"), ("nobody", "failed")])
async def test_a_late_answer_is_for_whom_the_session_is(tmp_path: Path, now: str, state: str) -> None:
    board = Board()
    board.previews = True
    async with running(tmp_path, sits_at_the_desk("ann"), channels=[board], serve=False) as owner:
        ann = Person(owner.app, owner.output, DESK, "board:desk")
        await ann.send("what do you think?")
    async with running(tmp_path, sits_at_the_desk(now), channels=[board]) as owner:
        await became(owner, ann.sid, DeliveryState(state))
        assert len(board.at("desk")) == (now == "ann")
        if now != "ann":
            # A dead letter, with its reason.
            assert [letter.state for _, letter in await owner.app.store.dead()] == [DeliveryState.FAILED]
            reasons = [row.body.get("reason") for row in await owner.app.store.records(ann.sid)]
            assert NOT_THEIRS in reasons


@pytest.mark.parametrize("now, state", [("ann", "sent"), ("ben", "failed")])
@pytest.mark.parametrize("said", [bang("message", channel="board", recipient="desk", text="x"), bang("current_time")])
async def test_what_another_session_tells_somebody_is_for_who_that_was(
    tmp_path: Path, said: str, now: str, state: str
) -> None:
    """A message, and a question to who may answer it."""
    async with running(tmp_path, sits_at_the_desk("ann")) as owner:
        await owner.say(said)
        assert "pending" in {one.state for one in await owner.app.store.deliveries(owner.sid)}
    async with running(tmp_path, sits_at_the_desk(now), channels=[Board()]) as owner:
        await became(owner, owner.sid, DeliveryState(state))


def test_whose_an_address_is() -> None:
    people = {"ann": person("owner", "board:T1:7", "board:desk"), "ben": person("member", "board:2")}
    known = document(principals=people, channels=CHANNELS, recipients={})
    thread = Address("board", "7", "T1", "99")
    team = Address("board", "team")
    assert [principals.owner(known, one) for one in (DESK, thread, team)] == ["ann", "ann", ""]
    assert principals.owner(known, Address("board", "team", recipient="2")) == "ben"
    assert principals.meant_for("ann", "ann", DESK, DESK) == "ann"
    assert principals.meant_for("ann", "ann", DESK, team) == ""
    chat = principals.of_chat(team)
    assert principals.meant_for(chat, "ben", team, team) == ""
    assert principals.meant_for(chat, "ben", team, Address("board", "team", recipient="2")) == "ben"
    session = Address("session", "s1", "ann", "run")
    assert principals.meant_for("ann", "ann", session, session) == ""
    assert not principals.is_anothers(known, DESK, "")
    assert not principals.is_anothers(known, DESK, "ann")
    assert principals.is_anothers(known, DESK, "ben")
    # Nobody known is there: whom it is for may still be, by another account.
    assert [principals.is_anothers(known, team, name) for name in ("ann", "zoe")] == [False, True]
