"""`sessions_history`: the transcript of a session, page by page from the end, with the label of each entry."""

import json
from collections.abc import Callable
from typing import Final

from pydantic import Field, JsonValue

from bot.access import labelling
from bot.history.recall import recall
from bot.sessions.log.event_types import (
    AgentMessage,
    ChatObserved,
    MemoriesRecalled,
    ToolCall,
    ToolResult,
    UnknownEvent,
    UserMessage,
)
from bot.sessions.log.events import Event
from bot.sessions.messages import Origin, OriginKind
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.refs import EventsRef
from bot.sessions.transcript import place, transcript
from bot.tools.base import Arguments, CallFacts, Identifier, Result, ToolContext, ToolServices
from bot.tools.sessions import NONE, absent, own_or_visible
from policy.labels import PUBLIC, join_all
from policy.request import Effect

MESSAGE: Final = "message"
"""The name of a message entry, beside calls and results."""

RECALLED: Final = "recalled memories"
"""The name of a block of memories that the runtime put beside a message."""

UNKNOWN: Final = "unknown event"
"""The name of an entry whose type this version does not know; the type's name stands for its text."""

_LONGEST: Final = 4000


class HistoryArguments(Arguments):
    """Arguments of `sessions_history`."""

    session_id: Identifier = Field(description="a session of yours, as `sessions_list` names it")
    cursor: int | None = Field(default=None, ge=1, le=10**12, description="of the page before")
    limit: int = Field(default=50, ge=1, le=200)
    include_tools: bool = Field(default=False, description="also tool calls and their results")


def said(event: Event) -> tuple[str, str]:
    """Return the subject of a transcript entry, and its text as it stands in the log."""
    match event.body:
        case ToolCall(tool=tool, arguments=arguments):
            return f"call of {tool}", json.dumps(arguments, ensure_ascii=False)
        case ToolResult(tool=tool, text=text, outcome=outcome):
            return f"result of {tool}, {outcome}", text
        case MemoriesRecalled(text=text):
            return RECALLED, text
        case UserMessage(text=text) | ChatObserved(text=text) | AgentMessage(text=text):
            return MESSAGE, text
        case UnknownEvent(name=name):
            return UNKNOWN, name
        case _:
            return event.type, ""


def source(event: Event) -> str:
    """Return the author of a transcript entry: a message of another session is that session's, and no person's."""
    return author(event.body.origin if isinstance(event.body, UserMessage) else None, event.actor)


def author(origin: Origin | None, person: str) -> str:
    """Return the author of a message: the session that sent it, the runtime, or the person in whose name it came."""
    if origin is not None and origin.kind is OriginKind.RUNTIME:
        return "the runtime"
    return person if origin is None or not origin.session else f"session {origin.session}"


def shortened(text: str) -> str:
    """Return a text, or as much of it as an entry shows and how long it is."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


class SessionsHistory:
    """Read the transcript of a session that the caller's taint may know of."""

    name = "sessions_history"
    description = "Read the messages of this session or another of yours, newest page first, each with its label."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = HistoryArguments

    def __init__(self, sessions: SessionStore) -> None:
        self._sessions = sessions

    def declare(self, arguments: HistoryArguments, context: ToolContext) -> CallFacts:
        """Declare the caller's own taint: no entry above it is returned; less trusted ones need a permission first."""
        return CallFacts(result=context.session.taint)

    async def run(self, arguments: HistoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return a page of entries, oldest first, and the cursor of the page before it.

        The result has the join of its entries' labels, so text that is UNTRUSTED there is UNTRUSTED here.
        """
        state, known = await own_or_visible(self._sessions, arguments.session_id, context)
        if state is None:
            return absent(context, services, known)
        found = await transcript(
            self._sessions,
            state,
            context.session.taint,
            before=arguments.cursor,
            limit=arguments.limit,
            tools=arguments.include_tools,
        )
        # The positions of entries, and the absence of others, are as trusted as the session.
        label = join_all((event.label for event in found.events), known)
        if state.sid != context.session.sid:
            label = labelling.members_words(context.document, context.caller.principal, context.session.home, label)
            if not label.untrusted and await self._heard_endorsed(state):
                label = labelling.untrusted(label)
        if not services.permits(label):
            return Result(NONE, context.session.taint, failed=True)
        told: list[JsonValue] = [_entry(event, state, services.mask) for event in found.events]
        came = (EventsRef(found.events[0].seq, found.events[-1].seq, state.sid),) if found.events else ()
        entries = json.dumps({"session": state.sid, "entries": told, "cursor": found.before})
        return Result(entries, label, refs=came)

    async def _heard_endorsed(self, state: SessionState) -> bool:
        """Say whether what a session wrote may depend on bounded answers: nobody charges for them where it is read."""
        return bool((await recall(self._sessions, state)).folds.endorsed)


def _entry(event: Event, state: SessionState, mask: Callable[[str], str]) -> JsonValue:
    what, text = said(event)
    return {
        "n": place(event, state),
        "at": event.ts,
        "by": source(event),
        "what": what,
        "label": str(event.label),
        # Masked as a whole, so that shortening cannot cut a secret in two.
        "text": shortened(mask(text)),
    }
