"""Rules that are `log_only`: what they would do is told, and nothing else depends on them."""

from dataclasses import replace
from datetime import datetime
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.decision import Verdict
from policy.labels import PUBLIC
from policy.request import Destination, Hook, Request, Role
from policy.rules import Rule
from tests.policy.strategies import NOW, TOP, engine, moments, raising, requests, rule_sets


@settings(max_examples=40)
@given(requests(), rule_sets(), rule_sets(), moments)
def test_log_only_changes_nothing(
    request: Request, rules: tuple[Rule, ...], logged: tuple[Rule, ...], now: datetime
) -> None:
    """Law: a decision is the same with and without rules that are `log_only`, but for what these would have done."""
    watched = tuple(replace(rule, id=f"logged-{rule.id}", log_only=True) for rule in logged)
    without, beside = engine(*rules), engine(*rules, *watched)
    decision = beside.decide(request, now)
    assert replace(decision, would=()) == without.decide(request, now)
    assert beside.redact(request.content, decision) == without.redact(request.content, decision)
    assert beside.looks_inside(request) == without.looks_inside(request)
    assert beside.scans(request) == without.scans(request)


@settings(max_examples=40)
@given(requests(), rule_sets(), moments)
def test_a_rule_that_is_log_only_tells_what_it_would_have_done(
    request: Request, rules: tuple[Rule, ...], now: datetime
) -> None:
    """Applied alone, each rule says the same; an error blocks there, and is only told here."""
    watched = tuple(replace(rule, log_only=True) for rule in rules)
    told = {one.rule: one for one in engine(*watched).decide(request, now).would}
    applied = engine(*rules).decide(replace(request, approved=False), now)
    said = {outcome.rule: outcome.verdict for outcome in applied.outcomes if not outcome.fixed}
    assert {rule: one.verdict for rule, one in told.items()} == {
        rule: verdict for rule, verdict in said.items() if verdict is not Verdict.ALLOW
    }


@given(requests(st.just(Hook.PRE_TOOL_CALL)))
def test_an_error_of_a_rule_that_is_log_only_refuses_nothing(request: Request) -> None:
    rule = Rule("broken", Hook.PRE_TOOL_CALL, Verdict.REQUIRE_APPROVAL, test=raising)
    assert engine(rule).decide(request, NOW).verdict is Verdict.BLOCK
    logged = engine(replace(rule, log_only=True)).decide(request, NOW)
    assert logged.verdict is engine().decide(request, NOW).verdict
    assert [one.word for one in logged.would] == ["error"]


LOOKS = Rule("looks", Hook.PRE_OUTPUT, Verdict.BLOCK, pattern="canary", log_only=True)
GUEST = Destination("console:guest", "console", PUBLIC)
BASE = Request(Hook.PRE_OUTPUT, "owner", Role.OWNER, "console", PUBLIC, TOP, TOP, TOP, destination=GUEST)


def test_a_content_that_no_rule_can_look_at_refuses_nothing() -> None:
    decision = engine(LOOKS).decide(replace(BASE, content=cast("str", 7)), NOW)
    assert decision.verdict is Verdict.ALLOW
    assert [one.word for one in decision.would] == ["error"]


def test_a_request_that_breaks_the_types_is_blocked_not_raised() -> None:
    decision = engine(LOOKS).decide(replace(BASE, hook=cast("Hook", "NO_SUCH_HOOK")), NOW)
    assert (decision.verdict, decision.rules, decision.would) == (Verdict.BLOCK, ("fails_closed",), ())
