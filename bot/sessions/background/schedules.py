"""Schedules and reminders, and the timers that set them off, as the store keeps them.

A timer is a name and the moment when it is due. A worker that takes a due one has it for a while; if it is not settled
by then, it is due again: so none is lost, and what it does must be the same when it is done twice.

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum

from bot.sessions.background.runs import RunType
from bot.sessions.refs import Ref
from policy.labels import Label


class TimerKind(StrEnum):
    """What a timer sets off: a schedule, the end or the next try of a run, or the writing of a run's record."""

    SCHEDULE = "schedule"
    DEADLINE = "deadline"
    PROBE = "probe"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Timer:
    """Something due at a moment: `about` is the id of a schedule, or of a run's session."""

    kind: TimerKind
    about: str
    due: int


class ScheduleKind(StrEnum):
    """What a schedule does: start a run, or say a text."""

    RUN = "run"
    REMINDER = "reminder"


class Overlap(StrEnum):
    """What becomes of a moment at which the run of the one before still goes on."""

    SKIP = "skip"
    ALLOW = "allow"


class ScheduleStatus(StrEnum):
    """Whether a schedule is in force; one that is done has no moment left."""

    ACTIVE = "active"
    PAUSED = "paused"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule or reminder of a principal.

    `text` is the goal of its runs or what is said, with its creator's `label`: a run starts there, and a reminder keeps
    it to the address where it is said. `cron` is a line of five fields in the time zone `zone`, empty for one that is
    due once. `next_at` is the next moment, 0 for none. `deliver_to` names who hears it, empty for the place `asked_at`,
    and `meant` is what that name meant. `run_type` and `slot` are those of its runs. `asker` is the person who made it,
    `by_agent` tells that an agent did, with their approval. `last_at` is the last moment that was carried out and
    `last_run` the session of its run. `failures` counts those in a row. `authors` are the people besides the asker
    whose words it derives from, and `refs` what it came from.
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
