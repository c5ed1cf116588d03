"""The sources of a turn's events and deliveries: the references that each is given when it is written.

An answer comes from the events that the model was asked with, and a call from the model's response. A result comes from
its call, and an output from the event that holds it. A writer may give more precise sources; those stand. `bot.lineage`
reads these references, and nothing is decided by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.sessions.deliveries import NewDelivery
from bot.sessions.log.event_types import (
    AgentMessage,
    AgentThinking,
    ApprovalRequested,
    ApprovalResolved,
    SessionSummary,
    TaintRaised,
    ToolCall,
    ToolResult,
)
from bot.sessions.log.events import NewEvent
from bot.sessions.refs import ApprovalRef, CallRef, EventsRef, Ref


@dataclass(frozen=True, slots=True)
class Reading:
    """The position that a turn goes on from, as seqs: 0 where there is nothing yet."""

    first: int = 0
    """The first event that the model was asked with last."""
    last: int = 0
    """The last event that the model was asked with last."""
    response: int = 0
    """The event that holds its newest response."""

    def after(self, events: Sequence[NewEvent], cursor: int) -> "Reading":
        """Return it with these events behind the seq `cursor`: the newest response counts."""
        responses = [seq for seq, one in enumerate(events, cursor + 1) if isinstance(one.body, AgentThinking)]
        return replace(self, response=responses[-1]) if responses else self


@dataclass(frozen=True, slots=True)
class _Write:
    """The events of one write, of which the first stands behind the seq `cursor`."""

    events: Sequence[NewEvent]
    cursor: int
    reading: Reading

    @property
    def calls(self) -> tuple[Ref, ...]:
        """The calls that the write is about."""
        bodies = (event.body for event in self.events)
        return tuple(dict.fromkeys(CallRef(one.call) for one in bodies if isinstance(one, ToolCall | ToolResult)))

    @property
    def admitted(self) -> tuple[Ref, ...]:
        """The events that the write lets into the context, except the rise of the taint itself."""
        numbered = enumerate(self.events, self.cursor + 1)
        said = (seq for seq, one in numbered if one.admitted and not isinstance(one.body, TaintRaised))
        return tuple(EventsRef(seq, seq) for seq in said)

    @property
    def context(self) -> tuple[Ref, ...]:
        """The events that the model was asked with."""
        return (EventsRef(self.reading.first, self.reading.last),) if self.reading.last else ()

    @property
    def asking(self) -> tuple[Ref, ...]:
        """The model's response that calls come from, or the events that it was asked with."""
        response = self.reading.response
        return (EventsRef(response, response),) if response else self.context

    @property
    def before(self) -> tuple[Ref, ...]:
        """The event before the write."""
        return (EventsRef(self.cursor, self.cursor),) if self.cursor else ()

    def of(self, event: NewEvent, asked: dict[str, str]) -> tuple[Ref, ...]:
        """Return the sources of an event; `asked` are the calls that approvals are for."""
        found: tuple[Ref, ...] = ()
        match event.body:
            case AgentMessage() | AgentThinking() | SessionSummary():
                found = self.context
            case ToolCall():
                found = self.asking
            case ToolResult(call=call):
                found = (CallRef(call),)
            case TaintRaised():
                found = self.admitted or self.calls
            case ApprovalRequested(approval=approval):
                # The call itself is written once people have answered, and they see it before.
                found = (CallRef(asked[approval]), *self.asking) if approval in asked else self.calls
            case ApprovalResolved(approval=approval):
                found = (ApprovalRef(approval),)
            case _:
                found = self.calls or self.admitted
        return found or self.before


def referring(events: Sequence[NewEvent], cursor: int, reading: Reading, asked: dict[str, str]) -> tuple[NewEvent, ...]:
    """Return the events of one write with their sources; the first of them gets the seq behind `cursor`.

    `asked` has the call for each approval that the write asks for.
    """
    # The response that calls come from may stand in this write.
    write = _Write(events, cursor, reading.after(events, cursor))
    return tuple(
        # A call comes from the response and from the references in its arguments, and so does a question whether it may
        # be made. The sources of any other event are those of its writer, if it gave some.
        event
        if event.refs and not isinstance(event.body, ToolCall | ApprovalRequested)
        else replace(event, refs=(*write.of(event, asked), *event.refs))
        for event in events
    )


def said(new: NewDelivery, events: Sequence[NewEvent], cursor: int) -> NewDelivery:
    """Return a delivery with its source: of the events written with it, the one that it tells."""
    if new.refs:
        return new
    seqs = [seq for seq, one in enumerate(events, cursor + 1) if isinstance(one.body, AgentMessage)]
    if seqs:
        return replace(new, refs=(EventsRef(seqs[-1], seqs[-1]),))
    last = cursor + len(events)
    first = cursor + 1 if events else last
    return replace(new, refs=(EventsRef(first, last),)) if last else new
