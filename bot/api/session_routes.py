"""Sessions of programs: begun, read, steered and ended by the routes under `/sessions`.

A request that begins or steers a session goes through the router, as a chat's message does. A session that a program
may not know of is answered as one that does not exist (law `no_read_up`). If its own session rose above it, it can
still cancel the turn, archive the session and delete it. The answer is then the same for every outcome (ADR 0040).
"""

import base64
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Final

import anyio
from fastapi import APIRouter, Header, Query, Response

from bot.access import labelling
from bot.access.tokens import address_of, program
from bot.api.errors import NOT_SERVING, UNAUTHORIZED, ApiRefusedError, ErrorAnswer
from bot.api.requests import ApiRequest, Reading, Services, Steering
from bot.api.services import ApiServices
from bot.api.session_shapes import (
    BLIND,
    DeletedDocument,
    MessageRequest,
    MessageTaken,
    ResultBody,
    ResultDocument,
    SessionBegun,
    SessionDocument,
    SessionList,
    SessionRequest,
    TurnDocument,
    TurnList,
    deleted_document,
    ended_turn,
    open_turn,
    session_document,
    turn_document,
)
from bot.api.shapes import as_written
from bot.api.standing import knowing
from bot.core.errors import IllegalMoveError, NotFoundError, RequestError
from bot.ingress.inbox_writer import NewSession, Steer
from bot.operations.reading import ReadingKind
from bot.operations.told_events import EventTeller
from bot.pinned_agents import WantedAgent
from bot.sessions.inbox import QueueMode
from bot.sessions.log.event_types import TurnStarted, UserMessage
from bot.sessions.log.events import Event
from bot.sessions.models import LastTurn, SessionKind, SessionQuery, SessionState, Status, TurnPage, TurnRecord
from bot.sessions.transcript import backwards
from bot.sessions.visibility import sees
from channels.messages import Inbound
from policy.labels import Label

LONGEST_WAIT: Final = 60
"""Seconds that a result is waited for at most."""

LOOK_SECONDS: Final = 5.0
"""The seconds after which a waiting request looks by itself: a notice of a change is only a hint."""

_BUSY: Final = frozenset({Status.QUEUED, Status.RUNNING})
_BEGIN: Final = "begin"
"""The identity of the first message of a session, at an address that is that session's alone."""

_PAGES: Final = 20
"""In how many pages of a log, 4,000 events each, a turn is looked for by its id."""

_WINDOW: Final = 50
"""How many events of a turn are read together."""

_GOING: Final = frozenset({Status.QUEUED, Status.RUNNING, Status.AWAITING_INPUT, Status.IDLE})
_OPEN: Final = _GOING | {Status.PAUSED, Status.FAILED}

NOT_REACHED: Final = ErrorAnswer(
    HTTPStatus.BAD_REQUEST,
    "not_reached",
    "This turn is not among the newest events, which were looked through.",
    "Look on with `before={before}`.",
)

_PAGE: Final = 200

Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=256)]
Limit = Annotated[int, Query(ge=1, le=_PAGE)]

ROUTER: Final = APIRouter(tags=["sessions"])
"""The routes about sessions."""


@ROUTER.post("/sessions", status_code=HTTPStatus.CREATED, responses={HTTPStatus.OK: {"model": SessionBegun}})
async def begin(
    services: Services, asked: Steering, new: SessionRequest, response: Response, *, idempotency_key: Key = None
) -> SessionBegun:
    """Begin a session, or return the one that was begun with the same key and the same body.

    With `Idempotency-Key` and without `key`, that takes the key's place. With another body a key is a conflict.
    """
    if new.key is not None:
        thread = key_named("k", new.key)
    else:
        thread = f"r:{services.ids.op()}" if idempotency_key is None else key_named("i", idempotency_key)
    wanted = WantedAgent(
        new.agent or "", new.credential or "", new.limits.tokens, new.limits.turn_seconds, new.limits.turns
    )
    agent = await services.agents.pin_as(asked.caller.principal, wanted)
    kept = "" if new.metadata is None else as_written(new.metadata)
    begun = NewSession(new.digest, agent, QueueMode(new.mode), kept)
    inbound = _inbound(asked, new.input, _BEGIN, thread)
    sid, accepted = await services.router.begin(inbound, asked.caller.caller, begun)
    if accepted.duplicate:
        response.status_code = HTTPStatus.OK
    return SessionBegun(id=sid, created=not accepted.duplicate, created_at=accepted.created_at)


@ROUTER.get("/sessions")
async def sessions(
    services: Services,
    asked: Reading,
    *,
    cursor: Annotated[str, Query(max_length=512)] = "",
    limit: Limit = 50,
    status: Status | None = None,
    kind: SessionKind | None = None,
) -> SessionList:
    """List the sessions of this program, newest first; archived ones only where `status` asks for them."""
    query = SessionQuery(
        asked.caller.principal,
        asked.reader,
        cursor=cursor,
        limit=limit,
        kind=kind,
        archived=status is Status.ARCHIVED,
        status=status,
    )
    page = await services.store.index.listed(query)
    told = tuple(session_document(state, asked.reader) for state in page.sessions)
    return SessionList(sessions=told, cursor=page.cursor or None)


@ROUTER.get("/sessions/{sid}")
async def session(services: Services, asked: Reading, sid: str) -> SessionDocument:
    """Return a session."""
    async with knowing(services, asked, sid, ReadingKind.RECORD) as state:
        return session_document(state, asked.reader)


@ROUTER.get("/sessions/{sid}/result")
async def result(
    services: Services, asked: Reading, sid: str, wait: Annotated[int, Query(ge=0, le=LONGEST_WAIT)] = 0
) -> ResultDocument:
    """Return the result of the last turn; wait up to `wait` seconds while a turn runs or is about to."""
    principal, reader = asked.caller.principal, asked.reader
    state = await services.reading.see(principal, reader, sid)
    if wait and state.status in _BUSY:
        with anyio.move_on_after(wait):
            await settled(services, asked, sid)
        # As of now: the last look may be some time ago.
        reader = await _reader(services, asked)
    async with services.reading.knowing(principal, reader, sid, ReadingKind.RESULT) as state:
        return await _result(services, reader, state)


@ROUTER.get("/sessions/{sid}/turns")
async def turns(
    services: Services,
    asked: Reading,
    sid: str,
    *,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    limit: Limit = 50,
) -> TurnList:
    """List the turns of a session that ended, newest first."""
    async with knowing(services, asked, sid, ReadingKind.RECORD) as state:
        page = await services.store.lifecycle.turns(sid, before=before, limit=limit)
        told = tuple(turn_document(turn) for turn in page.turns if turn.seq >= state.generation_seq)
        return TurnList(turns=told, next=_further(state, page))


@ROUTER.get("/sessions/{sid}/turns/{tid}")
async def turn(
    services: Services,
    asked: Reading,
    sid: str,
    tid: str,
    *,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> TurnDocument:
    """Return a turn of a session: the one that runs, or one that ended `before` an event, the newest if left out.

    So much of a log is looked through at once. Where that is not all, `not_reached` tells where to look on.
    """
    async with knowing(services, asked, sid, ReadingKind.RECORD) as state:
        running = open_turn(state)
        if running is not None and running.id == tid:
            return running
        return turn_document(await _ended_turn(services, state, tid, before))


@ROUTER.post("/sessions/{sid}/messages", status_code=HTTPStatus.ACCEPTED)
async def message(
    services: Services, asked: Steering, sid: str, said: MessageRequest, *, idempotency_key: Key = None
) -> MessageTaken:
    """Send a session a message. The same `Idempotency-Key` with the same text is the same message."""
    state = await services.reading.see(asked.caller.principal, asked.reader, sid)
    dedupe = f"r:{services.ids.op()}" if idempotency_key is None else key_named("i", idempotency_key)
    told = Steer(state, None if said.mode is None else QueueMode(said.mode), asked.reader)
    accepted = await services.router.steer(_inbound(asked, said.text, dedupe), asked.caller.caller, told)
    return MessageTaken(seq=accepted.position)


@ROUTER.post("/sessions/{sid}/pause", status_code=HTTPStatus.NO_CONTENT)
async def pause(services: Services, asked: Steering, sid: str) -> None:
    """Pause a session: new messages to it wait."""
    await _act(services, asked, sid, services.lifecycle.pause)


@ROUTER.post("/sessions/{sid}/resume", status_code=HTTPStatus.NO_CONTENT)
async def resume(services: Services, asked: Steering, sid: str) -> None:
    """Let a session that rests go on; one that does not rest goes on."""
    await _act(services, asked, sid, services.lifecycle.resume, there=_GOING)


@ROUTER.post("/sessions/{sid}/restore", status_code=HTTPStatus.NO_CONTENT)
async def restore(services: Services, asked: Steering, sid: str) -> None:
    """Let an archived session be spoken in again, as any other can be."""
    await _act(services, asked, sid, services.lifecycle.restore, there=_OPEN)


@ROUTER.post("/sessions/{sid}/cancel", status_code=HTTPStatus.ACCEPTED, response_class=Response)
async def cancel(services: Services, asked: Steering, sid: str) -> None:
    """Stop the running turn and all that it started, and cancel the waiting messages."""

    async def act(state: SessionState) -> None:
        await services.lifecycle.cancel(state, asked.caller.principal, typed=_typed(services, asked))

    await _blindly(services, asked, sid, act)


@ROUTER.post("/sessions/{sid}/archive", status_code=HTTPStatus.NO_CONTENT)
async def archive(services: Services, asked: Steering, sid: str) -> None:
    """Make a session read-only, and stop its running turn."""

    async def act(state: SessionState) -> None:
        await services.lifecycle.archive(state, asked.caller.principal)

    await _blindly(services, asked, sid, act)


@ROUTER.delete("/sessions/{sid}")
async def delete(services: Services, asked: Steering, sid: str) -> DeletedDocument:
    """Erase a session, its files and all that it spawned; its key may begin another one.

    Copies that were sent are beyond reach, so they are listed. Nothing is, where it rose above this program.
    """
    done = BLIND

    async def act(state: SessionState) -> None:
        nonlocal done
        typed = _typed(services, asked)
        made = await services.lifecycle.delete(state, asked.caller.principal, reader=asked.reader, typed=typed)
        done = deleted_document(made)

    await _blindly(services, asked, sid, act)
    return done


async def settled(services: ApiServices, asked: ApiRequest, sid: str) -> None:
    """Wait until no turn runs in a session or is about to, or this process ends.

    Raises:
        NotFoundError: it may not be known of any more.
        ApiRefusedError: the token is no longer valid.
    """
    async with services.store.changes.watching(sid) as feed:
        while True:
            state = await services.reading.see(asked.caller.principal, await _reader(services, asked), sid)
            if state.status not in _BUSY or services.closing.is_set():
                return
            await _first(feed.next, services.closing.wait)


async def _first(*waits: Callable[[], Awaitable[object]]) -> None:
    """Wait until one of several is there, for a moment at most."""
    with anyio.move_on_after(LOOK_SECONDS):
        async with anyio.create_task_group() as tasks:

            async def until(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                tasks.cancel_scope.cancel()

            for one in waits:
                tasks.start_soon(until, one)


async def _result(services: ApiServices, reader: Label, state: SessionState) -> ResultDocument:
    last, result, inputs = state.last_turn, None, list[int]()
    teller = EventTeller(services.reading, services.gate, services.tokens, services.clock)
    if last is not None:
        async for event in _of_turn(services, state, last):
            told = teller.body(state, event, reader)
            if told is not None and event.seq == last.result_seq:
                result = ResultBody(type=event.type, level=event.visibility.value, body=dict(told))
            if told is not None and isinstance(event.body, UserMessage) and event.body.number:
                inputs.append(event.body.number)
    return ResultDocument(
        status=state.status, last_turn=ended_turn(last), result=result, inputs=tuple(reversed(inputs))
    )


async def _of_turn(services: ApiServices, state: SessionState, last: LastTurn) -> AsyncGenerator[Event]:
    """Yield the events of the last turn that ended, newest first, and the events that came in between."""
    end = last.seq - state.generation_seq + 2
    async for event in backwards(services.store.sessions, state, before=end, window=_WINDOW):
        if event.turn not in {"", last.id}:
            return
        yield event
        if event.turn and isinstance(event.body, TurnStarted) and event.body.attempt == 1:
            return


async def _ended_turn(services: ApiServices, state: SessionState, tid: str, before: int | None) -> TurnRecord:
    """Return a turn that ended.

    Raises:
        NotFoundError: there is none.
        ApiRefusedError: it is not in as much of the log as is looked through.
    """
    for _ in range(_PAGES):
        page = await services.store.lifecycle.turns(state.sid, before=before, limit=1, turn=tid)
        for found in page.turns:
            if found.seq >= state.generation_seq:
                return found
        before = _further(state, page)
        if page.turns or before is None:
            raise NotFoundError
    raise ApiRefusedError(replace(NOT_REACHED, next_step=NOT_REACHED.next_step.format(before=before)))


def _further(state: SessionState, page: TurnPage) -> int | None:
    """Return before which event to look on for turns of a session's generation, None if there are no more."""
    more = page.before is not None and page.before > state.generation_seq
    return page.before if more else None


async def _act(
    services: ApiServices,
    asked: ApiRequest,
    sid: str,
    act: Callable[[SessionState, str], Awaitable[None]],
    *,
    there: frozenset[Status] = frozenset(),
) -> None:
    """Do something to a session that its program may know of; nothing, if its status is `there` already.

    The answer to the first request for it may have been lost.
    """
    async with knowing(services, asked, sid) as state:
        try:
            await act(state, asked.caller.principal)
        except IllegalMoveError:
            now = await services.reading.see(asked.caller.principal, asked.reader, sid)
            if now.status not in there:
                raise


async def _blindly(
    services: ApiServices, asked: ApiRequest, sid: str, act: Callable[[SessionState], Awaitable[None]]
) -> None:
    """Do something to a program's own session, whether or not it may know of it; then why it failed is not told.

    Raises:
        NotFoundError: there is none of its own.
        RequestError: it cannot be done, and it may know why.
    """
    principal = asked.caller.principal
    state = await services.reading.own(principal, sid)
    try:
        await act(state)
    except RequestError:
        # It may have risen since.
        now = await services.store.sessions.state(sid)
        if now is not None and sees(state, principal, asked.reader) and sees(now, principal, asked.reader):
            raise


async def _reader(services: ApiServices, asked: ApiRequest) -> Label:
    """Return the present clearance of a program, after it waited.

    Raises:
        ApiRefusedError: its token counts no more, or this process serves no more.
        StoreError: the store cannot be used.
    """
    # It may have been revoked in another process.
    if not await services.reloader.current_now():
        raise ApiRefusedError(NOT_SERVING)
    caller = services.tokens.still(asked.caller)
    if caller is None:
        raise ApiRefusedError(UNAUTHORIZED)
    return services.tokens.reader(caller).meet(asked.reader)


def _typed(services: ApiServices, asked: ApiRequest) -> Label:
    """Return the label of a program's words at its address."""
    caller = asked.caller
    return labelling.inbound(services.gate.document, caller.address, caller.caller.role, authored=True)


def _inbound(asked: ApiRequest, text: str, dedupe: str, thread: str = "") -> Inbound:
    caller = asked.caller
    return Inbound(address_of(caller.name, thread), program(caller.token).account, text, dedupe)


def call_named(services: ApiServices, asked: ApiRequest, idempotency_key: str | None) -> str:
    """Return the name of a program's call: its own key, or a unique one."""
    named = f"r:{services.ids.op()}" if idempotency_key is None else key_named("i", idempotency_key)
    return f"{asked.caller.principal}/{named}"


def key_named(kind: str, key: str) -> str:
    """Return the stored form of a program's key: short and of plain letters for any content."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:20]
    return f"{kind}:{base64.b32encode(digest).decode('ascii').lower()}"
