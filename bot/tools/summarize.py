"""`summarize`: a recap of the session itself, kept in its log for hand-off and for a smaller context."""

from collections.abc import Awaitable, Callable
from typing import Literal, Self

from pydantic import Field, model_validator

from bot.access.decision_context import DecisionContext
from bot.sessions.log.events import Event
from bot.sessions.models import MOMENT, Recapped
from bot.sessions.ports.sessions import SessionStore
from bot.tools.base import Arguments, CallFacts, Result, ToolContext, ToolServices
from policy.labels import PUBLIC, Label, join_all
from policy.request import Destination, Effect

Recap = Callable[[DecisionContext, tuple[Event, ...], str], Awaitable[Recapped]]
"""Asks the session's models for a recap of events, or of a topic in them."""


class SummarizeArguments(Arguments):
    """Arguments of `summarize`."""

    scope: Literal["session", "topic"] = "session"
    topic: str = Field(
        default="",
        max_length=200,
        description="the topic, with scope `topic`; the topic of the moment if omitted",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.scope == "session" and self.topic.strip():
            raise ValueError("`topic` is given with scope `topic` only")
        return self

    @property
    def about(self) -> str:
        """The subject to keep to, as one line, empty for everything."""
        return topic(self.topic) or (MOMENT if self.scope == "topic" else "")


class Summarize:
    """Recap the conversation; for every scope, a recap has the session's taint as its label."""

    name = "summarize"
    description = "Recap this conversation so far, or a topic of it."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = SummarizeArguments

    def __init__(self, sessions: SessionStore, recap: Recap) -> None:
        self._sessions = sessions
        self._recap = recap

    def declare(self, arguments: SummarizeArguments, context: ToolContext) -> CallFacts:
        """Declare the session's own taint."""
        return CallFacts(result=context.session.taint)

    async def run(self, arguments: SummarizeArguments, context: ToolContext, services: ToolServices) -> Result:
        """Ask for the recap, at the label of everything in the log that entered the context."""
        events = await generation(self._sessions, context.session.sid, context.session.generation)
        label = context.session.taint.join(join_all(event.label for event in events if event.admitted))
        recapped = await self._recap(shown_to(context, label), events, arguments.about)
        if recapped.summary is None:
            return Result(recapped.why, label, failed=True, usage=recapped.usage)
        return Result(recapped.summary.text, label, summary=recapped.summary, usage=recapped.usage)


async def generation(sessions: SessionStore, sid: str, number: int) -> tuple[Event, ...]:
    """Return the events of a session's generation so far, none if it has been reset since."""
    state = await sessions.state(sid)
    if state is None or state.generation != number:
        return ()
    found, after = list[Event](), max(state.generation_seq - 1, 0)
    while page := await sessions.events(sid, after=after):
        found += page
        after = page[-1].seq
    return tuple(event for event in found if event.generation == number)


def topic(text: str) -> str:
    """Return a topic as one line."""
    return " ".join(text.split())


def shown_to(context: ToolContext, taint: Label) -> DecisionContext:
    """Return where a call's session stands, for a decision on models that are shown data of this taint.

    Where it speaks does not matter to that.
    """
    caller, session = context.caller, context.session
    return DecisionContext(
        sid=session.sid,
        generation=session.generation,
        turn=session.turn,
        principal=caller.principal,
        asker=caller.asker,
        role=caller.role,
        ceiling=caller.ceiling,
        home=session.home,
        destination=Destination(str(session.home), session.home.channel, None),
        taint=taint,
        now=context.now,
        visibility=session.visibility,
        model=session.model,
        agent=session.agent,
    )
