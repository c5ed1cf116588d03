"""The form in which people are shown a call: nothing in it hides, and no two calls look the same."""

import json
import re

from hypothesis import example, given
from hypothesis import strategies as st

from bot.sessions.consents.released_calls import LONGEST, canonical, fits

_texts = st.text(st.sampled_from('ab \t\n`\\"u0\x7f\x00\u00e9\u0430\u202e\u200b\ud800\U0001f600'), max_size=12)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_calls = st.tuples(st.sampled_from(("web_fetch", "post")), st.dictionaries(_texts, _values, max_size=3))


@given(_calls)
@example(("post", {"text": "a  b"}))
@example(("post", {"text": "```\nsafe"}))
def test_it_is_plain_ascii_in_which_nothing_hides(call: tuple[str, dict[str, object]]) -> None:
    shown = canonical(*call)  # pyright: ignore[reportArgumentType] - JSON
    assert all(" " <= char <= "~" or char == "\n" for char in shown)
    assert "`" not in shown
    assert not re.search(r"\S {2,}", shown)
    assert json.loads(shown) == {"tool": call[0], "arguments": call[1]}


@given(_calls, _calls)
def test_different_calls_have_different_forms(
    one: tuple[str, dict[str, object]], two: tuple[str, dict[str, object]]
) -> None:
    same = canonical(*one) == canonical(*two)  # pyright: ignore[reportArgumentType] - JSON
    assert same == (json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True))


def test_the_order_of_names_does_not_count() -> None:
    assert canonical("post", {"a": 1, "b": 2}) == canonical("post", {"b": 2, "a": 1})


def test_a_call_fits_if_it_is_shown_in_one_message() -> None:
    room = LONGEST - len(canonical("post", {"text": ""}))
    assert fits("post", {"text": "x" * room})
    assert not fits("post", {"text": "x" * (room + 1)})
