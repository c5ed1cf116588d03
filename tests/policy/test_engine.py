"""The engine against its reference, and what a decision holds besides a verdict."""

from dataclasses import FrozenInstanceError, replace
from datetime import datetime
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.decision import Remedy, RuleOutcome, Verdict
from policy.document.model import load
from policy.engine import Engine
from policy.labels import PUBLIC, Label, Level, parse
from policy.request import Destination, Effect, Hook, Request, Role, ToolFacts
from policy.rules import Rule
from tests.people import principal
from tests.policy import reference
from tests.policy.strategies import NOW, TOP, condition, engine, moments, requests, rule_sets

BASE = Request(Hook.PRE_OUTPUT, "owner", Role.OWNER, "console", PUBLIC, TOP, TOP, TOP)
GUEST = Destination("console:guest", "console", PUBLIC)
CONFIDENTIAL = parse("CONFIDENTIAL")


@settings(max_examples=400)
@given(requests(), rule_sets(), moments)
def test_agrees_with_the_reference(request: Request, rules: tuple[Rule, ...], now: datetime) -> None:
    decision = engine(*rules).decide(request, now)
    verdict, ids, after, redact = reference.decide(request, rules, TOP, now)
    assert decision.verdict.name == verdict
    assert set(decision.rules) == ids
    assert reference.plain(decision.label_after) == after
    assert set(decision.redact) == redact
    assert decision.label_before == request.taint
    assert decision.policy == "test"


@given(requests(), rule_sets())
def test_a_decision_is_reproducible_and_repeatable(request: Request, rules: tuple[Rule, ...]) -> None:
    one = engine(*rules)
    first = one.decide(request, NOW)
    assert one.decide(request, NOW) == first == engine(*rules).decide(request, NOW)


@given(requests(), rule_sets())
def test_every_rule_that_concerns_the_request_is_listed_fixed_ones_first(
    request: Request, rules: tuple[Rule, ...]
) -> None:
    outcomes = engine(*rules).decide(request, NOW).outcomes
    assert [outcome.fixed for outcome in outcomes] == sorted((outcome.fixed for outcome in outcomes), reverse=True)
    assert len({outcome.rule for outcome in outcomes}) == len(outcomes)
    fixed = {outcome.rule for outcome in outcomes if outcome.fixed}
    assert (
        fixed
        == {
            Hook.PRE_CONTEXT_INJECTION: {"read_is_decided_before_it_happens", "overshoot"},
            Hook.PRE_TOOL_CALL: CALL,
            Hook.MCP_TOOL_CALL: CALL,
            Hook.POST_TOOL_RESPONSE: {
                "unknown_is_worst",
                "read_is_decided_before_it_happens",
                "overshoot",
                "others_cannot_command",
            },
            Hook.PRE_OUTPUT: {"unknown_is_worst", "no_write_down"},
            Hook.SECRET_ACCESS: {"unknown_is_worst", "secret_is_granted"},
            Hook.SESSION_RESET: {"reset_is_confirmed"},
            Hook.AGENT_INVOCATION: {"read_is_decided_before_it_happens"},
        }[request.hook]
    )
    selected = {rule.id for rule in rules if _selected(rule, request)}
    assert {outcome.rule for outcome in outcomes if not outcome.fixed} == selected


CALL = {
    "unknown_is_worst",
    "no_write_down",
    "read_is_decided_before_it_happens",
    "overshoot",
    "untrusted_cannot_command",
    "endorsed_cannot_steer",
    "others_cannot_command",
    "tool_is_for_the_role",
    "run_is_initialized",
    "standing_work_is_approved",
}


def _selected(rule: Rule, request: Request) -> bool:
    """Whether the rule would say something once its pattern occurred."""
    without = replace(rule, action=Verdict.BLOCK, pattern=None, schedule=None, when=None, test=None)
    return without.id in reference.decide(request, (without,), TOP, NOW)[1]


@given(requests(), rule_sets())
def test_remedies_are_offered_exactly_when_the_request_is_stopped(request: Request, rules: tuple[Rule, ...]) -> None:
    decision = engine(*rules).decide(request, NOW)
    if decision.verdict < Verdict.REQUIRE_APPROVAL:
        assert decision.remedies == ()
    assert len(set(decision.remedies)) == len(decision.remedies)
    assert (Remedy.APPROVER in decision.remedies) <= (decision.verdict is Verdict.REQUIRE_APPROVAL)


@given(requests(), rule_sets())
def test_a_reset_is_offered_only_if_it_helps(request: Request, rules: tuple[Rule, ...]) -> None:
    one = engine(*rules)
    decision = one.decide(request, NOW)
    helps = one.decide(replace(request, taint=request.fresh, others=None), NOW).verdict < decision.verdict
    stopped = decision.verdict >= Verdict.REQUIRE_APPROVAL
    assert (Remedy.RESET in decision.remedies) == (stopped and helps and request.hook is not Hook.SESSION_RESET)


@given(requests())
def test_an_approval_that_is_offered_helps(request: Request) -> None:
    request = replace(request, approved=False)
    decision = engine().decide(request, NOW)
    if Remedy.APPROVER in decision.remedies:
        approved = engine().decide(replace(request, approved=True), NOW)
        assert approved.verdict is Verdict.ALLOW
        assert "approved" in {outcome.message for outcome in approved.outcomes}


def test_a_denial_by_no_write_down_offers_what_works() -> None:
    decision = engine().decide(replace(BASE, taint=CONFIDENTIAL, destination=GUEST), NOW)
    assert decision.verdict is Verdict.BLOCK
    assert decision.rules == ("no_write_down",)
    assert decision.remedies == (Remedy.RESET, Remedy.OTHER_DESTINATION, Remedy.RECLASSIFY)


def test_a_reset_is_not_offered_for_an_item_that_is_itself_too_high() -> None:
    decision = engine().decide(replace(BASE, taint=CONFIDENTIAL, item=CONFIDENTIAL, destination=GUEST), NOW)
    assert decision.remedies == (Remedy.OTHER_DESTINATION, Remedy.RECLASSIFY)


def test_the_provider_is_named_before_the_clearance() -> None:
    decision = engine().decide(replace(BASE, hook=Hook.AGENT_INVOCATION, taint=CONFIDENTIAL, provider=PUBLIC), NOW)
    assert decision.remedies == (Remedy.RESET, Remedy.OTHER_MODEL, Remedy.RECLASSIFY)


def test_an_approved_configured_rule_is_reported_as_allowed() -> None:
    rule = Rule("ask", Hook.PRE_OUTPUT, Verdict.REQUIRE_APPROVAL, message="ask first")
    request = replace(BASE, destination=GUEST)
    asked = engine(rule).decide(request, NOW)
    assert (asked.verdict, asked.rules, asked.remedies) == (
        Verdict.REQUIRE_APPROVAL,
        ("ask",),
        (Remedy.APPROVER,),
    )
    approved = engine(rule).decide(replace(request, approved=True), NOW)
    assert approved.verdict is Verdict.ALLOW
    assert approved.outcomes[-1] == RuleOutcome("ask", Verdict.ALLOW, fixed=False, message="approved")


def test_a_rule_of_selectors_that_fires_with_a_fixed_one_adds_its_remedies() -> None:
    rule = Rule("ask", Hook.PRE_TOOL_CALL, Verdict.REQUIRE_APPROVAL)
    call = replace(
        BASE,
        hook=Hook.PRE_TOOL_CALL,
        taint=parse("PUBLIC~"),
        tool=ToolFacts("message", Effect.SEND, PUBLIC, PUBLIC, consequential=True),
    )
    decision = engine(rule).decide(call, NOW)
    assert decision.rules == ("untrusted_cannot_command", "ask")
    assert decision.remedies == (Remedy.APPROVER,)


def test_selectors_look_at_what_leaves_not_only_at_the_session() -> None:
    rule = Rule("high", Hook.PRE_OUTPUT, Verdict.BLOCK, levels=frozenset({Level.CONFIDENTIAL}))
    output = replace(BASE, destination=replace(GUEST, clearance=TOP))
    assert engine(rule).decide(output, NOW).rules == ()
    assert engine(rule).decide(replace(output, item=CONFIDENTIAL), NOW).rules == ("high",)


def test_the_order_of_rules_does_not_show() -> None:
    rules = [Rule(name, Hook.PRE_OUTPUT, Verdict.BLOCK, pattern="email") for name in "ab"]
    rules += [Rule(name, Hook.PRE_OUTPUT, Verdict.REQUIRE_APPROVAL) for name in "dc"]
    output = replace(BASE, destination=GUEST, content="ann@example.org")
    one, other = engine(*rules).decide(output, NOW), engine(*reversed(rules)).decide(output, NOW)
    assert one == other
    assert one.rules == ("a", "b", "c", "d")


def test_selectors_look_at_the_tool_and_at_where_it_sends() -> None:
    named = Rule("named", Hook.PRE_TOOL_CALL, Verdict.BLOCK, tools=("read_*",))
    call = replace(BASE, hook=Hook.PRE_TOOL_CALL, tool=ToolFacts("read_file", Effect.READ, PUBLIC))
    assert engine(named).decide(call, NOW).rules == ("named",)
    assert engine(named).decide(replace(call, tool=ToolFacts("write_file", Effect.NONE, PUBLIC)), NOW).rules == ()
    there = Rule("there", Hook.PRE_OUTPUT, Verdict.BLOCK, channels=("telegram",))
    output = replace(BASE, destination=replace(GUEST, channel="telegram"))
    assert engine(there).decide(output, NOW).rules == ("there",)
    assert engine(there).decide(replace(output, channel="telegram", destination=GUEST), NOW).rules == ()


def test_no_tool_has_no_name() -> None:
    some = Rule("some", Hook.SESSION_RESET, Verdict.BLOCK, tools=("?*",))
    assert engine(some).decide(replace(BASE, hook=Hook.SESSION_RESET, confirmed=True), NOW).rules == ()


def test_a_reset_is_no_remedy_for_a_reset() -> None:
    rule = Rule("keep", Hook.SESSION_RESET, Verdict.BLOCK, levels=frozenset({Level.CONFIDENTIAL}))
    reset = replace(BASE, hook=Hook.SESSION_RESET, taint=CONFIDENTIAL, confirmed=True)
    decision = engine(rule).decide(reset, NOW)
    assert (decision.rules, decision.remedies) == (("keep",), ())


def test_a_rule_that_looks_at_the_content_offers_its_remedies() -> None:
    rule = Rule("ask", Hook.PRE_OUTPUT, Verdict.REQUIRE_APPROVAL, pattern="email")
    decision = engine(rule).decide(replace(BASE, destination=GUEST, content="ann@example.org"), NOW)
    assert (decision.rules, decision.remedies) == (("ask",), (Remedy.APPROVER,))


def test_a_configured_rule_of_one_channel_leaves_the_remedies_of_a_fixed_one() -> None:
    rule = Rule("never", Hook.PRE_OUTPUT, Verdict.REDACT, pattern="email")
    decision = engine(rule).decide(replace(BASE, taint=CONFIDENTIAL, destination=GUEST, content="ann@example.org"), NOW)
    assert decision.rules == ("no_write_down", "never")
    assert decision.remedies == (Remedy.RESET, Remedy.OTHER_DESTINATION, Remedy.RECLASSIFY)


def test_redacts_what_its_decision_names_and_nothing_else() -> None:
    rule = Rule("no-ssn", Hook.PRE_OUTPUT, Verdict.REDACT, pattern="us-ssn")
    text = "536-90-4399 belongs to ann@example.org"
    decision = engine(rule).decide(replace(BASE, destination=GUEST, content=text), NOW)
    assert decision.verdict is Verdict.REDACT
    assert engine(rule).redact(text, decision) == "[redacted: us-ssn] belongs to ann@example.org"
    assert engine().redact(text, engine().decide(replace(BASE, destination=GUEST, content=text), NOW)) == text


def test_a_condition_sees_the_request_also_as_if_after_a_reset() -> None:
    rule = Rule(
        "odd",
        Hook.PRE_OUTPUT,
        Verdict.BLOCK,
        when=condition("taint_level > PUBLIC", Hook.PRE_OUTPUT),
    )
    decision = engine(rule).decide(replace(BASE, taint=CONFIDENTIAL, destination=replace(GUEST, clearance=TOP)), NOW)
    assert decision.rules == ("odd",)
    assert decision.remedies == (Remedy.RESET,)


def test_an_engine_is_made_of_a_document_and_does_not_change() -> None:
    document = load(
        {
            "compartments": ["hr"],
            "patterns": {"project": "falcon"},
            "rules": [
                {"id": "secret-project", "hook": "PRE_OUTPUT", "action": "REDACT", "pattern": "project"},
                {"id": "quiet", "hook": "PRE_OUTPUT", "action": "BLOCK", "taint": ">= RESTRICTED", "message": "no"},
            ],
        },
        tools=["message"],
    )
    made = Engine.from_document(document)
    decision = made.decide(replace(BASE, content="the falcon", destination=GUEST), NOW)
    assert (decision.verdict, decision.rules, decision.redact) == (Verdict.REDACT, ("secret-project",), ("project",))
    assert decision.policy == document.digest
    assert made.top == Label(Level.RESTRICTED, frozenset({"hr"}), TOP.integrity)
    with pytest.raises(FrozenInstanceError):
        made.digest = "other"  # pyright: ignore[reportAttributeAccessIssue] - that is what is tested


@settings(deadline=None)
@given(requests(content=st.text() | st.sampled_from(("\ud800", "\0", "é" * 9))))
def test_is_total_over_any_content(request: Request) -> None:
    rule = Rule("all", request.hook, Verdict.BLOCK, pattern="secret")
    assert engine(rule).decide(request, NOW).verdict in Verdict


def test_is_total_over_a_megabyte() -> None:
    rule = Rule("all", Hook.PRE_OUTPUT, Verdict.REDACT, pattern="canary")
    request = replace(BASE, destination=GUEST, content="canary \ud800\0" * 100_000)
    assert engine(rule).decide(request, NOW).verdict is Verdict.REDACT


def test_a_request_that_breaks_the_types_is_blocked_not_raised() -> None:
    decision = engine().decide(replace(BASE, hook=cast("Hook", "NO_SUCH_HOOK")), NOW)
    assert decision.verdict is Verdict.BLOCK
    assert decision.rules == ("fails_closed",)
    assert decision.remedies == (Remedy.FIX_RULE,)
    assert decision.label_after == decision.label_before == PUBLIC
    assert decision.policy == "test"


@pytest.mark.parametrize(
    "rule,inside",
    [
        (Rule("r", Hook.PRE_OUTPUT, Verdict.BLOCK), False),
        (Rule("r", Hook.PRE_OUTPUT, Verdict.REDACT, pattern="secret"), True),
        (Rule("r", Hook.PRE_OUTPUT, Verdict.REDACT, pattern="secret", channels=("telegram",)), False),
        (Rule("r", Hook.POST_TOOL_RESPONSE, Verdict.REDACT, pattern="secret"), False),
    ],
)
def test_tells_whether_a_rule_that_may_concern_a_request_looks_inside(rule: Rule, inside: bool) -> None:  # noqa: FBT001
    assert engine(rule).looks_inside(replace(BASE, hook=Hook.PRE_OUTPUT, destination=GUEST)) is inside


@pytest.mark.parametrize("may_release", [True, False])
def test_a_release_is_offered_where_the_document_gives_somebody_the_right(*, may_release: bool) -> None:
    owner = principal("console:owner", may_release=may_release)
    made = Engine.from_document(load({"principals": {"owner": owner}}, tools=()))
    message = ToolFacts("message", Effect.SEND, PUBLIC, PUBLIC)
    sends = replace(BASE, hook=Hook.PRE_TOOL_CALL, taint=CONFIDENTIAL, tool=message)
    assert (Remedy.RELEASE in made.decide(sends, NOW).remedies) is may_release
