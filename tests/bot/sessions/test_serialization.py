"""What is written of each type of event, message and question is read back as it was, or not at all."""

import json
from dataclasses import fields, is_dataclass
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.sessions.approvals import ApprovalQuestion, ApprovalState
from bot.sessions.consents.releases import Release
from bot.sessions.log.event_types import (
    AgentMessage,
    AgentThinking,
    ApprovalRequested,
    ApprovalResolved,
    ChatObserved,
    EventBody,
    HeldAnswer,
    HeldIdentifiers,
    HeldPart,
    ItemHeld,
    LogTruncated,
    MemoriesRecalled,
    MessageFile,
    PolicyDecision,
    ReleaseConfirmed,
    ReleaseRequested,
    RuleVerdict,
    SessionArchived,
    SessionCreated,
    SessionImported,
    SessionPaused,
    SessionReset,
    SessionRestored,
    SessionResumed,
    SessionSummary,
    TaintRaised,
    ToolCall,
    ToolOutcome,
    ToolResult,
    TurnCompleted,
    TurnError,
    TurnStarted,
    UnknownEvent,
    UserMessage,
    YieldReason,
)
from bot.sessions.log.events import TYPES, EventType, NewEvent
from bot.sessions.log.serialization import (
    event_from,
    event_json,
    message_from,
    message_json,
    question_from,
    question_json,
)
from bot.sessions.messages import Endorsed, FileKind, Origin, OriginKind, SessionMessage
from bot.sessions.usage import Usage
from channels.messages import Attachment
from policy.decision import Verdict
from policy.errors import LabelTextError
from policy.labels import PUBLIC, parse
from policy.request import Hook

BROKEN: Final = (KeyError, TypeError, ValueError, LabelTextError)
"""What the store takes for a record that it cannot read."""

SECRET = parse("CONFIDENTIAL{acme,hr}~")

# --- what there can be ------------------------------------------------------------------------------

labels = st.sampled_from((PUBLIC, SECRET, parse("INTERNAL~")))
words = st.text(max_size=5)
names = st.text(min_size=1, max_size=5)
numbers = st.integers(0, 2**53)
several = st.lists(words, max_size=2).map(tuple)
values: st.SearchStrategy[JsonValue] = st.sampled_from((None, True, 1, 0.5, "é", [{"a": None}], {"b": [1]}))
json_objects = st.dictionaries(words, values, max_size=2)
endorsed = st.lists(st.builds(Endorsed, words, words, words, numbers), max_size=2).map(tuple)
answers = st.builds(
    HeldAnswer,
    st.lists(st.tuples(words, st.booleans()), max_size=2).map(tuple),
    counted=st.booleans(),
    endorsed=endorsed,
)
listed = st.lists(
    st.builds(HeldIdentifiers, words, st.integers(0, 9), st.lists(words, max_size=2).map(tuple), st.booleans()),
    max_size=2,
).map(tuple)
parts = st.lists(st.builds(HeldPart, words, words, words), max_size=2).map(tuple)
origins = st.none() | st.builds(Origin, st.sampled_from(OriginKind), words, typed=several, endorsed=endorsed)
rules = st.builds(RuleVerdict, words, st.sampled_from(Verdict), st.booleans(), words)
decisions = st.builds(
    PolicyDecision,
    hook=st.sampled_from(Hook),
    about=words,
    verdict=st.sampled_from(Verdict),
    rules=st.lists(rules, max_size=2).map(tuple),
    before=labels,
    after=labels,
    asker=words,
    text=words,
)
questions = st.builds(
    ApprovalQuestion,
    words,
    json_objects,
    rules=several,
    withheld=st.booleans(),
    interrupted=words,
    authors=several,
    endorsed=endorsed,
)
releases = st.builds(
    Release,
    code=words,
    principal=words,
    home=words,
    source=numbers,
    digest=words,
    label=labels,
    address=words,
    clearance=labels,
    recipient=words,
    meant=words,
    expires_at=numbers,
)
files = st.builds(MessageFile, words, problem=names) | st.builds(
    MessageFile,
    words,
    kind=st.sampled_from(FileKind),
    path=words,
    media_type=words,
    size=numbers,
    digest=words,
)
messages = st.builds(
    SessionMessage,
    words,
    account=words,
    quoted=several,
    files=st.lists(st.builds(Attachment, words, words, words, numbers), max_size=2).map(tuple),
    opens=st.booleans(),
    origin=origins,
    hops=numbers,
    authors=several,
)

usages = st.builds(Usage, numbers, numbers, numbers, st.booleans(), numbers, st.booleans())

BODIES: Final[dict[EventType, st.SearchStrategy[EventBody]]] = {
    EventType.SESSION_CREATED: st.just(SessionCreated()),
    EventType.SESSION_RESET: st.just(SessionReset()),
    EventType.SESSION_IMPORTED: st.builds(SessionImported, words, numbers, numbers, words, st.booleans()),
    EventType.LOG_TRUNCATED: st.builds(LogTruncated, numbers, numbers),
    EventType.SESSION_PAUSED: st.just(SessionPaused()),
    EventType.SESSION_RESUMED: st.just(SessionResumed()),
    EventType.SESSION_ARCHIVED: st.just(SessionArchived()),
    EventType.SESSION_RESTORED: st.just(SessionRestored()),
    EventType.USER_MESSAGE: st.builds(
        UserMessage, words, origins, several, st.lists(files, max_size=2).map(tuple), numbers
    ),
    EventType.OBSERVED: st.builds(ChatObserved, words, words, several),
    EventType.RECALLED: st.builds(MemoriesRecalled, words, several),
    EventType.AGENT_MESSAGE: st.builds(AgentMessage, words),
    EventType.AGENT_THINKING: st.builds(AgentThinking, json_objects),
    EventType.TURN_STARTED: st.builds(TurnStarted, numbers),
    EventType.TURN_COMPLETED: st.builds(
        TurnCompleted, st.sampled_from(YieldReason), numbers, numbers, numbers, numbers, words, usages
    ),
    EventType.TOOL_CALL: st.builds(ToolCall, words, words, st.none() | json_objects, endorsed),
    EventType.TOOL_RESULT: st.builds(ToolResult, words, words, words, st.sampled_from(ToolOutcome), endorsed),
    EventType.ITEM_HELD: st.builds(
        ItemHeld, words, words, labels, st.none() | decisions, parts, words, st.none() | answers, listed
    ),
    EventType.POLICY_DECISION: decisions,
    EventType.TAINT_RAISED: st.builds(TaintRaised, labels, labels, words),
    EventType.APPROVAL_REQUESTED: st.builds(ApprovalRequested, words, questions, numbers),
    EventType.APPROVAL_RESOLVED: st.builds(ApprovalResolved, words, st.sampled_from(ApprovalState)),
    EventType.RELEASE_REQUESTED: st.builds(ReleaseRequested, releases),
    EventType.RELEASE_CONFIRMED: st.builds(ReleaseConfirmed, releases),
    EventType.SUMMARY: st.builds(SessionSummary, words, numbers, topic=words, messages=numbers, authors=several),
    EventType.ERROR: st.builds(TurnError, words, words),
}

FULL: Final[dict[EventType, EventBody]] = {
    EventType.SESSION_CREATED: SessionCreated(),
    EventType.SESSION_RESET: SessionReset(),
    EventType.SESSION_IMPORTED: SessionImported("s1", 2, 3, "key", at_top=True),
    EventType.LOG_TRUNCATED: LogTruncated(7, 9),
    EventType.SESSION_PAUSED: SessionPaused(),
    EventType.SESSION_RESUMED: SessionResumed(),
    EventType.SESSION_ARCHIVED: SessionArchived(),
    EventType.SESSION_RESTORED: SessionRestored(),
    EventType.USER_MESSAGE: UserMessage(
        "hello",
        Origin(OriginKind.TASK, "s1", ("https://a.example",), (Endorsed("s2", "yes", "r1", 1585),)),
        ("ann",),
        (
            MessageFile("a.png", "", FileKind.PICTURE, "workspace/incoming/1-1-a.png", "image/png", 7, "d1"),
            MessageFile("b.pdf", "too large"),
        ),
        3,
    ),
    EventType.OBSERVED: ChatObserved("lunch?", "7-0", ("mel", "room:zoe")),
    EventType.RECALLED: MemoriesRecalled("[memories]", ("mem_1", "mem_2")),
    EventType.AGENT_MESSAGE: AgentMessage("hi"),
    EventType.AGENT_THINKING: AgentThinking({"kind": "response", "parts": []}),
    EventType.TURN_STARTED: TurnStarted(1),
    EventType.TURN_COMPLETED: TurnCompleted(
        YieldReason.ERROR, 7, 2, 3, 4, "r1", Usage(5, 2, 3, complete=False, cost=4, priced=False)
    ),
    EventType.TOOL_CALL: ToolCall("c1", "read_file", {"path": "a.md"}, (Endorsed("s2", "yes", "r1", 1585),)),
    EventType.TOOL_RESULT: ToolResult("c1", "read_file", "text", ToolOutcome.OK, (Endorsed("s1", "{}", "r1", 1585),)),
    EventType.POLICY_DECISION: PolicyDecision(
        hook=Hook.PRE_TOOL_CALL,
        about="message",
        verdict=Verdict.BLOCK,
        rules=(RuleVerdict("no_write_down", Verdict.BLOCK, fixed=True, message="not there"),),
        before=PUBLIC,
        after=SECRET,
        asker="ann",
        text="refused",
    ),
    EventType.TAINT_RAISED: TaintRaised(PUBLIC, SECRET, "read_file"),
    EventType.APPROVAL_REQUESTED: ApprovalRequested(
        "abc23456",
        ApprovalQuestion(
            "message",
            {"text": "hi"},
            rules=("mine",),
            withheld=True,
            missing=True,
            interrupted="look first",
            authors=("mel",),
            endorsed=(Endorsed("s2", "yes", "r1", 1585),),
        ),
        9,
    ),
    EventType.APPROVAL_RESOLVED: ApprovalResolved("abc23456", ApprovalState.DENIED),
    EventType.SUMMARY: SessionSummary("they met", 3, topic="plans", messages=2, authors=("ann",)),
    EventType.ERROR: TurnError("r1", "it broke"),
}
"""An event of each type with all that it can have."""
RELEASED = Release("c0de", "ann", "chat::ann:", 3, "d1", SECRET, "chat::guest:", PUBLIC, "guest", "there", 9)
PARTS = (HeldPart("h1.1", "words"), HeldPart("mail-1-aaaa", '"a"', "mail"))
FULL[EventType.ITEM_HELD] = ItemHeld(
    "h1",
    "secret",
    PUBLIC,
    FULL[EventType.POLICY_DECISION],  # type: ignore[arg-type]
    PARTS,
    "mail",
    HeldAnswer((("free", True), ("hour", False)), counted=False, endorsed=(Endorsed("s2", "yes", "r1", 1585),)),
    (HeldIdentifiers("mail", 3, ('"a"', "17")), HeldIdentifiers("draft", 1, ('"b"',), made=True)),
    "mail__find",
    4,
)
FULL[EventType.RELEASE_REQUESTED] = ReleaseRequested(RELEASED)
FULL[EventType.RELEASE_CONFIRMED] = ReleaseConfirmed(RELEASED)

_DECISION: Final[dict[str, JsonValue]] = {
    "hook": "PRE_TOOL_CALL",
    "about": "message",
    "verdict": "BLOCK",
    "rules": [{"id": "no_write_down", "verdict": "BLOCK", "fixed": True, "message": "not there"}],
    "before": "PUBLIC",
    "after": "CONFIDENTIAL{acme,hr}~",
    "asker": "ann",
    "text": "refused",
}
_ENDORSED: Final[JsonValue] = [{"session": "s2", "text": "yes", "run": "r1", "millibits": 1585}]
_RELEASE: Final[dict[str, JsonValue]] = {
    "code": "c0de",
    "principal": "ann",
    "home": "chat::ann:",
    "source": 3,
    "digest": "d1",
    "label": "CONFIDENTIAL{acme,hr}~",
    "address": "chat::guest:",
    "clearance": "PUBLIC",
    "recipient": "guest",
    "meant": "there",
    "expires_at": 9,
}
WRITTEN: Final[dict[EventType, dict[str, JsonValue]]] = {
    EventType.SESSION_CREATED: {},
    EventType.SESSION_RESET: {},
    EventType.SESSION_IMPORTED: {"session": "s1", "generation": 2, "made": 3, "key": "key", "at_top": True},
    EventType.LOG_TRUNCATED: {"kept": 7, "lost": 9},
    EventType.SESSION_PAUSED: {},
    EventType.SESSION_RESUMED: {},
    EventType.SESSION_ARCHIVED: {},
    EventType.SESSION_RESTORED: {},
    EventType.USER_MESSAGE: {
        "text": "hello",
        "origin": {"as": "task", "session": "s1", "typed": ["https://a.example"], "endorsed": _ENDORSED},
        "authors": ["ann"],
        "files": [
            {
                "name": "a.png",
                "kind": "picture",
                "path": "workspace/incoming/1-1-a.png",
                "media_type": "image/png",
                "size": 7,
                "sha256": "d1",
            },
            {"name": "b.pdf", "problem": "too large"},
        ],
        "number": 3,
    },
    EventType.OBSERVED: {"text": "lunch?", "upto": "7-0", "authors": ["mel", "room:zoe"]},
    EventType.RECALLED: {"text": "[memories]", "memories": ["mem_1", "mem_2"]},
    EventType.AGENT_MESSAGE: {"text": "hi"},
    EventType.AGENT_THINKING: {"response": {"kind": "response", "parts": []}},
    EventType.TURN_STARTED: {"attempt": 1},
    EventType.TURN_COMPLETED: {
        "reason": "error",
        "took": 7,
        "idle": 2,
        "attempt": 3,
        "back": 4,
        "error": "r1",
        "requests": 5,
        "tokens": [2, 3],
        "cost": 4,
        "complete": False,
        "priced": False,
    },
    EventType.TOOL_CALL: {
        "call": "c1",
        "tool": "read_file",
        "arguments": {"path": "a.md"},
        "depended": _ENDORSED,
    },
    EventType.TOOL_RESULT: {
        "call": "c1",
        "tool": "read_file",
        "text": "text",
        "outcome": "ok",
        "endorsed": [{"session": "s1", "text": "{}", "run": "r1", "millibits": 1585}],
    },
    EventType.ITEM_HELD: {
        "tool": "mail__find",
        "at": 4,
        "ref": "h1",
        "text": "secret",
        "floor": "PUBLIC",
        "decision": _DECISION,
        "parts": [{"ref": "h1.1", "text": "words"}, {"ref": "mail-1-aaaa", "text": '"a"', "handle": "mail"}],
        "server": "mail",
        "answer": {
            "fields": [{"name": "free", "boolean": True}, {"name": "hour", "boolean": False}],
            "counted": False,
            "endorsed": _ENDORSED,
        },
        "listed": [
            {"kind": "mail", "most": 3, "identifiers": ['"a"', "17"]},
            {"kind": "draft", "most": 1, "identifiers": ['"b"'], "made": True},
        ],
    },
    EventType.POLICY_DECISION: _DECISION,
    EventType.TAINT_RAISED: {"before": "PUBLIC", "after": "CONFIDENTIAL{acme,hr}~", "cause": "read_file"},
    EventType.APPROVAL_REQUESTED: {
        "approval": "abc23456",
        "tool": "message",
        "arguments": {"text": "hi"},
        "rules": ["mine"],
        "withheld": True,
        "missing": True,
        "interrupted": "look first",
        "authors": ["mel"],
        "endorsed": _ENDORSED,
        "expires_at": 9,
    },
    EventType.APPROVAL_RESOLVED: {"approval": "abc23456", "state": "denied"},
    EventType.RELEASE_REQUESTED: _RELEASE,
    EventType.RELEASE_CONFIRMED: _RELEASE,
    EventType.SUMMARY: {"text": "they met", "upto": 3, "topic": "plans", "messages": 2, "authors": ["ann"]},
    EventType.ERROR: {"reference": "r1", "text": "it broke"},
}
"""The same as logs have them, which are never rewritten."""

NEEDED: Final = frozenset(
    {
        (EventType.APPROVAL_REQUESTED, "arguments"),
        (EventType.APPROVAL_REQUESTED, "tool"),
        (EventType.TOOL_CALL, "tool"),
        (EventType.TOOL_RESULT, "tool"),
        (EventType.TURN_STARTED, "attempt"),
    }
)
"""What is optional elsewhere."""

OPTIONAL: Final = frozenset(
    {
        *("origin", "authors", "files", "decision", "asker", "topic", "messages"),
        *(
            "rules",
            "withheld",
            "missing",
            "interrupted",
            "endorsed",
            "arguments",
            "at_top",
            "number",
            "parts",
            "server",
        ),
        *("depended", "answer", "listed", "tool", "at"),
        *("took", "idle", "attempt", "back", "error", "requests", "tokens", "cost", "complete", "priced"),
    }
)
"""What may be missing, of any type; the arguments of a question may not."""


def stored(told: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object as the store gives it back."""
    found: dict[str, JsonValue] = json.loads(json.dumps(told))
    return found


# --- events -----------------------------------------------------------------------------------------


def test_each_type_has_a_class_a_name_and_a_sample() -> None:
    assert set(TYPES.values()) == set(EventType) == set(BODIES) == set(FULL) == set(WRITTEN)
    assert {kind: type(body) for kind, body in FULL.items()} == {kind: found for found, kind in TYPES.items()}
    for kind in TYPES:
        assert is_dataclass(kind)
        # A sample has all that may be missing, so that the tests here look at every field.
        sample = FULL[TYPES[kind]]
        assert all(getattr(sample, field.name) != field.default for field in fields(kind))


@pytest.mark.parametrize("kind", EventType)
def test_an_event_is_written_as_logs_have_it(kind: EventType) -> None:
    assert event_json(FULL[kind]) == WRITTEN[kind]
    assert event_from(kind, stored(WRITTEN[kind])) == FULL[kind]
    assert NewEvent("ann", PUBLIC, FULL[kind]).type is kind


@pytest.mark.parametrize("kind", EventType)
def test_what_was_written_is_read_as_it_was(kind: EventType) -> None:
    @given(BODIES[kind])
    def law(body: EventBody) -> None:
        assert event_from(kind, stored(event_json(body))) == body

    law()


@pytest.mark.parametrize("kind", EventType)
def test_a_name_that_is_not_known_is_passed_over(kind: EventType) -> None:
    assert event_from(kind, {**stored(WRITTEN[kind]), "later": [1]}) == FULL[kind]


@pytest.mark.parametrize("kind, name", [(kind, name) for kind, written in WRITTEN.items() for name in written], ids=str)
def test_a_broken_body_of_a_known_type_raises(kind: EventType, name: str) -> None:
    without = {other: value for other, value in stored(WRITTEN[kind]).items() if other != name}
    wrongs: tuple[JsonValue, ...] = (5.5, [[0]])
    for wrong in wrongs:
        with pytest.raises(BROKEN):
            event_from(kind, {**without, name: wrong})
    if name not in OPTIONAL or (kind, name) in NEEDED:
        with pytest.raises(BROKEN):
            event_from(kind, without)
    else:
        assert type(event_from(kind, without)) is type(FULL[kind])


@pytest.mark.parametrize(
    "kind, name, word",
    [
        (EventType.TOOL_RESULT, "outcome", "maybe"),
        (EventType.POLICY_DECISION, "verdict", "MAYBE"),
        (EventType.POLICY_DECISION, "hook", "NOWHERE"),
        (EventType.APPROVAL_RESOLVED, "state", "maybe"),
        (EventType.TURN_COMPLETED, "reason", "maybe"),
        (EventType.TAINT_RAISED, "after", "SECRET"),
        (EventType.ITEM_HELD, "floor", "INTERNAL{"),
    ],
)
def test_a_word_that_is_not_known_where_all_are_raises(kind: EventType, name: str, word: str) -> None:
    with pytest.raises(BROKEN):
        event_from(kind, {**stored(WRITTEN[kind]), name: word})


@given(json_objects)
def test_an_event_of_an_unknown_type_keeps_all_that_it_has(told: dict[str, JsonValue]) -> None:
    body = event_from("chat.reaction", stored(told))
    assert body == UnknownEvent("chat.reaction", told)
    assert event_json(body) == told
    assert NewEvent("ann", PUBLIC, body).type == "chat.reaction"


@pytest.mark.parametrize("name", ["chat.reaction", *EventType])
def test_a_body_is_an_object(name: str) -> None:
    with pytest.raises(TypeError):
        event_from(name, [])  # type: ignore[arg-type] - as a damaged store gives it


# --- messages and questions -------------------------------------------------------------------------


@given(messages)
def test_a_message_is_read_as_it_was_written(message: SessionMessage) -> None:
    assert message_from(stored(message_json(message))) == message


def test_a_message_is_written_as_inboxes_have_it() -> None:
    """Redelivered to a later version it must be known as the same input, by these bytes."""
    assert message_json(SessionMessage("hello")) == {"text": "hello"}
    typed = SessionMessage("hello", "chat:1", ("q",), (Attachment("h", "a.txt", "text/plain", 3),), opens=True)
    assert message_json(typed) == {
        "text": "hello",
        "account": "chat:1",
        "quoted": ["q"],
        "opens": True,
        "files": [{"handle": "h", "name": "a.txt", "media_type": "text/plain", "size": 3}],
    }
    sent = SessionMessage("hi", origin=Origin(OriginKind.MESSAGE, "s1"), authors=("mel",))
    assert message_json(sent) == {
        "text": "hi",
        "origin": {"as": "message", "session": "s1"},
        "hops": 0,
        "authors": ["mel"],
    }


NO_MESSAGES: Final[tuple[dict[str, JsonValue], ...]] = (
    {},
    {"text": 3},
    {"text": "a", "files": [{"name": "a"}]},
    {"text": "a", "origin": {}},
    {"text": "a", "origin": {"as": "friend"}},
    {"text": "a", "origin": {"as": "task", "endorsed": [{}]}},
    {"text": "a", "opens": 1},
    {"text": "a", "hops": "1"},
)


@pytest.mark.parametrize("told", NO_MESSAGES)
def test_what_is_no_message_raises(told: dict[str, JsonValue]) -> None:
    with pytest.raises(BROKEN):
        message_from(told)


@given(questions)
def test_a_question_is_read_as_it_was_written(question: ApprovalQuestion) -> None:
    assert question_from(stored(question_json(question))) == question
