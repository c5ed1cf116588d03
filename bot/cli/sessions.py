"""`lockgate sessions`: the sessions of the store as their owner may see them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from bot.access.authorize import Caller
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.clock import moment
from bot.core.errors import ArchivedError, BusyError, NotFoundError, OperatorError, RequestError, SchemaError
from bot.operations.lifecycle import told_of
from bot.operations.sessions import ListedSession, SessionInspector
from bot.sessions.approvals import FOR_EVER, Approval, ApprovalQuestion
from bot.sessions.audit import AuditRow
from bot.sessions.log.event_types import (
    AgentMessage,
    ApprovalRequested,
    ChatObserved,
    EventBody,
    ItemHeld,
    MemoriesRecalled,
    PolicyDecision,
    SessionSummary,
    ToolCall,
    ToolResult,
    TurnError,
    UnknownEvent,
    UserMessage,
)
from bot.sessions.log.events import Event
from bot.sessions.log.serialization import event_json
from bot.sessions.models import Quarantined, SessionState
from bot.tools.history import UNKNOWN
from bot.tools.sessions import describe
from policy.labels import Label

if TYPE_CHECKING:
    from bot.app.app import App

PAGE: Final = 50
"""Sessions that one page shows."""

_LONGEST = 120

APART: Final = "quarantined"
UNREADABLE: Final = "unreadable"


async def list_sessions(config: Config, *, as_json: bool, after: str = "", limit: int = PAGE) -> None:
    """Print a page of the sessions the owner is cleared for, newest first, those behind `after`, an id.

    Raises OperatorError: there is no such session that the owner is cleared for.
    """
    async with _inspecting(config) as (inspector, caller):
        page = await inspector.page(caller.clearance, after=after, limit=limit)
    if as_json:
        print_json([_entry(one, caller.clearance) for one in page.sessions])
        return
    heads = ("session", "principal", "channel", "agent", "status", "taint", "updated (UTC)")
    print_lines(table([heads, *(_row(one, caller.clearance) for one in page.sessions)]))
    if page.more:
        print_lines([f"there are more: `lockgate sessions list --after {page.sessions[-1].sid}`"])


async def release_session(config: Config, sid: str) -> None:
    """Let a session out of quarantine.

    Raises OperatorError: none that the owner is cleared for has this id there, or its record cannot be read.
    """
    async with _inspecting(config, looking=False) as (inspector, caller):
        try:
            released = await inspector.release(sid, caller.clearance, caller.principal)
        except SchemaError as error:
            raise OperatorError("its record still cannot be read", next_step=error.next_step) from None
    if not released:
        raise OperatorError("no such session is in quarantine", next_step="`lockgate sessions list` names them")
    print_lines([f"{sid} is tried again"])


class Act(StrEnum):
    """An operator's action on a session as a whole."""

    PAUSE = "pause"
    RESUME = "resume"
    ARCHIVE = "archive"
    RESTORE = "restore"


_DONE: Final = MappingProxyType(
    {
        Act.PAUSE: "{} rests",
        Act.RESUME: "{} goes on",
        Act.ARCHIVE: "{} is archived",
        Act.RESTORE: "{} is restored",
    }
)


async def change_session(config: Config, sid: str, act: Act) -> None:
    """Pause or resume a session, make it read-only or undo that.

    Raises OperatorError: there is no such session that the owner is cleared for, or its status does not allow that.
    """
    async with as_owner(config) as (app, caller):
        state = await _known(app, sid, caller)
        lifecycle = app.lifecycle
        does = {
            Act.PAUSE: lifecycle.pause,
            Act.RESUME: lifecycle.resume,
            Act.ARCHIVE: lifecycle.archive,
            Act.RESTORE: lifecycle.restore,
        }
        try:
            await does[act](state, caller.principal)
        except BusyError:
            raise OperatorError(
                "its turn has to end first and was asked to stop, which needs a process that runs turns",
                next_step=f"start `lockgate run` if none runs, then `lockgate sessions {act.value} {sid}` again",
            ) from None
        except ArchivedError as error:
            raise OperatorError(str(error), next_step=f"`lockgate sessions restore {sid}` undoes that") from None
        except RequestError as error:
            raise OperatorError(str(error), next_step=f"`lockgate sessions show {sid}` tells its status") from None
    print_lines([_DONE[act].format(sid)])


async def delete_session(config: Config, sid: str) -> None:
    """Delete a session and all that it spawned.

    Raises OperatorError: there is no such session that the owner is cleared for.
    """
    async with as_owner(config) as (app, caller):
        state, top = await _known(app, sid, caller), app.gate.document.top
        done = await app.lifecycle.delete(state, caller.principal, reader=caller.clearance, typed=top)
    print_lines([told_of(done)])


async def list_grants(config: Config, sid: str, *, as_json: bool) -> None:
    """Print the grants that cover further calls of a session.

    Raises OperatorError: there is no such session that the owner is cleared for.
    """
    async with as_owner(config, looking=True) as (app, caller):
        state, now = await _known(app, sid, caller), app.clock.wall_ms()
        every = await app.store.approvals.of(state.sid)
    live = [one for one in every if one.grant is not None and one.grant.ended_at(now) is None]
    told = [_grant(one) for one in live if one.label.flows_to(caller.clearance)]
    if as_json:
        print_json([*told])
        return
    heads = ("grant", "tool", "for", "given by", "left", "until (UTC)", "worst case")
    print_lines(table([heads, *(tuple(map(str, one.values())) for one in told)]))


async def revoke_grant(config: Config, sid: str, name: str) -> None:
    """Take a grant of a session back.

    Raises OperatorError: there is none of that id that the owner is cleared for.
    """
    async with as_owner(config) as (app, caller):
        state = await _known(app, sid, caller)
        every = await app.store.approvals.of(state.sid)
        found = next((one for one in every if one.id == name and one.label.flows_to(caller.clearance)), None)
        if found is None or found.grant is None:
            raise OperatorError("there is no such grant", next_step=f"`lockgate sessions grants {sid}` names them")
        row = AuditRow("grant", caller.principal, {"what": "revoked", "grant": name, "tool": found.tool})
        await app.store.approvals.revoke(state.sid, name, actor=caller.principal, audit=(row,))
    print_lines([f"grant {name} covers no call any more"])


def _grant(approval: Approval) -> dict[str, JsonValue]:
    scope, grant = approval.question.scope, approval.grant
    until = FOR_EVER if grant is None else grant.until
    return {
        "grant": approval.id,
        "tool": approval.tool,
        "for": approval.principal,
        "given_by": approval.resolved_by,
        "left": 0 if grant is None else grant.left,
        "until": "reset" if until >= FOR_EVER else moment(until),
        "worst": "" if scope is None else scope.worst,
    }


async def _known(app: "App", sid: str, caller: Caller) -> SessionState:
    """Return a session's record. Raises OperatorError: there is none that the owner is cleared for."""
    state = await app.store.sessions.state(sid)
    if state is None or not state.visibility.flows_to(caller.clearance):
        raise OperatorError("there is no such session", next_step="`lockgate sessions list` names them")
    return state


async def show_session(config: Config, sid: str, *, as_json: bool) -> None:
    """Print one session's record and its log.

    Raises OperatorError: there is no such session that the owner is cleared for.
    """
    async with _inspecting(config) as (inspector, caller):
        state, events = await inspector.read(sid, caller.clearance)
        record = {**_record(state, caller.clearance), "agent": await inspector.agent(state)}
    if as_json:
        print_json({**record, "events": [_event(event) for event in events]})
        return
    heads = ("seq", "time (UTC)", "type", "actor", "label", "what")
    print_lines([f"{name}: {_shown(value)}" for name, value in record.items()])
    print_lines(["", *table([heads, *(_line(event) for event in events)])])


@asynccontextmanager
async def _inspecting(config: Config, *, looking: bool = True) -> AsyncGenerator[tuple[SessionInspector, Caller]]:
    """Look through sessions as their owner.

    Raises OperatorError: there is no such session that the owner is cleared for.
    """
    async with as_owner(config, looking=looking) as (app, caller):
        try:
            yield SessionInspector(app.store, app.quarantine, config.policy.top, app.agents), caller
        except NotFoundError:
            raise OperatorError("there is no such session", next_step="`lockgate sessions list` names them") from None


def _record(state: SessionState, clearance: Label) -> dict[str, JsonValue]:
    """Return the record for an operator, with facts that a reader in a conversation may not count."""
    more: dict[str, JsonValue] = {
        "updated": state.updated_at,
        "generation": state.generation,
        "queued": state.waiting_items,
    }
    return {**describe(state, clearance), **more}


def _entry(one: ListedSession, clearance: Label) -> dict[str, JsonValue]:
    told: dict[str, JsonValue] = {"id": one.sid, "status": UNREADABLE}
    if one.state is not None:
        told = _record(one.state, clearance)
    return {**told, "quarantine": _quarantine(one.quarantined)}


def _row(one: ListedSession, clearance: Label) -> tuple[str, ...]:
    apart = "" if one.quarantined is None else f", {APART}"
    if one.state is None:
        return one.sid, "-", "-", "-", f"{UNREADABLE}{apart}", "-", "-"
    state = one.state
    told = describe(state, clearance)
    status = f"{state.status.value}{apart}"
    return (
        one.sid,
        state.principal,
        str(told["channel"]),
        str(told["agent"]),
        status,
        str(state.taint),
        moment(state.updated_at),
    )


def _quarantine(one: Quarantined | None) -> JsonValue:
    if one is None:
        return None
    return {"since": one.since, "tries": one.tries, "doing": one.doing.value, "error": one.error, "where": one.where}


def _event(event: Event) -> dict[str, JsonValue]:
    return {
        "seq": event.seq,
        "ts": event.ts,
        "generation": event.generation,
        "type": event.type,
        "actor": event.actor,
        "label": str(event.label),
        "visibility": event.visibility.value,
        "admitted": event.admitted,
        "turn": event.turn,
        "body": event_json(event.body),
    }


def _line(event: Event) -> tuple[str, ...]:
    what = _told(event.body)
    cut = what if len(what) <= _LONGEST else f"{what[:_LONGEST]}…"
    return str(event.seq), moment(event.ts), event.type, event.actor, str(event.label), cut


def _told(body: EventBody) -> str:
    """Return an event's text, or else its subject."""
    match body:
        case (
            UserMessage(text=text)
            | ChatObserved(text=text)
            | MemoriesRecalled(text=text)
            | AgentMessage(text=text)
            | ItemHeld(text=text)
            | SessionSummary(text=text)
            | TurnError(text=text)
        ):
            return text
        case ToolResult(text=text, tool=about) | PolicyDecision(text=text, about=about):
            return text or about
        case ToolCall(tool=tool) | ApprovalRequested(question=ApprovalQuestion(tool=tool)):
            return tool
        case UnknownEvent():
            return UNKNOWN
        case _:
            return ""


def _shown(value: JsonValue) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return "-" if value is None else str(value)
