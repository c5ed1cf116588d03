"""Export files: what is written is read, and a file that was changed is refused or says exactly what it holds."""

import asyncio
import hashlib
import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.core.clock import LAST_MS
from bot.operations.signing import ExportKey, signed_by
from bot.sessions import refs
from bot.sessions.approvals import ApprovalState
from bot.sessions.exports import (
    MOST_BYTES,
    MOST_ENTRIES,
    BrokenExport,
    ExportEntry,
    Header,
    ImportedEvent,
    ImportedSession,
    ReadExport,
    VerifiedExport,
    read,
    sealed,
    verified,
)
from bot.sessions.log import event_types
from bot.sessions.log.event_types import (
    EventBody,
    MessageFile,
    PolicyDecision,
    RuleVerdict,
    ToolOutcome,
    UnknownEvent,
    YieldReason,
)
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.log.serialization import event_json
from bot.sessions.messages import Endorsed, Origin, OriginKind
from bot.sessions.models import LastTurn, Status, Title
from bot.sessions.refs import CallRef, EventsRef, FileRef, InputRef
from policy.decision import Verdict
from policy.labels import PUBLIC, Label, join_all, parse
from policy.request import Hook
from tests.harness import running

KEY: Final = ExportKey(b"k" * 32)
TEXT: Final = st.text(st.characters(exclude_categories=()), max_size=12)
COUNT: Final = st.integers(0, 2**53 - 1)
LABEL: Final = st.sampled_from(
    [PUBLIC, *map(parse, ("PUBLIC~", "INTERNAL", "INTERNAL{hr}", "CONFIDENTIAL{acme,hr}~", "RESTRICTED"))]
)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT: Final = st.dictionaries(TEXT, JSON, max_size=3)
RULE: Final = st.builds(RuleVerdict, TEXT, st.sampled_from(Verdict), st.booleans(), TEXT)
DECISION: Final = st.builds(
    PolicyDecision, st.sampled_from(Hook), TEXT, st.sampled_from(Verdict), st.tuples(RULE), LABEL, LABEL, TEXT, TEXT
)
ORIGIN: Final = st.builds(
    Origin, st.sampled_from(OriginKind), TEXT, st.tuples(TEXT), st.tuples(st.builds(Endorsed, TEXT, TEXT, TEXT, COUNT))
)
FILE: Final = st.builds(MessageFile, TEXT, path=TEXT, media_type=TEXT, size=COUNT, digest=TEXT)
BODY: Final[st.SearchStrategy[EventBody]] = st.one_of(
    st.just(event_types.SessionCreated()),
    st.builds(
        event_types.UserMessage, TEXT, st.none() | ORIGIN, st.tuples(TEXT), st.lists(FILE, max_size=1).map(tuple)
    ),
    st.builds(event_types.ChatObserved, TEXT, TEXT, st.tuples(TEXT)),
    st.builds(event_types.AgentMessage, TEXT),
    st.builds(event_types.AgentThinking, OBJECT),
    st.builds(event_types.TurnStarted, COUNT),
    st.builds(event_types.TurnCompleted, st.sampled_from(YieldReason)),
    st.builds(event_types.ToolCall, TEXT, TEXT, st.none() | OBJECT),
    st.builds(event_types.ToolResult, TEXT, TEXT, TEXT, st.sampled_from(ToolOutcome)),
    st.builds(event_types.ItemHeld, TEXT, TEXT, LABEL, st.none() | DECISION),
    DECISION,
    st.builds(event_types.TaintRaised, LABEL, LABEL, TEXT),
    st.builds(event_types.ApprovalResolved, TEXT, st.sampled_from(ApprovalState)),
    st.builds(event_types.SessionSummary, TEXT, COUNT, TEXT, COUNT, st.tuples(TEXT)),
    st.builds(event_types.SessionImported, TEXT, COUNT, COUNT, TEXT, st.booleans()),
    st.builds(event_types.LogTruncated, COUNT, COUNT),
    st.builds(UnknownEvent, st.sampled_from(["chat.reaction", "agent.dream"]), OBJECT),
)
REF: Final = st.one_of(
    st.builds(EventsRef, COUNT, COUNT, st.sampled_from(["", "s2"])),
    st.builds(InputRef, TEXT),
    st.builds(CallRef, TEXT, TEXT),
    st.builds(FileRef, TEXT, TEXT),
)
EVENT: Final = st.builds(
    NewEvent,
    TEXT,
    LABEL,
    BODY,
    st.sampled_from(Visibility),
    admitted=st.booleans(),
    turn=TEXT,
    refs=st.lists(REF, max_size=2).map(lambda found: refs.read(refs.written(found))),
)
TIME: Final = st.integers(1, LAST_MS)
EVENTS: Final = st.lists(st.tuples(TIME, EVENT), min_size=1, max_size=6)
SOME: Final = TEXT.filter(bool)
TURN: Final = st.builds(LastTurn, SOME, st.sampled_from(YieldReason), COUNT, COUNT, TEXT)
HEADER: Final = st.builds(
    Header, TEXT, COUNT, LABEL, st.integers(0, LAST_MS), st.none() | st.builds(Title, SOME, LABEL), st.none() | TURN
)


def entries(events: list[tuple[int, NewEvent]]) -> list[ExportEntry]:
    """Return events as an export tells them."""
    return [
        ExportEntry(
            seq,
            ts,
            one.actor,
            one.type,
            one.label,
            event_json(one.body),
            one.visibility,
            one.admitted,
            one.turn,
            refs.written(one.refs),
        )
        for seq, (ts, one) in enumerate(events, 1)
    ]


def file_of(header: Header, events: list[tuple[int, NewEvent]]) -> bytes:
    return sealed(KEY, header, entries(events)).encode("ascii")


def rewritten(found: ReadExport) -> bytes:
    """Return what was read as a file, as its import and its export would write it."""
    return sealed(KEY, found.header, [replace(one.entry, body=event_json(one.body)) for one in found.entries]).encode(
        "ascii"
    )


def resealed(lines: list[bytes]) -> bytes:
    """Return lines, without sums, as somebody who has the key would sign them, whatever they say."""
    last, whole = b"", b""
    for line in lines:
        last = urlsafe_b64encode(hashlib.sha256(last + line[:-1]).digest()).rstrip(b"=")
        whole += line[:-1] + b',"sum":"' + last + b'"}\n'
    signature = urlsafe_b64encode(KEY.sign(whole)).rstrip(b"=")
    return whole + b'{"key":"' + KEY.public.encode() + b'","signature":"' + signature + b'"}\n'


@given(HEADER, EVENTS)
def test_what_is_written_is_read(header: Header, events: list[tuple[int, NewEvent]]) -> None:
    file = file_of(header, events)
    assert verified(signed_by, file) == VerifiedExport(
        json.loads(file.splitlines()[0])["session"], len(events), KEY.public
    )
    found = read(file)
    assert isinstance(found, ReadExport), found
    assert rewritten(found) == file
    assert all(one.entry.label.flows_to(found.label) for one in found.entries)


@given(HEADER, EVENTS, st.data())
def test_a_file_that_was_changed_is_refused_by_its_line(
    header: Header, events: list[tuple[int, NewEvent]], data: st.DataObject
) -> None:
    file = file_of(header, events)
    place = data.draw(st.integers(0, len(file) - 1))
    length = data.draw(st.integers(0, 30))
    put = data.draw(st.binary(max_size=30))
    changed = file[:place] + put + file[place + length :]
    found = verified(signed_by, changed)
    if changed.removesuffix(b"\n") == file.removesuffix(b"\n"):
        assert isinstance(found, VerifiedExport)
    else:
        assert isinstance(found, BrokenExport)
        assert 1 <= found.line <= changed.count(b"\n") + 2
        assert found.reason.isascii()


@settings(max_examples=150)
@given(HEADER, EVENTS, st.data())
def test_a_file_of_whoever_has_the_key_is_read_as_it_stands_or_refused(
    header: Header, events: list[tuple[int, NewEvent]], data: st.DataObject
) -> None:
    """Nothing but a clean refusal, or an import that is exported as the same bytes."""
    lines = [line[: line.rindex(b',"sum"')] + b"}" for line in file_of(header, events).splitlines()[:-1]]
    place = data.draw(st.integers(0, len(lines) - 1))
    if data.draw(st.booleans()):
        value = json.loads(lines[place])
        lines[place] = json.dumps(_mutated(value, data), separators=(",", ":")).encode()
    else:
        at = data.draw(st.integers(1, len(lines[place]) - 1))
        cut = data.draw(st.integers(0, 10))
        lines[place] = lines[place][:at] + data.draw(st.binary(max_size=10)) + lines[place][at + cut :]
    file = resealed(lines)
    if isinstance(verified(signed_by, file), BrokenExport):
        return
    found = read(file)
    if isinstance(found, BrokenExport):
        assert 1 <= found.line <= len(lines) + 1
        assert found.reason.startswith(("line ", "the file "))
    else:
        assert rewritten(found) == file


def _mutated(value: JsonValue, data: st.DataObject) -> JsonValue:
    """Return a JSON value in which something is another, is gone, or stands elsewhere."""
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(value)))
        match data.draw(st.sampled_from(["deep", "gone", "last"])):
            case "deep":
                return {**value, name: _mutated(value[name], data)}
            case "gone":
                return {key: inner for key, inner in value.items() if key != name}
            case _:
                return {**{key: inner for key, inner in value.items() if key != name}, name: value[name]}
    if isinstance(value, dict):
        return {**value, **data.draw(OBJECT)}
    return data.draw(JSON)


def test_a_nested_or_huge_file_is_refused_in_a_sentence() -> None:
    header = file_of(Header("s", 1, PUBLIC, 1), []).splitlines()[0]
    first = header[: header.rindex(b',"sum"')] + b"}"
    for line in (
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ):
        file = resealed([first, b'{"x":' + line + b"}"])
        found = verified(signed_by, file)
        assert isinstance(found, VerifiedExport)
        assert read(file) == BrokenExport(1, "line 1 is not written as this version writes it")
        file = resealed([b'{"x":' + line + b"}"])
        assert verified(signed_by, file) == BrokenExport(1, "line 1 is not the header of an export")
    large = resealed([first, b'{"x":"' + b"y" * MOST_BYTES + b'"}'])
    assert read(large) == BrokenExport(1, "the file is larger than 16 MB")
    many = resealed([first, *([b'{"x":1}'] * (MOST_ENTRIES + 1))])
    assert read(many) == BrokenExport(1, "the file has more than 20000 entries")


@settings(max_examples=12, deadline=None)
@given(EVENTS, st.none() | st.builds(Title, SOME, LABEL), st.none() | TURN)
def test_what_is_imported_stands_in_the_log_as_it_was(
    events: list[tuple[int, NewEvent]], title: Title | None, turn: LastTurn | None
) -> None:
    """Law `taint_is_the_fold` among others: the log is gap free, and its fold is the taint that is stored."""

    async def law(folder: Path) -> None:
        async with running(folder, serve=False) as owner:
            store = owner.app.store.sessions
            label: Label = join_all((one.label for _, one in events), PUBLIC if title is None else title.label)
            said = tuple(ImportedEvent(ts, one) for ts, one in events)
            new = ImportedSession("s9", "owner", "console::owner:", label, said, title, turn)
            assert await store.import_session(new, ())
            assert not await store.import_session(new, ())
            state, found = await store.state("s9"), await store.events("s9")
            assert state is not None
            assert [one.seq for one in found] == list(range(1, len(events) + 1))
            assert [(one.ts, one.label, one.admitted, one.actor, one.turn, one.refs) for one in found] == [
                (ts, one.label, one.admitted, one.actor, one.turn, one.refs) for ts, one in events
            ]
            assert [event_json(one.body) for one in found] == [event_json(one.body) for _, one in events]
            assert state.taint == join_all(one.label for one in found if one.admitted)
            assert (state.status, state.title, state.last_turn) == (Status.ARCHIVED, title, turn)

    with TemporaryDirectory() as folder:
        asyncio.run(law(Path(folder)))


def test_a_title_or_turn_without_a_name_is_refused() -> None:
    """What is empty is not stored, and a record that lacks it could not be read."""
    turn = LastTurn("", YieldReason.COMPLETED)
    for header in (Header("s", 1, PUBLIC, 1, Title("", PUBLIC)), Header("s", 1, PUBLIC, 1, None, turn)):
        found = read(file_of(header, []))
        assert found == BrokenExport(1, "line 1 is not written as this version writes it")
