"""Schedules and reminders, and their timers, as the store keeps them.

A timer is a name and the moment when it is due. A worker that takes a due timer holds it for a while; a timer not
settled by then is due again. So no timer is lost, and its effect must be idempotent.

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum

from bot.sessions.background.run_states import RunType
from bot.sessions.refs import Ref
from policy.labels import Label


class TimerKind(StrEnum):
    """The effect of a timer: a schedule, the end or the next try of a run, its record, or a reminder of a question."""

    SCHEDULE = "schedule"
    DEADLINE = "deadline"
    PROBE = "probe"
    RECORD = "record"
    REMIND = "remind"


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer due at a moment: `about` is the id of a schedule, or of a run's session.

    For a question it is the ids of its session and of the question, with a `/` between.
    """

    kind: TimerKind
    about: str
    due: int


class ScheduleKind(StrEnum):
    """The effect of a schedule: it starts a run, or sends a text."""

    RUN = "run"
    REMINDER = "reminder"


class Overlap(StrEnum):
    """The effect of a moment while the run before still lasts: the moment is skipped, or starts another run."""

    SKIP = "skip"
    ALLOW = "allow"


class ScheduleStatus(StrEnum):
    """Whether a schedule is in force; a schedule that is done has no further moment."""

    ACTIVE = "active"
    PAUSED = "paused"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule or reminder of a principal.

    Args:
        id: Its id.
        principal: Its principal.
        asker: The person who made it.
        kind: Its kind.
        text: The goal of its runs, or the text to send.
        label: The label of its creator. A run starts at it; a reminder is sent to its address only if this label may
            be.
        cron: A line of five fields, empty for a schedule that is due once.
        zone: The time zone of `cron`.
        next_at: The next moment, 0 for none.
        created_at: When it was made.
        asked_at: The address, as text, where it was made.
        title: Its title.
        deliver_to: The name of its recipient, empty for `asked_at`.
        meant: The meaning of that name when it was made.
        run_type: The type of its runs.
        slot: The slot of its runs.
        overlap: The effect of a moment while the run before still lasts.
        by_agent: Whether an agent made it, with the asker's approval.
        status: Its status.
        last_at: The last moment that was carried out.
        last_run: The session of the run of that moment.
        failures: The number of failures in a row.
        skipped: The number of skipped moments.
        authors: The people besides the asker whose words it derives from.
        refs: The sources that it came from.
    """

    id: str
    principal: str
    asker: str
    kind: ScheduleKind
    text: str
    label: Label
    cron: str
    zone: str
    next_at: int
    created_at: int
    asked_at: str
    title: str = ""
    deliver_to: str = ""
    meant: str = ""
    run_type: RunType = RunType.AUTONOMOUS
    slot: str = ""
    overlap: Overlap = Overlap.SKIP
    by_agent: bool = False
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    last_at: int = 0
    last_run: str = ""
    failures: int = 0
    skipped: int = 0
    authors: tuple[str, ...] = ()
    refs: tuple[Ref, ...] = ()
