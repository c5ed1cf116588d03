"""Runs as people and programs see, steer and end them: a chat, the API and the command line share this.

A run is started by the gate, as an agent's call of `runs_start` is. What is told of one is compared with who asks (law
`no_read_up`): a run that is absent, another's, or above the reader is one answer. Its owner may still stop it blindly.
"""

from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.access.session_ids import SessionIds
from bot.core.clock import Clock
from bot.core.errors import ArchivedError, NotFoundError, RequestError, SchemaError
from bot.operations.gated_calls import GatedCalls, RefusedCall
from bot.operations.lifecycle import SessionLifecycle
from bot.runs.statistics import RunStatistics, statistics
from bot.sessions.audit import AuditRow
from bot.sessions.log.events import Event
from bot.sessions.models import SessionKind, SessionQuery, SessionState, Status
from bot.sessions.ports.store import Store
from bot.sessions.runs import RUN, Charter, EndReason, NewNote, Note, Priority, Progress, RunType
from bot.sessions.schedules import Timer, TimerKind
from bot.sessions.visibility import LONGEST_ID
from channels.messages import Address
from policy.labels import PUBLIC, Label, join_all

LISTED: Final = 20
"""Runs that a page shows if it does not say."""

_WINDOW: Final = 200
_LOGGED: Final = 200


@dataclass(frozen=True, slots=True)
class RunViewer:
    """Who asks about runs: a `principal` with their own, or an operator, for whom it is empty, with everybody's.

    `reader` is the most that they may be told where they ask, and `typed` the label of what they say there. `actor` is
    who does what they do.
    """

    principal: str
    reader: Label
    typed: Label
    actor: str


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run that may be told of: its session, what it was started as, and how far it came."""

    state: SessionState
    charter: Charter
    progress: Progress

    @property
    def id(self) -> str:
        """The id by which it is named."""
        return self.charter.run

    @property
    def label(self) -> Label:
        """The label of what telling of it tells."""
        return self.state.visibility


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, newest first; `cursor` asks for the next page, empty at the end. `label` is that of what the page tells."""

    runs: tuple[KnownRun, ...]
    cursor: str
    label: Label = PUBLIC


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that a person or program wants: as the arguments of `runs_start`, empty or 0 for what configuration says.

    `hours` is until its deadline.
    """

    goal: str
    type: RunType = RunType.AUTONOMOUS
    title: str = ""
    slot: str = ""
    hours: int = 0
    deliver_to: str = ""

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """The arguments of the call that starts it."""
        more: dict[str, JsonValue] = {
            "title": self.title,
            "slot": self.slot,
            "hours": self.hours,
            "deliver_to": self.deliver_to,
        }
        return {"goal": self.goal, "type": self.type.value, **{name: value for name, value in more.items() if value}}


class RunOperations:
    """Starts, shows, steers and ends runs for people and programs."""

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self, *, store: Store, calls: GatedCalls, lifecycle: SessionLifecycle, session_ids: SessionIds, clock: Clock
    ) -> None:
        self._store = store
        self._calls = calls
        self._lifecycle = lifecycle
        self._session_ids = session_ids
        self._clock = clock

    async def start(self, standing: DecisionContext, key: str, wanted: RunRequest, typed: Label) -> KnownRun | RefusedCall:
        """Start a run for who stands there, through the gate; the same `key` there is the same run.

        `typed` is the label of what they say: the run begins with it.

        Raises RequestError: it cannot be started as it is wanted. BusyError: as many live as may. StoreError.
        """
        raise NotImplementedError

    async def page(self, by: RunViewer, *, cursor: str = "", limit: int = LISTED, ended: bool = False) -> RunPage:
        """Return runs that may be told of, newest first, with `ended` those that are over, too.

        Raises CursorError: the cursor is of no page of theirs. StoreError.
        """
        raise NotImplementedError

    async def show(self, by: RunViewer, name: str) -> KnownRun:
        """Return a run by its id, or that of its session.

        Raises NotFoundError: there is none that may be told of. StoreError.
        """
        raise NotImplementedError

    async def stats(self, by: RunViewer, name: str) -> tuple[KnownRun, RunStatistics]:
        """Return a run in numbers. Raises NotFoundError, StoreError."""
        raise NotImplementedError

    async def log(self, by: RunViewer, name: str) -> tuple[KnownRun, tuple[Event, ...]]:
        """Return the newest events of a run that may be told, oldest first. Raises NotFoundError, StoreError."""
        raise NotImplementedError

    async def steer(self, by: RunViewer, name: str, note: str, priority: Priority, key: str) -> KnownRun:
        """Give a run a steering note, once for its `key`; it is labelled like what they type.

        Raises NotFoundError: there is none that may be told of, or it has ended. BusyError: as many notes wait as may.
        """
        raise NotImplementedError

    async def pause(self, by: RunViewer, name: str) -> KnownRun:
        """Let a run rest: no turn of it begins. Raises NotFoundError, RequestError, StoreError."""
        raise NotImplementedError

    async def resume(self, by: RunViewer, name: str) -> KnownRun:
        """Let a run that rests go on. Raises NotFoundError, RequestError, StoreError."""
        raise NotImplementedError

    async def stop(self, by: RunViewer, name: str) -> KnownRun | None:
        """End a run for good, with all that it spawned, also one of theirs that rose above them.

        Returns it if it may be told of, before and after, else None: nothing more may be said then.

        Raises NotFoundError: they have none. ArchivedError: it has ended, as they may know. StoreError.
        """
        raise NotImplementedError
