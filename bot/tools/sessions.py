"""`sessions_list` and `session_status`: the facts that a session may know of itself and of its principal's others.

The principal of a call comes from the running turn, never from its arguments. The person's own commands show the same
shapes. `bot/sessions/visibility.py` decides which sessions may be known at all.
"""

import json
from typing import Final, Literal

from pydantic import Field, JsonValue

from bot.access import labelling
from bot.access.agents import Pin
from bot.core.errors import CursorError
from bot.delegation import receipts
from bot.pinned_agents import PinnedAgents, as_json
from bot.sessions.models import LastTurn, SessionKind, SessionPage, SessionQuery, SessionState, Title
from bot.sessions.ports.sessions import SessionIndex, SessionStore
from bot.sessions.ports.store import Store
from bot.sessions.visibility import counts_still, label_of, look, sees
from bot.tools.base import Arguments, CallFacts, Identifier, RefusedCallError, Result, ToolContext, ToolServices
from channels.messages import Address
from policy.labels import PUBLIC, Label, join_all
from policy.request import Effect

ONLY: Final = "only sessions that the caller's level may know of are listed"
"""The last words of every listing, whether or not anything was left out."""

NONE: Final = "there is no such session"
"""Absent, another principal's, too high and malformed are one answer (law `no_read_up`)."""

ALONE: Final = "a receipt is one of this session's own, so it is asked about without `session_id`"

LONGEST_CURSOR: Final = 1024


class ListArguments(Arguments):
    """Arguments of `sessions_list`."""

    cursor: str | None = Field(default=None, max_length=LONGEST_CURSOR, description="of the page before")
    limit: int = Field(default=50, ge=1, le=200)
    kind: Literal["chat", "task", "run"] | None = None
    active_within: int | None = Field(default=None, ge=1, le=10**9, description="seconds since the last change")


class StatusArguments(Arguments):
    """Arguments of `session_status`."""

    session_id: Identifier | None = Field(default=None, description="another session of yours; own if omitted")
    receipt: str | None = Field(default=None, max_length=64, description="of `sessions_send`, asked about alone")


async def own_or_visible(sessions: SessionStore, sid: str, context: ToolContext) -> tuple[SessionState | None, Label]:
    """Return the record of the caller's own session, or of another that it may know of, None otherwise.

    With it comes the label of the answer about it, even of the answer that there is none.
    """
    if sid in {"", context.session.sid}:
        return await sessions.state(context.session.sid), context.session.taint
    state, label = await look(sessions, sid, context.caller.principal, context.session.taint)
    return state, context.session.taint.join(label)


def absent(context: ToolContext, services: ToolServices, label: Label) -> Result:
    """Return the answer for a session that does not exist for the caller.

    A caller who may not read data of that label gets the same answer for any session that has it.
    """
    return Result(NONE, label if services.permits(label) else context.session.taint, failed=True)


def title_for(state: SessionState, reader: Label) -> Title | None:
    """Return a session's title; one above the reader is as none."""
    return state.title if state.title is not None and state.title.label.flows_to(reader) else None


def entry(state: SessionState, title: str | None) -> dict[str, JsonValue]:
    """Return a session as a listing shows it."""
    return {
        "id": state.sid,
        "kind": state.kind.value,
        "channel": Address.parse(state.home).channel,
        "user": state.principal,
        "taint": str(state.taint),
        "status": state.status.value,
        "created": state.created_at,
        "updated": state.updated_at,
        "title": title,
    }


def _last(state: SessionState, turn: LastTurn) -> dict[str, JsonValue]:
    # By its place in the generation: turns before a reset are not for readers after it.
    result = turn.result_seq - state.generation_seq + 1 if turn.result_seq else None
    return {
        "id": turn.id,
        "state": turn.state.value,
        "yield_reason": turn.reason.value,
        "result_event_id": result,
        "error": turn.error,
    }


def describe(state: SessionState, clearance: Label) -> dict[str, JsonValue]:
    """Return a session's record as its readers see it: the common form of tool, command and listing."""
    last = state.last_turn
    return {
        "id": state.sid,
        "channel": Address.parse(state.home).channel,
        "user": state.principal,
        "taint": str(state.taint),
        "clearance": str(clearance),
        "status": state.status.value,
        "agent": Pin.parse(state.agent).name,
        "created": state.created_at,
        "last_turn": None if last is None else _last(state, last),
        "usage": {
            "requests": state.usage.requests,
            "input_tokens": state.usage.input_tokens,
            "output_tokens": state.usage.output_tokens,
            "complete": state.usage.complete,
            "cost": state.usage.cost / 1_000_000 if state.usage.priced else None,
        },
    }


class SessionsList:
    """List the caller's principal's sessions that its taint may know of, newest first."""

    name = "sessions_list"
    description = "List your sessions, newest first, with kind, channel, taint, status, times and title."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = ListArguments

    def __init__(self, index: SessionIndex) -> None:
        self._index = index

    def declare(self, arguments: ListArguments, context: ToolContext) -> CallFacts:
        """Declare the caller's own taint: nothing above it is returned."""
        return CallFacts(result=context.session.taint)

    async def run(self, arguments: ListArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return a page, the cursor of the next, and the sentence that every listing ends with."""
        asked = SessionQuery(
            principal=context.caller.principal,
            reader=context.session.taint,
            cursor=arguments.cursor or "",
            limit=arguments.limit,
            kind=None if arguments.kind is None else SessionKind(arguments.kind),
            since=0 if arguments.active_within is None else context.now - arguments.active_within * 1000,
        )
        try:
            page = await self._index.listed(asked)
        except CursorError as error:
            return Result(str(error), context.session.taint, failed=True)
        # A session's activity is as trusted as the data that it has read, which may have caused it. So is that it is
        # gone.
        known = context.session.taint.join(page.label)
        if not services.permits(known):
            page, known = SessionPage((), ""), context.session.taint
        titles = {state.sid: title_for(state, context.session.taint) for state in page.sessions}
        label = join_all((title.label for title in titles.values() if title is not None), known)
        if any(titles.values()):
            label = labelling.members_words(context.document, context.caller.principal, context.session.home, label)
        if not services.permits(label):
            # A title can be less trusted than its reader may accept.
            titles, label = {}, known
        texts = {sid: services.mask(title.text) for sid, title in titles.items() if title is not None}
        told: list[JsonValue] = [entry(state, texts.get(state.sid)) for state in page.sessions]
        return Result(json.dumps({"sessions": told, "cursor": page.cursor or None, "note": ONLY}), label)


class SessionStatus:
    """Tell about a session: the caller's own, or another of its principal that its taint may know of."""

    name = "session_status"
    description = (
        "Tell the state of this session or another: taint, clearance, status, agent, last turn, usage, children and "
        "queue. With a receipt, tell the fate of a message that this session sent."
    )
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = StatusArguments

    def __init__(self, store: Store, agents: PinnedAgents) -> None:
        self._store = store
        self._agents = agents

    def declare(self, arguments: StatusArguments, context: ToolContext) -> CallFacts:
        """Declare the caller's own taint: nothing above it is returned."""
        if arguments.receipt is not None and arguments.session_id is not None:
            raise RefusedCallError(ALONE)
        return CallFacts(result=context.session.taint)

    async def run(self, arguments: StatusArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the status, with the same words for an absent session and for another principal's (law `no_read_up`).

        Waiting messages and children are counted only as far as the caller may know of them.
        """
        if arguments.receipt is not None:
            return await self._receipt(arguments.receipt, context, services)
        state, known = await own_or_visible(self._store.sessions, arguments.session_id or "", context)
        if state is None:
            return absent(context, services, known)
        reader = context.session.taint
        waiting = [item for item in await self._store.sessions.waiting(state.sid) if item.label.flows_to(reader)]
        agent = await self._agents.pinned(state.agent)
        children, below = await self._children(state, context)
        told: dict[str, JsonValue] = {
            **describe(state, context.caller.ceiling),
            "agent": as_json(agent, self._agents.drift(agent)),
            "children": list[JsonValue](child.sid for child in children),
            "queued": len(waiting),
        }
        # A session's activity is as trusted as the data that it has read, which may have caused it.
        label = join_all((below, *(item.label for item in waiting)), known)
        return Result(json.dumps(told), label) if services.permits(label) else Result(NONE, reader, failed=True)

    async def _receipt(self, name: str, context: ToolContext, services: ToolServices) -> Result:
        """Tell what became of something this session sent, as far as its target may be known of."""
        own = await self._store.sessions.state(context.session.sid)
        receipt = None if own is None else await receipts.look_up(self._store, own, name, context.caller.reader)
        if receipt is None:
            return Result(receipts.UNKNOWN, context.session.taint, failed=True)
        label = context.session.taint.join(receipt.label)
        if not services.permits(label):
            return Result(receipts.UNKNOWN, context.session.taint, failed=True)
        return Result(json.dumps(receipt.told()), label)

    async def _children(self, state: SessionState, context: ToolContext) -> tuple[list[SessionState], Label]:
        """Return the background sessions of a session that live and that the caller may know of.

        With them comes the label of that answer, joined with the labels of the missing ones.
        """
        slots = [slot.sid for slot in await self._store.delegation.slots(state.principal) if slot.parent == state.sid]
        states = [child for sid in slots if (child := await self._store.sessions.state(sid)) is not None]
        principal, reader = context.caller.principal, context.session.taint
        found = [child for child in states if sees(child, principal, reader)]
        live = sorted((child for child in found if not child.ended_at), key=lambda child: child.sid)
        choosing = (child for child in states if child in live or counts_still(child, reader, context.now))
        return live, join_all(label_of(child, principal, reader) for child in choosing)
