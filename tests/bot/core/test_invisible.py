"""What does not show is told from what does, and a piece of code shows all of a text on every channel."""

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.core.invisible import fenced, in_code, one_line, spelled, unseen
from channels.rich_text import Shape, parsed

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


_MARKS = st.text(st.sampled_from("ab1 *_`~[]()<>!&#;\\\n|-\u202e\u0430"), min_size=1, max_size=40)
"""Texts of the characters that Markdown reads as marks, with a few others."""


@example("`ann` *.md *")
@example("a&#64;b")
@example("[ann](https://mallory.example)")
@example("``` \n```\nApproved")
@given(_MARKS)
def test_code_shows_every_character_of_a_text(text: str) -> None:
    """Whatever a model writes: each channel draws its answer from these leaves."""
    quoted = f'"{text}"'
    (line,) = parsed(f"- recipient {in_code(quoted)} at `PUBLIC`")
    assert [(one.text, one.code) for one in line.spans] == [
        ("recipient ", False),
        (one_line(quoted), True),
        (" at ", False),
        ("PUBLIC", True),
    ]
    before, code, after = parsed(f"before\n{fenced(quoted)}\nafter")
    assert (before.text, code.shape, after.text) == ("before", Shape.CODE, "after")
    assert code.text == spelled(quoted)


@pytest.mark.parametrize("text", ["`", "`a", "a`", "``", " a "])
def test_code_of_one_line_may_begin_and_end_with_anything(text: str) -> None:
    (line,) = parsed(f"x {in_code(text)}")
    assert line.spans[-1].text.strip() == text.strip()
    assert line.spans[-1].code
