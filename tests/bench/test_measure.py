"""What a benchmark tells of a machine that others use, and when it stops measuring."""

from random import Random

import pytest

from tests.bench.measure import Rounds, Row, at_most, ratio_at_least, ratio_at_most


@pytest.mark.parametrize(
    "row,met",
    [
        pytest.param(Row("x", 2, "s", 1, ratio_at_most(2)), True, id="a ratio that is just met"),
        pytest.param(Row("x", 2.1, "s", 1, ratio_at_most(2)), False, id="one that is not"),
        pytest.param(Row("x", 2, "s", 4, ratio_at_least(0.6)), False, id="one from below"),
        pytest.param(Row("x", 0, "s", 4, ratio_at_least(0.6)), False, id="nothing at all"),
        pytest.param(Row("x", 3, "s", None, at_most(3)), True, id="a figure"),
        pytest.param(Row("x", 3.1, "s", 1, at_most(3, machine=1.5)), False, id="the machine it was stated for"),
        pytest.param(Row("x", 6, "s", 3, at_most(3, machine=1.5)), True, id="a machine half as fast"),
        pytest.param(Row("x", 6.1, "s", 3, at_most(3, machine=1.5)), False, id="too slow on that as well"),
    ],
)
def test_a_goal_is_judged_by_the_reference_of_its_run(row: Row, *, met: bool) -> None:
    assert row.met is met


def measured(rounds: Rounds, random: Random, spread: float) -> int:
    """Measure on a machine that becomes slower and slower, and return how many rounds it took."""
    count, slow = 0, 1.0
    while rounds.wanted:
        rounds.add((2 * slow * random.uniform(1, 1 + spread), slow))
        slow *= 1.01
        count += 1
    return count


def test_each_round_is_compared_with_itself() -> None:
    rounds = Rounds(40)
    assert measured(rounds, Random(1), 0.01) == 40  # noqa: S311 - repeatable
    ours, theirs = rounds.medians()
    assert ours / theirs == pytest.approx(2.01, abs=0.01)


def test_rounds_are_repeated_until_the_ratio_is_settled_and_not_for_ever() -> None:
    rounds = Rounds(40)
    assert measured(rounds, Random(1), 0.3) in {80, 120, 160, 200}  # noqa: S311 - repeatable
    assert measured(Rounds(40), Random(1), 9) == 240  # noqa: S311 - repeatable
    assert measured(Rounds(40, longest=0), Random(1), 9) == 40  # noqa: S311 - repeatable
