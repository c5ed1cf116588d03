"""The gate's crossings, each decided on real documents and real tools."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.access.approvals import binding
from bot.access.decision_context import Call, DecisionContext
from bot.access.recipients import meaning
from bot.gate.gate import FAILED
from bot.gate.results import explained
from bot.sessions.approvals import Approval, ApprovalQuestion, ApprovalState
from bot.sessions.deliveries import NewDelivery
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from bot.tools.clock import CurrentTime
from bot.tools.files import ReadFile
from bot.tools.message import Message
from policy.decision import Remedy, Verdict
from policy.document.model import load
from policy.labels import PUBLIC, parse
from policy.request import Effect, Hook
from tests.bot.kit import (
    CONFIDENTIAL,
    DIRTY,
    GUEST,
    INTERNAL,
    NOW,
    RESTRICTED,
    TOP,
    Probe,
    TextArguments,
    blocked_by,
    call,
    document,
    folder_of_files,
    gate,
    rule,
    send,
    standing,
    unrecorded,
)
from tests.people import principal

pytestmark = pytest.mark.anyio

CARD = "4111 1111 1111 1111"


def approval(
    where: DecisionContext,
    asked: Call,
    state: ApprovalState = ApprovalState.APPROVED,
    *,
    rules: tuple[str, ...] = ("untrusted_cannot_command",),
    by: str = "owner",
) -> Approval:
    """Return an approval that fits a call exactly."""
    return Approval(
        id="a1",
        sid=where.sid,
        generation=where.generation,
        turn=where.turn,
        call=asked.id,
        tool=asked.tool,
        binding=binding(where, asked, leads=(meaning(document(), GUEST),) if asked.tool == "message" else ()),
        label=where.taint,
        principal=where.principal,
        question=ApprovalQuestion(asked.tool, {}),
        rules=rules,
        expires_at=NOW + 1,
        state=state,
        resolved_by=by,
    )


# --- what a call names -----------------------------------------------------------------------------


async def test_a_tool_that_does_not_exist_is_blocked_and_cannot_run() -> None:
    asked = gate([]).calls.prepare(standing(), call("format_disk"))
    assert blocked_by(asked.decision) == {"unknown_is_worst"}
    assert gate([]).calls.reaches_others(call("format_disk"))
    assert not asked.repeatable
    with pytest.raises(RuntimeError, match="not allowed"):
        await gate([]).run(standing(), asked, unrecorded)


def test_a_refusal_of_the_gates_own_names_the_policy_it_was_made_under() -> None:
    keeper = gate([Probe()])
    for refused in (
        keeper.calls.prepare(standing(principal="gone"), call("probe")),
        keeper.calls.prepare(standing(), call("no")),
    ):
        assert blocked_by(refused.decision)
        assert refused.decision.policy == keeper.document.digest


async def test_a_blocked_call_cannot_run_even_if_its_tool_exists() -> None:
    probe = Probe(declared=CallFacts(result=TOP, clearance=PUBLIC))
    keeper = gate([probe])
    asked = keeper.calls.prepare(standing(CONFIDENTIAL), call("probe"))
    assert blocked_by(asked.decision) == {"no_write_down"}
    with pytest.raises(RuntimeError):
        await keeper.run(standing(CONFIDENTIAL), asked, unrecorded)
    assert not probe.ran


async def test_a_call_that_waits_for_approval_cannot_run() -> None:
    keeper = gate([Message()])
    asked = keeper.calls.prepare(standing(DIRTY), send("hi"))
    assert asked.decision.verdict is Verdict.REQUIRE_APPROVAL
    with pytest.raises(RuntimeError):
        await keeper.run(standing(DIRTY), asked, unrecorded)


@pytest.mark.parametrize(
    "arguments, told",
    [
        pytest.param(None, "must be a JSON object", id="no object"),
        pytest.param({"text": 1}, "`text` should be a valid string", id="wrong type"),
        pytest.param(
            {"text": "x", "session_id": "s2"}, "`session_id` is not one of its arguments", id="smuggled session"
        ),
        pytest.param({"label": "PUBLIC"}, "`label` is not one of its arguments", id="smuggled label"),
        pytest.param(
            {"principal": "owner", "taint": "PUBLIC"}, "`principal` is not one of its arguments", id="smuggled person"
        ),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_by_name(arguments: object, told: str) -> None:
    probe = Probe()
    asked = gate([probe]).calls.prepare(standing(), Call("c1", "probe", arguments))  # pyright: ignore[reportArgumentType] - what a model may send
    assert blocked_by(asked.decision) == {"fails_closed"}
    assert told in asked.decision.outcomes[-1].message
    assert asked.accepted is None


async def test_a_refusal_never_repeats_the_values_it_refused() -> None:
    asked = gate([Probe()]).calls.prepare(standing(), call("probe", {"text": "x", "secret": "hunter2"}))
    assert "hunter2" not in explained(asked.decision, TOP, "probe")


async def test_a_tool_may_refuse_a_call_before_anything_is_touched() -> None:
    asked = gate([Message()]).calls.prepare(standing(), send("hi", recipient="gest"))
    assert blocked_by(asked.decision) == {"fails_closed"}
    assert "unknown recipient" in asked.decision.outcomes[-1].message


async def test_a_declaration_that_fails_blocks_and_tells_nothing() -> None:
    class Broken(Probe):
        def declare(self, arguments: TextArguments, context: ToolContext) -> CallFacts:
            raise KeyError("the password is hunter2")

    asked = gate([Broken()]).calls.prepare(standing(), call("probe"))
    assert blocked_by(asked.decision) == {"fails_closed"}
    assert "hunter2" not in explained(asked.decision, TOP, "probe")


async def test_arguments_too_deep_to_look_into_are_blocked() -> None:
    deep: dict[str, JsonValue] = {}
    for _ in range(5_000):
        deep = {"more": deep}
    assert blocked_by(gate([Probe()]).calls.prepare(standing(), call("probe", deep)).decision) == {"fails_closed"}


# --- labels ----------------------------------------------------------------------------------------


async def test_read_is_decided_before_it_happens(tmp_path: Path) -> None:
    keeper = gate([ReadFile(folder_of_files(tmp_path))])
    asked = keeper.calls.prepare(standing(ceiling=INTERNAL), call("read_file", {"path": "confidential/x.md"}))
    assert blocked_by(asked.decision) == {"read_is_decided_before_it_happens"}
    assert asked.decision.label_after == PUBLIC


async def test_a_provider_below_the_data_refuses_the_read(tmp_path: Path) -> None:
    policy = document(models={"offline": {"clearance": "INTERNAL"}})
    keeper = gate([ReadFile(folder_of_files(tmp_path))], policy)
    asked = keeper.calls.prepare(standing(), call("read_file", {"path": "confidential/x.md"}))
    assert blocked_by(asked.decision) == {"read_is_decided_before_it_happens"}
    assert Remedy.OTHER_MODEL in asked.decision.remedies


async def test_an_unlisted_provider_may_read_public_alone() -> None:
    keeper = gate([], model="openai:gpt-5")
    assert keeper.requests.invoke(standing()).verdict is Verdict.ALLOW
    assert blocked_by(keeper.requests.invoke(standing(INTERNAL))) == {"read_is_decided_before_it_happens"}


def test_a_transcriber_hears_what_it_is_cleared_for_whatever_the_session_has_read() -> None:
    one = gate([], document(transcribers={"scribe": {"clearance": "INTERNAL~"}}))
    heard = {
        label: one.requests.transcribe(standing(CONFIDENTIAL), parse(label), "scribe").verdict
        for label in ("PUBLIC~", "INTERNAL~", "CONFIDENTIAL~")
    }
    assert heard == {"PUBLIC~": Verdict.ALLOW, "INTERNAL~": Verdict.ALLOW, "CONFIDENTIAL~": Verdict.BLOCK}
    assert one.requests.transcribe(standing(), INTERNAL, "another").verdict is Verdict.BLOCK
    gone = standing(principal="nobody", asker="nobody")
    assert one.requests.transcribe(gone, PUBLIC, "scribe").verdict is Verdict.BLOCK


async def test_a_result_that_is_higher_than_declared_is_joined_never_lowered() -> None:
    probe = Probe(declared=CallFacts(result=INTERNAL), result=Result('{"taint": "PUBLIC"}', CONFIDENTIAL))
    keeper = gate([probe])
    asked = keeper.calls.prepare(standing(), call("probe"))
    answer = await keeper.results.respond(standing(), asked, await keeper.run(standing(), asked, unrecorded))
    assert answer.label == CONFIDENTIAL
    lower = await keeper.results.respond(standing(), asked, Result('{"_classification": "PUBLIC"}', PUBLIC))
    assert lower.label == INTERNAL


async def test_an_exception_is_a_constant_text_with_the_label_of_success() -> None:
    async def fail(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        raise ValueError("the password is hunter2")

    probe = Probe(declared=CallFacts(result=CONFIDENTIAL), does=fail)
    keeper = gate([probe])
    asked = keeper.calls.prepare(standing(), call("probe"))
    answer = await keeper.results.respond(standing(), asked, await keeper.run(standing(), asked, unrecorded))
    assert (answer.text, answer.label, answer.failed) == (FAILED, CONFIDENTIAL, True)


async def test_a_result_above_the_ceiling_is_refused_and_not_admitted() -> None:
    probe = Probe(result=Result("the plan", RESTRICTED))
    keeper = gate([probe])
    below = standing(ceiling=INTERNAL)
    asked = keeper.calls.prepare(below, call("probe"))
    answer = await keeper.results.respond(below, asked, await keeper.run(below, asked, unrecorded))
    assert answer.hook is Hook.POST_TOOL_RESPONSE
    assert "the plan" not in answer.text
    assert (answer.label, answer.failed) == (PUBLIC, True)


async def test_a_result_refused_for_its_content_carries_the_label_of_success() -> None:
    policy = rule(hook="POST_TOOL_RESPONSE", pattern="payment-card", action="BLOCK", message="no cards")
    keeper = gate([Probe(result=Result(CARD, CONFIDENTIAL))], policy)
    asked = keeper.calls.prepare(standing(), call("probe"))
    answer = await keeper.results.respond(standing(), asked, await keeper.run(standing(), asked, unrecorded))
    assert CARD not in answer.text
    assert "no cards" in answer.text
    assert answer.label == CONFIDENTIAL


async def test_the_configuration_raises_what_a_tool_declares() -> None:
    policy = document(tools={"current_time": {"result": "INTERNAL"}})
    keeper = gate([CurrentTime()], policy)
    asked = keeper.calls.prepare(standing(), call("current_time"))
    assert asked.decision.label_after == INTERNAL
    answer = await keeper.results.respond(standing(), asked, await keeper.run(standing(), asked, unrecorded))
    assert answer.label == INTERNAL


async def test_unknown_is_worst_a_tool_without_a_label_is_not_offered_and_blocks() -> None:
    probe = Probe(label=None)
    keeper = gate([probe, CurrentTime()])
    assert [tool.name for tool in keeper.tools] == ["current_time"]
    assert blocked_by(keeper.calls.prepare(standing(), call("probe")).decision) == {"unknown_is_worst"}


async def test_a_tool_without_a_label_may_be_given_one_by_the_operator() -> None:
    policy = load({"tools": {"probe": {"result": "INTERNAL"}}}, tools=("probe",))
    keeper = gate([Probe(label=None)], policy)
    assert [tool.name for tool in keeper.tools] == ["probe"]
    assert keeper.calls.prepare(standing(), call("probe")).decision.label_after == INTERNAL


async def test_a_call_that_runs_may_ask_whether_a_label_may_enter() -> None:
    async def ask(_arguments: TextArguments, _context: ToolContext, services: ToolServices) -> None:
        assert services.permits(INTERNAL)
        assert not services.permits(CONFIDENTIAL)

    probe = Probe(does=ask)
    keeper = gate([probe])
    below = standing(ceiling=INTERNAL)
    await keeper.run(below, keeper.calls.prepare(below, call("probe")), unrecorded)
    (context,) = probe.ran
    assert context.key == "s1/1/c1"


async def test_a_call_at_its_session_s_own_level_reads_nothing_that_would_change_that() -> None:
    asked = list[bool]()

    async def ask(_arguments: TextArguments, context: ToolContext, services: ToolServices) -> None:
        assert context.own_level
        asked.extend(services.permits(label) for label in (PUBLIC, INTERNAL, DIRTY, CONFIDENTIAL))

    keeper, here = gate([Probe(does=ask)]), standing(INTERNAL)
    made = replace(call("probe"), own_level=True)
    assert not (await keeper.run(here, keeper.calls.prepare(here, made), unrecorded)).failed
    assert asked == [True, True, False, False]


# --- approvals -------------------------------------------------------------------------------------


async def test_untrusted_cannot_command_without_an_approval_bound_to_exactly_this_call() -> None:
    keeper = gate([Message()])
    here, asked = standing(DIRTY), send("hi")
    assert keeper.calls.prepare(here, asked).decision.verdict is Verdict.REQUIRE_APPROVAL
    lifted = keeper.calls.prepare(here, asked, (approval(here, asked),))
    assert lifted.decision.verdict is Verdict.ALLOW
    assert (lifted.use, lifted.approved) == ("a1", ("untrusted_cannot_command",))


@pytest.mark.parametrize(
    "where, asked",
    [
        pytest.param(standing(DIRTY), send("hi!"), id="another argument"),
        pytest.param(standing(parse("INTERNAL~")), send("hi"), id="another label"),
        pytest.param(standing(DIRTY, principal="boss"), send("hi"), id="another principal"),
        pytest.param(standing(DIRTY, generation=2), send("hi"), id="another generation"),
        pytest.param(standing(DIRTY, sid="s2"), send("hi"), id="another session"),
        pytest.param(standing(DIRTY), replace(send("hi"), id="c2"), id="another call"),
        pytest.param(standing(DIRTY, now=NOW + 1), send("hi"), id="expired"),
    ],
)
async def test_an_approval_for_something_else_lifts_nothing(where: DecisionContext, asked: Call) -> None:
    policy = document(
        principals={name: principal(f"console:{name}") for name in ("owner", "boss")},
        recipients={"guest": {"channel": "console", "chat": "guest", "clearance": "top"}},
    )
    known = approval(standing(DIRTY), send("hi"))
    assert gate([Message()], policy).calls.prepare(where, asked, (known,)).decision.verdict is Verdict.REQUIRE_APPROVAL


@pytest.mark.parametrize("state", [ApprovalState.PENDING, ApprovalState.DENIED, ApprovalState.EXPIRED])
async def test_only_an_approved_approval_counts(state: ApprovalState) -> None:
    here, asked = standing(DIRTY), send("hi")
    known = approval(here, asked, state)
    assert gate([Message()]).calls.prepare(here, asked, (known,)).decision.verdict is Verdict.REQUIRE_APPROVAL


async def test_a_spent_approval_counts_for_the_call_that_spent_it_and_is_not_spent_again() -> None:
    here, asked = standing(DIRTY), send("hi")
    again = gate([Message()]).calls.prepare(here, asked, (approval(here, asked, ApprovalState.USED),))
    assert (again.decision.verdict, again.use, again.approved) == (Verdict.ALLOW, None, ("untrusted_cannot_command",))


_FOUR_EYES = {"id": "four-eyes", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}
_TWO = {
    "owner": principal("console:owner"),
    "boss": principal("console:boss", role="approver"),
}


@pytest.mark.parametrize(
    "rules, by, counts",
    [
        pytest.param(("untrusted_cannot_command", "four-eyes"), "boss", True, id="for both rules by who may"),
        pytest.param(("untrusted_cannot_command",), "boss", False, id="for one of two rules"),
        pytest.param(("untrusted_cannot_command", "four-eyes"), "owner", False, id="by who may answer one of two"),
        pytest.param(("untrusted_cannot_command", "four-eyes", "gone"), "boss", False, id="for a rule there is not"),
    ],
)
async def test_an_approval_lifts_only_the_rules_it_was_given_for(
    rules: tuple[str, ...], by: str, *, counts: bool
) -> None:
    keeper = gate([Message()], document(principals=_TWO, rules=[_FOUR_EYES]))
    here, asked = standing(DIRTY), send("hi")
    lifted = keeper.calls.prepare(here, asked, (approval(here, asked, rules=rules, by=by),))
    assert (lifted.decision.verdict is Verdict.ALLOW) == counts
    assert lifted.use == ("a1" if counts else None)


async def test_an_approval_lifts_no_rule_that_asks_about_a_text_the_tool_did_not_tell() -> None:
    rule = {"id": "read-first", "hook": "PRE_OUTPUT", "action": "REQUIRE_APPROVAL"}
    says = Result("done", deliver=(NewDelivery("k", str(GUEST), "hi", PUBLIC),))
    probe = Probe(declared=CallFacts(clearance=TOP, consequential=True), effect=Effect.SEND, result=says)
    keeper = gate([probe], document(principals=_TWO, rules=[rule]))
    here, asked = standing(DIRTY), call("probe")
    prepared = keeper.calls.prepare(here, asked, (approval(here, asked),))
    response = await keeper.results.respond(here, prepared, await keeper.run(here, prepared, unrecorded))
    assert (response.deliver, response.decision.rules) == ((), ("read-first",))


async def test_an_approval_never_lifts_no_write_down() -> None:
    here, asked = standing(parse("INTERNAL~")), send("hi")
    refused = gate([Message()]).calls.prepare(here, asked, (approval(here, asked),))
    assert blocked_by(refused.decision) == {"no_write_down"}


async def test_what_nobody_may_approve_is_blocked_without_offering_an_approver() -> None:
    policy = rule(hook="PRE_TOOL_CALL", tools=["current_time"], action="REQUIRE_APPROVAL")
    asked = gate([CurrentTime()], policy).calls.prepare(standing(), call("current_time"))
    assert blocked_by(asked.decision) == {"approval_is_given"}
    assert Remedy.APPROVER not in asked.decision.remedies
    assert "mine" in asked.decision.rules


async def test_a_word_to_oneself_at_a_cleared_address_is_not_consequential() -> None:
    keeper = gate([Message()])
    assert keeper.calls.prepare(standing(TOP), send("hi", recipient="owner")).decision.verdict is Verdict.ALLOW


# --- a call that was begun and has no result ---------------------------------------------------------


def test_only_what_others_notice_and_is_not_ours_to_make_once_is_asked_about_again() -> None:
    noticed, ours = (
        CallFacts(clearance=TOP, consequential=True),
        CallFacts(clearance=TOP, consequential=True, once=True),
    )
    for declared, repeatable, again in (
        (noticed, True, True),
        (noticed, False, True),
        (ours, True, False),
        (CallFacts(clearance=TOP), True, False),
        (CallFacts(clearance=TOP), False, False),
    ):
        keeper = gate([Probe(effect=Effect.SEND, declared=declared, repeatable=repeatable)])
        prepared = keeper.calls.prepare(standing(), call("probe"), begun=True)
        assert prepared.asks_again is again
        assert ("outcome_is_known" in prepared.decision.rules) is again
        assert prepared.repeatable is (repeatable and not again)
        assert not keeper.calls.prepare(standing(), call("probe")).in_doubt


@pytest.mark.parametrize(
    "arguments,held",
    [
        pytest.param({"_hold": True}, True, id="held"),
        pytest.param({"text": {"$ref": "gone"}}, True, id="refers"),
        pytest.param({"text": {"$ref": 1}}, True, id="refers wrongly"),
        pytest.param({"text": "x"}, False, id="neither"),
        pytest.param(None, False, id="no arguments"),
    ],
)
def test_what_was_begun_and_cannot_be_made_any_more_is_held_if_it_was(
    arguments: dict[str, JsonValue] | None, *, held: bool
) -> None:
    keeper = gate([])
    assert keeper.calls.prepare(standing(), Call("c1", "gone", arguments), begun=True).hold is held
    assert not keeper.calls.prepare(standing(), Call("c1", "gone", arguments)).hold
