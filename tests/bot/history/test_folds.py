"""What a log comes to is the same however it is read: at once, on from any event, and from what an event carries.

The definitions here are those over a whole log, written down apart from the program's: whose words command, who typed
an address, what is held and how many answers were heard are what the laws decide by.
"""

import json
from collections.abc import Iterable, Sequence

from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.access import known_urls
from bot.access.authors import authors
from bot.history import folds
from bot.history.event_log import endorsed_in, held_in
from bot.history.folds import Folds, Newest
from bot.sessions.events import Event, EventType, Visibility, objects
from policy.labels import PUBLIC, Label, parse

PEOPLE = ("ann", "mel", "zoe")
LABELS = (PUBLIC, parse("PUBLIC~"), parse("INTERNAL"), parse("CONFIDENTIAL{hr}~"))
URLS = tuple(f"https://example.com/{number}" for number in range(6))

Body = dict[str, JsonValue]
Entry = tuple[EventType, Body, str, Label, bool, str]
"""What is drawn of an event: type, body, actor, label, whether it is admitted, and whether its turn is a new one."""


def field(name: str, value: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[Body]:
    """Return bodies of one field."""
    return value.map(lambda found: {name: found})


def listed(each: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    """Return lists of a few values."""
    return st.lists(each, max_size=2).map(lambda found: [*found])


def together(parts: Iterable[st.SearchStrategy[Body]]) -> st.SearchStrategy[Body]:
    """Return bodies with the fields of all of these."""
    return st.tuples(*parts).map(lambda found: {name: value for part in found for name, value in part.items()})


def one_of(*values: JsonValue) -> st.SearchStrategy[JsonValue]:
    return st.sampled_from(values)


def object_of(*parts: st.SearchStrategy[Body]) -> st.SearchStrategy[JsonValue]:
    return together(parts).map(lambda body: {**body})


def absent_or(part: st.SearchStrategy[Body]) -> st.SearchStrategy[Body]:
    nothing: Body = {}
    return st.one_of(st.just(nothing), part)


words: st.SearchStrategy[JsonValue] = st.lists(st.sampled_from((*URLS, "hello", "www.example.com/w")), max_size=3).map(
    " ".join
)
text = field("text", words)
named = absent_or(field("authors", listed(one_of(*PEOPLE))))
answer = object_of(
    *(field(name, one_of(*(f"{name}{number}" for number in range(3)))) for name in ("session", "text", "run")),
    field("millibits", one_of(1, 2)),
)
origin = object_of(
    field("as", one_of("task", "result", "message")),
    field("session", one_of("s0")),
    field("typed", listed(one_of(*URLS))),
    field("endorsed", listed(answer)),
)
files = field("files", listed(object_of(field("size", one_of(None, 1, 20)))))


def bodies(kind: EventType) -> st.SearchStrategy[Body]:
    """Return bodies of events of a type."""
    match kind:
        case EventType.USER_MESSAGE:
            return together((text, named, files, absent_or(field("origin", origin))))
        case EventType.OBSERVED:
            return together((text, named, field("upto", one_of("1", "2", "3"))))
        case EventType.TOOL_RESULT:
            tool = field("tool", one_of("web_fetch", "read_file"))
            return together((text, tool, field("outcome", one_of("ok", "denied"))))
        case EventType.ITEM_HELD:
            return together((field("ref", one_of("h1", "h2")), text, field("floor", one_of("PUBLIC"))))
        case EventType.APPROVAL_RESOLVED:
            return field("approval", one_of("a1", "a2"))
        case _:
            return together((text, named))


kinds = st.sampled_from(
    (
        *(EventType.USER_MESSAGE, EventType.OBSERVED, EventType.TOOL_RESULT, EventType.ITEM_HELD),
        *(EventType.APPROVAL_RESOLVED, EventType.AGENT_THINKING, EventType.SUMMARY, EventType.POLICY_DECISION),
    )
)
drawn = kinds.flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        bodies(kind),
        st.sampled_from(PEOPLE),
        st.sampled_from(LABELS),
        st.booleans(),
        st.sampled_from(("", "t", "t", "u")),
    )
)


def written(entries: Iterable[Entry]) -> tuple[Event, ...]:
    """Return drawn entries as a log whose turns follow one another."""
    made, turn = list[Event](), 0
    for seq, (kind, body, actor, label, admitted, of) in enumerate(entries, 1):
        turn += of == "u"
        name = f"t{turn}" if of else ""
        made.append(Event(seq, seq, 1, kind, actor, label, body, Visibility.USER, admitted, name))
    return tuple(made)


logs = st.lists(drawn, max_size=12).map(written)


def whole_addresses(log: Sequence[Event], asker: str) -> frozenset[str]:
    """Return the addresses that count for an asker, by what was read before each of them."""
    found, untrusted = set[str](), False
    for event in log:
        if not event.admitted:
            continue
        untrusted = untrusted or event.label.untrusted or bool(authors((event,)) - {asker})
        found.update(known_urls.given(event))
        if not untrusted:
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
    foreign = ["origin" in event.body for event in own if event.type is EventType.USER_MESSAGE]
    return Newest(
        name,
        tuple(event.seq for event in own if event.type in {EventType.USER_MESSAGE, EventType.OBSERVED}),
        foreign[0] if foreign else None,
        sum(event.type is EventType.AGENT_THINKING for event in own),
        frozenset(str(event.body["approval"]) for event in own if event.type is EventType.APPROVAL_RESOLVED),
    )


def agrees(found: Folds, log: Sequence[Event]) -> None:
    """Hold folds against the definitions over the whole log."""
    for asker in (*PEOPLE, "nobody"):
        assert found.addresses(asker) == whole_addresses(log, asker)
        assert found.typed.get(asker, ()) == whole_typed(log, asker)
    assert found.authors == authors(log)
    assert found.held == held_in(log)
    assert found.endorsed == endorsed_in(log)
    messages = [event for event in log if event.type is EventType.USER_MESSAGE]
    sizes = [file["size"] for event in messages for file in objects(event.body, "files")]
    assert found.file_bytes == sum(size for size in sizes if isinstance(size, int))
    assert found.foreign == ("origin" in messages[-1].body if messages else None)
    overheard = [str(event.body["upto"]) for event in log if event.type is EventType.OBSERVED]
    assert found.overheard == (overheard[-1] if overheard else "")
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
