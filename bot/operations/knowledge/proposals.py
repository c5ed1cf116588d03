"""The proposed memories of agents with `memory: auto`, found in the log of their conversation.

A proposal is the result of its call, so it has the label of that and goes with its conversation. It is not a memory
until a person keeps it.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, cast

from bot.core.errors import NotFoundError
from bot.core.json_values import JsonObject, text
from bot.sessions.knowledge.memories import MEMORY
from bot.sessions.log.event_types import ToolResult
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.transcript import backwards
from bot.tools.knowledge.memory import PROPOSAL
from policy.labels import Label

_LISTED: Final = 500
"""Events of a conversation among which proposals are listed."""

_LOOKED_BACK: Final = 5_000
"""Events of a conversation among which a proposal is found."""


@dataclass(frozen=True, slots=True)
class MemoryProposal:
    """A proposed memory of an agent: its text, the call that proposed it, and the label of its session."""

    call: str
    text: str
    domain: str
    label: Label


async def find_proposal(store: SessionStore, state: SessionState, name: str, reader: Label) -> MemoryProposal:
    """Return the proposal of a conversation under the id `name`.

    Raises:
        NotFoundError: the reader may know of no such proposal in this generation.
        StoreError: the store cannot be used.
    """
    async for event in backwards(store, state):
        if event.seq <= state.seq - _LOOKED_BACK:
            break
        match event.body:
            case ToolResult(tool=tool, text=told, call=call) if tool == MEMORY and event.label.flows_to(reader):
                found = _proposed(told)
                if found.get(PROPOSAL) == name:
                    label = event.label.join(state.creation)
                    return MemoryProposal(call, text(found, "text"), text(found, "domain"), label)
            case _:
                pass
    raise NotFoundError


async def proposals(store: SessionStore, state: SessionState, reader: Label) -> AsyncIterator[tuple[str, int, Label]]:
    """Yield the ids of a conversation's newest proposed memories, when they were made, and their labels.

    Whether a person kept them is not looked at. Raises StoreError: the store cannot be used.
    """
    async for event in backwards(store, state):
        if event.seq <= state.seq - _LISTED:
            break
        match event.body:
            case ToolResult(tool=tool, text=told) if tool == MEMORY and event.label.flows_to(reader):
                if name := text(_proposed(told), PROPOSAL, ""):
                    yield name, event.ts, event.label.join(state.creation)
            case _:
                pass


def _proposed(told: str) -> JsonObject:
    """Return the result of a call of the tool, nothing of one that was refused."""
    try:
        return cast("JsonObject", json.loads(told))
    except ValueError:
        return {}
