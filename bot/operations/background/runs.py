"""Runs as people and programs see, steer and end them: a chat, the API and the command line share this.

A run is started by the gate, as an agent's call of `runs_start` is. A run's facts are compared with the caller's
clearance (law `no_read_up`): a run that is absent, another's, or above the reader is one answer. Its owner may still
stop it blindly.
"""

import json
from dataclasses import dataclass
from typing import Final, Literal, cast

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.access.session_ids import SessionIds
from bot.core.clock import Clock
from bot.core.errors import (
    ArchivedError,
    BusyError,
    DedupeConflictError,
    FullError,
    NotFoundError,
    RequestError,
    SchemaError,
    in_words,
)
from bot.gate.results import ResultDecision
from bot.operations.gated_calls import GatedCalls, RefusedCall
from bot.operations.lifecycle import SessionLifecycle
from bot.run_records.recorder import RECORD_AFTER
from bot.runs import loop
from bot.runs.statistics import RunStatistics, statistics
from bot.sessions.audit import AuditRow
from bot.sessions.background.run_states import Breaker, Priority, RunStatus
from bot.sessions.background.runs import Charter, NewNote, Note, Progress, RunWish, run_home
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.log.event_types import UserMessage
from bot.sessions.log.events import Event
from bot.sessions.models import SessionKind, SessionQuery, SessionState
from bot.sessions.ports.store import Store
from bot.sessions.visibility import LONGEST_ID, label_of
from policy.labels import PUBLIC, Label, join_all

START: Final = "runs_start"
"""The tool by which runs are started."""

RunDoing = Literal["running", "paused", "waiting", "stopped", "ended"]
"""A run's state, in a word: `waiting` is for people, `stopped` before the turn ends in which it stopped itself."""

LISTED: Final = 20
"""Runs that a page shows if it does not say."""

LONGEST_NOTE: Final = 4_000
"""Characters of a steering note."""

_WINDOW: Final = 200
_LOGGED: Final = 200
_BEGINNING: Final = 10
"""Within how many events of its log a run's goal stands."""


@dataclass(frozen=True, slots=True)
class RunViewer:
    """The viewer of runs: a `principal` for their own, or an operator, with an empty one, for all.

    `reader` is the clearance of their address, and `typed` the label of their words there. `actor` is the person or
    program that acts. `chat` is the shared chat where they ask, as a principal: its runs that they set going are theirs
    to see there, too. It is empty elsewhere.
    """

    principal: str
    reader: Label
    typed: Label
    actor: str
    chat: str = ""


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run that the viewer may know of: its session, its charter, and its progress."""

    state: SessionState
    charter: Charter
    progress: Progress

    @property
    def id(self) -> str:
        """The id by which it is named."""
        return self.charter.run

    @property
    def label(self) -> Label:
        """The label of facts about it."""
        return self.state.visibility

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.progress.ended_at > 0

    @property
    def doing(self) -> RunDoing:
        """Its state, in a word."""
        if self.over:
            return "ended"
        if self.state.asks:
            return "waiting"
        if self.state.rests:
            return "paused"
        return self.progress.status.value


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, newest first; `cursor` asks for the next page, empty at the end. `label` is that of the page's content."""

    runs: tuple[KnownRun, ...]
    cursor: str
    label: Label = PUBLIC


class RunOperations:
    """Starts, shows, steers and ends runs for people and programs."""

    def __init__(
        self, *, store: Store, calls: GatedCalls, lifecycle: SessionLifecycle, session_ids: SessionIds, clock: Clock
    ) -> None:
        self._store = store
        self._calls = calls
        self._lifecycle = lifecycle
        self._session_ids = session_ids
        self._clock = clock

    async def start(self, standing: DecisionContext, key: str, wish: RunWish, typed: Label) -> str | RefusedCall:
        """Start a run for the caller, through the gate, and return its id; the same `key` is the same run.

        `typed` is the label of their words: the run begins with it.

        Raises:
            RequestError: it cannot be started as it is wanted.
            BusyError: as many live as may.
            DedupeConflictError: the key came with another wish.
            StoreError: the store cannot be used.
        """
        made = await self._calls.made(standing, Call(key, START, _arguments(wish)), typed)
        if isinstance(made, RefusedCall):
            return made
        run = named_in(made, "run_id")
        state = await self._store.sessions.state(await self._session_ids.first(run_home(standing.principal, run)))
        charter = None if state is None else state.charter
        # The key was compared with the goal alone, and these values are their own words.
        wished = (wish.type, wish.title, wish.slot or run, wish.deliver_to)
        if charter is not None and (charter.type, charter.title, charter.slot, charter.deliver_to) != wished:
            raise DedupeConflictError
        return run

    async def page(self, by: RunViewer, *, cursor: str = "", limit: int = LISTED, ended: bool = False) -> RunPage:
        """Return runs that the viewer may know of, newest first, with `ended` those that are over, too.

        Those of a shared chat stand on the first page.

        Raises:
            CursorError: the cursor is of no page of theirs.
            StoreError: the store cannot be used.
        """
        if not by.principal:
            return await self._everybodys(by, cursor, limit, ended=ended)
        page = await self._of(by.principal, by, cursor, limit, ended=ended)
        if not by.chat or cursor:
            return page
        here = await self._of(by.chat, by, "", limit, ended=ended)
        theirs = tuple(one for one in here.runs if one.charter.asker == by.principal)
        return RunPage((*theirs, *page.runs), page.cursor, page.label.join(here.label))

    async def show(self, by: RunViewer, name: str) -> KnownRun:
        """Return a run by its id, or by its session's id.

        Raises:
            NotFoundError: the viewer may know of no such run.
            StoreError: the store cannot be used.
        """
        found = await self._theirs(by, name)
        if found is None or not found.label.flows_to(by.reader):
            raise NotFoundError
        return found

    async def label_of(self, by: RunViewer, name: str) -> Label:
        """Return the label of the answer to a viewer about a run, also that there is none: a page may have had it rise.

        Raises StoreError.
        """
        found = await self._theirs(by, name)
        return label_of(None if found is None else found.state, by.principal, by.reader)

    async def stats(self, by: RunViewer, name: str) -> tuple[KnownRun, RunStatistics]:
        """Return a run in numbers. Raises NotFoundError, StoreError."""
        known = await self.show(by, name)
        return known, self.numbers(known)

    def numbers(self, known: KnownRun) -> RunStatistics:
        """Return the numbers of a run as it was looked up."""
        state, now = known.state, self._clock.wall_ms()
        return statistics(known.progress, state.usage, started_at=state.created_at, now=now)

    async def log(self, by: RunViewer, name: str) -> tuple[KnownRun, tuple[Event, ...]]:
        """Return the newest events of a run that the viewer may know, oldest first.

        Raises NotFoundError, StoreError.
        """
        state = (await self.show(by, name)).state
        events = await self._store.sessions.events(state.sid, after=max(state.seq - _LOGGED, 0), limit=_LOGGED)
        # It may have risen while it was read.
        return await self.show(by, name), tuple(event for event in events if event.label.flows_to(by.reader))

    async def about(self, known: KnownRun) -> str:
        """Return a run's title, else its goal, empty where neither can be found. Raises StoreError."""
        if known.charter.title:
            return known.charter.title
        log = await self._store.sessions.events(known.state.sid, limit=_BEGINNING)
        texts = [event.body.text for event in log if isinstance(event.body, UserMessage)]
        texts += [item.body.text for item in await self._store.sessions.waiting(known.state.sid)] if not texts else []
        return texts[0] if texts else ""

    async def notes(self, by: RunViewer, known: KnownRun) -> tuple[Note, ...]:
        """Return the steering notes of a run that the viewer may know, oldest first. Raises StoreError."""
        return tuple(note for note in await self._store.runs.notes(known.state.sid) if note.label.flows_to(by.reader))

    async def steer(self, by: RunViewer, name: str, note: str, *, priority: Priority, key: str) -> KnownRun:
        """Give a run a steering note, once for its `key`; it has the label of their typed words.

        Raises:
            NotFoundError: the viewer may know of no such run.
            ArchivedError: it has ended.
            BusyError: as many notes wait as may.
            StoreError: the store cannot be used.
        """
        known = await self._going(by, name)
        body: dict[str, JsonValue] = {
            "did": "steered",
            "run": known.id,
            "note": key,
            "priority": priority.value,
            "label": str(by.typed),
        }
        new = NewNote(key, priority, note, by.typed, by.actor)
        try:
            await self._store.runs.steer(known.state.sid, new, (AuditRow("run", by.actor, body),))
        except NotFoundError:
            # It may have ended since it was looked up, and they may know that.
            await self._going(by, name)
            raise
        return await self.show(by, name)

    async def pause(self, by: RunViewer, name: str) -> KnownRun:
        """Let a run rest: no turn of it begins. Raises NotFoundError, RequestError, StoreError."""
        known = await self._going(by, name)
        if not known.state.rests:
            await self._lifecycle.pause(known.state, by.actor)
        return await self.show(by, name)

    async def resume(self, by: RunViewer, name: str) -> KnownRun:
        """Resume a paused run, also one that paused itself or whose breaker opened.

        Raises NotFoundError, RequestError, StoreError.
        """
        known = await self._going(by, name)
        state, done = known.state, known.progress
        if state.rests:
            await self._lifecycle.resume(state, by.actor)
        if done.status is RunStatus.PAUSED:
            # The same state is resumed once, however often it is asked.
            op, probes = f"resume-{done.turns}-{done.trips}", done.breaker is Breaker.OPEN
            text = loop.probe(done) if probes else loop.resumed(done)
            hops = known.charter.hops
            await self._store.runs.wake(state.sid, op, text, state.visibility, hops=hops, probe=probes)
        return await self.show(by, name)

    async def stop(self, by: RunViewer, name: str) -> KnownRun | None:
        """End a run for good, with all that it spawned, also one of theirs that rose above them.

        Returns it if the viewer may know of it, before and after, else None: the answer is constant then.

        Raises:
            NotFoundError: they have none.
            ArchivedError: it has ended, as they may know.
            StoreError: the store cannot be used.
        """
        found = await self._theirs(by, name)
        if found is None:
            raise NotFoundError
        shown = found.label.flows_to(by.reader)
        if found.over:
            if shown:
                raise ArchivedError
            return None
        # Set before its end is written, so that its record is written even if this process ends.
        await self._recorded(found.state.sid, RECORD_AFTER)
        await self._lifecycle.cancel(found.state, by.actor, typed=by.typed)
        await self._over(found, by.typed)
        ended = await self._theirs(by, name)
        return ended if shown and ended is not None and ended.label.flows_to(by.reader) else None

    async def _recorded(self, sid: str, after: int) -> None:
        """Have a run's record written in so many milliseconds."""
        await self._store.schedules.set_timer(Timer(TimerKind.RECORD, sid, self._store.tokens.now_ms() + after))

    async def _over(self, known: KnownRun, typed: Label) -> None:
        """See to what follows from a stop: a place is given back as its pool may know of that.

        A turn that still ends does so itself: its slot is locked until then. A run that rose keeps its place until its
        deadline: given back here, that would tell that it had not ended, and that no turn of it was open.
        """
        state = await self._store.sessions.state(known.state.sid)
        if state is not None and state.turn is not None:
            return
        await self._recorded(known.state.sid, 0)
        for place in await self._store.runs.slots(known.state.principal):
            below = typed.join(known.label if state is None else state.visibility).flows_to(place.pool)
            if place.run == known.id and place.live and below:
                await self._store.runs.free(known.state.principal, known.id)

    async def _going(self, by: RunViewer, name: str) -> KnownRun:
        known = await self.show(by, name)
        if known.over:
            raise ArchivedError
        return known

    async def _theirs(self, by: RunViewer, name: str) -> KnownRun | None:
        """Return a run of a viewer's, at any taint, None if they have none of that name."""
        if len(name) > LONGEST_ID:
            return None
        if not by.principal:
            known = await self._read(name)
            return known if known is not None else await self._named(name)
        homes = [await self._session_ids.first(run_home(whose, name)) for whose in (by.principal, by.chat) if whose]
        for sid in (*homes, name):
            known = await self._read(sid)
            if known is not None and self._has(by, known):
                return known
        return None

    @staticmethod
    def _has(by: RunViewer, known: KnownRun) -> bool:
        if known.state.principal == by.principal:
            return True
        return bool(by.chat) and known.state.principal == by.chat and known.charter.asker == by.principal

    async def _read(self, sid: str) -> KnownRun | None:
        try:
            state = await self._store.sessions.state(sid)
        except SchemaError:
            # Whose it is cannot be told, so it is as if it were not there.
            return None
        return None if state is None else run_of(state)

    async def _named(self, name: str) -> KnownRun | None:
        """Return anybody's run by its id: an operator looks through all sessions for it."""
        after = ""
        while found := await self._store.index.recent(after=after, limit=_WINDOW):
            for _, state in found:
                known = None if state is None else run_of(state)
                if known is not None and known.id == name:
                    return known
            after = found[-1][0]
        return None

    async def _of(self, principal: str, by: RunViewer, cursor: str, limit: int, *, ended: bool) -> RunPage:
        query = SessionQuery(principal, by.reader, cursor=cursor, limit=limit, kind=SessionKind.RUN, archived=ended)
        page = await self._store.index.listed(query)
        known = tuple(one for one in map(run_of, page.sessions) if one is not None)
        return RunPage(known, page.cursor, page.label.join(join_all(one.label for one in known)))

    async def _everybodys(self, by: RunViewer, cursor: str, limit: int, *, ended: bool) -> RunPage:
        """Return a page of all runs of an installation; the cursor is the id of the last session before it."""
        found, after = list[KnownRun](), cursor
        while page := await self._store.index.recent(after=after, limit=_WINDOW):
            for _, state in page:
                known = None if state is None else run_of(state)
                if known is None or not known.label.flows_to(by.reader) or (known.over and not ended):
                    continue
                if len(found) == limit:
                    return RunPage(tuple(found), found[-1].state.sid, join_all(one.label for one in found))
                found.append(known)
            after = page[-1][0]
        return RunPage(tuple(found), "", join_all(one.label for one in found))


def run_of(state: SessionState) -> KnownRun | None:
    """Return a session's run, None for a session that is not a run."""
    if state.charter is None:
        return None
    return KnownRun(state, state.charter, state.progress or Progress())


def named_in(made: ResultDecision, field: str) -> str:
    """Return the id that a call answered with.

    Raises:
        RequestError: it made nothing.
        BusyError: there is no room.
        FullError: there is no room.
        DedupeConflictError: its key made something else.
    """
    if made.failed:
        known = (BusyError(), DedupeConflictError(), FullError("memories"), FullError("skills"))
        raise next((error for error in known if in_words(error) == made.text), RequestError(made.text))
    return str(cast("dict[str, JsonValue]", json.loads(made.text))[field])


def _arguments(wish: RunWish) -> dict[str, JsonValue]:
    """Return the arguments of the call that starts a run; an omitted one is as configured."""
    more: dict[str, JsonValue] = {
        "title": wish.title,
        "slot": wish.slot,
        "hours": wish.hours,
        "deliver_to": wish.deliver_to,
    }
    return {"goal": wish.goal, "type": wish.type.value, **{name: value for name, value in more.items() if value}}
