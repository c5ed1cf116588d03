"""Reading a model's Markdown: what it becomes, that nothing vanishes, and that hostile text costs no more than any."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.leaves import Leaf, Shape, Span, clean
from channels.markdown import LONGEST, parsed
from tests.channels.hostile import REPEATED, nested_lists, ticks
from tests.channels.steps import steps


def texts(markdown: str) -> list[str]:
    return [leaf.text for leaf in parsed(markdown)]


def test_looks_are_spans() -> None:
    (leaf,) = parsed("a *b* **c** ~~d~~ `e` [f](http://g.h) ***i***")
    assert leaf == Leaf(
        Shape.TEXT,
        (
            Span("a "),
            Span("b", italic=True),
            Span(" "),
            Span("c", bold=True),
            Span(" "),
            Span("d", strike=True),
            Span(" "),
            Span("e", code=True),
            Span(" "),
            Span("f", link="http://g.h"),
            Span(" "),
            Span("i", bold=True, italic=True),
        ),
    )


def test_lists_keep_their_numbers_and_depth() -> None:
    leaves = parsed("3. a\n\n   more\n4. b\n   - c\n   -\n> - d")
    assert [(leaf.text, leaf.depth, leaf.bullet, leaf.number, leaf.quoted) for leaf in leaves] == [
        ("a", 1, False, 3, False),
        ("more", 1, False, None, False),
        ("b", 1, False, 4, False),
        ("c", 2, True, None, False),
        ("", 2, True, None, False),
        ("d", 1, True, None, True),
    ]


def test_headings_rules_and_code_have_their_shapes() -> None:
    leaves = parsed("# a\n\nb\n\n---\n```py\nc\n\n```\n\n    d\n")
    assert [(leaf.shape, leaf.text, leaf.language) for leaf in leaves] == [
        (Shape.HEADING, "a", ""),
        (Shape.TEXT, "b", ""),
        (Shape.RULE, "", ""),
        (Shape.CODE, "c", "py"),
        (Shape.CODE, "d", ""),
    ]


def test_a_table_is_code_with_aligned_columns() -> None:
    (leaf,) = parsed("| a | long |\n|---|---|\n| `b` | 漢 [x](http://y.z) |\n")
    assert leaf.text == "a | long\n--+------------------\nb | 漢 x (http://y.z)"


def test_a_table_that_alignment_would_inflate_is_not_aligned() -> None:
    wide = "w" * 3_000
    (leaf,) = parsed(f"| a | b |\n|---|---|\n| {wide} | c |\n" + "| d | e |\n" * 50)
    assert leaf.text.startswith(f"a | b\n{wide} | c\nd | e")


def test_what_markdown_would_hide_is_text() -> None:
    assert texts("[a]: http://b.c 'd'\n\n<b>e</b> <!-- f -->") == ["[a]: http://b.c 'd'", "<b>e</b> <!-- f -->"]
    assert parsed("![](http://a.b)")[0].spans == (Span("http://a.b", link="http://a.b"),)
    assert parsed("![a](http://b.c)")[0].spans == (Span("a", link="http://b.c"),)
    assert texts("[![a](http://b.c)](http://d.e) [![](http://f.g)](http://h.i)") == ["a (http://b.c) http://f.g"]
    assert parsed("[](http://a.b)[ *c* ](http://d.e 'f')")[0].spans == (
        Span("http://a.b", link="http://a.b"),
        Span(" ", link="http://d.e"),
        Span("c", italic=True, link="http://d.e"),
        Span(" ", link="http://d.e"),
        Span(" “f”"),
    )


def test_what_stands_behind_a_fence_is_text_unless_it_names_a_language() -> None:
    leaves = parsed("```two words\na\n```\n~~~b\n~~~")
    assert [(leaf.shape, leaf.text, leaf.near) for leaf in leaves] == [
        (Shape.TEXT, "two words", False),
        (Shape.CODE, "a", True),
        (Shape.TEXT, "b", False),
    ]


@pytest.mark.parametrize("source", ["|a|\n|-|\n|b|c|", "|a" * 200 + "|\n" + "|-" * 200 + "|\n" + "|b|\n" * 200])
def test_a_table_that_would_lose_something_or_grow_is_shown_as_it_was_written(source: str) -> None:
    assert "\n".join(texts(f"**before**\n\n{source}")) == f"before\n{source.strip()}"


def test_what_is_nested_too_deeply_is_shown_as_it_was_written() -> None:
    assert texts("> " * 60 + "deep") == ["> " * 60 + "deep"]


def test_leaves_tell_their_quotation_and_whether_they_stand_close() -> None:
    leaves = parsed("a\n\n> q\n> > r\n\n> s\n\n- b\n- - c\n\n1. d\n\n   e")
    assert [(leaf.text, leaf.quote, leaf.near) for leaf in leaves] == [
        *(("a", 0, False), ("q", 1, False), ("r", 1, False), ("s", 2, False)),
        *(("b", 0, False), ("", 0, True), ("c", 0, True), ("d", 0, False), ("e", 0, False)),
    ]


def test_nothing_visible_is_nothing() -> None:
    assert parsed("") == parsed(" \n\n") == parsed("```\n\n```") == parsed("&nbsp;") == parsed("\x00\u202e") == ()


def test_controls_and_half_pairs_do_not_get_through() -> None:
    assert clean("a\x1b[31m\u202eb\r\nc\rd\ud800\te") == "a[31mb\nc\nd\ufffd\te"
    assert texts("a&#x202e;b `c`") == ["ab c"]
    assert clean("1\u20652\ufff03\U000e00004\U000e01f05\U000e0fff") == "12345"
    assert clean("\U0001f3f4\U000e0067\U000e007f \ufff9") == "\U0001f3f4\U000e0067\U000e007f \ufff9"


def test_a_very_long_text_is_not_parsed() -> None:
    (leaf,) = parsed("*a* " * LONGEST)
    assert leaf == Leaf(Shape.TEXT, (Span("*a* " * LONGEST),))


@given(st.text(alphabet="ab *_~#>-\n\t😀漢é<!"))
def test_no_letter_of_the_input_vanishes(markdown: str) -> None:
    shown = "".join(leaf.text for leaf in parsed(markdown))
    assert [char for char in shown if char.isalpha()] == [char for char in markdown if char.isalpha()]


@given(
    st.lists(st.one_of(st.integers(0, 999).map(lambda number: f"w{number}w"), st.sampled_from(REPEATED)), max_size=40)
)
def test_every_written_word_is_read(bits: list[str]) -> None:
    leaves = parsed("".join(bits))
    read = "".join(leaf.text + leaf.language + "".join(span.link for span in leaf.spans) for leaf in leaves)
    assert all(bit in read.replace("\n", "") for bit in bits if bit.startswith("w") and bit.endswith("w"))


@pytest.mark.parametrize("bit", REPEATED)
def test_hostile_text_takes_steps_in_proportion(bit: str) -> None:
    short, long = (steps(lambda size=size: parsed(bit * (size // len(bit)))) for size in (600, 1_200))
    assert long <= 2.4 * short + 2_000


@pytest.mark.parametrize("write", [nested_lists, ticks])
def test_nesting_is_bounded(write: Callable[[int], str]) -> None:
    short, long = write(15), write(30)
    assert steps(lambda: parsed(long)) <= 1.5 * len(long) / len(short) * steps(lambda: parsed(short))
