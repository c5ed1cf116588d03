"""Conditions and schedules are read as they are documented, or refused in one sentence."""

from collections.abc import Mapping

import pytest

from policy.conditions.expressions import DOUBLE, INT, STRING, TEXTS
from policy.document.reading import KnownNames
from policy.document.reading_rules import schedule, when
from policy.request import Hook

ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "pay": {"amount": INT, "price": DOUBLE, "to": TEXTS, "how": "dict", "per-day": INT},
    "post": {"text": STRING, "amount": STRING},
}
KNOWN = KnownNames(
    frozenset(ARGUMENTS), ARGUMENTS, frozenset(), frozenset(), frozenset({"us-ssn", "own_one"}), frozenset()
)


def read(text: object, hook: Hook | None = Hook.PRE_TOOL_CALL, tools: tuple[str, ...] | None = ()) -> str:
    return str(when(text, KNOWN, hook, tools))


def refused(text: object, hook: Hook = Hook.PRE_TOOL_CALL, tools: tuple[str, ...] = ()) -> str:
    with pytest.raises(ValueError, match=" ") as error:
        when(text, KNOWN, hook, tools)
    return str(error.value)


def test_a_condition_is_read_over_the_variables_of_its_hook() -> None:
    assert read("has_us_ssn && has_own_one") == "(has_us_ssn && has_own_one)"
    assert read("arg_amount > 3 && given_amount", tools=("pay",)) == "((arg_amount > 3) && given_amount)"
    assert read("arg_price > 3", tools=("p*",)) == "(arg_price > 3.0)"
    assert read("'a' in arg_to", tools=("*",)) == '("a" in arg_to)'
    assert read("arg_amount == ''", tools=("post",)) == '(arg_amount == "")'


@pytest.mark.parametrize("hook, tools", [(None, ()), (Hook.PRE_OUTPUT, None), (None, None)])
def test_is_not_blamed_for_what_else_could_not_be_read(hook: Hook | None, tools: tuple[str, ...] | None) -> None:
    assert when("no such thing", KNOWN, hook, tools) is None
    assert when(None, KNOWN, Hook.PRE_OUTPUT, ()) is None


@pytest.mark.parametrize(
    "text, hook, tools, problem",
    [
        (True, Hook.PRE_OUTPUT, (), "`True` is not a condition, write one in quotes"),
        ("has_us_sn", Hook.PRE_OUTPUT, (), "unknown variable `has_us_sn`, did you mean `has_us_ssn`?"),
        ("has_us_ssn", Hook.SESSION_RESET, (), "there is no content at hook `SESSION_RESET`"),
        (
            "destination_shared",
            Hook.PRE_TOOL_CALL,
            (),
            "`destination_shared` is not known at hook `PRE_TOOL_CALL`, it is at `PRE_OUTPUT`",
        ),
        ("arg_price > 3", Hook.PRE_TOOL_CALL, (), "`arg_price` is an argument of `pay`, name that tool under `tools`"),
        (
            "arg_price > 3",
            Hook.PRE_TOOL_CALL,
            ("post",),
            "`arg_price` is an argument of `pay`, name that tool under `tools`",
        ),
        (
            "arg_price > 3",
            Hook.PRE_OUTPUT,
            (),
            "`arg_price` is not known at hook `PRE_OUTPUT`, it is at `PRE_TOOL_CALL`",
        ),
        (
            "arg_amount > 3",
            Hook.PRE_TOOL_CALL,
            ("*",),
            "`arg_amount` is a text in one tool and a whole number in another, write a rule for each",
        ),
        (
            "arg_how == ''",
            Hook.PRE_TOOL_CALL,
            ("pay",),
            "`arg_how` cannot be looked at, it is neither text nor number nor list of texts",
        ),
        (
            "arg_per_day > 3",
            Hook.PRE_TOOL_CALL,
            ("pay",),
            "`per-day` of `pay` cannot be named in a condition, a pattern sees it",
        ),
        ("arg_text > 3", Hook.PRE_TOOL_CALL, ("post",), "`>` joins a text with a whole number, which never fit"),
    ],
)
def test_a_condition_over_anything_else_is_refused(
    text: object, hook: Hook, tools: tuple[str, ...], problem: str
) -> None:
    assert refused(text, hook, tools).endswith(problem)


@pytest.mark.parametrize(
    "fields, written",
    [
        ({"days": ["sat", "sun"], "zone": "UTC"}, "sat,sun 00:00-24:00 UTC"),
        (
            {"from": "18:00", "to": "08:30", "zone": "Europe/Berlin"},
            "mon,tue,wed,thu,fri,sat,sun 18:00-08:30 Europe/Berlin",
        ),
        ({"days": ["fri", "fri"], "from": "18:00", "zone": "America/New_York"}, "fri 18:00-24:00 America/New_York"),
        ({"to": "08:00", "zone": "UTC"}, "mon,tue,wed,thu,fri,sat,sun 00:00-08:00 UTC"),
    ],
)
def test_a_schedule_is_read(fields: Mapping[str, object], written: str) -> None:
    assert str(schedule(fields)) == written
    assert schedule(None) is None


@pytest.mark.parametrize(
    "fields, problem",
    [
        ("nights", "`nights` is not a schedule, give `days`, `from`, `to` and `zone`"),
        ({"form": "18:00", "zone": "UTC"}, "unknown field `form` in `schedule`, did you mean `from`?"),
        ({"from": "18:00"}, "a schedule needs a `zone`, such as `Europe/Berlin` or `UTC`"),
        ({"from": "18:00", "zone": "Europe/Berln"}, "unknown time zone `Europe/Berln`, did you mean `Europe/Berlin`?"),
        ({"from": "18:00", "zone": "here"}, "unknown time zone `here`"),
        ({"from": "18:00", "zone": "../UTC"}, "unknown time zone `../UTC`, did you mean `UTC`?"),
        ({"from": "18:00", "zone": None}, "unknown time zone `None`"),
        ({"from": "8:00", "zone": "UTC"}, "`8:00` is not a time of day, write one as `18:00`, in quotes"),
        ({"from": 480, "zone": "UTC"}, "`480` is not a time of day, write one as `18:00`, in quotes"),
        ({"to": "24:30", "zone": "UTC"}, "`24:30` is not a time of day, write one as `18:00`, in quotes"),
        ({"from": "24:00", "zone": "UTC"}, "a window begins before `24:00`, write `00:00` and the day after"),
        (
            {"from": "18:00", "to": "18:00", "zone": "UTC"},
            "from `18:00` to `18:00` is no time at all, leave both out for whole days",
        ),
        ({"zone": "UTC"}, "this schedule holds always, give `days` or `from` and `to`, or leave it out"),
        ({"days": [], "zone": "UTC"}, "`days` must be a list such as `[mon, tue]`"),
        ({"days": "mon", "zone": "UTC"}, "`days` must be a list such as `[mon, tue]`"),
        ({"days": ["tues"], "zone": "UTC"}, "unknown day `tues`, did you mean `tue`?"),
    ],
)
def test_a_schedule_that_says_something_else_is_refused(fields: object, problem: str) -> None:
    with pytest.raises(ValueError, match=" ") as error:
        schedule(fields)
    assert str(error.value) == problem
