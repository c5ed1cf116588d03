"""Runs: sessions whose loop the runtime drives, as the store keeps them.

A run's `Charter` is written once, with the session. Its `Progress` changes while it runs: by its tools, by the end of
each turn, and by people who steer it. Both are part of the session's own records, so they are shown only to readers who
may know of the session (law `no_read_up`).

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from bot.sessions.background.delegation import SESSION, Lineage
from bot.sessions.background.run_states import AuthMethod, Breaker, EndReason, GapReason, Priority, RunStatus, RunType
from bot.sessions.messages import Endorsed
from bot.sessions.refs import Ref
from channels.messages import Address
from policy.labels import PUBLIC, Label

RUN: Final = "run"
"""The channel of a run's home (`run_home`). Nobody reads there, and nothing is sent there."""

UNREAD: Final = frozenset({SESSION, RUN})
"""The channels of homes that have no readers but the session itself, so that any process may work it."""


def run_home(principal: str, run: str) -> Address:
    """Return the home of a principal's run."""
    return Address(RUN, run, principal)


RESERVATION: Final = 30_000
"""Milliseconds from `RunSlot.since` within which a reserved run must be created."""


@dataclass(frozen=True, slots=True)
class Charter:
    """The terms that a run was started with.

    Args:
        run: Its id, by which people and the API name it.
        type: Its type.
        deadline: When it ends at the latest.
        slot: The slot that it may lock; its own id by default.
        asker: The person or program who set it going. Messages of the runtime to the run are theirs and have their
            rights.
        title: Its title.
        asked_at: The address, as text, from which it was started. Its person is asked and told first there, if they are
            alone there.
        deliver_to: The name of a recipient who hears its last answer besides, empty for none.
        meant: The meaning of that name at the start (`bot.access.recipients.meaning`).
        schedule: The schedule that started it, empty for none.
        due: The moment of the schedule that it was started for.
        hops: How many sessions its start came through; each of its turns has the same number.
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
"""The origin of a session without a chat: the lineage of a task, or the charter of a run."""


def called(background: Background) -> str:
    """Return the name of a task or a run in messages to people."""
    kind = "run" if isinstance(background, Charter) else "background session"
    return f"{kind} {background.run}"


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nothing was done: `until` is 0 while it lasts."""

    since: int
    until: int
    reason: GapReason


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    Args:
        initialized_at: When it was initialized, 0 before.
        status: Its status.
        task: Its current task.
        auth_method: How it pays for its model, by its own account.
        completed: The number of completed tasks, which never decreases.
        failed: The number of failed tasks, which never decreases.
        skipped: The number of skipped tasks, which never decreases.
        consecutive: The number of failures in a row.
        breaker: The state of its circuit breaker.
        opened_at: When the breaker opened.
        trips: How often in a row the breaker opened.
        aborting: When it was told to end, 0 for never.
        turns: The number of its turns.
        beat_at: The time of its last heartbeat.
        next_action: The next action that its last heartbeat announced.
        ended_at: When it ended, 0 before.
        reason: Why it ended.
        gaps: Its last gaps, oldest first.
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
        """Whether `session_initialize` was called and the slot is locked for the run."""
        return self.initialized_at > 0

    @property
    def over(self) -> bool:
        """Whether it has ended, or is to end with its turn."""
        return self.ended_at > 0 or self.status is RunStatus.STOPPED


@dataclass(frozen=True, slots=True)
class ProgressChange:
    """A change by `session_update` and similar tools; a field that is None stays as it is.

    Args:
        task: The current task.
        status: The status.
        auth_method: How it pays for its model.
        failed: The number of failed tasks; a decrease is refused.
        skipped: The number of skipped tasks; a decrease is refused.
        consecutive: The number of failures in a row.
        completes: Whether to count the current task as completed, once per task, and reset `consecutive` to 0.
        initializes: Whether it is initialized now.
        beats: Whether it gives a heartbeat.
        next_action: Its next action.
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
    """A steering note: `read_at` is 0 until the run's log holds the result that showed it."""

    id: str
    priority: Priority
    text: str
    label: Label
    sender: str
    at: int
    read_at: int = 0


@dataclass(frozen=True, slots=True)
class RunStep:
    """The effect of a turn's end on its run, written in one step with that end.

    Args:
        progress: The progress without the changes of its tools: turns, breaker, gaps, end, and the status and failures
            in a row that follow from the last read. The stored values of the tools' fields stay.
        continuation: The runtime's next message to the run, empty for none.
        hops: How many sessions the continuation came through.
    """

    progress: Progress
    continuation: str = ""
    hops: int = 0


@dataclass(frozen=True, slots=True)
class RunSlot:
    """The place of a run among those of its principal, in a pool of one label.

    Args:
        run: The run.
        sid: Its session.
        pool: The pool.
        slot: The slot that it has locked, empty for none and once the run was deleted.
        since: When the slot was locked, before that when the place was reserved.
        until: When it is given back at the latest.
        fence: A number that rises with each lock in the pool.
        live: Whether it has not been given back.
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
    """The wish for a run: its goal and terms.

    Args:
        goal: The goal.
        type: The type.
        title: The title.
        slot: The slot that it may lock, empty for its own.
        hours: The longest time it may take, 0 for the configured one.
        deliver_to: The name of a recipient who hears its last answer besides, empty for none.
        meant: The meaning of that name now.
        refs: The sources that the goal came from.
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
    """A wish for a run with its origin: facts of the program, never content.

    Args:
        wish: The wish.
        key: Its idempotency key: the same key is the same run.
        principal: The principal of the run.
        asker: The person or program who set it going.
        label: The label of the goal and of the wish's existence: the run starts at it.
        asked_at: The address, as text, from which it was asked for.
        session: The session whose agent wants it, empty for a person or a schedule.
        turn: The turn of that session, empty for a person or a schedule.
        typed: The web addresses that the asker typed in that session.
        endorsed: The bounded answers that session has heard.
        authors: The people whose words the session holds.
        schedule: The schedule that starts it, empty for none.
        due: The moment of the schedule.
        by_agent: Whether an agent worded the goal, so that it does not count as a person's words.
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
    """A started run: its id, its session, and its deadline."""

    run: str
    sid: str
    deadline: int


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as its turn sees it; `progress` is as of the last read of the store."""

    charter: Charter
    progress: Progress
    label: Label = PUBLIC
