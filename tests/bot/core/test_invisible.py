"""What does not show is told from what does."""

import sys
import unicodedata

import pytest

from bot.core.invisible import spelled, unseen

_WIDTHLESS = (
    "\u034f",
    "\u115f",
    "\u1160",
    "\u17b4",
    "\u17b5",
    "\u180b",
    "\u180f",
    "\u2800",
    "\u3164",
    "\uffa0",
    "\ufffc",
)


@pytest.mark.parametrize("char", [*_WIDTHLESS, "\u200b", "\u2060", "\u202e", "\xa0", "\xad", "\t", "\n", "\U000e0041"])
def test_a_character_without_a_shape_is_unseen(char: str) -> None:
    assert unseen(char)


def test_every_variation_selector_is_unseen() -> None:
    named = {char for char in map(chr, range(sys.maxunicode + 1)) if "VARIATION SELECTOR" in unicodedata.name(char, "")}
    assert len(named) >= 260
    assert all(map(unseen, named))


@pytest.mark.parametrize("char", ["a", "é", "ß", "漢", "🙂", " ", "ـ", "अ"])
def test_a_letter_is_seen(char: str) -> None:
    assert not unseen(char)


def test_what_does_not_show_is_spelled() -> None:
    assert spelled("pay\u200b \U000e0041\u202eß\n漢") == "pay\\u200b \\U000e0041\\u202eß\n漢"
