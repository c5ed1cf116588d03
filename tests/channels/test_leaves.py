"""The links among what was read: which words a client might make one of, and where each leads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.leaves import Span, linked, unlinked, words


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
