"""Checks find the real part of a candidate, and a spent budget counts everything as real."""

import pytest

from policy.redaction.checks import CHECKS, CheckBudget, load
from policy.redaction.patterns import Check

CANDIDATES: list[tuple[Check, str, list[tuple[int, int]]]] = [
    ("card", "4111 1111 1111 1111 12", [(0, 19)]),
    ("card", "4111 1111 1111 1111 5555 5555 5555 4444", [(0, 19), (20, 39)]),
    ("card", "4111 1111 1111 1112", []),
    ("iban", "DE89 3704 0044 0532 0130 00 and", [(0, 27)]),
    ("iban", "DE89 3704 0044 0532 0130 01", []),
    ("iban", "DE89 3704", []),
    ("ssn", "536-90-4399", [(0, 11)]),
    ("ssn", "666-90-4399", []),
    ("phone", "+1 202 555 0143 77", [(0, 15)]),
    ("phone", "+999 1234567", []),
    ("phone", "00442079460958", [(0, 14)]),
    ("number", "202_555_0143", [(0, 12)]),
    ("number", "200_300_4000", []),
    ("assignment", "'quoted'", [(1, 7)]),
    ("assignment", "hunter2", [(0, 7)]),
    ("assignment", "short", []),
    ("assignment", "'***'", []),
]


@pytest.mark.parametrize("check, text, real", CANDIDATES)
def test_the_real_part(check: Check, text: str, real: list[tuple[int, int]]) -> None:
    assert CHECKS[check](text, CheckBudget(0)) == real


@pytest.mark.parametrize(
    "check, text",
    [
        ("card", "4111 1111 1111 1112"),
        ("iban", "DE89 3704 0044 0532 0130 01"),
        ("ssn", "666-90-4399"),
        ("phone", "+999 1234567"),
        ("number", "200_300_4000"),
    ],
)
def test_what_cannot_be_paid_for_counts_as_real(check: Check, text: str) -> None:
    spent = CheckBudget(0)
    assert spent.pays(4096)
    assert not spent.pays(1)
    assert CHECKS[check](text, spent) == [(0, len(text))]


def test_a_budget_grows_with_the_text() -> None:
    assert CheckBudget(80).pays(4106)
    assert not CheckBudget(80).pays(4107)


def test_loading_changes_nothing() -> None:
    load()
    assert CHECKS["card"]("4111111111111111", CheckBudget(0)) == [(0, 16)]
