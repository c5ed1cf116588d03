"""The one form of a text that patterns look at, and where its characters come from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.folding import folded, places


@pytest.mark.parametrize(
    "text, form",
    [
        ("plain text, 12.5%\n\tand more", "plain text, 12.5%\n\tand more"),
        ("a\u200bb\u00adc\u2060d\ufeffe\x00f\x7f", "abcdef"),
        ("1\ufe0f\u20e3 4\u0336", "1 4"),
        ("\uff14\u0661\u06f2\u0969\u2460\U0001d7d9\u00b2", "4123112"),
        ("\uff21\U0001d400\u210c\uff20\uff3f\u2026", "AAH@_..."),
        ("a\u00a0b\u3000c\u2009d", "a b c d"),
        ("a\u2011b\u2013c\u2212d\u203fe", "a-b-c-d_e"),
        ("a\r\nb\x0bc\u2028d\x85e", "a\n\nb\nc\nd\ne"),
        ("a\u00b7b\u2044c", "a.b/c"),
        ("\ud800 \u00e9\u0411\u4e2d\u00bd\u2603", "\ud800 \u00e9\u0411\u4e2d\u00bd\u2603"),
    ],
)
def test_the_form(text: str, form: str) -> None:
    assert folded(text) == form


@given(st.text())
def test_folding_twice_changes_nothing_and_every_character_has_a_place(text: str) -> None:
    form = folded(text)
    assert folded(form) == form
    assert "".join(folded(text[place]) for place in dict.fromkeys(places(text))) == form
    assert len(list(places(text))) == len(form)
