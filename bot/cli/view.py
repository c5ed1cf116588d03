"""What the console shows of a session besides what is said: history, progress, and the taint in the prompt.

Progress lines have a constant form around names that configuration and code gave, never a model's text.
Nothing is shown whose label does not flow to the address's clearance (law `no_read_up`).
"""

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Final

from bot.history.event_log import decision_in
from bot.sessions.events import Event, EventType, JsonObject, Visibility
from bot.sessions.models import SessionState
from bot.sessions.ports import SessionStore
from channels.console import visible
from policy.labels import PUBLIC, Label

HISTORY: Final = 6
"""Messages shown when a conversation goes on."""

_LONGEST: Final = 400
_WINDOW: Final = 200
_OUTCOMES: Final = frozenset({"ok", "held", "failed", "interrupted"})
_VERDICTS: Final = MappingProxyType(
    {"BLOCK": "refused", "REQUIRE_APPROVAL": "waits for an approval", "REDACT": "redacted"}
)
_SAID: Final = frozenset({EventType.USER_MESSAGE, EventType.AGENT_MESSAGE})

Show = Callable[[str], Awaitable[None]]


class View:
    """Follows one session's log. `tools` are the names that may be shown."""

    def __init__(self, store: SessionStore, sid: str, show: Show, tools: frozenset[str]) -> None:
        self._store = store
        self._sid = sid
        self._show = show
        self._tools = tools
        self._cursor = 0
        self.taint = PUBLIC

    async def open(self, clearance: Label) -> None:
        """Begin at the end of the log, showing the last messages of a conversation that goes on."""
        state = await self._store.state(self._sid)
        if state is None:
            return
        self._cursor, self.taint = state.seq, state.taint
        said = [event for event in await self._tail(state) if event.type in _SAID and _readable(event, clearance)]
        if said:
            shown = [_message(event) for event in said[-HISTORY:]]
            await self._show("\n".join([f"· going on, taint {state.taint}", *shown]))

    async def follow(self, clearance: Label) -> None:
        """Show what happened since."""
        while events := await self._store.events(self._sid, after=self._cursor, limit=_WINDOW):
            self._cursor = events[-1].seq
            for event in events:
                line = self._line(event)
                if line and event.visibility is Visibility.PROGRESS and event.label.flows_to(clearance):
                    await self._show(line)

    async def refresh(self) -> SessionState | None:
        """Read the session's record, and with it the taint shown in the prompt."""
        state = await self._store.state(self._sid)
        self.taint = PUBLIC if state is None else state.taint
        return state

    async def _tail(self, state: SessionState) -> tuple[Event, ...]:
        after = max(state.generation_seq - 1, state.seq - _WINDOW, 0)
        return await self._store.events(self._sid, after=after, limit=_WINDOW)

    def _line(self, event: Event) -> str:
        body = event.body
        match event.type:
            case EventType.TOOL_RESULT if body.get("outcome") in _OUTCOMES:
                outcome = "allowed" if body["outcome"] == "ok" else body["outcome"]
                return f"· {self._named(body.get('tool'))} {outcome}, taint {self.taint}"
            case EventType.TAINT_RAISED:
                # Told with the result of the call that caused it.
                self.taint = event.label.join(self.taint)
                return ""
            case _:
                return self._decided(decision_in(event))

    def _decided(self, told: JsonObject | None) -> str:
        if told is None:
            return ""
        verdict = str(told.get("verdict"))
        return f"· {self._named(told.get('about'))} {_VERDICTS.get(verdict, verdict)} by {_deciding(told)}"

    def _named(self, name: object) -> str:
        return str(name) if name in self._tools else "a call"


def _deciding(told: JsonObject) -> str:
    """Return the ids of the rules that had the last word."""
    rules, verdict = told.get("rules"), told.get("verdict")
    known = [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    return ", ".join(str(rule.get("id")) for rule in known if rule.get("verdict") == verdict)


def _readable(event: Event, clearance: Label) -> bool:
    return event.visibility is Visibility.USER and event.label.flows_to(clearance)


def _message(event: Event) -> str:
    text = visible(str(event.body.get("text", "")))
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    indented = cut.replace("\n", "\n  ")
    theirs = "a session: " if "origin" in event.body else "you: "
    return f"{theirs if event.type is EventType.USER_MESSAGE else '  '}{indented}"
