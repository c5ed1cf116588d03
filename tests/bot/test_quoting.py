"""Which web addresses count as given by somebody else than the model."""

import pytest

from bot import events
from bot.quoting import addresses
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, DIRTY, standing

URL = "https://example.com/a?b=c"


def heard(text: str) -> frozenset[str]:
    return addresses([events.user_message(standing(), "owner", text, PUBLIC)], PUBLIC)


@pytest.mark.parametrize(
    "text",
    [
        URL,
        f"see {URL}.",
        f"[a]({URL})",
        f"[a]({URL})[b](https://example.com/b)",
        f"({URL}), and",
        f"<{URL}>",
        f'"{URL}"',
        f"*{URL}*",
        f"`{URL}`",
        f"a\n{URL}\nb",
    ],
)
def test_an_address_counts_where_it_stands_whole(text: str) -> None:
    assert URL in heard(text)


@pytest.mark.parametrize("text", ["", "example.com", f"{URL}&d=e", f"{URL}x", "https://example.com/a?b=", "ftp://a.b/"])
def test_a_beginning_does_not_count(text: str) -> None:
    assert URL not in heard(text)


def test_an_address_with_parentheses_counts_whole() -> None:
    assert "https://example.com/a_(b)" in heard("see https://example.com/a_(b)")


def result(tool: str, label: Label = DIRTY, outcome: str = "ok") -> frozenset[str]:
    return addresses([events.tool_result(standing(), "c1", tool, URL, outcome, label)], PUBLIC)


def test_a_fetched_page_counts_and_other_untrusted_results_do_not() -> None:
    assert result("web_fetch") == {URL}
    assert result("read_file") == frozenset()
    assert result("web_fetch", outcome="denied") == frozenset()
    assert result("web_fetch", outcome="failed") == frozenset()


def test_a_trusted_result_counts_only_while_nothing_untrusted_was_read() -> None:
    assert result("current_time", CONFIDENTIAL) == {URL}
    told = events.tool_result(standing(), "c1", "message", URL, "ok", PUBLIC)
    assert addresses([told], DIRTY) == frozenset()
    page = events.tool_result(standing(), "c2", "read_file", "a page", "ok", DIRTY)
    assert addresses([page, told], PUBLIC) == frozenset()
    assert addresses([told, page], PUBLIC) == {URL}


def test_what_a_person_types_counts_always_and_what_others_wrote_does_not() -> None:
    assert addresses([events.user_message(standing(), "owner", URL, PUBLIC)], DIRTY) == {URL}
    assert addresses([events.user_message(standing(), "owner", URL, DIRTY)], PUBLIC) == frozenset()


def test_another_sessions_words_count_only_while_nothing_untrusted_was_read() -> None:
    said = events.user_message(standing(), "owner", URL, PUBLIC, {"as": "result"})
    assert addresses([said], PUBLIC) == {URL}
    assert addresses([said], DIRTY) == frozenset()


def test_a_models_own_words_never_count() -> None:
    assert addresses([events.agent_message(standing(), URL, said=True)], PUBLIC) == frozenset()


def test_what_was_not_admitted_does_not_count() -> None:
    assert addresses([events.error(standing(), "r1", URL)], PUBLIC) == frozenset()
