"""What people see of a text: all that the renderers of every platform show, and what other readers would make of it."""

import html
import re
import time
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from channels.leaves import clean
from channels.markdown import LONGEST, parsed
from channels.shown import views
from channels.slack.render import render as slack
from channels.telegram.render import render as telegram
from policy.redaction.folding import folded
from tests.channels.hostile import REPEATED

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
