"""The content of a run's record: a document of its state and a line for each event of its log.

Ids, labels, times and numbers stand there in the clear, so that `git log` and `git show` tell how a run went. All that
people, models and tools wrote is sealed (`RecordCipher`), each text for its own place. An event above `reader` is left
out, and secrets are masked, as in an export. Nothing here decides whether there is to be a record.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from pydantic import JsonValue

from bot.core.json_values import JsonObject, mapped_object
from bot.history import event_log
from bot.run_records.encryption import RecordCipher
from bot.sessions import refs
from bot.sessions.background.runs import Charter, Gap, Progress
from bot.sessions.log.event_types import TurnCompleted
from bot.sessions.log.events import Event
from bot.sessions.models import SessionState, TurnRecord
from bot.sessions.transcript import place
from bot.sessions.usage import Usage
from policy.labels import Label

VERSION: Final = 1
FOLDER: Final = "sessions"

_MILLIONTHS: Final = 1_000_000
_TEXTS: Final = "texts"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it is recorded: its session, and the events of the log up to then, oldest first."""

    state: SessionState
    charter: Charter
    progress: Progress
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class RecordPaths:
    """Where a record stands in the repository, by the day on which its run was started, in UTC."""

    document: str
    events: str


def paths(run: str, started_at: int) -> RecordPaths:
    """Return where the record of a run stands; `started_at` is in milliseconds since the epoch."""
    stem = f"{FOLDER}/{_date(started_at):%Y-%m-%d}/{run}"
    return RecordPaths(f"{stem}.json", f"{stem}.jsonl")


def due_at(progress: Progress) -> int:
    """Return the moment that a record must cover, the end or else the last end of a gap; 0 while there is none."""
    return progress.ended_at or max((gap.until for gap in progress.gaps), default=0)


def headline(run: str, progress: Progress) -> str:
    """Return the message of the commit that tells of that moment: constant words, an id and a reason."""
    if progress.ended_at:
        return f"Run {run} ended: {progress.reason.value if progress.reason else 'unknown'}"
    last = max(progress.gaps, key=lambda gap: gap.until)
    return f"Run {run} goes on after a gap: {last.reason.value}"


def document(record: RunRecord, cipher: RecordCipher, mask: Callable[[str], str]) -> str:
    """Return the document of a record: JSON, a line for each field. An unknown value is null, never 0."""
    state, charter, progress = record.state, record.charter, record.progress
    told: dict[str, JsonValue] = {
        "version": VERSION,
        "run": charter.run,
        "session": state.sid,
        "principal": state.principal,
        "label": str(state.visibility),
        "type": charter.type.value,
        "schedule": charter.schedule or None,
        "started_at": _at(state.created_at),
        "initialized_at": _at(progress.initialized_at),
        "deadline_at": _at(charter.deadline),
        "recorded_at": _at(due_at(progress)),
        "ended_at": _at(progress.ended_at),
        "completion_reason": progress.reason.value if progress.reason else None,
        "status": progress.status.value,
        "tasks": {
            "completed": progress.completed,
            "failed": progress.failed,
            "skipped": progress.skipped,
            "consecutive_failures": progress.consecutive,
        },
        "breaker": {"state": progress.breaker.value, "trips": progress.trips},
        "usage": _usage(state.usage),
        "gaps": [_gap(gap) for gap in progress.gaps],
        "turns": [_turn(turn) for turn in _turns(record.events)],
        _TEXTS: cipher.sealed(json.dumps(mapped_object(_texts(record), mask), sort_keys=True), _TEXTS),
    }
    return f"{json.dumps(told, indent=2)}\n"


def event_lines(record: RunRecord, reader: Label, cipher: RecordCipher, mask: Callable[[str], str]) -> Iterator[str]:
    """Yield a line of JSON for each event that `reader` may know, its body sealed."""
    for event in record.events:
        if event.label.flows_to(reader):
            body = mapped_object(event_log.told_to(event, reader, whole=True), mask)
            number = place(event, record.state)
            told: dict[str, JsonValue] = {
                "seq": number,
                "at": _at(event.ts),
                "type": event.type,
                "actor": event.actor,
                "label": str(event.label),
                "visibility": event.visibility.value,
                "turn": event.turn or None,
                "refs": refs.written(event.refs) or None,
                "body": cipher.sealed(json.dumps(body, sort_keys=True), _event_place(number)),
            }
            yield f"{json.dumps(told)}\n"


def tells(found: bytes | None, progress: Progress) -> bool:
    """Say whether a document, None for none, covers all that a run's record needs by now: its end, or a last gap.

    An end is not compared by its time: a clock that goes back may put it before a gap that was recorded.
    """
    known: JsonObject = {} if found is None else parsed(found)
    if progress.ended_at or known.get("ended_at"):
        return bool(known.get("ended_at"))
    moment, wanted = known.get("recorded_at"), _at(due_at(progress))
    # All of them are written alike, in UTC.
    return isinstance(moment, str) and wanted is not None and moment >= wanted


def parsed(found: bytes) -> JsonObject:
    """Return a document or a line as an object, an empty one if it is not an object."""
    try:
        value = cast("JsonValue", json.loads(found))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def opened(found: JsonObject, cipher: RecordCipher) -> JsonObject:
    """Return a document or a line with its sealed parts decrypted; an unreadable part is null."""
    if _TEXTS in found:
        return {**found, _TEXTS: _read(found[_TEXTS], _TEXTS, cipher)}
    return {**found, "body": _read(found.get("body"), _event_place(found.get("seq")), cipher)}


def _read(sealed: JsonValue, where: str, cipher: RecordCipher) -> JsonValue:
    text = cipher.opened(sealed, where) if isinstance(sealed, str) else None
    return None if text is None else dict(parsed(text.encode("utf-8", "surrogatepass")))


def _event_place(number: JsonValue) -> str:
    return f"events/{number}"


def _texts(record: RunRecord) -> JsonObject:
    """Return the words of people and models about a run beside its log."""
    charter, progress, title = record.charter, record.progress, record.state.title
    return {
        "title": title.text if title else "",
        "slot": charter.slot,
        "asked_at": charter.asked_at,
        "deliver_to": charter.deliver_to,
        "task": progress.task,
        "next_action": progress.next_action,
    }


def _turns(events: Sequence[Event]) -> Iterator[TurnRecord]:
    for event in events:
        if isinstance(event.body, TurnCompleted):
            yield TurnRecord(event.turn, event.seq, event.ts, event.body)


def _turn(turn: TurnRecord) -> JsonValue:
    return {
        "id": turn.id,
        "started_at": _at(turn.started_at),
        "completed_at": _at(turn.completed_at),
        "active_seconds": turn.active_seconds,
        "reason": turn.told.reason.value,
        "attempt": turn.told.attempt,
        "error": turn.told.error or None,
        "usage": _usage(turn.told.usage),
    }


def _gap(gap: Gap) -> JsonValue:
    return {"since": _at(gap.since), "until": _at(gap.until), "reason": gap.reason.value}


def _usage(usage: Usage) -> JsonValue:
    """Return the usage of models: where a provider did not say all, the known part is not given as a sum."""
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens if usage.complete else None,
        "output_tokens": usage.output_tokens if usage.complete else None,
        "known_tokens": usage.input_tokens + usage.output_tokens,
        "cost": usage.cost / _MILLIONTHS if usage.priced else None,
    }


def _at(milliseconds: int) -> str | None:
    """Return a moment as text, in UTC; None for 0, which stands for never."""
    return _date(milliseconds).isoformat(timespec="milliseconds") if milliseconds else None


def _date(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
