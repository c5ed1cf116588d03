"""An event in the form for programs: the same in a page, in a stream, by a webhook and as a result.

Labels decide who may know of an event. Rules of the policy may say more about outputs, such as that no card number
leaves, and they count here as for an answer or an export. A refused event is left out, and a matched pattern is
replaced. Otherwise a model that was taken over could put into the arguments of a call a text that it may not answer.

The sources of an event are not told: they name other sessions, and held items of this one.
"""

from typing import Final

from bot.access import labelling
from bot.access.decision_context import DecisionContext
from bot.access.tokens import Tokens
from bot.core.clock import Clock
from bot.core.json_values import JsonObject, mapped_object
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON
from bot.operations.reading import SessionReader
from bot.sessions.background.runs import UNREAD
from bot.sessions.deliveries import OURS
from bot.sessions.log.event_types import UserMessage
from bot.sessions.log.events import Event, EventType
from bot.sessions.models import SessionState
from bot.tools.arguments import strings
from channels.messages import Address
from policy.decision import Decision, Verdict
from policy.document.programs import is_program, program_name
from policy.labels import PUBLIC, Label

_FACTS: Final = frozenset(
    {
        EventType.SESSION_CREATED,
        EventType.SESSION_RESET,
        EventType.SESSION_PAUSED,
        EventType.SESSION_RESUMED,
        EventType.SESSION_ARCHIVED,
        EventType.SESSION_RESTORED,
        EventType.SESSION_IMPORTED,
        EventType.LOG_TRUNCATED,
        EventType.TURN_STARTED,
        EventType.TURN_COMPLETED,
        EventType.TAINT_RAISED,
        EventType.APPROVAL_RESOLVED,
    }
)
"""The types of events that hold no words, so that no rule about outputs concerns them."""


class EventTeller:
    """Tells programs of events."""

    def __init__(self, reading: SessionReader, gate: Gate, tokens: Tokens, clock: Clock) -> None:
        self._reading, self._gate = reading, gate
        self._tokens, self._clock = tokens, clock

    def told(self, state: SessionState, event: Event, reader: Label) -> JsonObject | None:
        """Return an event of a session as JSON, None for one that this reader may not know."""
        body = self.body(state, event, reader)
        if body is None:
            return None
        turn: JsonObject = {"turn_id": event.turn} if event.turn else {}
        return {
            "id": f"{state.sid}-{event.seq}",
            "seq": event.seq,
            "ts": event.ts,
            "actor": self._gate.masks.masked(event.actor),
            "type": event.type,
            "level": event.visibility.value,
            "label": str(event.label),
            "body": dict(body),
            **turn,
        }

    def body(self, state: SessionState, event: Event, reader: Label) -> JsonObject | None:
        """Return an event's body for the program of its session, None if the program may not know it."""
        body = self._reading.told(event, reader)
        if body is None or event.type in _FACTS:
            return body
        decision = self._decided(state, event, "\n".join(strings(dict(body))))
        if decision is None or decision.verdict not in MAY_GO_ON:
            return None
        if decision.verdict is Verdict.ALLOW:
            return body
        return mapped_object(body, lambda text: self._gate.masks.cleaned(text, decision))

    def waits(self, state: SessionState, event: Event, reader: Label) -> bool:
        """Say whether people would have to approve an event's text, before its program gets it."""
        body = self._reading.told(event, reader)
        if body is None or event.type in _FACTS:
            return False
        decision = self._decided(state, event, "\n".join(strings(dict(body))))
        return decision is not None and decision.verdict is Verdict.REQUIRE_APPROVAL

    def _decided(self, state: SessionState, event: Event, content: str) -> Decision | None:
        """Decide on telling a program the text of its session's event, None if there is no such program any more."""
        caller = self._tokens.of(program_name(state.principal)) if is_program(state.principal) else None
        if caller is None:
            return None
        # A decision is told with its labels, as far as they may be known: it holds nothing of the data read.
        label = PUBLIC if event.type == EventType.POLICY_DECISION else event.label
        there = labelling.expected(self._gate.document, caller.address)
        standing = DecisionContext.of_caller(
            caller.caller,
            caller.address,
            there,
            self._clock.wall_ms(),
            sid=state.sid,
            generation=state.generation,
            taint=label,
            visibility=state.visibility,
            model=state.model,
        )
        approved = OURS if _was_let_through(state, event) else ()
        return self._gate.output.speak(standing, there, content, approved=approved).decision


def _was_let_through(state: SessionState, event: Event) -> bool:
    """Say whether no people have to approve of an event: their program's own words, or an answer that they let pass."""
    if isinstance(event.body, UserMessage):
        return event.body.origin is None
    return event.type == EventType.AGENT_MESSAGE and Address.parse(state.home).channel not in UNREAD
