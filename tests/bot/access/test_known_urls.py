"""Which web addresses count as given by somebody else than the model."""

from collections.abc import Sequence

import pytest

from bot.access.known_urls import LONGEST, MOST, newest
from bot.history import event_log
from bot.history.folds import Folds
from bot.sessions.log.event_types import ToolOutcome, ToolResult
from bot.sessions.log.events import NewEvent
from bot.sessions.messages import Endorsed, Origin, OriginKind
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, DIRTY, standing

URL = "https://example.com/a?b=c"


def addresses(told: Sequence[NewEvent], before: Label = PUBLIC, asker: str = "owner") -> frozenset[str]:
    """Return the addresses that count for an asker, where something with the label `before` was read first."""
    read = event_log.tool_result(standing(), ToolResult("c0", "read_file", "x", ToolOutcome.OK), before)
    return Folds().plus_new(enumerate([read, *told], 1)).addresses(asker)


def typed(told: Sequence[NewEvent], asker: str) -> tuple[str, ...]:
    return Folds().plus_new(enumerate(told, 1)).typed.get(asker, ())


def heard(text: str) -> frozenset[str]:
    return addresses([event_log.user_message(standing(), "owner", text, label=PUBLIC)], PUBLIC)


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


@pytest.mark.parametrize(
    "text",
    ["www.example.com/a?b=c", "see www.example.com/a?b=c.", "(www.example.com/a?b=c)", "<www.example.com/a?b=c>"],
)
def test_a_name_that_begins_with_www_counts_as_typed_with_https(text: str) -> None:
    assert "https://www.example.com/a?b=c" in heard(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "http://www.example.com",
            "ftp://www.example.com",
            "a.www.example.com",
            "wwww.example.com",
            "me@www.example.com",
        ),
        *("https://a.b/www.example.com", "https://a.b/?c=www.example.com", "//www.example.com", "example.com"),
        *("www.example.com/a", "www.example.comx", "www.example.co"),
    ],
)
def test_no_other_name_is_given_a_scheme(text: str) -> None:
    assert "https://www.example.com" not in heard(text)


def test_the_name_stays_as_it_was_typed_and_gets_no_other_scheme() -> None:
    assert {one for one in heard("WWW.Example.com:8443/A") if "ample" in one} == {"https://WWW.Example.com:8443/A"}


def test_a_name_with_www_counts_from_people_alone() -> None:
    name = "www.example.com"
    page = event_log.tool_result(standing(), ToolResult("c1", "web_fetch", name, ToolOutcome.OK), DIRTY)
    told = event_log.tool_result(standing(), ToolResult("c1", "current_time", name, ToolOutcome.OK), PUBLIC)
    session = event_log.user_message(standing(), "owner", name, label=PUBLIC, origin=Origin(OriginKind.RESULT))
    forwarded = event_log.user_message(standing(), "owner", name, label=DIRTY)
    for event in (page, told, session, forwarded):
        assert addresses([event], PUBLIC) == frozenset()


def result(tool: str, label: Label = DIRTY, outcome: ToolOutcome = ToolOutcome.OK) -> frozenset[str]:
    return addresses([event_log.tool_result(standing(), ToolResult("c1", tool, URL, outcome), label)], PUBLIC)


def test_a_fetched_page_counts_and_other_untrusted_results_do_not() -> None:
    assert result("web_fetch") == {URL}
    assert result("read_file") == frozenset()
    assert result("web_fetch", outcome=ToolOutcome.DENIED) == frozenset()
    assert result("web_fetch", outcome=ToolOutcome.FAILED) == frozenset()


def test_a_trusted_result_counts_only_while_nothing_untrusted_was_read() -> None:
    assert result("current_time", CONFIDENTIAL) == {URL}
    told = event_log.tool_result(standing(), ToolResult("c1", "message", URL, ToolOutcome.OK), PUBLIC)
    assert addresses([told], DIRTY) == frozenset()
    page = event_log.tool_result(standing(), ToolResult("c2", "read_file", "a page", ToolOutcome.OK), DIRTY)
    assert addresses([page, told], PUBLIC) == frozenset()
    assert addresses([told, page], PUBLIC) == {URL}


def test_what_a_person_types_counts_always_and_what_others_wrote_does_not() -> None:
    assert addresses([event_log.user_message(standing(), "owner", URL, label=PUBLIC)], DIRTY) == {URL}
    assert addresses([event_log.user_message(standing(), "owner", URL, label=DIRTY)], PUBLIC) == frozenset()


def test_another_sessions_words_count_only_while_nothing_untrusted_was_read() -> None:
    said = event_log.user_message(standing(), "owner", URL, label=PUBLIC, origin=Origin(OriginKind.RESULT))
    assert addresses([said], PUBLIC) == {URL}
    assert addresses([said], DIRTY) == frozenset()


def test_what_comes_with_a_bounded_answer_or_behind_it_does_not_count() -> None:
    """A model wrote the values that a page chose from, and may have what it chose repeated."""
    chose = (Endorsed("s1", URL, "r", 1000),)
    chosen = ToolResult("c1", "inspect", f'{{"u": "{URL}"}}', ToolOutcome.OK, chose)
    answer = event_log.tool_result(standing(), chosen, PUBLIC)
    assert addresses([answer], PUBLIC) == frozenset()
    read = event_log.tool_result(standing(), ToolResult("c2", "read_file", URL, ToolOutcome.OK), PUBLIC)
    assert addresses([read, answer], PUBLIC) == {URL}
    assert addresses([answer, read], PUBLIC) == frozenset()
    origin = Origin(OriginKind.TASK, endorsed=chose)
    task = event_log.user_message(standing(), "owner", URL, label=PUBLIC, origin=origin)
    assert addresses([task], PUBLIC) == frozenset()
    assert addresses([answer, event_log.user_message(standing(), "owner", URL, label=PUBLIC)], PUBLIC) == {URL}


def test_a_models_own_words_never_count() -> None:
    assert addresses([event_log.agent_message(standing(), URL, said=True)], PUBLIC) == frozenset()


def test_what_was_not_admitted_does_not_count() -> None:
    assert addresses([event_log.error(standing(), "r1", URL)], PUBLIC) == frozenset()


TASK = Origin(OriginKind.TASK, "s0", typed=(URL,))


def test_what_the_person_typed_travels_with_a_task_and_the_tasks_text_does_not() -> None:
    task = event_log.user_message(standing(), "owner", "see https://evil.example", label=DIRTY, origin=TASK)
    assert addresses([task], PUBLIC) == {URL}
    # And on, to what this session spawns.
    assert typed([task], "owner") == (URL,)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(event_log.user_message(standing(), "owner", URL, label=DIRTY), id="a forward"),
        pytest.param(event_log.user_message(standing(), "mel", URL, label=PUBLIC), id="somebody else"),
        pytest.param(
            event_log.user_message(standing(), "owner", URL, label=PUBLIC, origin=Origin(OriginKind.MESSAGE, "s0")),
            id="a session",
        ),
        pytest.param(
            event_log.tool_result(standing(), ToolResult("c1", "web_fetch", URL, ToolOutcome.OK), PUBLIC), id="a page"
        ),
        pytest.param(event_log.user_message(standing(), "owner", URL + "x" * LONGEST, label=PUBLIC), id="a long one"),
    ],
)
def test_what_the_asker_did_not_type_does_not_travel(event: NewEvent) -> None:
    assert typed([event], "owner") == ()


def test_the_newest_addresses_travel_each_once() -> None:
    said = [event_log.user_message(standing(), "owner", f"{URL}{number}", label=PUBLIC) for number in range(MOST + 1)]
    found = typed([*said, said[-1]], "owner")
    assert found == tuple(f"{URL}{number}" for number in range(1, MOST + 1))
    assert newest((*found, "https://b.example")) == (*found[1:], "https://b.example")
