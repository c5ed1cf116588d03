"""Runs and schedules of programs, by the routes under `/runs` and `/schedules`.

The operations are those of the chat commands. A run that a program may not know of is answered as one that does not
exist (law `no_read_up`). One of its own that rose above it can still be stopped, and the answer is the same then.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Final, TypeVar

from fastapi import APIRouter, Query, Response

from bot.access import labelling
from bot.api.errors import ApiRefusedError, ErrorAnswer
from bot.api.requests import ApiRequest, Reading, Services, Steering
from bot.api.runs.shapes import (
    NewNoteRequest,
    NewRun,
    NewSchedule,
    NoteTaken,
    RunDocument,
    RunList,
    RunNumbers,
    RunStarted,
    ScheduleDocument,
    ScheduleList,
    numbers_document,
    run_document,
    schedule_document,
)
from bot.api.services import ApiServices
from bot.api.session_routes import Key, Limit, call_named
from bot.api.standing import knowing, standing_of
from bot.core.errors import ArchivedError, NotFoundError
from bot.operations.background.runs import KnownRun, RunViewer, run_of
from bot.operations.background.schedules import KnownSchedule
from bot.operations.gated_calls import RefusedCall
from bot.operations.reading import ReadingKind
from bot.schedules.keeper import ScheduleWish
from bot.sessions.background.run_states import Priority, RunType
from bot.sessions.background.runs import RunWish
from bot.sessions.background.schedules import Overlap, ScheduleKind

REFUSED: Final = ErrorAnswer(
    HTTPStatus.FORBIDDEN,
    "refused",
    "The policy does not allow that here.",
    "`POST /v1/simulate` tells which rules decide on `runs_start` and `schedule_create`.",
)

_Told = TypeVar("_Told")

RUNS: Final = APIRouter(tags=["runs"])
SCHEDULES: Final = APIRouter(tags=["schedules"])


@RUNS.post("/runs", status_code=HTTPStatus.CREATED)
async def start_run(services: Services, asked: Steering, new: NewRun, idempotency_key: Key = None) -> RunStarted:
    """Start a run. The same `Idempotency-Key` with the same body is the same run."""
    wish = RunWish(
        new.goal,
        type=RunType(new.type),
        title=new.title,
        slot=new.slot,
        hours=new.hours or 0,
        deliver_to=new.deliver_to,
    )
    standing, by = await standing_of(services, asked), _viewer(services, asked)
    run = await services.runs.start(standing, call_named(services, asked, idempotency_key), wish, by.typed)
    if isinstance(run, RefusedCall):
        raise ApiRefusedError(REFUSED)
    return RunStarted(id=run)


@RUNS.get("/runs")
async def runs(
    services: Services,
    asked: Reading,
    *,
    cursor: Annotated[str, Query(max_length=512)] = "",
    limit: Limit = 50,
    ended: bool = False,
) -> RunList:
    """List the runs of this program, newest first; with `ended` also those that are over."""
    by = _viewer(services, asked)
    page = await services.runs.page(by, cursor=cursor, limit=limit, ended=ended)
    told = [await _document(services, by, known) for known in page.runs]
    return RunList(runs=tuple(told), cursor=page.cursor or None)


@RUNS.get("/runs/{rid}")
async def run(services: Services, asked: Reading, rid: str) -> RunDocument:
    """Return a run."""
    return await _read(services, asked, rid, lambda by, known: _document(services, by, known))


@RUNS.get("/runs/{rid}/stats")
async def stats(services: Services, asked: Reading, rid: str) -> RunNumbers:
    """Return a run in numbers."""

    async def told(_by: RunViewer, known: KnownRun) -> RunNumbers:
        return numbers_document(services.runs.numbers(known))

    return await _read(services, asked, rid, told)


@RUNS.post("/runs/{rid}/notes", status_code=HTTPStatus.ACCEPTED)
async def steer_run(
    services: Services, asked: Steering, rid: str, note: NewNoteRequest, *, idempotency_key: Key = None
) -> NoteTaken:
    """Give a run a steering note. The same `Idempotency-Key` is the same note."""
    by, name = _viewer(services, asked), call_named(services, asked, idempotency_key)
    await services.runs.steer(by, rid, note.text, priority=Priority(note.priority), key=name)
    return NoteTaken(id=name)


@RUNS.post("/runs/{rid}/pause", status_code=HTTPStatus.NO_CONTENT)
async def pause_run(services: Services, asked: Steering, rid: str) -> None:
    """Let a run rest: no turn of it begins."""
    await services.runs.pause(_viewer(services, asked), rid)


@RUNS.post("/runs/{rid}/resume", status_code=HTTPStatus.NO_CONTENT)
async def resume_run(services: Services, asked: Steering, rid: str) -> None:
    """Let a run that rests go on, also one that failed too often in a row."""
    await services.runs.resume(_viewer(services, asked), rid)


@RUNS.post("/runs/{rid}/stop", status_code=HTTPStatus.ACCEPTED, response_class=Response)
async def stop_run(services: Services, asked: Steering, rid: str) -> None:
    """End a run for good, with all that it set going; one that has ended stays so."""
    try:
        await services.runs.stop(_viewer(services, asked), rid)
    except ArchivedError:
        return


@SCHEDULES.post("/schedules", status_code=HTTPStatus.CREATED)
async def make_schedule(
    services: Services, asked: Steering, new: NewSchedule, idempotency_key: Key = None
) -> ScheduleDocument:
    """Make a schedule or reminder. The same `Idempotency-Key` with the same body is the same schedule."""
    wish = ScheduleWish(
        ScheduleKind(new.kind),
        new.when,
        new.text,
        time_zone=new.time_zone,
        title=new.title,
        deliver_to=new.deliver_to,
        overlap=Overlap(new.overlap),
    )
    standing, by = await standing_of(services, asked), _viewer(services, asked)
    made = await services.schedules.create(standing, call_named(services, asked, idempotency_key), wish, by.typed)
    if isinstance(made, RefusedCall):
        raise ApiRefusedError(REFUSED)
    return schedule_document(KnownSchedule(made))


@SCHEDULES.get("/schedules")
async def schedules(services: Services, asked: Reading) -> ScheduleList:
    """List the schedules of this program, the oldest first."""
    known = await services.schedules.listed(_viewer(services, asked))
    return ScheduleList(schedules=tuple(map(schedule_document, known)))


@SCHEDULES.get("/schedules/{hid}")
async def schedule(services: Services, asked: Reading, hid: str) -> ScheduleDocument:
    """Return a schedule."""
    return schedule_document(await services.schedules.show(_viewer(services, asked), hid))


@SCHEDULES.delete("/schedules/{hid}", status_code=HTTPStatus.NO_CONTENT)
async def cancel_schedule(services: Services, asked: Steering, hid: str) -> None:
    """Forget a schedule; a run that it started goes on."""
    await services.schedules.cancel(_viewer(services, asked), hid)


@SCHEDULES.post("/schedules/{hid}/pause", status_code=HTTPStatus.NO_CONTENT)
async def pause_schedule(services: Services, asked: Steering, hid: str) -> None:
    """Let a schedule rest."""
    await services.schedules.pause(_viewer(services, asked), hid)


@SCHEDULES.post("/schedules/{hid}/resume", status_code=HTTPStatus.NO_CONTENT)
async def resume_schedule(services: Services, asked: Steering, hid: str) -> None:
    """Let a schedule that rests go on, from its next moment."""
    await services.schedules.resume(_viewer(services, asked), hid)


async def _read(
    services: ApiServices, asked: ApiRequest, rid: str, tell: Callable[[RunViewer, KnownRun], Awaitable[_Told]]
) -> _Told:
    """Return the document of a run that its program may know of, before and after it was read.

    Raises NotFoundError: there is none, or it rose meanwhile.
    """
    by = _viewer(services, asked)
    sid = (await services.runs.show(by, rid)).state.sid
    async with knowing(services, asked, sid, ReadingKind.RECORD) as state:
        known = run_of(state)
        if known is None:
            raise NotFoundError
        return await tell(by, known)


async def _document(services: ApiServices, by: RunViewer, known: KnownRun) -> RunDocument:
    return run_document(known, await services.runs.notes(by, known))


def _viewer(services: ApiServices, asked: ApiRequest) -> RunViewer:
    """Return a program as one who asks about its runs and schedules, at its own address."""
    caller = asked.caller
    typed = labelling.inbound(services.gate.document, caller.address, caller.caller.role, authored=True)
    return RunViewer(caller.principal, asked.reader, typed, caller.principal)
