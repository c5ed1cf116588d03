"""A decision is not a boolean."""

import pytest

from policy.decision import Decision, Outcome, Verdict
from policy.labels import PUBLIC


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_has_no_truth_value(verdict: Verdict) -> None:
    with pytest.raises(TypeError):
        bool(verdict)


def test_the_strictest_wins() -> None:
    assert max(Verdict) is Verdict.BLOCK
    assert sorted(Verdict) == [Verdict.ALLOW, Verdict.REDACT, Verdict.REQUIRE_APPROVAL, Verdict.BLOCK]


def test_rules_are_those_that_did_not_allow_strictest_first() -> None:
    outcomes = (
        Outcome("calm", Verdict.ALLOW, fixed=True),
        Outcome("asks", Verdict.REQUIRE_APPROVAL, fixed=False),
        Outcome("stops", Verdict.BLOCK, fixed=False),
        Outcome("stops-too", Verdict.BLOCK, fixed=False),
    )
    assert Decision(Verdict.BLOCK, outcomes, PUBLIC, PUBLIC).rules == ("stops", "stops-too", "asks")
