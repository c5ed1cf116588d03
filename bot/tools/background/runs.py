"""The tools of a run: it begins, tells its progress, counts its tasks, and hears steering notes.

A run calls `session_initialize` first; the fixed rule `run_is_initialized` sees to that, and not these tools. They
change a part of the run's own record, by one script, for the holder of its claim alone. The loop itself is the
runtime's, see `bot.runs.loop`.
"""

import json
import re
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, JsonValue

from bot.core.errors import RequestError
from bot.runs.starter import has_ended
from bot.runs.statistics import statistics
from bot.sessions.background.run_states import AuthMethod, Priority, RunStatus, RunType
from bot.sessions.background.runs import Note, Progress, ProgressChange, RunFacts, RunSlot
from bot.sessions.limits import RunLimits
from bot.sessions.models import Claim
from bot.sessions.ports.runs import RunStore
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.visibility import look
from bot.tools.base import Arguments, CallFacts, RefusedCallError, Result, ToolContext, ToolServices
from bot.tools.clock import NoArguments
from policy.labels import PUBLIC, join_all
from policy.request import Effect

INITIALIZE: Final = "session_initialize"
UPDATE: Final = "session_update"

NO_RUN: Final = "this session is no run, so it has no state of one; `runs_start` begins a run"
OTHER_SESSION: Final = "`session_id` is not that of this run; `session_initialize` and `session_get_state` tell it"
OTHER_TYPE: Final = "this run was started as `{type}`: call `session_initialize` with that `session_type`"
OTHER_SLOT: Final = "this run was started for the slot `{slot}`, so it can lock no other"
RESERVED: Final = "a slot's name must not begin with `r_`: that is how the ids of runs begin"
NO_PLACE: Final = "the place of this run was given back, so it can lock no slot"
SLOT_LOCKED: Final = "slot_locked"
LOCKED: Final = "another run holds this slot, so this one must not go on"
FINISH: Final = "finish safely and end this run: call `session_update` with the status `stopped`"
PIVOT: Final = "stop your work, and follow the urgent notes first"
HEED: Final = "take these notes into account"

MOST_TOLD: Final = 20_000
"""Characters of notes that one heartbeat tells; the others wait for the next one."""

_MOST_COUNTED: Final = 10**9
OWN_SLOT: Final = "r_"
"""How the slots begin that runs have for themselves."""

_SLOT: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_ORDER: Final = (Priority.ABORT, Priority.URGENT, Priority.NORMAL)
_MEANS: Final = MappingProxyType(dict(zip(_ORDER, (FINISH, PIVOT, HEED), strict=True)))


def slot_name(name: str) -> str:
    """Return the name of a slot; raises ValueError with the fault of any other."""
    if not _SLOT.fullmatch(name):
        raise ValueError("needs a name of at most 64 small letters, digits, `_`, `.` and `-`")
    return name


Slot = Annotated[str, AfterValidator(slot_name)]
"""The name of a slot, such as `nightly`."""


class InitializeArguments(Arguments):
    """Arguments of `session_initialize`."""

    session_type: RunType = Field(description="the type of the run")
    slot: Slot | None = Field(default=None, description="one run at a time has a slot; this run's own if omitted")


class UpdateArguments(Arguments):
    """Arguments of `session_update`."""

    current_task_id: str | None = Field(default=None, min_length=1, max_length=200)
    status: RunStatus | None = None
    auth_method: AuthMethod | None = None
    tasks_failed: int | None = Field(default=None, ge=0, le=_MOST_COUNTED, description="in all; never fewer")
    tasks_skipped: int | None = Field(default=None, ge=0, le=_MOST_COUNTED, description="in all; never fewer")
    consecutive_failures: int | None = Field(default=None, ge=0, le=_MOST_COUNTED)


class HeartbeatArguments(Arguments):
    """Arguments of `steering_heartbeat`."""

    session_id: str = Field(max_length=128, description="as `session_initialize` returned it")
    status: str = Field(min_length=1, max_length=64, description="the run's state, in a word or two")
    next_action: str | None = Field(default=None, max_length=500)


class RunTool:
    """The common part of a run's tools: they are offered in runs alone, and work on the run's own record."""

    arguments: type[Arguments]

    label = PUBLIC
    repeatable = True
    server = ""
    in_runs = True
    effect = Effect.NONE

    def declare(self, arguments: Any, context: ToolContext) -> CallFacts:  # noqa: ANN401 - each tool has arguments of its own
        """Declare the run as the sink of a change: only those who may know of the run are told of it."""
        _running(context)
        return CallFacts(clearance=context.caller.ceiling if self.effect is Effect.WRITE else None, once=True)


class SessionInitialize(RunTool):
    """Begin a run: lock its slot, unless another run has that."""

    name = INITIALIZE
    description = (
        "Begin this run and lock its slot. Call it first, in a step of its own: other tools are refused until then."
    )
    effect = Effect.WRITE
    arguments = InitializeArguments

    def __init__(self, runs: RunStore, sessions: SessionStore, limits: RunLimits) -> None:
        self._runs = runs
        self._sessions = sessions
        self._limits = limits

    def declare(self, arguments: InitializeArguments, context: ToolContext) -> CallFacts:
        """Refuse a type or slot other than the run was started with.

        The slot that it locks is visible in the pool of its beginning: a run that has read more may choose none there.
        """
        run, claim = _running(context)
        charter = run.charter
        if arguments.session_type is not charter.type:
            raise RefusedCallError(OTHER_TYPE.format(type=charter.type))
        if arguments.slot not in {None, charter.slot}:
            if charter.slot != charter.run:
                raise RefusedCallError(OTHER_SLOT.format(slot=charter.slot))
            if str(arguments.slot).startswith(OWN_SLOT):
                raise RefusedCallError(RESERVED)
        if run.progress.initialized and arguments.slot is None:
            return super().declare(arguments, context)
        return CallFacts(clearance=context.caller.ceiling.meet(claim.state.creation), once=True)

    async def run(self, arguments: InitializeArguments, context: ToolContext, services: ToolServices) -> Result:
        """Lock the slot, then note that the run began; where another run has the slot, nothing changes."""
        run, claim = _running(context)
        before = await self._runs.progress(claim.sid)
        slot = arguments.slot or run.charter.slot
        if arguments.slot is None and before is not None and before.initialized:
            slot = await self._locked_before(context, run) or slot
        try:
            place = await self._lock(context.caller.principal, run.charter.run, slot, claim.fence)
            if place.run != run.charter.run:
                return await self._locked(place, slot, context, services)
            await self._runs.change(claim, ProgressChange(initializes=True))
        except RequestError as error:
            return Result(str(error), failed=True)
        told: dict[str, JsonValue] = {
            "session_id": claim.sid,
            "slot": place.slot,
            "started_at": claim.state.created_at,
            "limits": {
                "deadline": run.charter.deadline,
                "turns": self._limits.turns,
                "consecutive_failures": self._limits.failures,
            },
            "resumed": before is not None and before.initialized,
        }
        return Result(json.dumps(told))

    async def _lock(self, principal: str, run: str, slot: str, fence: int) -> RunSlot:
        """Lock a slot; one whose run has ended, while the worker that was to give it back died, is given back first."""
        place = await self._runs.lock(principal, run, slot, fence)
        holder = None if place.run == run else await self._sessions.state(place.sid)
        if holder is None or not has_ended(place, holder):
            return place
        await self._runs.free(principal, place.run)
        return await self._runs.lock(principal, run, slot, fence)

    async def _locked_before(self, context: ToolContext, run: RunFacts) -> str:
        """Return the slot that a run has locked, empty for none: one that is begun again keeps it."""
        places = await self._runs.slots(context.caller.principal)
        return next((place.slot for place in places if place.live and place.run == run.charter.run), "")

    async def _locked(self, place: RunSlot, slot: str, context: ToolContext, services: ToolServices) -> Result:
        """Tell that another run has the slot, and which one, as far as that may be known.

        Both runs are of one pool, so that there is one may be known. It is as trusted as the data that run has read.
        """
        holder, known = await look(self._sessions, place.sid, context.caller.principal, context.session.taint)
        told: dict[str, JsonValue] = {"code": SLOT_LOCKED, "message": LOCKED, "slot": slot}
        if not services.permits(known):
            return Result(json.dumps(told), failed=True)
        held: dict[str, JsonValue] = {} if holder is None else {"held_by": place.run, "since": place.since}
        return Result(json.dumps(told | held), known, failed=True)


class SessionGetState(RunTool):
    """Tell how far the run came."""

    name = "session_get_state"
    description = "Tell the full state of this run: its current task, its status and its counters."
    arguments = NoArguments

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    async def run(self, arguments: NoArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the state as JSON."""
        run, claim = _running(context)
        progress = await self._runs.progress(claim.sid)
        return Result(json.dumps(state_of(run, claim, progress or run.progress)))


class SessionGetStats(RunTool):
    """Tell how the run fares, in numbers."""

    name = "session_get_stats"
    description = (
        "Tell statistics of this run: time, rates, average per task, and the tokens and cost of the turns that ended."
    )
    arguments = NoArguments

    def __init__(self, runs: RunStore, sessions: SessionStore) -> None:
        self._runs = runs
        self._sessions = sessions

    async def run(self, arguments: NoArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the statistics as JSON; an unknown one is null."""
        run, claim = _running(context)
        progress = await self._runs.progress(claim.sid) or run.progress
        state = await self._sessions.state(claim.sid) or claim.state
        known = statistics(progress, state.usage, started_at=state.created_at, now=context.now)
        told: dict[str, JsonValue] = {
            "session_id": claim.sid,
            "runtime_seconds": known.runtime_seconds,
            "completion_rate": known.completion_rate,
            "failure_rate": known.failure_rate,
            "skip_rate": known.skip_rate,
            "average_seconds_per_task": known.seconds_per_task,
            "turns": known.turns,
            "tokens": known.tokens,
            "cost": None if known.cost is None else known.cost / 1_000_000,
        }
        return Result(json.dumps(told))


class SessionUpdate(RunTool):
    """Change the run's description of its state."""

    name = UPDATE
    description = (
        "Change the state of this run; omitted fields stay. Name each task with `current_task_id` when you begin "
        "it. The status `stopped` ends the run with this turn."
    )
    effect = Effect.WRITE
    arguments = UpdateArguments

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    async def run(self, arguments: UpdateArguments, context: ToolContext, services: ToolServices) -> Result:
        """Change the given fields, and return the new state."""
        change = ProgressChange(
            task=arguments.current_task_id,
            status=arguments.status,
            auth_method=arguments.auth_method,
            failed=arguments.tasks_failed,
            skipped=arguments.tasks_skipped,
            consecutive=arguments.consecutive_failures,
        )
        return await _changed(self._runs, context, change)


class SessionIncrementCompleted(RunTool):
    """Count the current task as completed."""

    name = "session_increment_completed"
    description = (
        "Count the current task as completed, and set the consecutive failures to zero. Each task counts once: name "
        "the next one with `session_update` first."
    )
    effect = Effect.WRITE
    arguments = NoArguments

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    async def run(self, arguments: NoArguments, context: ToolContext, services: ToolServices) -> Result:
        """Count it, and return the state as it is then."""
        return await _changed(self._runs, context, ProgressChange(completes=True))


class SteeringHeartbeat(RunTool):
    """Tell that the run goes on, and hear its steering notes."""

    name = "steering_heartbeat"
    description = (
        "Tell what this run does, and return the steering notes that people wrote for it. Call it at the beginning of "
        "each turn and between tasks."
    )
    effect = Effect.READ
    arguments = HeartbeatArguments

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    def declare(self, arguments: HeartbeatArguments, context: ToolContext) -> CallFacts:
        """Refuse the id of any other session, whether there is one or not."""
        _, claim = _running(context)
        if arguments.session_id != claim.sid:
            raise RefusedCallError(OTHER_SESSION)
        return super().declare(arguments, context)

    async def run(self, arguments: HeartbeatArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the notes that wait, those that matter most first; they count as read once the log holds this.

        A note that the run may not read waits on, and nothing tells of it.
        """
        _, claim = _running(context)
        try:
            await self._runs.change(claim, ProgressChange(beats=True, next_action=arguments.next_action))
        except RequestError as error:
            return Result(str(error), failed=True)
        waiting = [note for note in await self._runs.notes(claim.sid) if not note.read_at]
        waiting = [note for note in waiting if services.permits(note.label)]
        told = _first(sorted(waiting, key=lambda note: (_ORDER.index(note.priority), note.at)))
        notes: list[JsonValue] = [_note(note, services) for note in told]
        answer: dict[str, JsonValue] = {"session_id": claim.sid, "notes": notes, "more": len(told) < len(waiting)}
        if told:
            answer["do"] = _MEANS[told[0].priority]
        label = join_all(note.label for note in told)
        return Result(json.dumps(answer, ensure_ascii=False), label, acknowledge=tuple(note.id for note in told))


def state_of(run: RunFacts, claim: Claim, progress: Progress) -> dict[str, JsonValue]:
    """Return how far a run came, as its tools tell it. Times are milliseconds since the epoch."""
    return {
        "session_id": claim.sid,
        "session_type": run.charter.type.value,
        "started_at": claim.state.created_at,
        "current_task_id": progress.task or None,
        "status": progress.status.value,
        "auth_method": None if progress.auth_method is None else progress.auth_method.value,
        "tasks_completed": progress.completed,
        "tasks_failed": progress.failed,
        "tasks_skipped": progress.skipped,
        "consecutive_failures": progress.consecutive,
    }


def _running(context: ToolContext) -> tuple[RunFacts, Claim]:
    """Return the run that a call is made in, with the claim of its worker. Raises RefusedCallError: there is none."""
    run, claim = context.session.run, context.session.claim
    if run is None or claim is None:
        raise RefusedCallError(NO_RUN)
    return run, claim


async def _changed(runs: RunStore, context: ToolContext, change: ProgressChange) -> Result:
    """Change a run's record, and tell its state; a refused change returns its fault."""
    run, claim = _running(context)
    try:
        progress = await runs.change(claim, change)
    except RequestError as error:
        return Result(str(error), failed=True)
    return Result(json.dumps(state_of(run, claim, progress)))


def _first(notes: list[Note]) -> list[Note]:
    """Return as many notes as one heartbeat tells, at least one."""
    told, left = list[Note](), MOST_TOLD
    for note in notes:
        left -= len(note.text)
        if told and left < 0:
            break
        told.append(note)
    return told


def _note(note: Note, services: ToolServices) -> dict[str, JsonValue]:
    text = services.mask(note.text)
    return {"id": note.id, "priority": note.priority.value, "text": text, "from": note.sender, "at": note.at}
