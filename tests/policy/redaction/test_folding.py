"""The one form of a text that patterns look at, and where its characters come from."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.redaction.folding import folded, places

IGNORABLE = (
    *((0xAD, 0xAE), (0x34F, 0x350), (0x61C, 0x61D), (0x115F, 0x1161), (0x17B4, 0x17B6), (0x180B, 0x1810)),
    *((0x200B, 0x2010), (0x202A, 0x202F), (0x2060, 0x2070), (0x3164, 0x3165), (0xFE00, 0xFE10), (0xFEFF, 0xFF00)),
    *((0xFFA0, 0xFFA1), (0xFFF0, 0xFFF9), (0x1BCA0, 0x1BCA4), (0x1D173, 0x1D17B), (0xE0000, 0xE1000)),
)
"""Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt: from, and up to but not with."""


@pytest.mark.parametrize(
    "text, form",
    [
        ("plain text, 12.5%\n\tand more", "plain text, 12.5%\n\tand more"),
        ("a\u200bb\u00adc\u2060d\ufeffe\x00f\x7f", "abcdef"),
        ("1\ufe0f\u20e3 4\u0336", "1 4"),
        ("\uff14\u0661\u06f2\u0969\u2460\U0001d7d9\u00b2", "4123112"),
        ("\uff21\U0001d400\u210c\uff20\uff3f\u2026", "AAH@_..."),
        ("1\u20652\ufff03\ufffc4\uffff5", "12345"),
        ("1\u04892\u1abe3\ua6704\u1ab05\u1dc46\u0483", "123456"),
        ("a\u00a0b\u3000c\u2009d", "a b c d"),
        ("a\u2011b\u2013c\u2212d\u203fe", "a-b-c-d_e"),
        ("a\r\nb\x0bc\u2028d\x85e", "a\n\nb\nc\nd\ne"),
        ("a\u00b7b\u2044c\u2216d\u29f5e", "a.b/c\\d\\e"),
        ("\ud800 \u00e9\u0411\u4e2d\u00bd\u2603", "\ud800 \u00e9\u0411\u4e2d\u00bd\u2603"),
    ],
)
def test_the_form(text: str, form: str) -> None:
    assert folded(text) == form


def test_nothing_that_does_not_show_stands_between_two_digits() -> None:
    codes = [code for begin, end in IGNORABLE for code in range(begin, end)]
    marks = [code for code in range(sys.maxunicode) if unicodedata.category(chr(code)) in {"Mn", "Me"}]
    assert len(marks) > 1_500
    assert {chr(code) for code in codes + marks if folded(f"1{chr(code)}2") != "12"} == set()


@given(st.text())
def test_folding_twice_changes_nothing_and_every_character_has_a_place(text: str) -> None:
    form = folded(text)
    assert folded(form) == form
    assert "".join(folded(text[place]) for place in dict.fromkeys(places(text))) == form
    assert len(list(places(text))) == len(form)
