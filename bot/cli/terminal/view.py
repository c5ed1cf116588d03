"""The status lines of `lockgate chat` about a session.

Progress lines have a constant form around names that configuration and code gave, never a model's text. Nothing is
shown whose label does not flow to the address's clearance (law `no_read_up`).
"""

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Final

from bot.history.dividers import divider
from bot.history.event_log import decision_in
from bot.sessions.log.event_types import (
    AgentMessage,
    PolicyDecision,
    TaintRaised,
    ToolCall,
    ToolOutcome,
    ToolResult,
    TurnCompleted,
    UserMessage,
)
from bot.sessions.log.events import Event, Visibility
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from channels.console import visible
from policy.decision import Verdict
from policy.labels import PUBLIC, Label

ABOVE: Final = "above here"
"""The text in place of a taint that may not be known where it is shown."""

HISTORY: Final = 6
"""Messages shown when a conversation goes on."""

_LONGEST: Final = 400
_WINDOW: Final = 200
_VERDICTS: Final = MappingProxyType(
    {
        Verdict.BLOCK: "refused",
        Verdict.REQUIRE_APPROVAL: "waits for an approval",
        Verdict.REDACT: "redacted",
    }
)
Show = Callable[[str], Awaitable[None]]


class ConsoleView:
    """Follows one session's log. `tools` are the names that may be shown."""

    def __init__(self, store: SessionStore, sid: str, show: Show, tools: frozenset[str]) -> None:
        self._store = store
        self._sid = sid
        self._show = show
        self._tools = tools
        self._cursor = 0
        self._calls = dict[str, str]()
        self.taint = PUBLIC

    @property
    def running(self) -> str:
        """The name of the tool that was called last of those at work, empty if none is."""
        return next(reversed(self._calls.values()), "")

    async def open(self, clearance: Label) -> None:
        """Begin at the end of the log, showing the last messages of a conversation that goes on."""
        state = await self._store.state(self._sid)
        if state is None:
            return
        self._cursor, self.taint = state.seq, state.taint
        readable = [event for event in await self._tail(state) if event.label.flows_to(clearance)]
        said = [at for at, event in enumerate(readable) if _is_message(event)]
        if said:
            shown = filter(None, map(_entry, readable[said[-HISTORY:][0] :]))
            await self._show("\n".join([f"· going on, taint {self.told(clearance)}", *shown]))

    def told(self, clearance: Label) -> str:
        """Return the taint as it is shown to a reader: how high a session has risen is a choice of its model's."""
        return str(self.taint) if self.taint.flows_to(clearance) else ABOVE

    async def turn_to(self, sid: str) -> None:
        """Follow another session from now on."""
        state = await self._store.state(sid)
        self._sid = sid
        self._calls.clear()
        self._cursor, self.taint = (0, PUBLIC) if state is None else (state.seq, state.taint)

    async def follow(self, clearance: Label) -> None:
        """Show the events since the last call."""
        while events := await self._store.events(self._sid, after=self._cursor, limit=_WINDOW):
            self._cursor = events[-1].seq
            for event in events:
                line = self._line(event)
                told = event.visibility is Visibility.PROGRESS and event.label.flows_to(clearance)
                self._note(event, told=told)
                if line and told:
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
        match event.body:
            case ToolResult(tool=tool, outcome=outcome) if outcome is not ToolOutcome.DENIED:
                told = "allowed" if outcome is ToolOutcome.OK else outcome
                return f"· {self._named(tool)} {told}, taint {self.taint}"
            case TaintRaised():
                self.taint = event.label.join(self.taint)
                return divider(event)
            case _:
                return self._decided(decision_in(event))

    def _note(self, event: Event, *, told: bool) -> None:
        """Note which calls are at work, those that may be told of alone."""
        match event.body:
            case ToolCall(call=call, tool=tool) if told:
                self._calls[call] = self._named(tool)
            case ToolResult(call=call):
                self._calls.pop(call, None)
            case TurnCompleted():
                self._calls.clear()
            case _:
                pass

    def _decided(self, told: PolicyDecision | None) -> str:
        if told is None:
            return ""
        verdict = _VERDICTS.get(told.verdict, told.verdict.name)
        deciding = ", ".join(rule.rule for rule in told.rules if rule.verdict is told.verdict)
        return f"· {self._named(told.about)} {verdict} by {deciding}"

    def _named(self, name: str) -> str:
        return name if name in self._tools else "a call"


def _is_message(event: Event) -> bool:
    return event.visibility is Visibility.USER and isinstance(event.body, UserMessage | AgentMessage)


def _entry(event: Event) -> str:
    """Return a message or a divider, empty for any other event."""
    match event.body:
        case UserMessage() | AgentMessage() if event.visibility is Visibility.USER:
            return _message(event.body)
        case _:
            return divider(event)


def _message(said: UserMessage | AgentMessage) -> str:
    text = visible(said.text)
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    indented = cut.replace("\n", "\n  ")
    if isinstance(said, AgentMessage):
        return f"  {indented}"
    return f"{'you: ' if said.origin is None else 'a session: '}{indented}"
