"""`lockgate sessions`: the sessions of the store as their owner may see them."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

from pydantic import JsonValue

from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.clock import moment
from bot.core.errors import NotFoundError, OperatorError, SchemaError
from bot.operations.diagnostics import visibility
from bot.sessions.events import Event
from bot.sessions.models import Quarantined, SessionState
from bot.sessions.ports import SessionIndex, SessionStore
from bot.tools.sessions import describe
from policy.labels import Label

PAGE: Final = 50
"""Sessions that one page shows."""

_WINDOW = 500
_LONGEST = 120
_STATUS = 3

APART: Final = "quarantined"
UNREADABLE: Final = "unreadable"


async def list_sessions(config: Config, *, as_json: bool, after: str = "", limit: int = PAGE) -> None:
    """Print a page of the sessions the owner is cleared for, newest first, those behind `after`, an id.

    Raises OperatorError: there is no such session that the owner is cleared for.
    """
    async with as_owner(config) as (app, caller):
        apart = {one.sid: one for one in await app.quarantine.all()}
        every = config.policy.top.flows_to(caller.clearance)
        if after and not (await visibility(app.store.sessions, after, config.policy.top)).flows_to(caller.clearance):
            raise _absent()
        states, unread, more, last = list[SessionState](), list[str](), False, after
        async for sid, state in _newest(app.store.index, after):
            # What cannot be read may be of a session that read anything.
            shown = every if state is None else state.visibility.flows_to(caller.clearance)
            if not shown:
                continue
            more = len(states) + len(unread) == limit
            if more:
                break
            if state is None:
                unread.append(sid)
            else:
                states.append(state)
            last = sid
    if as_json:
        read = [_record(state, caller.clearance) for state in states]
        lost: list[dict[str, JsonValue]] = [{"id": sid, "status": UNREADABLE} for sid in unread]
        print_json([{**one, "quarantine": _apart(apart.get(str(one["id"])))} for one in (*read, *lost)])
        return
    heads = ("session", "principal", "channel", "status", "taint", "updated (UTC)")
    rows = [_row(state, describe(state, caller.clearance)) for state in states]
    rows += [(sid, "-", "-", UNREADABLE, "-", "-") for sid in unread]
    print_lines(table([heads, *(_marked(row, apart) for row in rows)]))
    if more:
        print_lines([f"there are more: `lockgate sessions list --after {last}`"])


async def _newest(index: SessionIndex, after: str) -> AsyncIterator[tuple[str, SessionState | None]]:
    """Yield all sessions, newest first, those behind `after`. Raises OperatorError: there is no such session."""
    while True:
        try:
            page = await index.recent(after=after, limit=_WINDOW)
        except NotFoundError:
            raise _absent() from None
        if not page:
            return
        for one in page:
            yield one
        after = page[-1][0]


def _absent() -> OperatorError:
    return OperatorError("there is no such session", next_step="`lockgate sessions list` names them")


async def release_session(config: Config, sid: str) -> None:
    """Let a session out of quarantine.

    Raises OperatorError: none that the owner is cleared for has this id there, or its record cannot be read.
    """
    async with as_owner(config) as (app, caller):
        label = await visibility(app.store.sessions, sid, config.policy.top)
        known = label.flows_to(caller.clearance) and sid in {one.sid for one in await app.quarantine.all()}
        if known:
            try:
                await app.store.sessions.state(sid)
            except SchemaError as error:
                # Released, it would fail again, and nobody would be told of it before that.
                raise OperatorError("its record still cannot be read", next_step=error.next_step) from None
        released = known and await app.quarantine.release(sid, caller.principal)
    if not released:
        raise OperatorError("no such session is in quarantine", next_step="`lockgate sessions list` names them")
    print_lines([f"{sid} is tried again"])


async def show_session(config: Config, sid: str, *, as_json: bool) -> None:
    """Print one session's record and its log.

    Raises OperatorError: there is no such session that the owner is cleared for.
    """
    async with as_owner(config) as (app, caller):
        state = await app.store.sessions.state(sid)
        if state is None or not state.visibility.flows_to(caller.clearance):
            raise _absent()
        events = [event for event in await _events(app.store.sessions, state) if event.label.flows_to(caller.clearance)]
        record = _record(state, caller.clearance)
    if as_json:
        print_json({**record, "events": [_event(event) for event in events]})
        return
    heads = ("seq", "time (UTC)", "type", "actor", "label", "what")
    print_lines([f"{name}: {_shown(value)}" for name, value in record.items()])
    print_lines(["", *table([heads, *(_line(event) for event in events)])])


async def _events(store: SessionStore, state: SessionState) -> list[Event]:
    events: list[Event] = []
    while page := await store.events(state.sid, after=events[-1].seq if events else 0, limit=_WINDOW):
        events.extend(page)
    return events


def _record(state: SessionState, clearance: Label) -> dict[str, JsonValue]:
    """Return what an operator is shown besides: what a reader in a conversation may not count."""
    more: dict[str, JsonValue] = {
        "updated": state.updated_at,
        "generation": state.generation,
        "queued": state.waiting_items,
    }
    return {**describe(state, clearance), **more}


def _row(state: SessionState, record: Mapping[str, JsonValue]) -> tuple[str, ...]:
    return (
        state.sid,
        state.principal,
        str(record["channel"]),
        state.status.value,
        str(state.taint),
        moment(state.updated_at),
    )


def _apart(one: Quarantined | None) -> JsonValue:
    if one is None:
        return None
    return {"since": one.since, "tries": one.tries, "doing": one.doing.value, "error": one.error, "where": one.where}


def _marked(row: tuple[str, ...], apart: Mapping[str, Quarantined]) -> tuple[str, ...]:
    """Return a row with its status followed by that the session is in quarantine."""
    return tuple(f"{cell}, {APART}" if place == _STATUS and row[0] in apart else cell for place, cell in enumerate(row))


def _event(event: Event) -> dict[str, JsonValue]:
    return {
        "seq": event.seq,
        "ts": event.ts,
        "generation": event.generation,
        "type": event.type.value,
        "actor": event.actor,
        "label": str(event.label),
        "visibility": event.visibility.value,
        "admitted": event.admitted,
        "turn": event.turn,
        "body": dict(event.body),
    }


def _line(event: Event) -> tuple[str, ...]:
    body = event.body
    what = str(body.get("text") or body.get("tool") or body.get("about") or "")
    cut = what if len(what) <= _LONGEST else f"{what[:_LONGEST]}…"
    return str(event.seq), moment(event.ts), event.type.value, event.actor, str(event.label), cut


def _shown(value: JsonValue) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return "-" if value is None else str(value)
