"""Approvals from question to answer: bound, used once, in time, by somebody entitled and cleared; durable."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bot import approvals
from bot.endings import NOBODY_ASKED
from bot.ids import Ids
from bot.sessions.values import Approval, ApprovalState, EventType, Status, YieldReason
from bot.tools.message import Message
from channels.message import Inbound
from policy.decision import Verdict
from policy.document import Document
from policy.labels import PUBLIC
from tests.bot.kit import (
    CONFIDENTIAL,
    DIRTY,
    HOME,
    INTERNAL,
    NOW,
    bang,
    document,
    gate,
    note,
    policy,
    results,
    send,
    standing,
    unanswered,
)
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

READ = bang("read_file", path="public/welcome.md")
BOSS = {"role": "approver", "clearance": "INTERNAL", "accounts": ["console:boss"]}
OWNER = {"role": "owner", "clearance": "top", "accounts": ["console:owner"]}
PEOPLE = {
    "owner": OWNER,
    "boss": BOSS,
    "cleric": {"role": "member", "clearance": "top", "accounts": ["console:cleric"]},
}


def people() -> Document:
    return document(principals=PEOPLE)


def question(label: object = PUBLIC, *rules: str) -> Approval:
    return Approval("a", "s1", 1, "t1", "c1", "message", "b", label, "owner", {}, rules or ("mine",), NOW)  # pyright: ignore[reportArgumentType] - a label


async def pending(person: Person) -> Approval:
    (found,) = [known for known in await person.app.store.approvals(person.sid) if known.state is ApprovalState.PENDING]
    return found


# --- who may answer --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked, who, may",
    [
        pytest.param(question(), "boss", True, id="an approver, a configured rule"),
        pytest.param(question(), "owner", False, id="the asker himself, a configured rule"),
        pytest.param(question(PUBLIC, "untrusted_cannot_command"), "owner", True, id="the asker himself, law 9"),
        pytest.param(question(PUBLIC, "untrusted_cannot_command", "mine"), "owner", False, id="both rules"),
        pytest.param(question(), "cleric", False, id="a role too low"),
        pytest.param(question(CONFIDENTIAL), "boss", False, id="not cleared for the arguments"),
        pytest.param(question(INTERNAL), "boss", True, id="just cleared"),
        pytest.param(question(), "nobody", False, id="a stranger"),
    ],
)
def test_who_may_answer(asked: Approval, who: str, *, may: bool) -> None:
    assert approvals.may_answer(people(), asked, who) is may


def test_nobody_eligible_means_nobody_is_asked() -> None:
    rules = [{"id": "mine", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}]
    asked = gate([], document(rules=rules)).invoke(standing())
    assert not approvals.someone_may_answer(document(principals={}), asked, standing(principal="owner"))


def test_what_is_asked_names_only_the_rules_that_ask() -> None:
    decision = gate([Message()]).prepare(standing(DIRTY), send("x")).decision
    assert decision.verdict is Verdict.REQUIRE_APPROVAL
    assert approvals.asking(decision) == ("untrusted_cannot_command",)


def test_the_binding_does_not_depend_on_the_order_of_arguments() -> None:
    one = send("x")
    other = replace(one, arguments={"text": "x", "recipient": "guest", "channel": "console"})
    assert list(one.arguments or {}) != list(other.arguments or {})
    assert approvals.binding(standing(), one) == approvals.binding(standing(), other)


# --- at work ---------------------------------------------------------------------------------------


async def test_untrusted_cannot_command_until_a_person_lets_it(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        shown = await owner.say(note("guest", "hello"))
        asked = await pending(owner)
        assert '"text": "hello"' in shown
        assert "→ guest" not in shown
        assert (asked.principal, str(asked.label)) == ("owner", "PUBLIC~")
        assert "→ guest: hello" in await owner.say(f"/approve {asked.id}")
        assert not unanswered(await owner.events())


async def test_a_denied_call_is_not_made_and_the_model_is_told(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(note("guest", "hello"))
        shown = await owner.say(f"/deny {(await pending(owner)).id}")
        assert "a person refused this call" in shown
        assert "→ guest" not in owner.shown
        assert results(await owner.events())[-1] == ("message", "denied")


async def test_silence_never_consents(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(note("guest", "hello"))
        asked = await pending(owner)
        await owner.app.store.resolve(owner.sid, asked.id, ApprovalState.EXPIRED, actor="clock", audit=())
        await owner.settled()
        assert "nobody answered in time" in owner.shown
        assert "→ guest" not in owner.shown


async def test_a_suspended_turn_holds_no_lease_and_another_may_claim(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        pass
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(note("guest", "hello"))
        state = await owner.state()
        assert state.status is Status.AWAITING_INPUT
        assert state.turn is not None
        assert state.turn.suspended
        assert await owner.app.store.claim(owner.sid, Ids().owner()) is None  # there is nothing to do
        claim = await owner.app.store.claim(owner.sid, Ids().owner(), idle=True)
        assert claim is not None  # and nobody holds it
        await owner.app.store.release(claim)


async def test_a_message_that_comes_while_people_think_waits_its_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(note("guest", "hello"))
        await owner.say("and this", wait=False)
        await asyncio.sleep(0.2)
        assert (await owner.state()).waiting_items == 1
        await owner.say(f"/approve {(await pending(owner)).id}")
        assert owner.shown.index("→ guest: hello") < owner.shown.index("You said: and this")


async def test_crash_heals_a_question_is_answered_in_another_process(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(f"{note('guest', 'one')}\n{note('guest', 'two')}")
        first, second = await owner.app.store.approvals(owner.sid)
    async with running(tmp_path) as owner:
        await owner.say(f"/approve {first.id}")
    async with running(tmp_path) as owner:
        shown = await owner.say(f"/approve {second.id}")
        assert "→ guest: one" in shown
        assert "→ guest: two" in shown
        assert [outcome for tool, outcome in results(await owner.events()) if tool == "message"] == ["ok", "ok"]
        assert not unanswered(await owner.events())
        kinds = [event.type for event in await owner.events()]
        assert kinds.count(EventType.APPROVAL_RESOLVED) == 2


async def test_a_stop_cancels_the_question_and_ends_the_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(f"{note('guest', 'one')}\n{note('guest', 'two')}")
        asked = await owner.app.store.approvals(owner.sid)
        await owner.say("/stop")
        state = await owner.state()
        assert state.last_turn is not None
        assert (state.status, state.last_turn.reason) == (Status.IDLE, YieldReason.CANCELED)
        assert not unanswered(await owner.events())
        assert "nothing" in await owner.say(f"/approve {asked[0].id}")
        assert "→ guest" not in owner.shown


async def test_a_reset_drops_the_question(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(note("guest", "one"))
        asked = await pending(owner)
        await owner.say("/reset confirm")
        assert "nothing" in await owner.say(f"/approve {asked.id}")
        assert "→ guest" not in owner.shown
        assert (await owner.state()).taint == PUBLIC


# --- configured rules, other people ----------------------------------------------------------------

ANSWERS = {"id": "boss-reads", "hook": "PRE_OUTPUT", "action": "REQUIRE_APPROVAL", "message": "the boss reads answers"}


def boss(owner: Person) -> Person:
    """Return the boss at the owner's keyboard: the same place, another account."""
    return Person(owner.app, owner.output, HOME, "console:boss")


async def test_an_answer_that_a_rule_holds_back_is_said_once_another_person_allows_it(tmp_path: Path) -> None:
    config = policy(principals={"owner": OWNER, "boss": BOSS}, rules=[{**ANSWERS, "channels": ["console"]}])
    async with running(tmp_path, config) as owner:
        told = await owner.say("hello")
        assert "held back by `boss-reads`" in told
        assert "You said" not in told
        assert "You said" not in await owner.say("/approvals")
        assert "You said: hello" in await boss(owner).say("/approvals")
        asked = await pending(owner)
        assert (asked.tool, asked.rules) == ("answer", ("boss-reads",))
        assert (await owner.state()).status is Status.AWAITING_INPUT
        assert "somebody else has to answer" in await owner.say(f"/approve {asked.id}")
        assert "You said: hello" in await boss(owner).say(f"/approve {asked.id}")
        state = await owner.state()
        assert (state.status, state.last_turn and state.last_turn.reason) == (Status.IDLE, YieldReason.COMPLETED)
        (known,) = await owner.app.store.approvals(owner.sid)
        assert known.state is ApprovalState.USED
        said = [event for event in await owner.events() if event.type is EventType.AGENT_MESSAGE]
        assert len(said) == 1


async def test_an_answer_that_is_refused_is_not_said(tmp_path: Path) -> None:
    config = policy(principals={"owner": OWNER, "boss": BOSS}, rules=[ANSWERS])
    async with running(tmp_path, config) as owner:
        await owner.say("hello")
        shown = await boss(owner).say(f"/deny {(await pending(owner)).id}")
        assert "You said" not in shown
        assert "boss-reads" in shown
        assert (await owner.state()).status is Status.IDLE


async def test_an_answer_nobody_may_approve_is_blocked(tmp_path: Path) -> None:
    async with running(tmp_path, policy(rules=[ANSWERS])) as owner:
        shown = await owner.say("hello")
        assert "You said" not in shown
        assert "boss-reads" in shown
        assert not await owner.app.store.approvals(owner.sid)


async def test_an_answer_waits_through_a_restart(tmp_path: Path) -> None:
    config = policy(principals={"owner": OWNER, "boss": BOSS}, rules=[ANSWERS])
    async with running(tmp_path, config) as owner:
        await owner.say("hello")
        asked = await pending(owner)
    async with running(tmp_path, config) as owner:
        assert owner.shown.count("You said: hello") == 0
        await boss(owner).say(f"/approve {asked.id}")
        assert owner.shown.count("You said: hello") == 1


async def test_a_question_that_may_not_be_said_here_is_not_asked(tmp_path: Path) -> None:
    hide = {"id": "hide", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "BLOCK"}
    ask = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["write_file"], "action": "REQUIRE_APPROVAL"}
    config = policy(principals={"owner": OWNER, "boss": BOSS}, rules=[hide, ask])
    async with running(tmp_path, config) as owner:
        shown = await owner.say(bang("write_file", path="workspace/x", text="4111 1111 1111 1111"))
        assert NOBODY_ASKED in shown
        assert "4111" not in shown
        assert not unanswered(await owner.events())
        assert not await owner.app.store.approvals(owner.sid)


async def test_a_call_that_a_rule_asks_for_is_made_once_another_person_allows_it(tmp_path: Path) -> None:
    ask = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    config = policy(principals={"owner": OWNER, "boss": BOSS}, rules=[ask])
    async with running(tmp_path, config) as owner:
        await owner.say(bang("current_time"))
        asked = await pending(owner)
        receipt = await owner.app.router.receive(Inbound(HOME, "console:mallory", f"/approve {asked.id}", "m1"))
        assert receipt.outcome == "refused"
        assert (await pending(owner)).id == asked.id
        await boss(owner).say(f"/approve {asked.id}")
        assert results(await owner.events()) == [("current_time", "ok")]
