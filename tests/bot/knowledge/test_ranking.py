"""What is found in several indexes in one order: the same whatever the order it comes in, and no score compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.knowledge.index import phrases
from bot.knowledge.ranking import Candidate, fused, overlap_with

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.integers(0, 99).map(lambda number: f"mem_{number:02}"),
        place=st.integers(1, 30),
        learned_at=st.integers(0, 5),
        overlap=st.integers(0, 3),
        uses=st.integers(0, 3),
    ),
    unique_by=lambda one: one.id,
    max_size=12,
)


def test_nothing_is_in_no_order() -> None:
    assert fused(()) == ()


def test_of_what_fits_best_in_two_indexes_the_newest_comes_first() -> None:
    found = [Candidate("a1", 1, 10), Candidate("a2", 9, 9), Candidate("b1", 1, 20), Candidate("b2", 9, 8)]
    assert fused(found) == ("b1", "a1", "a2", "b2")


def test_what_is_new_does_not_go_before_what_fits_far_better() -> None:
    old, new = Candidate("old", 1, 0), Candidate("new", 20, 9)
    between = [Candidate(f"m{place}", place, 0) for place in range(2, 20)]
    assert fused([old, *between, new])[0] == "old"


def test_the_best_match_of_an_index_that_fits_little_does_not_go_first() -> None:
    fits = [Candidate(f"a{place}", place, 5, overlap=100) for place in range(1, 4)]
    assert fused([*fits, Candidate("b1", 1, 9, overlap=4)]) == ("a1", "a2", "a3", "b1")
    assert fused([*fits, Candidate("b1", 1, 5, overlap=101)])[0] == "b1"


@pytest.mark.parametrize(
    "query, text, expected",
    [
        ("", "tea", 0),
        ("tea", "", 0),
        ("Tea tea", "TEA", 9),
        ("deploying", "It was deployed", 81),
        ("the tea", "the room", 9),
        ("密码是什么", "数据库的密码", 9),
        ("key", "kex", 0),
        ("meeting", "our meetings", 49),
        # How a long word begins tells nothing of it.
        ("akiaiosf", "AKIAIOSFODNN7QWERTYU", 0),
        ("tea", "steal", 0),
    ],
)
def test_overlap_is_how_much_of_a_query_is_in_a_text(query: str, text: str, expected: int) -> None:
    assert overlap_with(phrases(query))(text) == expected


def test_what_was_recalled_more_goes_before_its_equal() -> None:
    assert fused([Candidate("a", 1, 5), Candidate("b", 1, 5, uses=1)]) == ("b", "a")


def test_of_what_is_worth_the_same_the_newest_goes_first() -> None:
    """Each is first and second in two respects."""
    old, new = Candidate("a", 1, 1, overlap=1, uses=1), Candidate("b", 2, 2, overlap=2, uses=0)
    assert fused([old, new]) == ("b", "a")


def test_equal_ones_are_in_the_order_of_their_ids() -> None:
    assert fused(Candidate(name, 3, 5, 2, 2) for name in "cab") == ("a", "b", "c")


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_before(found: list[Candidate], chance: object) -> None:
    shuffled = list(found)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fused(shuffled) == fused(found)
    assert sorted(fused(found)) == sorted(one.id for one in found)


@given(CANDIDATES)
def test_what_is_better_in_all_respects_goes_first(found: list[Candidate]) -> None:
    order = fused(found)
    for one in found:
        for other in found:
            ours, theirs = (
                (-one.place, one.learned_at, one.overlap, one.uses),
                (-other.place, other.learned_at, other.overlap, other.uses),
            )
            if ours != theirs and all(mine >= yours for mine, yours in zip(ours, theirs, strict=True)):
                assert order.index(one.id) < order.index(other.id)
