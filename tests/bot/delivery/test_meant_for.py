"""What is for one person alone is not said where somebody else is spoken to by now."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.access import principals
from bot.delivery.outbox import NOT_THEIRS
from bot.gate.results import NOT_KNOWN
from bot.sessions.deliveries import DeliveryState
from channels.messages import Address, Outbound
from tests.bot.board import Board
from tests.bot.kit import bang, document, eventually, policy, standing
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


async def at_the_desk(owner: Person) -> set[str]:
    """Return what became of all that any session said there."""
    sids = [state.sid async for state in owner.app.store.sessions.states()]
    found = [one for sid in sids for one in await owner.app.store.outbox.deliveries(sid)]
    return {one.state for one in found if one.address == str(DESK)}


async def became(owner: Person, *states: str) -> None:
    """Wait until that became of all that was said there."""

    async def done() -> bool:
        return await at_the_desk(owner) == set(states)

    await eventually(done)


@pytest.mark.parametrize("now, state", [("ann", "sent"), ("ben", "failed"), ("nobody", "sent")])
async def test_a_late_answer_is_for_whom_the_session_is(tmp_path: Path, now: str, state: str) -> None:
    board = Board()
    async with running(tmp_path, sits_at_the_desk("ann"), channels=[board], serve=False) as owner:
        ann = Person(owner.app, owner.output, DESK, "board:desk")
        await ann.send("what do you think?")
    async with running(tmp_path, sits_at_the_desk(now), channels=[board]) as owner:
        await became(owner, state)
        assert len(board.at("desk")) == (state == "sent")
        if now == "nobody":
            # At the account that asked, and nothing else.
            assert [shown.text for shown in board.at("desk")] == [NOT_KNOWN]
        if state == "failed":
            # A dead letter, with its reason.
            assert [letter.state for _, letter in await owner.app.store.outbox.dead()] == [DeliveryState.FAILED]
            reasons = [row.body.get("reason") for row in await owner.app.store.audit.records(ann.sid)]
            assert NOT_THEIRS in reasons


@pytest.mark.parametrize("now, state", [("ann", "sent"), ("ben", "failed")])
@pytest.mark.parametrize(
    "said",
    [
        bang("message", channel="board", recipient="desk", text="x"),
        bang("current_time"),
        bang("sessions_spawn", task="look", deliver_to="desk"),
    ],
    ids=["a message", "a question", "a result"],
)
async def test_what_another_session_tells_somebody_is_for_who_that_was(
    tmp_path: Path, said: str, now: str, state: str
) -> None:
    async with running(tmp_path, sits_at_the_desk("ann")) as owner:
        await owner.say(said)
        await became(owner, "pending")
    async with running(tmp_path, sits_at_the_desk(now), channels=[Board()]) as owner:
        await became(owner, state)


async def test_a_question_that_is_anothers_to_read_by_now_is_not_edited(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, sits_at_the_desk("ann"), channels=[board]) as owner:
        await owner.say(bang("current_time"))
        await became(owner, "sent")
    async with running(tmp_path, sits_at_the_desk("ben"), channels=[board]) as owner:
        await owner.say("/stop", wait=False)
        await became(owner, "sent", "cancelled")
    (left,) = board.at("desk")
    assert left.buttons


@dataclass
class Slate(Board):
    """A board that shows what is still being written."""

    previews: bool = True
    drafts: list[str] = field(default_factory=list[str])

    async def preview(self, outbound: Outbound) -> None:
        self.drafts.append(outbound.text)


@pytest.mark.parametrize("now", ["ann", "ben"])
async def test_what_is_still_being_written_is_shown_to_nobody_else(tmp_path: Path, now: str) -> None:
    slate = Slate()
    async with running(tmp_path, sits_at_the_desk(now), channels=[slate], serve=False) as owner:
        there = await owner.app.gate.readers.destination(DESK)
        late = standing(principal="ann", asker="ann", home=DESK, destination=there)
        await owner.app.outbox.preview(late, "k").show("so far")
    assert slate.drafts == (["so far"] if now == "ann" else [])


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
    # Who is not known any more is told so at his own account, and nobody who has that by now.
    assert not principals.is_anothers(known, team, "zoe", ours=True)
    assert principals.is_anothers(known, DESK, "zoe", ours=True)
