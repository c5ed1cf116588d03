"""Runs: sessions whose loop the runtime drives, as the store keeps them.

A run's `Charter` is written once, with the session. Its `Progress` changes while it goes on: by its tools, by the end
of each turn, and by people who steer it. All of it is part of the session's own records, so what is told of it is told
to those alone who may know of the session (law `no_read_up`).

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from bot.sessions.background.delegation import SESSION, Lineage
from bot.sessions.messages import Endorsed
from bot.sessions.refs import Ref
from channels.messages import Address
from policy.labels import PUBLIC, Label

RUN: Final = "run"
"""The channel of a run's home (`run_home`). Nobody reads there, and nothing is sent there."""

UNREAD: Final = frozenset({SESSION, RUN})
"""The channels of homes where nobody reads but a session itself, so that any process may work it."""


def run_home(principal: str, run: str) -> Address:
    """Return the home of a principal's run."""
    return Address(RUN, run, principal)


RESERVATION: Final = 30_000
"""Milliseconds within which a run must be made, from `RunSlot.since` of its place on."""


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
    which moment. `hops` is through how many sessions it came that it was started: so far is each of its turns.
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
    hops: int = 0


Background: TypeAlias = Lineage | Charter
"""What a session was set going as to which nobody talks: a task, or a run."""


def called(background: Background) -> str:
    """Return how people are told of a task or a run."""
    kind = "run" if isinstance(background, Charter) else "background session"
    return f"{kind} {background.run}"


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
    its tools changed: turns, breaker, gaps, end, with the status and the consecutive failures that follow from what the
    store told last. The other fields are the tools', and stay as they are stored.
    """

    progress: Progress
    continuation: str = ""
    hops: int = 0


@dataclass(frozen=True, slots=True)
class RunSlot:
    """The place of a run among those of its principal, in a pool of one label.

    `slot` is the slot that it has locked, empty for none and once the run was deleted, and `fence` rises with each lock
    in its pool. `since` is when that was locked, before that when the place was reserved. It is given back at `until`
    at the latest. `live` tells that nobody gave it back.
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
class RunWish:
    """A run that is wanted: what it is to do, and how.

    `hours` is how long it may take at most, 0 for as long as configuration gives. `slot` is the one that it may lock,
    empty for its own. `meant` is what the name `deliver_to` means. `refs` are what the goal came from.
    """

    goal: str
    type: RunType = RunType.AUTONOMOUS
    title: str = ""
    slot: str = ""
    hours: int = 0
    deliver_to: str = ""
    meant: str = ""
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A wish for a run, with who has it and from where: facts of the program, never content.

    `key` is its idempotency key: the same key is the same run. `principal` is whose run it is, and `asker` the person
    or program who set it going. `label` is that of the goal, and of all that the wish tells by being there: the run
    starts at it. `asked_at` is the address, as text, from which it was asked for. `session` is the session whose agent
    wants it, in its turn `turn`; both are empty for a person or a schedule. `typed`, `endorsed` and `authors` are as
    that session has them. `schedule` is the schedule that starts it, for the moment `due`. `by_agent` tells that an
    agent worded the goal, so that it counts as no person's words.
    """

    wish: RunWish
    key: str
    principal: str
    asker: str
    label: Label
    asked_at: str = ""
    session: str = ""
    turn: str = ""
    typed: tuple[str, ...] = ()
    endorsed: tuple[Endorsed, ...] = ()
    authors: tuple[str, ...] = ()
    schedule: str = ""
    due: int = 0
    by_agent: bool = False


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that was started: its id, its session, and when it ends at the latest."""

    run: str
    sid: str
    deadline: int


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as its turn sees it; `progress` as of the last look at the store."""

    charter: Charter
    progress: Progress
    label: Label = PUBLIC
