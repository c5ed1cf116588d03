"""Reading a model's Markdown: what it becomes, that nothing vanishes, and that hostile text costs no more than any."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.markdown import LONGEST, Leaf, Shape, Span, clean, linked, parsed, unlinked, words
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
    assert parsed("[![a](http://b.c)](http://d.e)")[0].spans == (Span("a", link="http://d.e"),)


def test_nothing_visible_is_nothing() -> None:
    assert parsed("") == parsed(" \n\n") == parsed("```\n\n```") == parsed("&nbsp;") == parsed("\x00\u202e") == ()


def test_controls_and_half_pairs_do_not_get_through() -> None:
    assert clean("a\x1b[31m\u202eb\r\nc\rd\ud800\te") == "a[31mb\nc\nd\ufffd\te"
    assert texts("a&#x202e;b `c`") == ["ab c"]


def test_a_very_long_text_is_not_parsed() -> None:
    (leaf,) = parsed("*a* " * LONGEST)
    assert leaf == Leaf(Shape.TEXT, (Span("*a* " * LONGEST),))


@pytest.mark.parametrize(
    "text",
    [
        *("http://a.b", "ftp://a", "www.a", "a.com", "a@b", "mailto:a", "tel:1", "slack://x", "1.2.3.4", "xn--a"),
        *("(see a.co/c)", "README.md", "HTTP://A", "münchen.de", "javascript:x"),
    ],
)
def test_what_a_client_might_link_is_told(text: str) -> None:
    assert any(address for _, address in words(text))


@pytest.mark.parametrize("text", ["", "plain", "3.14", "10:30", "and/or", "end. Next", "e.g. this", "@here", "v1.2"])
def test_what_no_client_links_is_not(text: str) -> None:
    assert not any(address for _, address in words(text))


@given(st.text())
def test_words_lose_nothing(text: str) -> None:
    assert "".join(word for word, _ in words(text)) == text


def test_links_are_made_of_web_addresses_alone() -> None:
    spans = linked((Span("see https://a.b/c). or a.b "), Span("x", link="javascript:y"), Span("https://d", code=True)))
    assert list(spans) == [
        Span("see "),
        Span("https://a.b/c", link="https://a.b/c"),
        Span("). or a.b "),
        Span("x"),
        Span(" ("),
        Span("javascript:y", code=True),
        Span(")"),
        Span("https://d", code=True),
    ]
    assert list(linked((Span("http://bücher.de"),))) == [Span("http://bücher.de")]


def test_a_label_that_is_another_address_tells_the_target() -> None:
    assert list(linked((Span("bank.com", link="https://evil.com"),))) == [
        Span("bank.com", link="https://evil.com"),
        Span(" (https://evil.com)", link="https://evil.com"),
    ]
    assert list(linked((Span("label", link="https://a.b"),))) == [Span("label", link="https://a.b")]


def test_without_links_every_address_is_code() -> None:
    assert list(unlinked((Span("go a.bc now"), Span("x", link="http://c.d"), Span("http://e", link="http://e")))) == [
        Span("go "),
        Span("a.bc", code=True),
        Span(" now"),
        Span("x"),
        Span(" ("),
        Span("http://c.d", code=True),
        Span(")"),
        Span("http://e", code=True),
    ]


@given(st.text(alphabet="ab *_~#>-\n\t😀漢é<!"))
def test_no_letter_of_the_input_vanishes(markdown: str) -> None:
    shown = "".join(leaf.text for leaf in parsed(markdown))
    assert [char for char in shown if char.isalpha()] == [char for char in markdown if char.isalpha()]


@pytest.mark.parametrize("bit", REPEATED)
def test_hostile_text_takes_steps_in_proportion(bit: str) -> None:
    short, long = (steps(lambda size=size: parsed(bit * (size // len(bit)))) for size in (600, 1_200))
    assert long <= 2.4 * short + 2_000


@pytest.mark.parametrize("write", [nested_lists, ticks])
def test_nesting_is_bounded(write: Callable[[int], str]) -> None:
    short, long = write(15), write(30)
    assert steps(lambda: parsed(long)) <= 1.5 * len(long) / len(short) * steps(lambda: parsed(short))
