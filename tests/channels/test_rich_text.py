"""What a model's Markdown becomes: nothing vanishes, hostile text costs no more than any, links lead where they say.

`views` has all that the renderers of every platform show, and what other readers would make of it.
"""

import html
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from channels.rich_text import LONGEST, Leaf, Shape, Span, clean, linked, parsed, unlinked, views, words
from channels.slack.render import render as slack
from channels.telegram.render import render as telegram
from policy.redaction.folding import folded
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


MARKS = (
    *("*", "**", "_", "__", "~~", "`", "``", "\n```\n", "\n```py\n", "[", "](", "](http://a.b/c)", "](http://a.b 't')"),
    *("![", "<", ">", "<http://a.b>", "\n> ", "\n- ", "\n1. ", "\n  - ", "\n    ", "|", "\n|-|-|\n", "\n", "\n\n", " "),
    *("\\", "\\*", "#", "\n# ", "&amp;", "&#49;", "&#x2a;", "&nbsp;", "<b>", "</b>", "<!-- x -->", "[^1]", "\n---\n"),
    *("\n===\n", "\n-\n", "  \n", "\u200b", "\u00ad", "\u202e", "http://a.b", "\t", "      ", "www.a.b", "@all", "/x"),
)
MARKDOWN = st.lists(
    st.sampled_from(MARKS) | st.integers(0, 10**6).map(lambda number: f"w{number}w") | st.text(max_size=2), max_size=30
).map("".join)
LEAD = re.compile(r"^(?:\s*(?:•|\d+\.|>))*\s*", re.MULTILINE)


def bare(text: str, source: str) -> str:
    """Return a text without what platforms lay it out with, in one form, and without the addresses behind labels."""
    text = LEAD.sub("", folded(text.replace("———", "")).replace("`", "").replace("♯", "#"))
    text = "".join(text.split())
    for link in sorted({span.link for leaf in parsed(source) for span in leaf.spans if span.link}, key=len):
        text = text.replace("".join(folded(f"({link})").replace("`", "").split()), "")
    return text


def seen(source: str) -> list[str]:
    """Return the texts that a decision is made on, in the same form."""
    languages = "".join(bare(leaf.language, source) for leaf in parsed(source))
    return [bare(view, source).removesuffix(languages) for view in (source, *views(source))]


def blocks(node: Any) -> str:  # noqa: ANN401 - JSON
    inner: list[Any] = node.get("elements", [])
    if not inner:
        return str(node["text"])
    return ("\n" if any("elements" in one for one in inner) else "").join(map(blocks, inner))


@settings(deadline=None)
@given(MARKDOWN, st.booleans())
@example(source="4111**1111**1111&#49;111", links=True)
@example(source="a\n-", links=True)
def test_what_telegram_shows_is_what_is_decided_on(source: str, links: bool) -> None:  # noqa: FBT001 - Hypothesis passes it
    parts = telegram(source, links=links).parts
    assume(len(parts) == 1)
    assert bare(parts[0].text, source) in seen(source)
    assert bare(parts[0].plain, source) in seen(source)


@settings(deadline=None)
@given(MARKDOWN, st.booleans())
@example(source="4111**1111**1111&#49;111", links=True)
def test_what_slack_shows_is_what_is_decided_on(source: str, links: bool) -> None:  # noqa: FBT001 - as above
    parts = slack(source, links=links).parts
    assume(len(parts) == 1)
    assert bare("\n".join(map(blocks, parts[0].blocks)), source) in seen(source)
    assert bare(html.unescape(parts[0].text), source) in seen(source)


@given(st.text(st.sampled_from("ab1 -.:,;()\n\t\u00a0+/=\r") | st.characters(), max_size=30))
@example(source="-\x1f")
@example(source="\ud800")
def test_a_text_without_marks_is_shown_as_it_is_written(source: str) -> None:
    if not views(source):
        plain = "".join(leaf.text for leaf in parsed(source))
        assert "".join(folded(plain).split()) == "".join(folded(clean(source)).split())


def test_views_of_a_text_are_few_and_none_is_the_text_itself() -> None:
    assert views("plain, as it is: 1.5 (or so)\nand more") == ()
    assert views("a **b**") == ("a b",)
    assert views("a [b](http://c.d/%31) e") == ("a b e", "a b (http://c.d/%31) e\nhttp://c.d/1")
    assert views("```py\na_b `c`\n```") == ("a_b `c`\npy", "a_b c\npy")
    assert views("a \\*b\\* <!-- c\nd --> <b>e</b>[^1] _f_ g_h") == (
        "a *b* <!-- c\nd --> <b>e</b>[^1] f g_h",
        "a b e f g_h",
    )
    assert views("|a|b|\n|-|-|\n|c|long d|") == ("a | b\n--+-------\nc | long d", "a | b\nc | long d")
    assert views("**b** " * 20_000) == ("b " * 20_000,)


def test_a_longer_text_than_is_read_is_seen_as_it_is_written() -> None:
    assert len(source := "4111**1111** " * 6_000) > LONGEST
    assert views(source) == ("41111111 " * 6_000,)


@pytest.mark.parametrize("part", [*REPEATED, "<!--", "<!-- -", "[^", "</a ", "*~`", "_a_", "- "])
def test_what_vanishes_is_found_in_linear_time(part: str) -> None:
    seconds: list[float] = []
    for size in (LONGEST + 100, 8 * LONGEST):
        began = time.process_time()
        views(part * (size // len(part) + 1))
        seconds.append(time.process_time() - began)
    # eight times the text in at most sixteen times the processor time
    assert seconds[1] < 16 * seconds[0] + 0.5
