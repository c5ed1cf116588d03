"""The documents about runs and schedules: the bodies that programs send to start and steer them, and the answers.

An answer is made of a record that its reader may know of, and of nothing else.
"""

from typing import Literal

from pydantic import Field

from bot.api.shapes import ApiInput, ApiOutput
from bot.operations.background.runs import LONGEST_NOTE, KnownRun, RunDoing
from bot.operations.background.schedules import KnownSchedule
from bot.runs.statistics import RunStatistics
from bot.sessions.background.run_states import Breaker, EndReason, RunType
from bot.sessions.background.runs import Note
from bot.sessions.background.schedules import Overlap, ScheduleKind, ScheduleStatus

_LONGEST_NAME = 64
_LONGEST_TITLE = 100
_LONGEST_WHEN = 200


class NewRun(ApiInput):
    """A run to start."""

    goal: str = Field(min_length=1, max_length=100_000, pattern=r"\S", description="Its goal.")
    type: Literal["autonomous", "manual"] = Field(
        default="autonomous", description="Whether it goes on by itself, or waits for messages to its session."
    )
    title: str = Field(default="", max_length=_LONGEST_TITLE)
    slot: str = Field(
        default="",
        max_length=_LONGEST_NAME,
        description="A name that no two runs may have at a time; its own if left out.",
    )
    hours: int | None = Field(default=None, ge=1, le=24 * 30, description="Until it ends at the latest.")
    deliver_to: str = Field(default="", max_length=_LONGEST_NAME, description="Who hears its last answer besides.")


class RunStarted(ApiOutput):
    """A run that was started, by this request or one with the same key."""

    id: str


class RunDocument(ApiOutput):
    """A run."""

    id: str
    session: str = Field(description="The session that it is: its events, result and copies are under `/sessions`.")
    type: RunType
    status: RunDoing = Field(
        description="`waiting` is for people, `stopped` before the turn ends in which it stopped itself."
    )
    title: str | None
    taint: str = Field(description="The label of everything that it has read.")
    slot: str
    started_at: int = Field(description="Milliseconds since 1970.")
    deadline: int
    initialized: bool
    current_task: str | None
    tasks_completed: int
    tasks_failed: int
    tasks_skipped: int
    consecutive_failures: int
    breaker: Breaker
    turns: int
    waiting_notes: int = Field(description="Steering notes that it has not read.")
    next_action: str | None = Field(description="The next action that it named at its last heartbeat.")
    schedule: str | None = Field(description="The schedule that started it.")
    ended_at: int | None
    reason: EndReason | None


class RunList(ApiOutput):
    """A page of runs, newest first; `cursor` asks for the next page, null at the end."""

    runs: tuple[RunDocument, ...]
    cursor: str | None


class RunNumbers(ApiOutput):
    """A run in numbers; an unknown number is null, never 0."""

    runtime_seconds: float
    tasks_completed: int
    tasks_failed: int
    tasks_skipped: int
    completion_rate: float | None = Field(description="Of the tasks that are done with; null before there is one.")
    failure_rate: float | None
    skip_rate: float | None
    seconds_per_task: float | None
    turns: int
    tokens: int | None
    cost: int | None = Field(description="Millionths of the currency of the configured prices.")


class NewNoteRequest(ApiInput):
    """A steering note for a run: it hears it at its next heartbeat."""

    text: str = Field(min_length=1, max_length=LONGEST_NOTE, pattern=r"\S")
    priority: Literal["normal", "urgent", "abort"] = Field(
        default="normal", description="`urgent` is to stop and pivot, `abort` to finish safely and end."
    )


class NoteTaken(ApiOutput):
    """A steering note that waits."""

    id: str


class NewSchedule(ApiInput):
    """A schedule or reminder to make."""

    kind: Literal["run", "reminder"]
    when: str = Field(
        min_length=1,
        max_length=_LONGEST_WHEN,
        description="A moment in words, as `tomorrow 9:00`, or a line of cron.",
    )
    text: str = Field(
        min_length=1, max_length=20_000, pattern=r"\S", description="The goal of its runs, or the text of the reminder."
    )
    time_zone: str = Field(default="", max_length=_LONGEST_NAME, description="Such as `Europe/Berlin`.")
    title: str = Field(default="", max_length=_LONGEST_TITLE)
    deliver_to: str = Field(default="", max_length=_LONGEST_NAME, description="Who hears it.")
    overlap: Literal["skip", "allow"] = Field(
        default="skip", description="How it treats a moment at which its last run still goes on."
    )


class ScheduleDocument(ApiOutput):
    """A schedule or reminder."""

    id: str
    kind: ScheduleKind
    status: ScheduleStatus
    title: str | None
    text: str
    label: str = Field(description="Its runs begin with it, and a reminder keeps it.")
    cron: str | None = Field(description="Null for one that is due once.")
    time_zone: str
    next_at: int | None = Field(description="The next moment, milliseconds since 1970.")
    created_at: int
    deliver_to: str | None
    overlap: Overlap
    by_agent: bool = Field(description="Whether an agent made it, with a person's approval.")
    last_at: int | None
    last_run: str | None = Field(description="The id of its last run; null where it may not be told of.")
    failures: int = Field(description="In a row.")
    skipped: int


class ScheduleList(ApiOutput):
    """The schedules of this program, the oldest first."""

    schedules: tuple[ScheduleDocument, ...]


def run_document(known: KnownRun, notes: tuple[Note, ...]) -> RunDocument:
    """Return the document of a run for a reader who may know of it.

    `notes` are those of its notes that they may know.
    """
    state, charter, done = known.state, known.charter, known.progress
    return RunDocument(
        id=known.id,
        session=state.sid,
        type=charter.type,
        status=known.doing,
        title=charter.title or None,
        taint=str(state.taint),
        slot=charter.slot,
        started_at=state.created_at,
        deadline=charter.deadline,
        initialized=done.initialized,
        current_task=done.task or None,
        tasks_completed=done.completed,
        tasks_failed=done.failed,
        tasks_skipped=done.skipped,
        consecutive_failures=done.consecutive,
        breaker=done.breaker,
        turns=done.turns,
        waiting_notes=sum(not note.read_at for note in notes),
        next_action=done.next_action or None,
        schedule=charter.schedule or None,
        ended_at=done.ended_at or None,
        reason=done.reason,
    )


def numbers_document(numbers: RunStatistics) -> RunNumbers:
    """Return a run in numbers."""
    return RunNumbers(
        runtime_seconds=numbers.runtime_seconds,
        tasks_completed=numbers.completed,
        tasks_failed=numbers.failed,
        tasks_skipped=numbers.skipped,
        completion_rate=numbers.completion_rate,
        failure_rate=numbers.failure_rate,
        skip_rate=numbers.skip_rate,
        seconds_per_task=numbers.seconds_per_task,
        turns=numbers.turns,
        tokens=numbers.tokens,
        cost=numbers.cost,
    )


def schedule_document(known: KnownSchedule) -> ScheduleDocument:
    """Return the document of a schedule for a reader who may know of it."""
    one = known.schedule
    return ScheduleDocument(
        id=one.id,
        kind=one.kind,
        status=one.status,
        title=one.title or None,
        text=one.text,
        label=str(one.label),
        cron=one.cron or None,
        time_zone=one.zone,
        next_at=one.next_at or None,
        created_at=one.created_at,
        deliver_to=one.deliver_to or None,
        overlap=one.overlap,
        by_agent=one.by_agent,
        last_at=one.last_at or None,
        last_run=known.last_run or None,
        failures=one.failures,
        skipped=one.skipped,
    )
