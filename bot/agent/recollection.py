"""Memories that the runtime recalls by itself for a person's message, where an agent has `memory: auto`.

It is a call of `memory` like an agent's: decided at PRE_TOOL_CALL and POST_TOOL_RESPONSE, audited, and refused by the
same rules. No person is asked about it, and only the audit tells of a refused one. It finds only memories that leave
the session's taint unchanged, so that no message raises a session or makes it UNTRUSTED by chance. The log has the text
that the model reads of it, in one event: a turn that goes on after a crash reads the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue

from bot.access.decision_context import Call
from bot.agent.context import Context
from bot.agent.room import Room
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, CallDecision, decision_row
from bot.history import event_log
from bot.sessions.knowledge.memories import MEMORY, MemoryUse
from bot.sessions.log.event_types import MemoriesRecalled, UserMessage
from bot.sessions.models import Change
from bot.tools.base import Result
from bot.turn import OpenTurn
from policy.decision import Decision
from policy.request import Hook

if TYPE_CHECKING:
    from bot.sessions.log.events import Event, NewEvent

HEAD: Final = "[memories that the runtime recalled, not your user]"
"""The first line of the text that a model reads; then comes JSON, which no memory can end."""

CAUSE: Final = "auto"
"""The cause of such a call in the audit."""

_LONGEST_QUERY: Final = 10_000


class Recollection:
    """Recalls memories for turns, at most `most` for each."""

    def __init__(self, gate: Gate, room: Room, most: int) -> None:
        self._gate = gate
        self._room = room
        self._most = most

    async def recall(self, turn: OpenTurn, context: Context) -> None:
        """Put the memories that fit a person's message into a turn's context; nothing where there are none.

        A turn recalls once: the memories of an earlier attempt are in the context already. Messages of other sessions
        and of the runtime recall nothing.
        """
        agent = turn.standing.agent
        if agent is None or agent.memory is not MemoryUse.AUTO or not agent.offers(MEMORY):
            return
        said = await self._said(turn)
        if said is None or not said.strip():
            return
        call = Call(
            f"{turn.record.id}-recall",
            MEMORY,
            {"action": "recall", "query": said[:_LONGEST_QUERY], "limit": self._most},
            own_level=True,
        )
        await self._called(turn, context, call)

    async def _said(self, turn: OpenTurn) -> str | None:
        """Return a person's message of this turn, None if memories were recalled for it already."""
        events: Sequence[Event | NewEvent] = turn.admitted
        if turn.record.attempt > 1:
            log = await turn.log()
            events = tuple(event for event in (*log.early, *log.events) if event.turn == turn.record.id)
        if any(isinstance(event.body, MemoriesRecalled) for event in events):
            return None
        bodies = (event.body for event in events)
        return "\n".join(one.text for one in bodies if isinstance(one, UserMessage) and one.origin is None)

    async def _called(self, turn: OpenTurn, context: Context, call: Call) -> None:
        """Make the call through the gate, as an agent's is made, and write down its result."""
        gate, facts = self._gate, {"tool": MEMORY, "call": call.id, "arguments": call.digest, "cause": CAUSE}
        await gate.calls.read_call(call)
        async with turn.lock:
            # The runtime makes this call, and spends no use of a grant for it.
            standing = replace(turn.standing, grants=())
            prepared = await gate.calls.foresee(standing, gate.calls.prepare(standing, call))
            await turn.write(Change(audit=(decision_row(standing, prepared.hook, prepared.decision, **facts),)))
        # A memory that the policy keeps out of every context is not put into one here either.
        if prepared.decision.verdict not in MAY_GO_ON or prepared.keeps:
            return

        async def record(hook: Hook, decision: Decision, told: Mapping[str, JsonValue]) -> None:
            await turn.audit(decision_row(turn.standing, hook, decision, **told))

        result = await gate.run(standing, prepared, record)
        async with turn.lock:
            await self._kept(turn, context, prepared, result)

    async def _kept(self, turn: OpenTurn, context: Context, prepared: CallDecision, result: Result) -> None:
        """Write down a call's result as far as it has room, and put it into the context."""
        standing, text, found = turn.standing, "", _found(result)
        room = self._room.left(standing, context, 1)
        while found:
            text = f"{HEAD}\n{json.dumps({'memories': found}, ensure_ascii=False)}"
            if room is None or len(text) <= room:
                break
            found.pop()
        if not found:
            return
        response = await self._gate.results.respond(standing, prepared, Result(text, result.label))
        goes_on = response.decision.verdict in MAY_GO_ON and response.label.within(standing.taint)
        recalled = event_log.memories_recalled(standing, response.text, [str(one["id"]) for one in found])
        await turn.write(Change(events=(recalled,) if goes_on else (), audit=response.audit))
        if goes_on:
            turn.admitted += (recalled,)
            context.add_said(recalled)


def _found(result: Result) -> list[dict[str, JsonValue]]:
    """Return the memories that a call gave, the best first; none of one that failed."""
    if result.failed:
        return []
    return cast("list[dict[str, JsonValue]]", json.loads(result.text)["memories"])
