"""Memories as people see, teach, correct and forget them: a chat and the command line share this.

One is learned and corrected by the gate, as an agent's call of `memory` is. A reader's clearance is compared with its
label (law `no_read_up`), and an answer to people enters no context: it does not count as a recall.
"""

import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.core.clock import moment
from bot.core.errors import RequestError
from bot.knowledge.keeper import LISTED, NOT_YOURS, MemoryKeeper, MemoryPage
from bot.knowledge.recall import KnowledgeSearch
from bot.operations.background.runs import named_in
from bot.operations.gated_calls import GatedCalls, RefusedCall
from bot.operations.knowledge.proposals import MemoryProposal
from bot.sessions.knowledge.memories import MEMORY, Memory, MemoryState
from policy.labels import Label

RECALLED: Final = 10
"""Memories that a person's recall shows."""

_SHOWN: Final = 120
_ENDED: Final = MappingProxyType({MemoryState.CORRECTED: "Corrected", MemoryState.FORGOTTEN: "Forgotten"})


@dataclass(frozen=True, slots=True)
class MemoryViewer:
    """The viewer of memories: `principal` is whose they are, `reader` the clearance of the asking address.

    `actor` is the person who asks. `decides` tells that they may also change memories that another person taught.
    """

    principal: str
    reader: Label
    actor: str
    decides: bool = True


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """A memory that the viewer may know of, and the number of its recalls as far as they may know."""

    memory: Memory
    uses: int


class MemoryOperations:
    """Shows memories to people, and has them learned, corrected and forgotten."""

    def __init__(self, *, keeper: MemoryKeeper, search: KnowledgeSearch, calls: GatedCalls) -> None:
        self._keeper = keeper
        self._search = search
        self._calls = calls

    async def learn(
        self, standing: DecisionContext, key: str, text: str, typed: Label, *, domain: str = ""
    ) -> str | RefusedCall:
        """Have a memory learned for the caller, through the gate, and return its id.

        `typed` is the label of their words: the memory keeps it. The same `key` there is the same memory.

        Raises:
            RequestError: it has no words, or too many.
            FullError: as many are kept as may.
            StoreError: the store cannot be used.
        """
        more: dict[str, JsonValue] = {"domain": domain} if domain else {}
        return await self._made(standing, Call(key, MEMORY, {"action": "learn", "text": text, **more}), typed)

    async def keep(self, standing: DecisionContext, proposal: MemoryProposal, typed: Label) -> str | RefusedCall:
        """Have an agent's proposal in the caller's conversation learned, and return its id.

        It has the label of its session's taint, and of their words; keeping it again is the same memory.

        Raises:
            RequestError: it has no words, or too many.
            FullError: as many are kept as may.
            StoreError: the store cannot be used.
        """
        more: dict[str, JsonValue] = {"domain": proposal.domain} if proposal.domain else {}
        call = Call(proposal.call, MEMORY, {"action": "learn", "text": proposal.text, **more})
        return await self._made(standing, call, proposal.label.join(typed))

    async def correct(
        self, standing: DecisionContext, by: MemoryViewer, name: str, text: str, *, key: str, typed: Label
    ) -> str | RefusedCall:
        """Have a memory corrected for the caller, through the gate; return the id of the new one.

        `typed` is the label of their words, and the same `key` there is the same memory.

        Raises:
            NotFoundError: the viewer may know of no such memory.
            RequestError: it has no words, or too many, or another person taught it.
            FullError: as many are kept as may.
            StoreError: the store cannot be used.
        """
        await self._theirs(by, name)
        return await self._made(standing, Call(key, MEMORY, {"action": "correct", "id": name, "text": text}), typed)

    async def listed(self, by: MemoryViewer, *, after: str = "", limit: int = LISTED) -> MemoryPage:
        """Return memories that the viewer may know of, newest first. Raises CursorError, StoreError."""
        return await self._keeper.listed(by.principal, by.reader, after=after, limit=limit)

    async def recall(
        self, by: MemoryViewer, query: str, *, domain: str = "", limit: int = RECALLED
    ) -> tuple[Memory, ...]:
        """Return the memories that fit a query best, as far as the viewer may know of them. Raises StoreError."""
        return await self._search.recall(by.principal, by.reader, query, limit=limit, domain=domain)

    async def show(self, by: MemoryViewer, name: str) -> KnownMemory:
        """Return a memory by its id.

        Raises:
            NotFoundError: the viewer may know of no such memory.
            StoreError: the store cannot be used.
        """
        found = await self._keeper.find(by.principal, by.reader, name)
        return KnownMemory(found, await self._keeper.uses(by.principal, by.reader, found.id))

    async def forget(self, by: MemoryViewer, name: str) -> Memory:
        """Erase the words of a memory for good, and return the rest of it.

        Raises:
            NotFoundError: the viewer may know of no such memory.
            RequestError: another person taught it.
            StoreError: the store cannot be used.
        """
        return await self._keeper.forget(by.principal, by.reader, name, actor=by.actor, decides=by.decides)

    def every(self, by: MemoryViewer) -> AsyncGenerator[Memory]:
        """Yield all memories that the viewer may know of, newest first. Raises StoreError."""
        return self._keeper.every(by.principal, by.reader)

    async def _made(self, standing: DecisionContext, call: Call, typed: Label) -> str | RefusedCall:
        made = await self._calls.made(standing, call, typed)
        return made if isinstance(made, RefusedCall) else named_in(made, "id")

    async def _theirs(self, by: MemoryViewer, name: str) -> None:
        """Raise NotFoundError if a memory may not be told of, RequestError if they may not change it."""
        found = await self._keeper.find(by.principal, by.reader, name)
        if not by.decides and found.asker != by.actor:
            raise RequestError(NOT_YOURS)


def shown(memory: Memory, mask: Callable[[str], str]) -> Memory:
    """Return a memory for its viewer: `mask` takes secrets out of its words."""
    return replace(memory, text=mask(memory.text), domain=mask(memory.domain))


def memory_line(memory: Memory) -> str:
    """Return a memory, masked, as a listing shows it."""
    words = " ".join(memory.text.split())
    about = f" [{memory.domain}]" if memory.domain else ""
    told = words if len(words) <= _SHOWN else f"{words[:_SHOWN]} …"
    return f"{memory.id} {moment(memory.learned_at)} UTC, {memory.label}{about}: {told}"


def memory_lines(known: KnownMemory) -> list[str]:
    """Return a memory, masked, in full: its text comes last, so that no line of it is taken for one of these."""
    one = known.memory
    lines = [
        f"Memory {one.id}: {one.state.value}.",
        f"Label: {one.label}",
        f"Learned: {moment(one.learned_at)} UTC, {'by the agent for ' if one.by_agent else 'from '}{one.asker}",
        f"Recalled: {'once' if known.uses == 1 else f'{known.uses} times'}, as far as may be told here",
    ]
    told = {"Domain": one.domain, "Session": one.sid, "Corrects": one.corrects, "Corrected by": one.corrected_by}
    lines += [f"{name}: {value}" for name, value in told.items() if value]
    lines += [f"Others' words in it: {', '.join(one.authors)}"] if one.authors else []
    if one.state in _ENDED:
        lines.append(f"{_ENDED[one.state]}: {moment(one.ended_at)} UTC")
    return [*lines, f"Text: {one.text}" if one.text else "Text: erased"]


def memory_document(memory: Memory) -> dict[str, JsonValue]:
    """Return a memory, masked, for a program."""
    return {
        "id": memory.id,
        "principal": memory.principal,
        "label": str(memory.label),
        "text": memory.text,
        "domain": memory.domain or None,
        "learned_at": memory.learned_at,
        "asker": memory.asker,
        "by_agent": memory.by_agent,
        "session": memory.sid or None,
        "authors": list(memory.authors),
        "state": memory.state.value,
        "corrects": memory.corrects or None,
        "corrected_by": memory.corrected_by or None,
        "ended_at": memory.ended_at or None,
    }


def exported(memory: Memory) -> str:
    """Return a memory, masked, as a line of an export: JSON, ASCII alone."""
    return json.dumps(memory_document(memory))
