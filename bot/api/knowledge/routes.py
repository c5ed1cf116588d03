"""Memories of programs, by the routes under `/memories`.

The operations are those of the chat command: a program sees all that is known of it, as far as it may know, and nothing
above. A memory that it may not know of is answered as one that does not exist (law `no_read_up`). Memories that a
program looks up enter no context. The text of each is decided on like an answer to it.
"""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query

from bot.access import labelling
from bot.access.decision_context import DecisionContext
from bot.api.errors import ApiRefusedError, ErrorAnswer
from bot.api.knowledge.shapes import (
    CorrectedText,
    MemoryDocument,
    MemoryInFull,
    MemoryList,
    MemoryMade,
    NewMemory,
    RecalledMemories,
    RecallQuery,
)
from bot.api.requests import ApiRequest, Reading, Services, Steering
from bot.api.services import ApiServices
from bot.api.session_routes import Key, Limit, call_named
from bot.api.standing import standing_of
from bot.gate.results import MAY_GO_ON
from bot.operations.gated_calls import RefusedCall
from bot.operations.knowledge.memories import MemoryViewer
from bot.sessions.knowledge.memories import Memory
from policy.labels import Label

REFUSED: Final = ErrorAnswer(
    HTTPStatus.FORBIDDEN,
    "refused",
    "The policy does not allow that here.",
    "`POST /v1/simulate` tells which rules decide on `memory`.",
)

ROUTER: Final = APIRouter(tags=["memories"])
"""The routes about memories."""


@ROUTER.get("/memories")
async def memories(
    services: Services, asked: Reading, cursor: Annotated[str, Query(max_length=512)] = "", limit: Limit = 50
) -> MemoryList:
    """List what is known of this program, newest first."""
    page = await services.memories.listed(_viewer(asked), after=cursor, limit=limit)
    return MemoryList(memories=await _told(services, asked, page.memories), cursor=page.cursor or None)


@ROUTER.post("/memories/recall")
async def recall(services: Services, asked: Reading, wanted: RecallQuery) -> RecalledMemories:
    """Return the memories that fit a query best, as an agent of this program would find them.

    This does not count as a recall.
    """
    found = await services.memories.recall(_viewer(asked), wanted.query, domain=wanted.domain, limit=wanted.limit)
    return RecalledMemories(memories=await _told(services, asked, found))


@ROUTER.get("/memories/{mid}")
async def memory(services: Services, asked: Reading, mid: str) -> MemoryInFull:
    """Return a memory, also one that was corrected or forgotten."""
    known = await services.memories.show(_viewer(asked), mid)
    (told,) = await _told(services, asked, (known.memory,))
    return MemoryInFull(**told.model_dump(), uses=known.uses)


@ROUTER.post("/memories", status_code=HTTPStatus.CREATED)
async def learn(services: Services, asked: Steering, new: NewMemory, idempotency_key: Key = None) -> MemoryMade:
    """Teach a memory; it has the label of this program's own words.

    The same `Idempotency-Key` is the same memory.
    """
    standing, key = await standing_of(services, asked), call_named(services, asked, idempotency_key)
    made = await services.memories.learn(standing, key, new.text, _typed(services, asked), domain=new.domain)
    return _made(made)


@ROUTER.post("/memories/{mid}/correct", status_code=HTTPStatus.CREATED)
async def correct(
    services: Services, asked: Steering, mid: str, right: CorrectedText, *, idempotency_key: Key = None
) -> MemoryMade:
    """Have something else known in the place of a memory. The same `Idempotency-Key` is the same one."""
    standing, key = await standing_of(services, asked), call_named(services, asked, idempotency_key)
    made = await services.memories.correct(
        standing, _viewer(asked), mid, right.text, key=f"{key}/{mid}", typed=_typed(services, asked)
    )
    return _made(made)


@ROUTER.delete("/memories/{mid}", status_code=HTTPStatus.NO_CONTENT)
async def forget(services: Services, asked: Steering, mid: str) -> None:
    """Erase the words of a memory for good; one that is forgotten already stays so."""
    await services.memories.forget(_viewer(asked), mid)


def _made(made: str | RefusedCall) -> MemoryMade:
    """Return the document of a new memory. Raises ApiRefusedError: the gate refused it."""
    if isinstance(made, RefusedCall):
        raise ApiRefusedError(REFUSED)
    return MemoryMade(id=made)


def _viewer(asked: ApiRequest) -> MemoryViewer:
    """Return a program as one who asks about its memories, at its own address.

    As people are, it is told also what anybody may have written: a label says so.
    """
    return MemoryViewer(asked.caller.principal, labelling.untrusted(asked.reader), asked.caller.principal)


def _typed(services: ApiServices, asked: ApiRequest) -> Label:
    caller = asked.caller
    return labelling.inbound(services.gate.document, caller.address, caller.caller.role, authored=True)


async def _told(services: ApiServices, asked: ApiRequest, memories: tuple[Memory, ...]) -> tuple[MemoryDocument, ...]:
    standing = await standing_of(services, asked)
    return tuple(_document(services, standing, memory) for memory in memories)


def _document(services: ApiServices, standing: DecisionContext, one: Memory) -> MemoryDocument:
    """Return the document of a memory: its words as the rules about outputs allow them (hook PRE_OUTPUT)."""
    gate, words = services.gate, (one.text, one.domain)
    decision = gate.output.reply(standing, standing.destination, "\n".join(words), one.label).decision
    said = decision.verdict in MAY_GO_ON
    text, domain = (gate.masks.masked(gate.masks.cleaned(word, decision)) if said else "" for word in words)
    return MemoryDocument(
        id=one.id,
        text=text or None,
        domain=domain or None,
        label=str(one.label),
        state=one.state,
        learned_at=one.learned_at,
        asker=one.asker,
        by_agent=one.by_agent,
        session=one.sid or None,
        corrects=one.corrects or None,
        corrected_by=one.corrected_by or None,
        ended_at=one.ended_at or None,
    )
