"""Commands about background sessions: spawn one, see, stop and read those there are."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access.decision_context import Call, DecisionContext
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.commands.conversation import NOTHING_YET
from bot.core.errors import ArchivedError, NotFoundError
from bot.core.ids import Ids
from bot.delegation.spawn import Spawner
from bot.gate.gate import Gate
from bot.gate.results import ResultDecision
from bot.operations.background.run_telling import TYPED
from bot.operations.gated_calls import GatedCalls, RefusedCall
from bot.sessions.background.delegation import Slot
from bot.sessions.log.event_types import AgentMessage, ToolResult, UnknownEvent, UserMessage
from bot.sessions.log.events import Event
from bot.sessions.models import SessionState, Status
from bot.sessions.ports.accounts import DelegationStore
from bot.sessions.ports.delivery import OutboxStore
from bot.sessions.ports.people import AuditStore
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.transcript import place
from bot.tools.history import UNKNOWN, said, source
from bot.tools.sessions import title_for
from policy import explain
from policy.labels import Label, join_all

SPAWNED: Final = (
    "Session {run_id} works on it in the background, and its answer comes here. "
    "`/agents` tells its state, `/agents cancel {run_id}` ends it."
)
SENT: Final = "It was accepted. `/status {receipt}` tells its fate."
NONE: Final = "There are no background sessions here."

ASKED: Final = explain.LabelWording("Your request is labelled", "With the result")
"""The subjects of the labels where a person's own call is refused: the session has no part in it."""

_SHOWN: Final = 500
_TASK: Final = 80
_BEGINNING: Final = 10
"""Within how many events of its log a background session's task stands."""

_EVENTS: Final = 200
_LOGGED: Final = (UserMessage, AgentMessage, ToolResult, UnknownEvent)


@dataclass(frozen=True, slots=True)
class PersonalCalls:
    """Makes tool calls that people ask for by a command, in the conversation that they type it in."""

    calls: GatedCalls

    async def called(
        self, request: CommandRequest, call: Call, label: Label | None = None, leads: tuple[str, ...] = ()
    ) -> ResultDecision | Reply:
        """Make a tool call for a person, through the gate; return its response, or why it was refused.

        A person's text has the label of the place where they type it, at any taint of the conversation there; a text
        written before has the taint of now. `leads` is the meaning of each named recipient at the time of the offer,
        empty if there was none.

        Raises:
            CommandError: nothing can come back yet.
            ChangedRecipientError: a recipient means another place or person by now.
        """
        state = await request.state()
        if state is None:
            raise CommandError(f"{NOTHING_YET}, so nothing can come back to it; say something first")
        typed, told = (request.typed, TYPED) if label is None else (label, ASKED)
        made = await self.calls.made(await request.standing(state), call, typed, leads)
        if isinstance(made, RefusedCall):
            return Reply(request.explained(made.decision, made.standing, call.tool, told), typed)
        return made


@dataclass(frozen=True, slots=True)
class BackgroundCommands:
    """Start, see, stop and read background sessions, and send to others."""

    sessions: SessionStore
    audit: AuditStore
    outbox: OutboxStore
    delegation: DelegationStore
    gate: Gate
    ids: Ids
    spawner: Spawner
    interrupt: Callable[[str], None]
    close: Callable[[str], Awaitable[None]]
    deliver: Callable[[str], Awaitable[None]]
    calls: PersonalCalls

    async def spawn(self, request: CommandRequest, argument: str) -> Reply:
        """Give a task to a background session."""
        if not argument:
            raise UsageError("")
        response = await self.calls.called(request, Call(self.ids.op(), "sessions_spawn", {"task": argument}))
        return response if isinstance(response, Reply) else Reply(_in_words(response, SPAWNED))

    async def send(self, request: CommandRequest, argument: str) -> Reply:
        """Send a text to another session of the caller's."""
        sid, _, text = argument.partition(" ")
        if not text.strip():
            raise UsageError("")
        given = {"session_id": sid, "content": text.strip()}
        return await self._sent(
            request, await self.calls.called(request, Call(self.ids.op(), "sessions_send", given)), SENT
        )

    async def message(self, request: CommandRequest, argument: str) -> Reply:
        """Send a text to an alias, a person or a known chat."""
        channel, _, rest = argument.partition(" ")
        recipient, _, text = rest.strip().partition(" ")
        if not text.strip():
            raise UsageError("")
        given = {"channel": channel, "recipient": recipient, "text": text.strip()}
        return await self._sent(request, await self.calls.called(request, Call(self.ids.op(), "message", given)), "")

    async def _sent(self, request: CommandRequest, response: ResultDecision | Reply, sentence: str) -> Reply:
        """Put a call's texts into the outbox of this conversation, and tell the outcome."""
        if isinstance(response, Reply):
            return response
        state = await request.state()
        own = state is None or state.principal == request.caller.principal
        for new in response.deliver:
            await self.outbox.put(request.sid, replace(new, asker="" if own else request.caller.principal))
        await self.deliver(request.sid)
        return Reply(_in_words(response, sentence) if sentence else response.text)

    async def agents(self, request: CommandRequest, argument: str) -> Reply:
        """List the caller's background sessions, stop one, or show its events."""
        action, _, name = argument.partition(" ")
        if action in {"", "list"} and not name:
            return await self._list(request)
        if action not in {"cancel", "log"} or not name:
            raise UsageError("")
        for slot, state in await self._known(request):
            if name in {slot.run, slot.sid}:
                return await (self._cancel(request, slot, state) if action == "cancel" else self._log(state))
        raise NotFoundError

    async def _known(self, request: CommandRequest) -> list[tuple[Slot, SessionState]]:
        """Return the caller's background sessions that may be told of here, oldest first."""
        await self.spawner.free(request.caller.principal)
        reader = (await self._here(request)).reader
        found = list[tuple[Slot, SessionState]]()
        for slot in await self.delegation.slots(request.caller.principal):
            state = await self.sessions.state(slot.sid)
            if state is not None and state.principal == request.caller.principal and state.visibility.flows_to(reader):
                found.append((slot, state))
        return sorted(found, key=lambda one: (one[1].created_at, one[1].sid))

    async def _here(self, request: CommandRequest) -> DecisionContext:
        return await request.standing(await request.state())

    async def _list(self, request: CommandRequest) -> Reply:
        known = await self._known(request)
        lines = [_line(slot, state, await self._task(state)) for slot, state in known]
        return Reply("\n".join(lines) or NONE, join_all(state.visibility for _, state in known))

    async def _task(self, state: SessionState) -> str:
        """Return the title of a background session, or the beginning of its task; its readers may know that."""
        title = title_for(state, state.visibility)
        if title is not None:
            return self.gate.masks.masked(title.text)
        log = await self.sessions.events(state.sid, limit=_BEGINNING)
        texts = [event.body.text for event in log if isinstance(event.body, UserMessage)]
        texts += [item.body.text for item in await self.sessions.waiting(state.sid)] if not texts else []
        words = " ".join(self.gate.masks.masked(texts[0]).split()) if texts else ""
        return words if len(words) <= _TASK else f"{words[:_TASK]} …"

    async def _cancel(self, request: CommandRequest, slot: Slot, state: SessionState) -> Reply:
        if state.status is Status.ARCHIVED:
            raise ArchivedError
        await self.sessions.stop(slot.sid, actor=request.caller.principal)
        self.interrupt(slot.sid)
        await self.spawner.stop(request.caller.principal, slot.sid, request.typed, interrupt=self.interrupt)
        await self.close(slot.sid)
        return Reply(f"Stopping {slot.run} and its background sessions.")

    async def _log(self, state: SessionState) -> Reply:
        events = await self.sessions.events(state.sid, after=max(state.seq - _EVENTS, 0), limit=_EVENTS)
        lines = [_told(event, state) for event in events if isinstance(event.body, _LOGGED)]
        return Reply("\n".join(lines) or NONE, state.visibility)


def _in_words(response: ResultDecision, sentence: str) -> str:
    """Return a tool's result for a model as a sentence for people; a failure is in words already."""
    try:
        return sentence.format_map(json.loads(response.text))
    except (KeyError, TypeError, ValueError):
        return response.text


def _line(slot: Slot, state: SessionState, task: str) -> str:
    status = "waits for a person, see `/approvals` and `/questions`" if state.asks else state.status.value
    if state.ended_at:
        status = "ended" if state.last_turn is None else f"ended, {state.last_turn.reason}"
    return f"{slot.run} {status}, taint {state.taint}{f': {task}' if task else ''}"


def _told(event: Event, state: SessionState) -> str:
    what, text = said(event)
    told = f"{UNKNOWN} {text}" if what == UNKNOWN else text
    return (
        f"{place(event, state)} {source(event)}, {event.label}: {told if len(told) <= _SHOWN else f'{told[:_SHOWN]} …'}"
    )
