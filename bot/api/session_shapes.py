"""The documents about sessions: the bodies that programs send to begin and steer one, and the answers.

An answer is made of a record that its reader may know of, and of nothing else.
"""

import hashlib
import json
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from bot.access.agents import Pin
from bot.api.shapes import ApiInput, ApiOutput, as_written, short
from bot.operations.lifecycle import Deleted
from bot.sessions.inbox import QueueMode
from bot.sessions.log.event_types import TurnState, YieldReason
from bot.sessions.models import LastTurn, SessionKind, SessionState, Status, TurnRecord
from bot.sessions.usage import Usage
from policy.labels import Label

METADATA_BYTES: Final = 16_384
"""How large metadata may be, as compact JSON in UTF-8."""

Mode = Literal["queue", "collect", "steer", "interrupt"]
"""A `QueueMode`, as JSON has it."""

_MOST: Final = 1_000_000_000_000


class NewLimits(ApiInput):
    """Limits of a session, none above those of its agent; an omitted one is the agent's."""

    tokens: int | None = Field(default=None, ge=1000, le=_MOST, description="That models read and write for it.")
    turn_seconds: int | None = Field(default=None, ge=1, le=7 * 24 * 3600, description="That a turn is worked.")
    turns: int | None = Field(default=None, ge=1, le=1_000_000, description="In a row without a message.")


class SessionRequest(ApiInput):
    """A session to begin, with its first message."""

    input: str = Field(min_length=1, max_length=1_000_000, pattern=r"\S", description="The first message.")
    key: str | None = Field(
        default=None, min_length=1, max_length=256, description="A name of the program's own: one session for each."
    )
    agent: str | None = Field(default=None, min_length=1, max_length=64)
    credential: str | None = Field(
        default=None, min_length=1, max_length=64, description="A secret that an agent of the same models has."
    )
    limits: NewLimits = NewLimits()
    metadata: Annotated[dict[str, JsonValue], short(METADATA_BYTES)] | None = Field(
        default=None, description="Facts of the program's own, up to 16 KB as JSON."
    )
    mode: Mode = Field(default="queue", description="How it takes messages that come while a turn runs.")

    @property
    def digest(self) -> str:
        """The digest of all that it says, by which the same is told from another."""
        said = self.model_dump(mode="json", exclude_defaults=True, exclude={"key"})
        return hashlib.sha256(as_written(said).encode()).hexdigest()


class SessionBegun(ApiOutput):
    """A session that was begun, or that exists under its key; it tells nothing of the session's state."""

    id: str
    created: bool = Field(description="Whether this request began it.")
    created_at: int = Field(description="Milliseconds since 1970.")


class MessageRequest(ApiInput):
    """A message to a session."""

    text: str = Field(min_length=1, max_length=1_000_000, pattern=r"\S")
    mode: Mode | None = Field(
        default=None, description="How the session takes this one and later ones; as before if it is left out."
    )


class MessageTaken(ApiOutput):
    """A message that was accepted."""

    seq: int = Field(description="Its number among the inputs of the session; the event that it becomes tells it.")


class EndedTurn(ApiOutput):
    """How the last turn ended."""

    id: str
    state: TurnState
    yield_reason: YieldReason
    result_event_id: int | None = Field(description="The event that holds its answer.")


class UsageDocument(ApiOutput):
    """The use of models; `complete` is false where some tokens are unknown, `priced` where some cost is."""

    requests: int
    input_tokens: int
    output_tokens: int
    cost: int = Field(description="Millionths of the currency of the configured prices.")
    complete: bool
    priced: bool


class TurnDocument(ApiOutput):
    """A turn, as it ended or as it goes on."""

    id: str
    state: TurnState | Literal["running"]
    yield_reason: YieldReason | None
    attempt: int = Field(description="How often it was claimed.")
    started_at: int = Field(description="Milliseconds since 1970.")
    completed_at: int | None
    active_seconds: float | None = Field(description="For how long it was worked; waiting does not count.")
    usage: UsageDocument | None
    error: str | None = Field(description="The reference under which the operator finds the error.")
    result_event_id: int | None


class TurnList(ApiOutput):
    """A page of turns, newest first; `next` is the `before` of the next page, null at the end."""

    turns: tuple[TurnDocument, ...]
    next: int | None


class SessionDocument(ApiOutput):
    """A session."""

    id: str
    status: Status
    kind: SessionKind
    agent: str
    title: str | None
    taint: str = Field(description="The label of everything that it has read.")
    mode: QueueMode
    waiting: int = Field(description="How many messages wait.")
    created_at: int = Field(description="Milliseconds since 1970.")
    updated_at: int
    last_turn: EndedTurn | None
    usage: UsageDocument
    metadata: dict[str, JsonValue] | None


class SessionList(ApiOutput):
    """A page of sessions, newest first; `cursor` asks for the next page, null at the end."""

    sessions: tuple[SessionDocument, ...]
    cursor: str | None


class ResultBody(ApiOutput):
    """The answer of a turn: the event that holds it."""

    type: str
    level: str
    body: dict[str, JsonValue]


class ResultDocument(ApiOutput):
    """The end and the result of the last turn; null where there is none, or where it may not be told."""

    status: Status
    last_turn: EndedTurn | None
    result: ResultBody | None
    inputs: tuple[int, ...] = Field(
        description="The `seq` of each message that this turn took in; empty where that is told no more."
    )


class SentCopies(ApiOutput):
    """Messages that were sent somewhere; `address` is null for chats that this program may not know of."""

    address: str | None
    messages: int


class HandedCopies(ApiOutput):
    """Messages that another session was given."""

    session: str
    messages: int


class DeletedDocument(ApiOutput):
    """The deleted sessions, and the copies beyond reach, as far as this program may know.

    It says nothing of a session that rose above its program.
    """

    children: int = Field(description="How many background sessions went along.")
    sent: tuple[SentCopies, ...] = Field(description="Where messages were sent since yesterday.")
    handed: tuple[HandedCopies, ...] = Field(description="Which other sessions were given messages since yesterday.")
    files_left: bool = Field(description="Whether files of it could not be erased; the next start tries again.")
    kept: tuple[str, ...] = Field(description="Why servers of the store keep their files as they are, for now.")


BLIND: Final = DeletedDocument(children=0, sent=(), handed=(), files_left=False, kept=())
"""The answer about a session that its program may not know of."""


def deleted_document(done: Deleted) -> DeletedDocument:
    """Return the document of a deleted session."""
    if not done.known:
        return BLIND
    return DeletedDocument(
        children=done.children,
        sent=tuple(SentCopies(address=place or None, messages=count) for place, count in done.sent),
        handed=tuple(HandedCopies(session=sid, messages=count) for sid, count in done.handed),
        files_left=done.files,
        kept=done.kept,
    )


def session_document(state: SessionState, reader: Label) -> SessionDocument:
    """Return the document of a session for a reader who may know of it."""
    title, kept = state.title, state.metadata
    return SessionDocument(
        id=state.sid,
        status=state.status,
        kind=state.kind,
        agent=Pin.parse(state.agent).name,
        title=title.text if title is not None and title.label.flows_to(reader) else None,
        taint=str(state.taint),
        mode=state.mode,
        waiting=state.waiting_items,
        created_at=state.created_at,
        updated_at=state.updated_at,
        last_turn=ended_turn(state.last_turn),
        usage=_usage(state.usage),
        metadata=json.loads(kept.text) if kept is not None and kept.label.flows_to(reader) else None,
    )


def ended_turn(last: LastTurn | None) -> EndedTurn | None:
    """Return how the last turn of a session ended, None for one that had none."""
    if last is None:
        return None
    return EndedTurn(id=last.id, state=last.state, yield_reason=last.reason, result_event_id=last.result_seq or None)


def turn_document(turn: TurnRecord) -> TurnDocument:
    """Return a turn that ended."""
    return TurnDocument(
        id=turn.id,
        state=TurnState.of(turn.told.reason),
        yield_reason=turn.told.reason,
        attempt=turn.told.attempt,
        started_at=turn.started_at,
        completed_at=turn.completed_at,
        active_seconds=turn.active_seconds,
        usage=_usage(turn.told.usage),
        error=turn.told.error or None,
        result_event_id=turn.result_seq or None,
    )


def open_turn(state: SessionState) -> TurnDocument | None:
    """Return the running turn of a session, None if there is none."""
    turn = state.turn
    if turn is None:
        return None
    return TurnDocument(
        id=turn.id,
        state="running",
        yield_reason=None,
        attempt=turn.attempt,
        started_at=turn.started_at,
        completed_at=None,
        active_seconds=None,
        usage=None,
        error=None,
        result_event_id=None,
    )


def _usage(used: Usage) -> UsageDocument:
    return UsageDocument(
        requests=used.requests,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost=used.cost,
        complete=used.complete,
        priced=used.priced,
    )
