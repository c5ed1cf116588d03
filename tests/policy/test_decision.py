"""A decision is not a boolean."""

from dataclasses import replace

import pytest

from policy.decision import Decision, LoggedOutcome, Remedy, RuleOutcome, Verdict, combined
from policy.labels import PUBLIC, parse


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_has_no_truth_value(verdict: Verdict) -> None:
    with pytest.raises(TypeError):
        bool(verdict)


def test_the_strictest_wins() -> None:
    assert max(Verdict) is Verdict.BLOCK
    assert sorted(Verdict) == [Verdict.ALLOW, Verdict.REDACT, Verdict.REQUIRE_APPROVAL, Verdict.BLOCK]


def test_rules_are_those_that_did_not_allow_strictest_first() -> None:
    outcomes = (
        RuleOutcome("calm", Verdict.ALLOW, fixed=True),
        RuleOutcome("asks", Verdict.REQUIRE_APPROVAL, fixed=False),
        RuleOutcome("stops", Verdict.BLOCK, fixed=False),
        RuleOutcome("stops-too", Verdict.BLOCK, fixed=False),
    )
    assert Decision(Verdict.BLOCK, outcomes, PUBLIC, PUBLIC).rules == ("stops", "stops-too", "asks")


CALL = Decision(
    Verdict.REQUIRE_APPROVAL,
    (RuleOutcome("shared", Verdict.ALLOW, fixed=True), RuleOutcome("asks", Verdict.REQUIRE_APPROVAL, fixed=True)),
    PUBLIC,
    parse("INTERNAL"),
    (Remedy.RESET, Remedy.APPROVER),
    ("email",),
    "digest",
)
OUTPUT = Decision(
    Verdict.BLOCK,
    (RuleOutcome("shared", Verdict.BLOCK, fixed=True), RuleOutcome("asks", Verdict.ALLOW, fixed=True)),
    PUBLIC,
    PUBLIC,
    (Remedy.OTHER_DESTINATION,),
    ("email", "phone"),
    "digest",
)


def test_two_crossings_give_the_stricter_verdict_with_the_rules_of_both() -> None:
    both = combined(CALL, OUTPUT)
    assert both.verdict is Verdict.BLOCK
    assert both.rules == ("shared", "asks")
    assert len(both.outcomes) == 2
    assert both.redact == ("email", "phone")
    assert both.label_after == PUBLIC
    assert combined(CALL, CALL) == CALL


def test_a_remedy_of_two_crossings_works_for_both() -> None:
    assert combined(CALL, OUTPUT).remedies == (Remedy.OTHER_DESTINATION,)
    assert combined(CALL, CALL).remedies == (Remedy.RESET, Remedy.APPROVER)
    blocked = Decision(Verdict.BLOCK, CALL.outcomes, PUBLIC, PUBLIC, (Remedy.RESET, Remedy.RECLASSIFY))
    assert combined(blocked, OUTPUT).remedies == ()
    assert combined(blocked, replace(OUTPUT, remedies=(Remedy.RECLASSIFY,))).remedies == (Remedy.RECLASSIFY,)
    assert combined(replace(blocked, remedies=(Remedy.RELEASE,)), OUTPUT).remedies == (Remedy.RELEASE,)
    quiet = Decision(Verdict.ALLOW, (), PUBLIC, PUBLIC)
    assert combined(quiet, blocked).remedies == (Remedy.RESET, Remedy.RECLASSIFY)


def test_the_stricter_result_of_a_rule_that_is_log_only_counts() -> None:
    asks, refuses = (LoggedOutcome("watched", verdict) for verdict in (Verdict.REQUIRE_APPROVAL, Verdict.BLOCK))
    first = Decision(Verdict.ALLOW, (), PUBLIC, PUBLIC, would=(asks,))
    assert combined(first, replace(first, would=(refuses,))).would == (refuses,)
