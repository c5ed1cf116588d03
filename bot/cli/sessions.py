"""`lockgate sessions`: the sessions of the store as their owner may see them."""

from collections.abc import Mapping

from pydantic import JsonValue

from bot.cli.output import print_json, print_lines, table
from bot.cli.owner import as_owner
from bot.clock import moment
from bot.config.model import Config
from bot.errors import OperatorError
from bot.sessions.events import Event
from bot.sessions.port import SessionStore
from bot.sessions.values import SessionState
from bot.tools.sessions import describe
from policy.labels import Label

_WINDOW = 500
_LONGEST = 120


async def list_sessions(config: Config, *, as_json: bool) -> None:
    """Print every session the owner is cleared for, newest first."""
    async with as_owner(config) as (app, caller):
        states = [state async for state in app.store.sessions() if state.visibility.flows_to(caller.clearance)]
        states.sort(key=lambda state: (-state.updated_at, state.sid))
        if as_json:
            print_json([_record(state, caller.clearance) for state in states])
            return
    heads = ("session", "principal", "channel", "status", "taint", "updated (UTC)")
    print_lines(table([heads, *(_row(state, describe(state, caller.clearance)) for state in states)]))


async def show_session(config: Config, sid: str, *, as_json: bool) -> None:
    """Print one session's record and its log.

    Raises OperatorError: there is no such session that the owner is cleared for.
    """
    async with as_owner(config) as (app, caller):
        state = await app.store.state(sid)
        if state is None or not state.visibility.flows_to(caller.clearance):
            raise OperatorError("there is no such session", next_step="`lockgate sessions list` names them")
        events = [event for event in await _events(app.store, state) if event.label.flows_to(caller.clearance)]
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
