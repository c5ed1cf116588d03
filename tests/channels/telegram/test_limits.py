import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.telegram import limits


@given(st.text())
def test_units_are_those_of_utf_16(text: str) -> None:
    expected = len(text.encode("utf-16-le")) // 2

    assert limits.units(text) == expected
    assert limits.offsets(text)[-1] == expected
    assert len(limits.offsets(text)) == len(text) + 1


def test_offsets_count_a_pair_as_two() -> None:
    assert limits.offsets("a😀b") == (0, 1, 3, 4)


@pytest.mark.parametrize(
    "given,cleaned",
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\x00b\x1f\x7f", "ab"),
        ("tab\tstays\nline", "tab\tstays\nline"),
        ("left\u202eright\u2066x", "leftrightx"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("1\u20652\ufff83\U000e01f0", "123"),
    ],
)
def test_clean_takes_out_what_telegram_takes_out(given: str, cleaned: str) -> None:
    assert limits.clean(given) == cleaned


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b", "\u00a0\u200d"])
def test_nothing_to_see(text: str) -> None:
    assert not limits.visible(text)


def test_something_to_see() -> None:
    assert limits.visible(" \n.")


@pytest.mark.parametrize(
    "text,end,expected",
    [
        ("one two", 7, 7),  # it all fits
        ("aaaaaaa\n\nbb\ncc dd", 14, 7),  # a paragraph before a line
        ("aa aa\nbb cc", 9, 5),  # a line before a word
        ("aaaaa bbbbb", 9, 5),  # a word
        ("a bbbbbbbbbbbbb", 10, 10),  # no gap in the second half
        ("aaa\n\nbbbbbbbbbbbb", 12, 12),  # a paragraph in the first half is too early
    ],
)
def test_cut_prefers_the_larger_gap(text: str, end: int, expected: int) -> None:
    assert limits.cut(text, 0, end) == expected


@pytest.mark.parametrize(
    "character",
    [
        "👨\u200d👩\u200d👧",  # joined
        "👍🏽",  # with a skin tone
        "e\u0301\u0323",  # with accents
        "❤\ufe0f",  # with a variation selector
        "🏴\U000e0067\U000e0062\U000e007f",  # a region's flag
    ],
)
def test_cut_keeps_a_character_whole(character: str) -> None:
    text = "x" * 20 + character + "y" * 20
    for end in range(20, 20 + len(character) + 1):
        assert limits.cut(text, 0, end) in {20, 20 + len(character)}


def test_cut_keeps_flags_whole() -> None:
    text = "🇩🇪" * 40

    assert all(limits.cut(text, 0, end) % 2 == 0 for end in range(2, 60))


def test_cut_gives_up_on_a_character_without_end() -> None:
    text = "a" + "\u0301" * 500

    assert limits.cut(text, 0, 300) == 300


@given(st.text(alphabet="ab \n\u0301\u200d🇩😀", min_size=2), st.data())
def test_cut_goes_forward(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))

    assert start < limits.cut(text, start, end) <= end
