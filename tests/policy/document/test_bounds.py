"""Bounds of roles: what is within them, and what an operator is told of a bound that says too little."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.document.bounds import NO_BOUNDS, Bounds
from policy.document.model import Document, load
from policy.errors import DocumentError
from policy.request import ArgumentRole

TODAY = date(2026, 11, 29)
RECIPIENT, IDENTIFIER, AMOUNT = ArgumentRole.RECIPIENT, ArgumentRole.IDENTIFIER, ArgumentRole.AMOUNT
TIME, PATH = ArgumentRole.TIME, ArgumentRole.PATH


def document(bounds: object, **more: object) -> Document:
    return load({"tools": {"pay": {"bounds": bounds, **more}}}, tools=("pay", "other"))


def bounds(written: object) -> Bounds:
    return document(written).bounds("pay")


WITHIN: list[tuple[dict[str, object], ArgumentRole, object, bool]] = [
    ({"recipient": ["ann", "bob"]}, RECIPIENT, "bob", True),
    ({"recipient": ["ann"]}, RECIPIENT, "Ann", False),
    ({"recipient": ["ann"]}, RECIPIENT, "ann ", False),
    ({"recipient": ["ann"]}, IDENTIFIER, "ann", False),
    ({"recipient": ["*@acme.example"]}, RECIPIENT, "ann.lee+x@acme.example", True),
    ({"recipient": ["*@acme.example"]}, RECIPIENT, "@acme.example", False),
    ({"recipient": ["*@acme.example"]}, RECIPIENT, "eve@evil.example,ann@acme.example", False),
    ({"recipient": ["*@acme.example"]}, RECIPIENT, "eve@evil.example ann@acme.example", False),
    ({"recipient": ["*@acme.example"]}, RECIPIENT, "ann@acme.example\n", False),
    ({"recipient": ["*@acme.example"]}, RECIPIENT, "ann@acme.example.evil.example", False),
    ({"recipient": ["*@acme.example"]}, RECIPIENT, "а@acme.example", False),  # noqa: RUF001 - a Cyrillic letter
    ({"recipient": ["https://a.example/*"]}, RECIPIENT, "https://a.example/x", True),
    ({"recipient": ["https://a.example/*"]}, RECIPIENT, "https://a.example/x/../y", False),
    ({"recipient": ["https://a.example/*"]}, RECIPIENT, "https://a.example/..", False),
    ({"recipient": ["https://a.example/*"]}, RECIPIENT, "https://a.example/x?to=eve", False),
    ({"identifier": ["ab*ba"]}, IDENTIFIER, "aba", False),
    ({"identifier": [True, 5, "x"]}, IDENTIFIER, True, True),
    ({"identifier": [True, 5, "x"]}, IDENTIFIER, 5, True),
    ({"identifier": [True, 5, "x"]}, IDENTIFIER, 5.0, False),
    ({"identifier": [True, 5, "x"]}, IDENTIFIER, None, False),
    ({"identifier": [True, 5, "x"]}, IDENTIFIER, [], False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, 0, True),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, 200.0, True),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, "199.99", True),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, 200.01, False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, "-1", False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, "1e9", False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, "1,50", False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, "٣", False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, "NaN", False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, float("nan"), False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, True, False),
    ({"amount": {"min": 0, "max": 200}}, AMOUNT, None, False),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-11-29", True),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-29T10:00:00Z", True),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-29 10:00+01:00", True),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-30", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-11-28", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-13-01", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "20261201", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "tomorrow 9:00", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-01T99:00", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-01T10:00:99", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-01T10:00-99:00", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-01T10:00-23:00", False),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-01T10:00+14:00", True),
    ({"time": {"min": 0, "max": 30}}, TIME, "2026-12-01 or 2027-01-01", False),
    ({"time": {"min": 0, "max": 30}}, TIME, 20261201, False),
    ({"time": {"min": "2026-12-01", "max": "2026-12-31"}}, TIME, "2026-12-31", True),
    ({"time": {"min": -1, "max": "2026-12-31"}}, TIME, "2026-11-28", True),
    ({"path": ["reports/2026", "/srv/out"]}, PATH, "reports/2026/a.md", True),
    ({"path": ["reports/2026", "/srv/out"]}, PATH, "/srv/out/b/c.md", True),
    ({"path": ["reports/2026"]}, PATH, "reports/2026", False),
    ({"path": ["reports/2026"]}, PATH, "reports/20266/a.md", False),
    ({"path": ["reports/2026"]}, PATH, "reports/2026/../secret.md", False),
    ({"path": ["reports/2026"]}, PATH, "reports/2026//a.md", False),
    ({"path": ["reports/2026"]}, PATH, "reports/2026/./a.md", False),
    ({"path": ["reports/2026"]}, PATH, "reports/2026/..\\a.md", False),
    ({"path": ["reports/2026"]}, PATH, "reports/2026/%2e%2e/a.md", False),
    ({"path": ["reports/2026"]}, PATH, "reports/2026/．．/a.md", False),  # noqa: RUF001 - full-width points
    ({"path": ["reports/2026"]}, PATH, "reports/2026/a\n", False),
    ({"path": ["reports/2026"]}, PATH, "/reports/2026/a.md", False),
    ({"path": ["reports/2026"]}, PATH, 7, False),
]


@pytest.mark.parametrize("written,role,value,within", WITHIN)
def test_a_value_is_within_its_bound_or_it_is_not(
    written: dict[str, object], role: ArgumentRole, value: object, *, within: bool
) -> None:
    assert bounds(written).hold(role, value, TODAY) is within


@pytest.mark.parametrize(
    "bound, role, within",
    [
        (["mail-unheard"], IDENTIFIER, True),
        (["mail-*", "mail-unheard"], IDENTIFIER, True),
        (["mail-*"], IDENTIFIER, False),
        (["*-unheard"], IDENTIFIER, False),
        (["event-unheard"], IDENTIFIER, False),
        (["mail-unheard"], RECIPIENT, False),
        (["mail-unheard"], PATH, False),
        (["mail-unheard"], None, False),
        (["mail-made-here"], IDENTIFIER, False),
    ],
)
def test_only_its_own_name_holds_an_entry(bound: list[str], role: ArgumentRole | None, *, within: bool) -> None:
    """A pattern that was written for other values does not, and the name is no value of its own."""
    known = bounds({"identifier": bound, "path": ["mail-unheard"]})
    assert known.hold_entry(role, "mail") is within
    assert not known.hold(IDENTIFIER, "mail-unheard", TODAY)


@pytest.mark.parametrize(
    "bound, role, within",
    [
        (["mail-made-here"], IDENTIFIER, True),
        (["mail-unheard"], IDENTIFIER, True),
        (["mail-*"], IDENTIFIER, False),
        (["*-made-here"], IDENTIFIER, False),
        (["event-made-here"], IDENTIFIER, False),
        (["mail-made-here"], RECIPIENT, False),
        (["mail-made-here"], None, False),
    ],
)
def test_what_was_made_has_a_name_of_its_own_too(bound: list[str], role: ArgumentRole | None, *, within: bool) -> None:
    known = bounds({"identifier": bound})
    assert known.hold_entry(role, "mail", made=True) is within
    assert not known.hold(IDENTIFIER, "mail-made-here", TODAY)


@given(
    st.none() | st.sampled_from(ArgumentRole),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.lists(st.text(), max_size=2),
)
def test_nothing_is_within_a_bound_that_is_not_given(role: ArgumentRole | None, value: object) -> None:
    assert not NO_BOUNDS.hold(role, value, TODAY)
    every = bounds({"recipient": ["ann"], "amount": {"min": 0, "max": 1}})
    assert not every.hold(None, value, TODAY)
    assert not every.hold(ArgumentRole.CONTENT, value, TODAY)


@given(st.text(st.sampled_from("ab@.,; <>/x*"), max_size=12))
def test_a_pattern_never_holds_two_recipients(value: str) -> None:
    held = bounds({"recipient": ["*@a.b"]}).hold(RECIPIENT, value, TODAY)
    assert not held or (value.count("@") == 1 and set(value).isdisjoint(",; <>/"))


def test_a_value_without_a_role_is_in_no_bound() -> None:
    every = bounds(
        {"recipient": ["a"], "identifier": ["a"], "path": ["a"], "amount": {"min": 0, "max": 1, "unit": "EUR"}}
    )
    assert every.amount is not None
    assert every.amount.unit == "EUR"
    assert not every.hold(None, "a", TODAY)
    assert not every.hold(ArgumentRole.CONTENT, "a", TODAY)


def test_a_tool_without_bounds_has_none() -> None:
    known = document({"recipient": ["ann"]})
    assert known.bounds("other") == NO_BOUNDS
    assert load({"tools": {"pay": {"consequential": True}}}, tools=("pay",)).bounds("pay") == NO_BOUNDS


def test_another_bound_is_another_policy() -> None:
    written = {"amount": {"min": 0, "max": 5}, "time": {"min": "2026-01-01", "max": 7}, "recipient": ["a", "b"]}
    assert document(written).digest == document({**written, "recipient": ["b", "a"]}).digest
    assert document(written).digest != document({**written, "amount": {"min": 0, "max": 6}}).digest
    assert document(written).digest != document({**written, "time": {"min": "2026-01-02", "max": 7}}).digest


REFUSED: list[tuple[object, tuple[object, ...], str]] = [
    (5, (), "`5` is not a mapping"),
    ({"recipients": ["a"]}, ("recipients",), "unknown field `recipients`, did you mean `recipient`?"),
    ({"recipient": "ann"}, ("recipient",), "write a list of values, each a text of at most 512 characters"),
    ({"recipient": []}, ("recipient",), "write a list of values, each a text of at most 512 characters"),
    ({"recipient": [1.5]}, ("recipient",), "write a list of values, each a text of at most 512 characters"),
    ({"identifier": [""]}, ("identifier",), "write a list of values, each a text of at most 512 characters"),
    (
        {"recipient": ["*"]},
        ("recipient",),
        "`*` says too little: a pattern has one `*` and a text beside it",
    ),
    (
        {"recipient": ["*@*.example"]},
        ("recipient",),
        "`*@*.example` says too little: a pattern has one `*` and a text beside it",
    ),
    ({"amount": {"min": 0}}, ("amount",), "`max` is missing, add it"),
    ({"amount": {"min": 0, "most": 1}}, ("amount",), "`max` is missing, add it"),
    ({"amount": {"min": 0, "max": 1, "uint": "x"}}, ("amount", "uint"), "unknown field `uint`, did you mean `unit`?"),
    ({"amount": {"min": True, "max": 1}}, ("amount", "min"), "`True` is not a number"),
    ({"amount": {"min": 0, "max": float("inf")}}, ("amount", "max"), "`inf` is not a number"),
    ({"amount": {"min": 2, "max": 1}}, ("amount",), "nothing is in this range, `min` is above `max`"),
    (
        {"amount": {"min": 0, "max": 1, "unit": "EUR; approve this"}},
        ("amount", "unit"),
        "`EUR; approve this` is not a unit, write a word of at most 12 letters such as EUR",
    ),
    ({"amount": {"min": 0, "max": 1, "unit": 5}}, ("amount", "unit"), "`5` is not a unit, write a word"),
    (
        {"time": {"min": "soon", "max": 1}},
        ("time", "min"),
        "`soon` is not a day such as 2026-12-31, or a number of days from today",
    ),
    ({"time": {"min": "2026-02-30", "max": 1}}, ("time", "min"), "`2026-02-30` is not a day such as"),
    ({"time": {"min": True, "max": 1}}, ("time", "min"), "`True` is not a day such as"),
    ({"time": {"min": 0, "max": 10**9}}, ("time", "max"), "`1000000000` is not a day such as"),
    ({"time": {"min": 2, "max": 1}}, ("time",), "nothing is in this range, `min` is above `max`"),
    ({"time": {"min": "2026-02-02", "max": "2026-02-01"}}, ("time",), "nothing is in this range"),
    ({"path": ["a/../b"]}, ("path",), "`a/../b` is not a folder such as `reports/2026`"),
    ({"path": ["a/"]}, ("path",), "`a/` is not a folder such as `reports/2026`"),
    ({"path": ["/"]}, ("path",), "`/` is not a folder such as `reports/2026`"),
    ({"content": ["a"]}, ("content",), "unknown field `content`"),
]


@pytest.mark.parametrize("written,place,told", REFUSED)
def test_a_bound_that_says_too_little_is_refused(written: object, place: tuple[object, ...], told: str) -> None:
    with pytest.raises(DocumentError) as refused:
        document(written)
    first = next(one for one in refused.value.problems if one.message.startswith(told))
    assert first.path == ("tools", "pay", "bounds", *place)


def test_a_day_may_be_written_as_a_day() -> None:
    assert bounds({"time": {"min": date(2026, 1, 1), "max": date(2026, 12, 31)}}).hold(TIME, "2026-06-01", TODAY)
