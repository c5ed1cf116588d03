# ruff: noqa: E501 - messages are compared as they are
"""A condition is understood completely or refused by name; what is passed on means what was read."""

import math

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.conditions.expressions import BOOL, DOUBLE, INT, LEVEL, LONGEST, STRING, TEXTS, check
from policy.errors import ExpressionError

VARIABLES = {"yes": BOOL, "role": STRING, "n": INT, "x": DOUBLE, "level": LEVEL, "names": TEXTS}
VALUES: dict[str, object] = {"yes": True, "role": "own\"er'\n", "n": 7, "x": 2.5, "level": 2, "names": ["hr", "acme"]}


def value(text: str) -> object:
    """Evaluate a condition as the library reads what was passed on."""
    return cel.evaluate(check(text, VARIABLES).text, VALUES)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("yes", True),
        ("!yes", False),
        ("!!yes", True),
        ("yes && false || yes", True),
        ("yes || true && false", True),
        ("!yes == false", True),
        ("n == 7 && n != 8 && n < 8 && n <= 7 && n > 6 && n >= 7", True),
        ("n - 2 - 3 == 2", True),
        ("n - (2 - 3) == 8", True),
        ("2 + n * 2 == 16", True),
        ("n / 2 == 3 && n % 2 == 1 && -n == -7 && --n == 7 && - -7 == n", True),
        ("-(n + 1) == -8", True),
        ("x * 2 == 5", True),
        ("2 < x && x > -1", True),
        ("x in [2.5, 1.0 * 3.0]", True),
        ("x in [2.5]", True),
        ("x == 2.5e0", True),
        ("level == CONFIDENTIAL && level > INTERNAL && level in [PUBLIC, CONFIDENTIAL]", True),
        ("RESTRICTED > level", True),
        ("role in ['a', \"own\\\"er'\\n\",]", True),
        ("role in []", False),
        ('"hr" in names && size(names) == 2 && size([1, 2]) == 2', True),
        ("names == ['hr', 'acme']", True),
        ('role.startsWith("own") && role.endsWith("\\n") && role.contains("\\"")', True),
        ('role < "z"', True),
        ('role == "\\u0041\\t\\r\\\\"', False),
        ("yes ? n == 7 : false", True),
        ("(yes ? n : 8) == 7", True),
        ("(yes ? x : 8) == 2.5 && (yes ? 8 : x) == 8", True),
        ("yes ? yes ? true : false : false", True),
        ("'é😀' == \"é😀\" || yes", True),
        ("yes\n  &&\tn == 7", True),
    ],
)
def test_what_is_read_is_what_is_evaluated(text: str, expected: object) -> None:
    assert value(text) is expected


@pytest.mark.parametrize(
    "text, problem",
    [
        ("rol == 'a'", "at character 1 of the condition: unknown variable `rol`, did you mean `role`?"),
        (
            "yes && level >= CONFIDENTAL",
            "at character 17 of the condition: unknown variable `CONFIDENTAL`, did you mean `CONFIDENTIAL`?",
        ),
        ("other", "at character 1 of the condition: that is elsewhere"),
        ("role == 1", "at character 10 of the condition: `==` joins a text with a whole number, which never fit"),
        ("level == 2", "at character 11 of the condition: `==` joins a level with a whole number, which never fit"),
        (
            "n == x",
            "at character 7 of the condition: `==` joins a whole number with a number with a fraction, which never fit",
        ),
        (
            "n == n + x",
            "at character 11 of the condition: `+` joins a whole number with a number with a fraction, which never fit",
        ),
        ("role + 'a' == 'b'", "at character 12 of the condition: `+` does not calculate with a text"),
        ("x % 2.0 == 0.0", "at character 9 of the condition: `%` does not calculate with a number with a fraction"),
        ("level + level == level", "at character 15 of the condition: `+` does not calculate with a level"),
        ("yes < true", "at character 11 of the condition: `<` does not order a boolean"),
        ("names < names", "at character 14 of the condition: `<` does not order a list of text"),
        (
            "n in names",
            "at character 11 of the condition: `in` looks for a whole number in a list of text, which never fits",
        ),
        ("n in role", "at character 10 of the condition: `in` looks for a whole number in a text, which never fits"),
        ("n < 2 < 3", "at character 7 of the condition: comparisons cannot follow one another, join them with `&&`"),
        ("n && yes", "at character 9 of the condition: `&&` takes a boolean, not a whole number"),
        ("yes || role", "at character 12 of the condition: `||` takes a boolean, not a text"),
        ("!n", "at character 3 of the condition: `!` takes a boolean, not a whole number"),
        ("-role == role", "at character 7 of the condition: `-` does not calculate with a text"),
        ("n ? yes : yes", "at character 5 of the condition: `?` takes a boolean, not a whole number"),
        ("yes ? n : role", "at character 15 of the condition: `:` joins a whole number with a text, which never fit"),
        ("yes ? true", "at character 11 of the condition: `:` is missing"),
        (
            "role.matches('a')",
            "at character 6 of the condition: `matches` is not available, name a pattern under `patterns` and use `has_<its name>`",
        ),
        (
            "matches(role, 'a')",
            "at character 1 of the condition: `matches` is not available, name a pattern under `patterns` and use `has_<its name>`",
        ),
        (
            "role.startWith('a')",
            "at character 6 of the condition: unknown function `startWith`, did you mean `startsWith`?",
        ),
        (
            "names.exists(n, yes)",
            "at character 7 of the condition: unknown function `exists`, known are `contains`, `endsWith`, `size`, `startsWith`",
        ),
        ("names.contains('hr')", "at character 16 of the condition: `contains` takes a text, not a list of text"),
        ("role.contains(n)", "at character 16 of the condition: `contains` takes a text, not a whole number"),
        ("role.x", "at character 6 of the condition: `.x` is a field, and variables have none"),
        ("role.'x'", "at character 6 of the condition: a name is expected after `.`"),
        (
            "names[0] == 'hr'",
            "at character 6 of the condition: nothing can be taken out of a list by its place, use `in`",
        ),
        ("size(role) > 1", "at character 12 of the condition: `size` counts the entries of a list, not a text"),
        ("size(names", "at character 11 of the condition: `)` is missing"),
        ("n in [1, 'a']", "at character 13 of the condition: a list of a whole number cannot hold a text"),
        ("names in [['a']]", "at character 16 of the condition: a list holds no list of text"),
        ("n in [1 2]", "at character 9 of the condition: `,` is expected, not `2`"),
        ("n in [1 'a']", "at character 9 of the condition: `,` is expected, not `'a'`"),
        ("n in [1 :]", "at character 9 of the condition: `,` is expected, not `:`"),
        ("n in [1", "at character 8 of the condition: `]` is missing"),
        ("n in [", "at character 7 of the condition: the condition ends too early"),
        ("(yes", "at character 5 of the condition: `)` is missing"),
        ("(yes]", "at character 5 of the condition: `)` is expected, not `]`"),
        ("yes yes", "at character 5 of the condition: `yes` is not expected here"),
        ("yes)", "at character 4 of the condition: `)` is not expected here"),
        ("&& yes", "at character 1 of the condition: `&&` is not expected here"),
        ("in == yes", "at character 1 of the condition: `in` is not expected here"),
        ("yes == null", "at character 8 of the condition: `null` is not expected here"),
        ("", "at character 1 of the condition: the condition ends too early"),
        ("yes & yes", "at character 5 of the condition: `& yes` cannot be read"),
        ("role == 'a", "at character 9 of the condition: `'a` cannot be read"),
        ("role == rol'a'", "at character 9 of the condition: unknown variable `rol`, did you mean `role`?"),
        ("x == 1e3", "at character 6 of the condition: `1e3` cannot be read"),
        (
            "role == '\\q'",
            "at character 9 of the condition: `\\q` is no escape, known are `\\n`, `\\t`, `\\r`, `\\u0000` and a sign itself",
        ),
        ("role == '\\ud800'", "at character 9 of the condition: half a surrogate pair is no character"),
        ("n == 9223372036854775808", "at character 6 of the condition: `9223372036854775808` is too large"),
        (f"x == 1{'0' * 400}.0", "at character 6 of the condition: `10000000000000000000` is too large"),
        ("n == 0x10", "at character 6 of the condition: `0x10` cannot be read"),
        ("n == 10u", "at character 6 of the condition: `10u` cannot be read"),
        ("n", "a condition must be a boolean, this is a whole number"),
        ("1 < 2", "this condition names no variable, so it is always the same, leave `when` out"),
        ("yes" + " " * LONGEST, f"a condition of {LONGEST + 3} characters is longer than {LONGEST}, split the rule"),
        ("(" * 40 + "yes" + ")" * 40, "at character 31 of the condition: nested deeper than 30, split the rule"),
        ("!" * 40 + "yes", "at character 31 of the condition: nested deeper than 30, split the rule"),
        ("n" + " + n" * 40 + " == 1", "at character 127 of the condition: nested deeper than 30, split the rule"),
    ],
)
def test_everything_else_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        check(text, VARIABLES, {"other": "that is elsewhere", "role": "this one is here"})
    assert str(refused.value) == problem


def test_says_which_variables_it_names() -> None:
    assert check("yes && n > 1 && yes", VARIABLES).variables == (("n", INT), ("yes", BOOL))
    assert str(check(" yes ", VARIABLES)) == "yes"


def test_a_long_row_of_one_operator_is_no_depth() -> None:
    assert value(" && ".join(["yes"] * 200)) is True


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_arrives_as_it_was_meant(text: str) -> None:
    written = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    checked = check(f"role == '{written}'", VARIABLES)
    assert cel.evaluate(checked.text, {"role": text}) is True
    assert cel.evaluate(checked.text, {"role": f"{text}."}) is False


@given(st.floats(0, allow_nan=False, allow_infinity=False))
def test_any_number_arrives_as_it_was_meant(number: float) -> None:
    written = f"{number:.400f}".rstrip("0")
    checked = check(f"x == {written}{'0' if written.endswith('.') else ''}", VARIABLES)
    assert cel.evaluate(checked.text, {"x": number}) is True
    assert not math.isnan(number)


_TRUTHS = st.deferred(
    lambda: (
        st.sampled_from(("yes", "true", "false", "(n > 3)", "(level < RESTRICTED)", "('hr' in names)", "(x != 2)"))
        | st.builds("({} {} {})".format, _TRUTHS, st.sampled_from(("&&", "||", "==")), _TRUTHS)
        | st.builds("!({})".format, _TRUTHS)
        | st.builds("({} ? {} : {})".format, _TRUTHS, _TRUTHS, _TRUTHS)
    )
)


@given(_TRUTHS)
def test_whatever_is_accepted_evaluates_as_the_library_reads_the_original(text: str) -> None:
    text = f"yes && {text}"
    try:
        checked = check(text, VARIABLES)
    except ExpressionError as error:
        assert "nested deeper" in str(error) or "longer than" in str(error)  # noqa: PT017 - both ends are right
        return
    original = text.replace("RESTRICTED", "3").replace("x != 2", "x != 2.0")
    assert cel.evaluate(checked.text, VALUES) is cel.evaluate(original, VALUES)
