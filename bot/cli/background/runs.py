"""`lockgate runs`: the runs of the installation, as its owner sees, steers and ends them, and their records."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from bot.access import labelling
from bot.access.authorize import Caller
from bot.access.decision_context import DecisionContext
from bot.cli import identity
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.clock import moment
from bot.core.errors import ArchivedError, BusyError, NotFoundError, OperatorError, RequestError
from bot.core.json_values import JsonObject
from bot.gate.results import explained
from bot.operations.background.run_telling import TYPED, numbers_lines, run_lines, shortened
from bot.operations.background.runs import LONGEST_NOTE, START, KnownRun, RunViewer
from bot.operations.gated_calls import RefusedCall
from bot.run_records.recorder import FoundRecord
from bot.sessions.background.run_states import Priority
from bot.sessions.background.runs import Note, RunWish
from channels.console import OWNER

if TYPE_CHECKING:
    from bot.app.app import App

PAGE: Final = 20
"""Runs that one page shows."""

GONE: Final = "its session was deleted"
ELSEWHERE: Final = "on another machine; its content was read from the log"
LOST: Final = "the words of its record cannot be read any more, as their key was deleted with the session"

_NAMES: Final = "`lockgate runs list` names them"


class RunAct(StrEnum):
    """An operator's action on a run as a whole."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


_DONE: Final = MappingProxyType(
    {RunAct.PAUSE: "{} rests", RunAct.RESUME: "{} goes on", RunAct.STOP: "{} ends now, with all that it spawned"}
)


@dataclass(frozen=True, slots=True)
class Managing:
    """An operator at work: the application, who they are, and how they stand to runs and schedules."""

    app: "App"
    caller: Caller
    by: RunViewer


@asynccontextmanager
async def managing(
    config: Config, *, what: str = "run", names: str = _NAMES, looking: bool = False
) -> AsyncGenerator[Managing]:
    """Manage runs or schedules as their owner; `names` says where those that there are can be seen.

    `looking` is as in `open_app`.

    Raises OperatorError: the owner is not cleared for any such one, or it does not allow that.
    """
    async with as_owner(config, looking=looking) as (app, caller):
        home = identity.address(OWNER)
        typed = labelling.inbound(app.gate.document, home, caller.role, authored=True)
        try:
            yield Managing(app, caller, RunViewer("", caller.clearance, typed, caller.principal))
        except NotFoundError:
            raise OperatorError(f"there is no such {what}", next_step=names) from None
        except ArchivedError:
            raise OperatorError(f"the {what} has ended", next_step="`lockgate runs show RUN` tells why") from None
        except BusyError as error:
            raise OperatorError(str(error), next_step="try again in a moment") from None
        except RequestError as error:
            raise OperatorError(str(error), next_step=error.next_step) from None


async def start_run(config: Config, wish: RunWish, *, as_json: bool) -> None:
    """Start a run of the owner's, through the gate, and print its id; `as_json` prints the run.

    Raises OperatorError: a rule refuses it, or it cannot be started as it is wanted.
    """
    async with managing(config) as at:
        app, home = at.app, identity.address(OWNER)
        there = await app.gate.readers.destination(home)
        standing = DecisionContext.of_caller(at.caller, home, there, app.clock.wall_ms())
        made = await app.runs.start(standing, app.ids.op(), wish, at.by.typed)
        if isinstance(made, RefusedCall):
            raise OperatorError(explained(made.decision, made.standing.reader, START, TYPED))
        known = await app.runs.show(at.by, made)
    if as_json:
        print_json(_document(known, wish.goal, ()))
    else:
        print_lines([made])


async def list_runs(config: Config, *, as_json: bool, ended: bool, after: str, limit: int) -> None:
    """Print a page of the runs that the owner is cleared for, newest first, with `ended` those that are over, too."""
    async with managing(config, looking=True) as at:
        page = await at.app.runs.page(at.by, cursor=after, limit=limit, ended=ended)
        told = [(known, at.app.gate.masks.masked(await at.app.runs.about(known))) for known in page.runs]
    if as_json:
        print_json([_document(known, about, ()) for known, about in told])
        return
    heads = ("run", "principal", "does", "type", "completed", "failed", "taint", "started (UTC)", "about")
    print_lines(table([heads, *(_row(known, about) for known, about in told)]))
    if page.cursor:
        print_lines([f"there are more: `lockgate runs list {'--all ' if ended else ''}--after {page.cursor}`"])


async def show_run(config: Config, name: str, *, as_json: bool, events: bool) -> None:
    """Print a run and where its record stands, or that record alone if its session was deleted.

    Raises OperatorError: there is neither, or the record of one that was deleted cannot be read.
    """
    async with managing(config, looking=True) as at:
        app, mask = at.app, at.app.gate.masks.masked
        try:
            known = await app.runs.show(at.by, name)
        except NotFoundError:
            record = await app.recorder.found(name, at.caller.clearance)
            if record is None or record.readable:
                # Its session is there, and may not be told of.
                raise
            _print_record(name, record, as_json=as_json, events=events)
            return
        notes, about = await app.runs.notes(at.by, known), mask(await app.runs.about(known))
        record, why = await _record(at, known)
    if as_json:
        print_json({**_document(known, about, notes), "record": record and _recorded(record, events=events)})
        return
    where = f"Record: {_place(record) if record else why or 'none yet'}"
    print_lines([*map(mask, run_lines(known, notes)), f"Goal: {shortened(about)}", where])
    if record and events:
        print_lines(["", *_event_lines(record)])


async def show_stats(config: Config, name: str, *, as_json: bool) -> None:
    """Print a run in numbers. Raises OperatorError: the owner is not cleared for any such run."""
    async with managing(config, looking=True) as at:
        _, numbers = await at.app.runs.stats(at.by, name)
    if as_json:
        print_json(asdict(numbers))
    else:
        print_lines(numbers_lines(numbers))


async def steer_run(config: Config, name: str, text: str, priority: Priority) -> None:
    """Give a run a note for its next heartbeat. Raises OperatorError: it has ended, or as many wait as may."""
    if not text.strip() or len(text) > LONGEST_NOTE:
        raise OperatorError(f"a note has 1 to {LONGEST_NOTE} characters")
    async with managing(config) as at:
        known = await at.app.runs.steer(at.by, name, text, priority=priority, key=at.app.ids.op())
    print_lines([f"the note waits for the next heartbeat of {known.id}, priority {priority.value}"])


async def change_run(config: Config, name: str, act: RunAct) -> None:
    """Pause, resume or end a run.

    Raises OperatorError: the owner is not cleared for any such run, or it has ended.
    """
    async with managing(config) as at:
        runs = at.app.runs
        does: Mapping[RunAct, Callable[[RunViewer, str], Awaitable[KnownRun | None]]] = {
            RunAct.PAUSE: runs.pause,
            RunAct.RESUME: runs.resume,
            RunAct.STOP: runs.stop,
        }
        known = await does[act](at.by, name)
        if known is None:
            # It rose out of sight: it ends, and nobody is told so.
            raise NotFoundError
    print_lines([_DONE[act].format(known.id)])


async def _record(at: Managing, known: KnownRun) -> tuple[FoundRecord | None, str]:
    """Return the record of a run, and else why it cannot be read, empty if there is none."""
    try:
        recorder, reader = at.app.recorder, at.caller.clearance
        return await recorder.found(known.id, reader) or await recorder.elsewhere(known.state.sid, reader), ""
    except OperatorError as error:
        return None, str(error)


def _place(record: FoundRecord) -> str:
    return record.path if record.here else f"{record.path}, {ELSEWHERE}"


def _print_record(name: str, record: FoundRecord, *, as_json: bool, events: bool) -> None:
    if as_json:
        print_json({"id": name, "deleted": True, "record": _recorded(record, events=events)})
        return
    print_lines([f"{name}: {GONE}", f"Record: {record.path}", LOST, ""])
    print_lines(f"{field}: {value}" for field, value in record.document.items() if isinstance(value, str | int | None))
    if events:
        print_lines(["", *_event_lines(record)])


def _recorded(record: FoundRecord, *, events: bool) -> JsonValue:
    told: dict[str, JsonValue] = {
        "path": record.path,
        "readable": record.readable,
        "here": record.here,
        "document": dict(record.document),
    }
    return {**told, "events": [dict(event) for event in record.events]} if events else told


def _event_lines(record: FoundRecord) -> list[str]:
    heads = ("seq", "time", "type", "actor", "label", "what")
    return table([heads, *map(_event, record.events)])


def _event(event: JsonObject) -> tuple[str, ...]:
    body = event.get("body")
    what = body.get("text", "") if isinstance(body, dict) else "unreadable"
    named = [str(event.get(name, "-")) for name in ("seq", "at", "type", "actor", "label")]
    return (*named, shortened(str(what)))


def _row(known: KnownRun, about: str) -> tuple[str, ...]:
    state, done = known.state, known.progress
    counted = (str(done.completed), str(done.failed))
    what = (known.id, state.principal, known.doing, known.charter.type.value, *counted)
    return (*what, str(state.taint), moment(state.created_at), shortened(about))


def _document(known: KnownRun, about: str, notes: tuple[Note, ...]) -> dict[str, JsonValue]:
    state, charter, done = known.state, known.charter, known.progress
    return {
        "id": known.id,
        "session": state.sid,
        "principal": state.principal,
        "type": charter.type.value,
        "status": known.doing,
        "about": about,
        "taint": str(state.taint),
        "slot": charter.slot,
        "started_at": state.created_at,
        "deadline": charter.deadline,
        "initialized": done.initialized,
        "current_task": done.task or None,
        "tasks_completed": done.completed,
        "tasks_failed": done.failed,
        "tasks_skipped": done.skipped,
        "consecutive_failures": done.consecutive,
        "breaker": done.breaker.value,
        "turns": done.turns,
        "waiting_notes": sum(not note.read_at for note in notes),
        "next_action": done.next_action or None,
        "schedule": charter.schedule or None,
        "ended_at": done.ended_at or None,
        "reason": done.reason.value if done.reason else None,
    }
