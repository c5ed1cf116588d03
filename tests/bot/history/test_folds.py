"""What a log comes to is the same however it is read: at once, on from any event, and from what an event carries.

The definitions here are those over a whole log, written down apart from the program's: whose words command, who typed
an address, what is held and how many answers were heard are what the laws decide by.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from bot.access import known_urls
from bot.access.authors import authors
from bot.history import folds
from bot.history.event_log import endorsed_in, held_in
from bot.history.folds import Folds, Newest
from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import (
    AgentThinking,
    ApprovalResolved,
    ChatObserved,
    EventBody,
    HeldPart,
    ItemHeld,
    LogTruncated,
    MessageFile,
    SessionSummary,
    ToolOutcome,
    ToolResult,
    TurnCompleted,
    TurnStarted,
    UnknownEvent,
    UserMessage,
)
from bot.sessions.log.events import Event, EventType, Visibility
from bot.sessions.messages import Endorsed, Origin, OriginKind
from policy.labels import PUBLIC, Label, parse
from tests.events import bodies

PEOPLE = ("ann", "mel", "zoe")
LABELS = (PUBLIC, parse("PUBLIC~"), parse("INTERNAL"), parse("CONFIDENTIAL{hr}~"))
Each = TypeVar("Each")

URLS = tuple(f"https://example.com/{number}" for number in range(6))

Entry = tuple[EventBody, str, Label, bool, str]
"""What is drawn of an event: body, actor, label, whether it is admitted, and whether its turn is a new one."""


def some(each: st.SearchStrategy[Each]) -> st.SearchStrategy[tuple[Each, ...]]:
    """Return a few values."""
    return st.lists(each, max_size=2).map(tuple)


words = st.lists(st.sampled_from((*URLS, "hello", "www.example.com/w")), max_size=3).map(" ".join)
named = some(st.sampled_from(PEOPLE))
numbered = st.integers(0, 2).map(str)
answers = st.builds(Endorsed, numbered, numbered, numbered, st.sampled_from((1, 2)))
origins = st.builds(
    Origin,
    st.sampled_from((OriginKind.TASK, OriginKind.RESULT, OriginKind.MESSAGE)),
    st.just("s0"),
    typed=some(st.sampled_from(URLS)),
    endorsed=some(answers),
)
files = st.builds(MessageFile, st.just("f"), size=st.sampled_from((0, 1, 20)))
outcomes = st.sampled_from((ToolOutcome.OK, ToolOutcome.DENIED))

told: st.SearchStrategy[EventBody] = st.one_of(
    st.builds(UserMessage, words, st.none() | origins, named, some(files)),
    st.builds(ChatObserved, words, st.sampled_from(("1", "2", "3")), named),
    st.builds(ToolResult, st.just("c"), st.sampled_from(("web_fetch", "read_file")), words, outcomes, some(answers)),
    st.builds(
        ItemHeld,
        st.sampled_from(("h1", "h2")),
        words,
        st.just(PUBLIC),
        parts=st.sampled_from(((), (HeldPart("h1.1", "x"), HeldPart("mail-1-aaaa", '"a"', "mail")))),
    ),
    st.builds(ApprovalResolved, st.sampled_from(("a1", "a2")), st.just(ApprovalState.APPROVED)),
    st.builds(SessionSummary, words, st.just(1), authors=named),
    st.builds(UnknownEvent, st.just("chat.reaction"), named.map(lambda people: {"text": "x", "authors": [*people]})),
    st.sampled_from((AgentThinking({}), TurnStarted(1))),
)
drawn = st.tuples(
    told,
    st.sampled_from(PEOPLE),
    st.sampled_from(LABELS),
    st.booleans(),
    st.sampled_from(("", "t", "t", "u")),
)


def written(entries: Iterable[Entry]) -> tuple[Event, ...]:
    """Return drawn entries as a log whose turns follow one another."""
    made, turn = list[Event](), 0
    for seq, (body, actor, label, admitted, of) in enumerate(entries, 1):
        turn += of == "u"
        name = f"t{turn}" if of else ""
        made.append(Event(seq, seq, 1, actor, label, body, Visibility.USER, admitted, name))
    return tuple(made)


logs = st.lists(drawn, max_size=12).map(written)


def whole_addresses(log: Sequence[Event], asker: str) -> frozenset[str]:
    """Return the addresses that count for an asker, by what was read before each of them."""
    found, steered = set[str](), False
    for event in log:
        steered = steered or bool(endorsed_in((event,)))
        if not event.admitted:
            continue
        steered = steered or event.label.untrusted or bool(authors((event,)) - {asker})
        found.update(known_urls.given(event))
        if not steered:
            found.update(known_urls.repeated(event))
    return frozenset(found)


def whole_typed(log: Sequence[Event], asker: str) -> tuple[str, ...]:
    """Return what a person typed, each address where it came last."""
    mine = (event for event in log if event.admitted and event.actor == asker)
    return known_urls.newest(address for event in mine for address in known_urls.typed(event))


def whole_newest(log: Sequence[Event]) -> Newest:
    """Return what the newest turn's events come to."""
    name = next((event.turn for event in reversed(log) if event.turn), "")
    own = [event for event in log if event.turn == name and name]
    foreign = [event.body.origin is not None for event in own if isinstance(event.body, UserMessage)]
    return Newest(
        name,
        tuple(event.seq for event in own if event.type in {EventType.USER_MESSAGE, EventType.OBSERVED}),
        foreign[0] if foreign else None,
        sum(event.type is EventType.AGENT_THINKING for event in own),
        frozenset(event.body.approval for event in own if isinstance(event.body, ApprovalResolved)),
        max((event.seq for event in own if event.type is EventType.AGENT_THINKING), default=0),
    )


def agrees(found: Folds, log: Sequence[Event]) -> None:
    """Hold folds against the definitions over the whole log."""
    for asker in (*PEOPLE, "nobody"):
        assert found.addresses(asker) == whole_addresses(log, asker)
        assert found.typed.get(asker, ()) == whole_typed(log, asker)
    assert found.authors == authors(log)
    assert found.held == held_in(log)
    assert found.endorsed == endorsed_in(log)
    messages = bodies(log, UserMessage)
    assert found.file_bytes == sum(file.size for message in messages for file in message.files)
    assert found.foreign == (messages[-1].origin is not None if messages else None)
    overheard = [event.body.upto for event in log if isinstance(event.body, ChatObserved)]
    assert found.overheard == (overheard[-1] if overheard else "")
    ends = [event.body for event in log if isinstance(event.body, LogTruncated | TurnCompleted)]
    assert found.truncated == bool(ends and isinstance(ends[-1], LogTruncated))
    assert found.newest == whole_newest(log)


@given(logs)
def test_folding_gives_what_the_whole_log_says(log: tuple[Event, ...]) -> None:
    agrees(Folds().plus(log), log)


@given(logs, st.integers(0, 12))
def test_folding_goes_on_from_any_event(log: tuple[Event, ...], cut: int) -> None:
    assert Folds().plus(log[:cut]).plus(log[cut:]) == Folds().plus(log)


@given(logs, st.integers(0, 12))
def test_what_an_event_carries_goes_on_as_well(log: tuple[Event, ...], cut: int) -> None:
    carried = json.loads(json.dumps(Folds().plus(log[:cut]).written()))
    holding = [log[seq - 1] for seq in folds.named(carried)]
    assert folds.read(carried, holding).plus(log[cut:]) == Folds().plus(log)


@given(st.lists(st.sampled_from(range(known_urls.MOST + 9)), max_size=200), st.integers(0, 200))
@example([*range(known_urls.MOST + 1), 0], known_urls.MOST + 1)
def test_one_that_is_typed_again_is_new_again(typed: list[int], cut: int) -> None:
    found = [f"https://example.com/{number}" for number in typed]
    assert known_urls.newest((*known_urls.newest(found[:cut]), *found[cut:])) == known_urls.newest(found)
