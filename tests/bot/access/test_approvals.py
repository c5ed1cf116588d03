"""Approvals from question to answer: bound, used once, in time, by somebody entitled and cleared; durable."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bot.access import approvals
from bot.access.approvals import DENIED
from bot.agent.calls import MOST_ASKED, NOT_ASKED
from bot.agent.loop import TOO_MANY_REFUSALS
from bot.core.ids import Ids
from bot.sessions.approvals import FOR_EVER, Approval, ApprovalQuestion, ApprovalState
from bot.sessions.log.event_types import PolicyDecision, ToolResult, YieldReason
from bot.sessions.log.events import EventType
from bot.sessions.models import Status
from bot.tools.message import Message
from channels.messages import Address, Inbound
from policy.decision import Verdict
from policy.document.model import Document
from policy.labels import PUBLIC, Label
from policy.request import Role
from tests.bot.kit import (
    CONFIDENTIAL,
    DIRTY,
    HOME,
    INTERNAL,
    NOW,
    Scripted,
    bang,
    document,
    gate,
    note,
    parts,
    policy,
    proposed,
    results,
    send,
    standing,
    unanswered,
)
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

READ = bang("read_file", path="public/welcome.md")
BOSS = principal("console:boss", role="approver", clearance="INTERNAL")
OWNER = principal("console:owner")
PEOPLE = {
    "owner": OWNER,
    "boss": BOSS,
    "cleric": principal("console:cleric", role="member"),
}


LAW_9 = ("untrusted_cannot_command",)
RULE = {"hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}


def people() -> Document:
    """Return a policy with two rules that ask: `mine` whoever may approve, `admins` admins alone, for a minute."""
    rules = [
        {"id": "mine", **RULE},
        {"id": "admins", **RULE, "approvers": ["admin"], "timeout": "1m"},
    ]
    admin = principal("console:admin", role="admin")
    return document(principals={**PEOPLE, "admin": admin}, rules=rules)


def question(label: Label = PUBLIC, *rules: str) -> Approval:
    asks = ApprovalQuestion("message", {})
    return Approval("a", "s1", 1, "t1", "c1", "message", "b", label, "owner", asks, rules or ("mine",), NOW)


async def pending(person: Person) -> Approval:
    (found,) = [
        known for known in await person.app.store.approvals.of(person.sid) if known.state is ApprovalState.PENDING
    ]
    return found


# --- who may answer --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked, who, may",
    [
        pytest.param(question(), "boss", True, id="an approver, a configured rule"),
        pytest.param(question(), "owner", False, id="the asker himself, a configured rule"),
        pytest.param(
            question(PUBLIC, "untrusted_cannot_command"), "owner", True, id="the asker, untrusted_cannot_command"
        ),
        pytest.param(question(PUBLIC, "untrusted_cannot_command", "mine"), "owner", False, id="both rules"),
        pytest.param(question(), "cleric", False, id="a role too low"),
        pytest.param(question(CONFIDENTIAL), "boss", False, id="not cleared for the arguments"),
        pytest.param(question(INTERNAL), "boss", True, id="just cleared"),
        pytest.param(question(), "nobody", False, id="a stranger"),
        pytest.param(question(PUBLIC, "admins"), "admin", True, id="a role that the rule names"),
        pytest.param(question(PUBLIC, "admins"), "boss", False, id="a role that the rule does not name"),
        pytest.param(question(PUBLIC, "mine", "admins"), "boss", False, id="one of two rules"),
        pytest.param(question(PUBLIC, "mine", "admins"), "admin", True, id="both of two rules"),
        pytest.param(question(PUBLIC, "gone"), "admin", False, id="a rule that is not in force"),
        pytest.param(replace(question(), rules=()), "admin", False, id="no rule at all"),
        pytest.param(replace(question(PUBLIC, *LAW_9), alone=True), "owner", True, id="the asker, asked alone"),
        pytest.param(replace(question(PUBLIC, *LAW_9), alone=True), "boss", False, id="another, who is not asked"),
    ],
)
def test_who_may_answer(asked: Approval, who: str, *, may: bool) -> None:
    assert approvals.may_answer(people(), asked, who) is may


def with_program(role: Role) -> Document:
    """Return those people and a program with a token, in a role."""
    known = people()
    program = known.principals["admin"].model_copy(update={"role": role, "accounts": ("api:nightly",)})
    return known.model_copy(update={"principals": {**known.principals, "program:nightly": program}})


@pytest.mark.parametrize(
    "rules, role, may",
    [
        pytest.param(LAW_9, Role.MEMBER, False, id="a program consents to nothing for itself"),
        pytest.param(LAW_9, Role.APPROVER, False, id="also one that may approve for others"),
        pytest.param(LAW_9, Role.ADMIN, True, id="but an admin's"),
        pytest.param(("mine",), Role.ADMIN, False, id="which needs another for a configured rule"),
    ],
)
def test_a_program_consents_for_itself_by_an_admin_s_token_alone(
    rules: tuple[str, ...], role: Role, *, may: bool
) -> None:
    asked = replace(question(PUBLIC, *rules), principal="program:nightly")
    assert approvals.may_answer(with_program(role), asked, "program:nightly") is may
    assert approvals.may_answer(with_program(role), asked, "boss")


def test_what_a_program_alone_could_consent_to_is_refused_at_once() -> None:
    asks = gate([Message()]).calls.prepare(standing(DIRTY), send("x")).decision
    nightly = standing(DIRTY, principal="program:nightly", asker="program:nightly")
    alone = {"program:nightly": with_program(Role.MEMBER).principals["program:nightly"]}
    assert not approvals.someone_may_answer(people().model_copy(update={"principals": alone}), asks, nightly)
    assert approvals.someone_may_answer(with_program(Role.MEMBER), asks, nightly)
    put = approvals.put_to(with_program(Role.MEMBER), asks, nightly)
    assert put.approvers == (Role.OWNER, Role.ADMIN, Role.APPROVER)


def test_a_question_stands_as_long_as_the_shortest_rule_says() -> None:
    assert approvals.until(people(), ("mine", "untrusted_cannot_command"), 5, 600_000) == 600_005
    assert approvals.until(people(), ("mine", "admins"), 5, 600_000) == 60_005
    assert approvals.until(people(), ("mine", "admins"), 5, None) == 60_005
    assert approvals.until(people(), ("mine",), 5, None) == FOR_EVER


def test_nobody_eligible_means_nobody_is_asked() -> None:
    rules = [{"id": "mine", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}]
    asked = gate([], document(rules=rules)).requests.invoke(standing())
    assert not approvals.someone_may_answer(document(principals={}), asked, standing(principal="owner"))


def test_what_is_asked_names_only_the_rules_that_ask() -> None:
    decision = gate([Message()]).calls.prepare(standing(DIRTY), send("x")).decision
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
        # It waits no more, and whoever asks why is told of what, and by which rules.
        last = bodies(await owner.events(), PolicyDecision)[-1]
        assert (last.verdict, last.about) == (Verdict.BLOCK, "message")
        told = await owner.say("/why")
        assert "Refused: message." in told
        assert "Rule `untrusted_cannot_command`: " in told
        assert f"Rule `approval_is_given`: {DENIED}" in told
        # Neither is told what else would lead to what somebody said no to.
        assert "/approve" not in told
        assert "/reset" not in told


async def test_silence_never_consents(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(note("guest", "hello"))
        asked = await pending(owner)
        await owner.app.store.approvals.resolve(owner.sid, (asked.id,), ApprovalState.EXPIRED, actor="clock", audit=())
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
        assert await owner.app.store.sessions.claim(owner.sid, Ids().owner()) is None  # there is nothing to do
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner(), idle=True)
        assert claim is not None  # and nobody holds it
        await owner.app.store.sessions.release(claim)


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
        first, second = await owner.app.store.approvals.of(owner.sid)
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
        asked = await owner.app.store.approvals.of(owner.sid)
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


# --- one question for a step -----------------------------------------------------------------------


def many(count: int) -> str:
    """Return a text of the model's with this many calls that need an approval."""
    return "\n".join(note("guest", f"spam {number}") for number in range(1, count + 1))


async def test_what_does_not_show_is_spelled_in_a_question(tmp_path: Path) -> None:
    """What a person approves is all of what is sent, also what a channel would leave out."""
    async with running(tmp_path) as owner:
        await owner.say(READ)
        shown = await owner.say(note("guest", "yes\ufe0f\u3164\U000e0141"))
        listed = await owner.say("/approvals", wait=False)
        assert "yes\\ufe0f\\u3164\\U000e0141" in shown
        assert "yes\\ufe0f\\u3164\\U000e0141" in listed


async def test_fifty_calls_are_one_question_and_its_refusal_ends_the_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        shown = await owner.say(many(50))
        asked = await owner.app.store.approvals.of(owner.sid)
        assert len(asked) == MOST_ASKED
        (name,) = {approval.asked_in for approval in asked}
        assert shown.count("One answer is for all 10") == shown.count(f"`/approve {name}`") == 1
        assert "spam 10" in shown
        assert "spam 11" not in shown
        told = [event.body.text for event in await owner.events() if isinstance(event.body, ToolResult)]
        assert told.count(NOT_ASKED) == 40
        shown = await owner.say(f"/deny {name}")
        assert TOO_MANY_REFUSALS in shown
        state = await owner.state()
        assert (state.status, state.last_turn and state.last_turn.reason) == (Status.IDLE, YieldReason.CANCELED)
        assert not unanswered(await owner.events())
        assert "→ guest" not in owner.shown
        assert len(await owner.app.store.approvals.of(owner.sid)) == MOST_ASKED


async def test_a_question_is_answered_as_one_or_call_by_call(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(many(3))
        first, second, third = sorted(one.id for one in await owner.app.store.approvals.of(owner.sid))
        assert (first[8:], second[8:], third[8:]) == ("-1", "-2", "-3")
        assert f"{second} denied" in await owner.say(f"/deny {second}", wait=False)
        shown = await owner.say(f"/approve {first[:8]}")
        assert f"{first} approved" in shown
        assert f"{third} approved" in shown
        assert second not in shown
        assert [line for line in owner.shown.splitlines() if "→ guest" in line] == [
            "→ guest: spam 1",
            "→ guest: spam 3",
        ]


async def test_of_a_question_only_what_one_may_answer_is_answered(tmp_path: Path) -> None:
    ask = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    async with running(tmp_path, policy(principals={"owner": OWNER, "boss": BOSS}, rules=[ask])) as owner:
        await owner.say(READ)
        await owner.say(f"{note('guest', 'hello')}\n{bang('current_time')}")
        (name,) = {one.asked_in for one in await owner.app.store.approvals.of(owner.sid)}
        shown = await owner.say(f"/approve {name}", wait=False)
        assert f"{name}-1 approved" in shown
        assert "1 more wait.\n  Another person than `owner` has to answer: an owner, an admin or an approver." in shown
        assert (await pending(owner)).tool == "current_time"
        assert "→ guest" not in await owner.say("/approvals", wait=False)
        assert "→ guest: hello" in await boss(owner).say(f"/approve {name}")


async def test_three_questions_that_nobody_answers_end_the_turn(tmp_path: Path) -> None:
    spam = [proposed("message", {"channel": "console", "recipient": "guest", "text": "spam"})]
    asks = (spam, spam, spam, spam)
    reads = [proposed("read_file", {"path": "public/welcome.md"})]
    async with running(tmp_path, parts=parts(model=Scripted(reads, "read", *asks))) as owner:
        await owner.say("read it")
        await owner.say("go on")
        for _ in range(3):
            await owner.app.store.approvals.resolve(
                owner.sid, ((await pending(owner)).id,), ApprovalState.EXPIRED, actor="clock", audit=()
            )
            await owner.settled()
        assert TOO_MANY_REFUSALS in owner.shown
        assert len(await owner.app.store.approvals.of(owner.sid)) == 3


# --- from another address --------------------------------------------------------------------------

ELSEWHERE = {"boss": {"channel": "console", "chat": "boss", "clearance": "top"}}
HERE = {"owner": {"channel": "console", "chat": "owner", "clearance": "top"}}
OPEN = {"boss": {"channel": "console", "chat": "boss", "clearance": "PUBLIC"}}
ASK = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}


def away(owner: Person, name: str = "boss") -> Person:
    """Return somebody at an own chat."""
    return Person(owner.app, owner.output, Address("console", name), f"console:{name}")


async def test_an_approver_finds_and_answers_a_question_at_his_own_chat(tmp_path: Path) -> None:
    config = policy(principals={"owner": OWNER, "boss": BOSS}, recipients=HERE | ELSEWHERE, rules=[ASK])
    async with running(tmp_path, config) as owner:
        there = away(owner)
        assert "Nothing waits for an answer." in await there.say("/approvals")
        shown = await owner.say(bang("current_time"))
        asked = await pending(owner)
        assert "→ boss: May `current_time` run with exactly these arguments?" in shown
        assert f"in session {owner.sid} for owner by ask" in await there.say("/approvals")
        assert f"{asked.id} approved" in await there.say(f"/approve {asked.id}")
        await owner.settled()
        assert results(await owner.events()) == [("current_time", "ok")]
        rows = [record.body async for record in owner.app.chains.records(owner.sid) if record.kind == "approval"]
        assert [(row["approval"], row["address"]) for row in rows] == [(asked.id, str(there.address))]


@pytest.mark.parametrize(
    "taint, recipients, role",
    [
        pytest.param("CONFIDENTIAL", HERE | ELSEWHERE, "approver", id="a person not cleared"),
        pytest.param("INTERNAL", HERE | OPEN, "approver", id="an address not cleared"),
        pytest.param("PUBLIC", HERE | ELSEWHERE, "member", id="a role too low"),
    ],
)
async def test_no_read_up_a_question_one_may_not_answer_is_like_none(
    tmp_path: Path, taint: str, recipients: dict[str, object], role: str
) -> None:
    people = {"owner": OWNER, "boss": {**BOSS, "role": role}, "vice": {**BOSS, "accounts": ["console:vice"]}}
    people["vice"]["clearance"] = "top"
    async with running(tmp_path, policy(principals=people, recipients=recipients, rules=[ASK])) as owner:
        there = away(owner)
        asked_before = [await there.say(f"/{word}") for word in ("approvals", "approvals zzzzzzzz", "deny zzzzzzzz")]
        await owner.say("hello")
        await owner.say(f"/taint raise {taint}")
        shown = await owner.say(bang("current_time"))
        asked = await pending(owner)
        assert "→ boss" not in shown
        words = ("approvals", f"approvals {asked.id}", f"deny {asked.id}")
        assert [await there.say(f"/{word}") for word in words] == asked_before
        assert (await pending(owner)).id == asked.id


async def test_the_asker_answers_from_another_chat_of_his(tmp_path: Path) -> None:
    two = {**OWNER, "accounts": ["console:owner", "console:phone"]}
    phone = {"phone": {"channel": "console", "chat": "phone", "clearance": "top"}}
    async with running(tmp_path, policy(principals={"owner": two}, recipients=HERE | phone)) as owner:
        await owner.say(READ)
        shown = await owner.say(bang("write_file", path="public/new.md", text="x" * 3000))
        assert "→ phone" not in shown  # the asker is asked where he is
        there = Person(owner.app, owner.output, Address("console", "phone"), "console:phone")
        listed = await there.say("/approvals")
        asked = await pending(owner)
        assert f"`/approvals {asked.id}` shows them all" in listed
        assert "x" * 3000 in await there.say(f"/approvals {asked.id}")
        assert f"{asked.id} denied" in await there.say(f"/deny {asked.id}")


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
        assert "has to answer: an" in await owner.say(f"/approve {asked.id}")
        assert "You said: hello" in await boss(owner).say(f"/approve {asked.id}")
        state = await owner.state()
        assert (state.status, state.last_turn and state.last_turn.reason) == (Status.IDLE, YieldReason.COMPLETED)
        (known,) = await owner.app.store.approvals.of(owner.sid)
        assert known.state is ApprovalState.USED
        said = [event for event in await owner.events() if event.type is EventType.AGENT_MESSAGE]
        assert len(said) == 1


async def test_an_answer_that_is_refused_is_not_said(tmp_path: Path) -> None:
    config = policy(principals={"owner": OWNER, "boss": BOSS}, rules=[ANSWERS])
    async with running(tmp_path, config) as owner:
        await owner.say("hello")
        shown = await boss(owner).say(f"/deny {(await pending(owner)).id}")
        assert "You said" not in shown
        assert "Rule `approval_is_given`: a person refused this call." in shown
        assert "boss-reads" in await owner.say("/why")
        assert (await owner.state()).status is Status.IDLE


async def test_an_answer_nobody_may_approve_is_blocked(tmp_path: Path) -> None:
    async with running(tmp_path, policy(rules=[ANSWERS])) as owner:
        shown = await owner.say("hello")
        assert "You said" not in shown
        assert "Rule `approval_is_given`: nobody may approve this, as no person of the policy has the role" in shown
        assert "boss-reads" in await owner.say("/why")
        assert not await owner.app.store.approvals.of(owner.sid)


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
        assert "Refused: write_file." in shown
        assert "4111" not in shown
        assert not unanswered(await owner.events())
        assert not await owner.app.store.approvals.of(owner.sid)


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
