"""Runs: sessions whose loop the runtime drives, as the store keeps them.

A run's `Charter` is written once, with the session. Its `Progress` changes while it goes on: by its tools, by the end
of each turn, and by people who steer it. All of it is part of the session's own records, so what is told of it is told
to those alone who may know of the session (law `no_read_up`).

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from channels.messages import Address
from policy.labels import PUBLIC, Label

RUN: Final = "run"
"""The channel of a run's home: see `run_home`. Nobody reads there, and nothing is sent there."""


def run_home(principal: str, run: str) -> Address:
    """Return the home of a run; its session is the first of that address."""
    return Address(RUN, run, principal)


class RunType(StrEnum):
    """How a run goes on: AUTONOMOUS by itself, MANUAL when it is told something."""

    AUTONOMOUS = "autonomous"
    MANUAL = "manual"


class RunStatus(StrEnum):
    """What a run is doing. `STOPPED` is for ever."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class AuthMethod(StrEnum):
    """How a run says that it pays for its model."""

    CLAUDE_PRO = "claude_pro"
    API_KEY = "api_key"


class Breaker(StrEnum):
    """The circuit breaker: CLOSED lets a run go on, OPEN pauses it, HALF_OPEN lets it try once more."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Priority(StrEnum):
    """How a steering note counts: URGENT means stop and pivot, ABORT finish safely and end."""

    NORMAL = "normal"
    URGENT = "urgent"
    ABORT = "abort"


class EndReason(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    ABORTED = "aborted"
    DEADLINE = "deadline"
    LIMIT = "limit"
    SLOT_LOCKED = "slot_locked"
    NOT_INITIALIZED = "not_initialized"
    FAILED = "failed"


class GapReason(StrEnum):
    """Why nothing was done in a run for a while."""

    CRASH = "crash"
    BREAKER = "breaker"
    PAUSED = "paused"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Charter:
    """What a run was started as.

    `run` is its id, which people and the API name it by. `deadline` is when it ends at the latest. `slot` is the slot
    that it may lock, its own id unless it was told another. `asked_at` is the address, as text, from which it was
    started: where its person is asked and told first, if they are alone there. `deliver_to` names the recipient who
    hears its last answer besides, empty for nobody, and `meant` is what that name meant then
    (`bot.access.recipients.meaning`). `asker` is the person or program who set it going: what the runtime says to a run
    is theirs, and counts for what they may. `schedule` is the schedule that started it, empty for none, and `due` for
    which moment.
    """

    run: str
    type: RunType
    deadline: int
    slot: str
    asker: str
    title: str = ""
    asked_at: str = ""
    deliver_to: str = ""
    meant: str = ""
    schedule: str = ""
    due: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nothing was done: `until` is 0 while that lasts."""

    since: int
    until: int
    reason: GapReason


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run came.

    `initialized_at` is 0 until it was initialized. `task` is what it works on. The counters `completed`, `failed` and
    `skipped` never go down. `breaker` opened at `opened_at`, and so often in a row: `trips`. `aborting` is since when
    it was told to end, 0 for never. `ended_at` is 0 until it has ended, for `reason`. `gaps` are the last ones, oldest
    first. `beat_at` is when it gave its last heartbeat, with `next_action`.
    """

    initialized_at: int = 0
    status: RunStatus = RunStatus.RUNNING
    task: str = ""
    auth_method: AuthMethod | None = None
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    consecutive: int = 0
    breaker: Breaker = Breaker.CLOSED
    opened_at: int = 0
    trips: int = 0
    aborting: int = 0
    turns: int = 0
    beat_at: int = 0
    next_action: str = ""
    ended_at: int = 0
    reason: EndReason | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def initialized(self) -> bool:
        """Whether `session_initialize` was called, and the slot is the run's."""
        return self.initialized_at > 0

    @property
    def over(self) -> bool:
        """Whether it has ended, or is to end with its turn."""
        return self.ended_at > 0 or self.status is RunStatus.STOPPED


@dataclass(frozen=True, slots=True)
class ProgressChange:
    """What `session_update` and its like change: what is None stays.

    Counters that would go down are refused. `completes` counts the current task as completed, once per task, and sets
    the consecutive failures to 0. `initializes` is when it was initialized.
    """

    task: str | None = None
    status: RunStatus | None = None
    auth_method: AuthMethod | None = None
    failed: int | None = None
    skipped: int | None = None
    consecutive: int | None = None
    completes: bool = False
    initializes: bool = False
    beats: bool = False
    next_action: str | None = None


@dataclass(frozen=True, slots=True)
class NewNote:
    """A steering note to give to a run: who wrote it, with its inbound label."""

    id: str
    priority: Priority
    text: str
    label: Label
    sender: str


@dataclass(frozen=True, slots=True)
class Note:
    """A steering note: `read_at` is 0 until the run's log holds the result that told it."""

    id: str
    priority: Priority
    text: str
    label: Label
    sender: str
    at: int
    read_at: int = 0


@dataclass(frozen=True, slots=True)
class RunStep:
    """What the end of a turn means for its run; it is written with that end, in one step.

    `continuation` is what the runtime says next, empty for nothing. `progress` is how far it came by then, without what
    its tools changed: turns, breaker, gaps, end.
    """

    progress: Progress
    continuation: str = ""


@dataclass(frozen=True, slots=True)
class RunSlot:
    """The place of a run among those of its principal, in a pool of one label.

    `slot` is the slot that it has locked, empty for none, and `fence` counts the locks of that slot. It is given back
    at `until` at the latest. `live` tells that nobody gave it back.
    """

    run: str
    sid: str
    pool: Label
    slot: str
    since: int
    until: int
    fence: int
    live: bool


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as its turn sees it; `progress` as of the last look at the store."""

    charter: Charter
    progress: Progress
    label: Label = PUBLIC
