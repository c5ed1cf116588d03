"""Recaps: a conversation's subject, in a model's words, for people, for hand-off, and for a smaller context.

The log itself is never cut. A recap is a read of the session by its own model. The gate decides on each model asked,
with that model's clearance, and the recap carries the session's taint, integrity included. Nothing that stands in the
conversation can change that, for no label is read from it.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from bot.access.decision_context import DecisionContext
from bot.agent.chain import Chain, Record
from bot.agent.context import cuts, newest_summary, response_from, text_of
from bot.agent.models import ModelError
from bot.agent.offline import RECAP
from bot.agent.window import CHARACTERS
from bot.gate.gate import Gate
from bot.gate.results import decision_row, explained
from bot.sessions.audit import AuditRow
from bot.sessions.log.event_types import AgentMessage, AgentThinking, ChatObserved, ToolResult, UserMessage
from bot.sessions.log.events import Event
from bot.sessions.models import Recapped, Summary
from bot.sessions.ports.people import AuditStore
from bot.sessions.transcript import Tail
from bot.sessions.usage import Usage
from policy.decision import Verdict
from policy.request import Hook

NOTHING: Final = "there is nothing to summarize yet"

_NO_TOOLS: Final = ModelRequestParameters()
_ALL_AT_ONCE: Final = 400_000
"""Characters that are summarized in one request to a model of unknown window."""
_PARTS: Final = 16
"""The most requests one recap makes; of a longer conversation the oldest part is left out."""


class Recap:
    """Writes recaps of a session's events."""

    def __init__(self, chain: Chain, gate: Gate, audit: AuditStore) -> None:
        self._chain = chain
        self._gate = gate
        self._audit = audit

    async def __call__(self, standing: DecisionContext, events: tuple[Event, ...], topic: str) -> Recapped:
        """Return a recap of a generation's events as far as no call is open; a failure is returned, not raised."""
        upto, log = max(cuts(events), default=0), Tail(events)
        record = partial(beside, self._audit, standing.sid)
        try:
            await self._chain.ready(standing)
        except ModelError as error:
            return Recapped(None, error.usage, error.told)
        decision = self._gate.requests.invoke(standing)
        await record(decision_row(standing, Hook.AGENT_INVOCATION, decision))
        if decision.verdict is not Verdict.ALLOW:
            return Recapped(None, Usage(), explained(decision, standing.taint, "this recap"))
        if not any(_lines(events)):
            return Recapped(None, Usage(), NOTHING)
        try:
            summary, usage = await self.write(standing, log, upto, topic=topic, record=record)
        except ModelError as error:
            return Recapped(None, error.usage, error.told)
        return Recapped(summary, usage)

    async def write(
        self, standing: DecisionContext, log: Tail, upto: int, *, topic: str, record: Record
    ) -> tuple[Summary, Usage]:
        """Return a recap of the first `upto` events of a generation; the decision on the first model is the caller's.

        Raises ModelError: no model answered; the error has the cost of all requests.
        """
        known, text, first, said, used = newest_summary(log, upto), "", 0, 0, Usage()
        if known is not None and not topic:
            text, first, said = known.text, known.upto, known.messages
        following = Tail(log.upto(upto), log.before).after(first)
        said += sum(isinstance(event.body, UserMessage | AgentMessage) for event in following)
        lines = list(_lines(following))
        window = self._chain.window(standing).tokens
        # The part takes half of the window, and the earlier summary a quarter.
        size = _ALL_AT_ONCE if window is None else max(window * CHARACTERS // 2, 400)
        for part in _parts(lines, size):
            try:
                response, usage = await self._chain.ask(standing, _request(part, text, topic), _NO_TOOLS, record=record)
            except ModelError as error:
                error.usage = used.plus(error.usage)
                raise
            used = used.plus(usage)
            # A recap that does not become shorter would never fit.
            text = text_of(response)[: size // 2]
        if not text.strip():
            raise ModelError("the model gave no recap", usage=used)
        return Summary(text, upto, topic, said), used


async def beside(audit: AuditStore, sid: str, row: AuditRow) -> None:
    """Append a row to the chain outside sessions, naming the session that it tells of, whose label is then its own."""
    await audit.append((replace(row, body={**row.body, "session": sid}),))


def _request(part: str, before: str, topic: str) -> list[ModelMessage]:
    known = f"The summary before this:\n{before}\n\n" if before else ""
    about = f"Only about: {topic}\n\n" if topic else ""
    return [ModelRequest(parts=[UserPromptPart(f"{about}{known}{part}")], instructions=RECAP)]


def _parts(lines: list[str], size: int) -> Iterator[str]:
    """Yield the conversation in parts of at most `size` characters, the newest ones if they are too many."""
    whole = "\n".join(lines)
    for start in range(max(0, len(whole) - _PARTS * size), len(whole), size):
        yield whole[start : start + size]


def _lines(events: tuple[Event, ...]) -> Iterator[str]:
    """Yield the messages, one line of our own for each; further lines of a text are indented and begin no line."""
    for event in events:
        match event.body:
            case UserMessage(text=text):
                who = "user"
            case ChatObserved(text=text):
                who = "others in the chat"
            case AgentMessage(text=text):
                who = "agent"
            case AgentThinking():
                who, text = "agent", text_of(response_from(event.body))
            case ToolResult(tool=tool, text=text):
                who = f"result of {tool}"
            case _:
                continue
        if text.strip():
            yield f"{who}: {text}".replace("\n", "\n  ")
