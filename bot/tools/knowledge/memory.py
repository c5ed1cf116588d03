"""`memory`: an agent learns, recalls, corrects and forgets memories.

A memory keeps its session's taint, so that text which an attacker may have written stays UNTRUSTED when another session
recalls it. A call finds the memories that flow to the session's taint. With `up_to` the session is raised to that label
first, even if nothing is found. So neither the answer nor its label tells of a memory above it (law `no_read_up`).
Correcting and forgetting need an approval once the session is UNTRUSTED.

For an agent with `memory: auto` it keeps nothing itself: a memory is proposed to the readers of its chat, in full and
at once. `/memory keep` keeps it with the label that the session had. People are asked about its corrections.
"""

import json
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import Field, JsonValue

from bot.access import labelling
from bot.core.errors import NotFoundError, RequestError, in_words
from bot.core.invisible import spelled
from bot.knowledge.keeper import MemoryKeeper, memory_id
from bot.knowledge.recall import KnowledgeSearch
from bot.sessions.background.runs import UNREAD
from bot.sessions.deliveries import NewDelivery
from bot.sessions.knowledge.memories import LONGEST_DOMAIN, LONGEST_TEXT, MEMORY, Memory, MemoryUse
from bot.sessions.refs import MemoryRef
from bot.tools.base import (
    Arguments,
    CallFacts,
    Content,
    Identifier,
    RefusedCallError,
    Result,
    ToolContext,
    ToolServices,
)
from bot.tools.knowledge.learner import learner
from bot.tools.parameters import Takes, check, decides, heard, reader, up_to
from channels.messages import OutboundKind
from policy.labels import PUBLIC, Label
from policy.request import Effect

ONLY: Final = "only memories that the caller's level may know of are found"
"""The last words of every recall, whether or not anything was left out."""

ABOVE: Final = "this session has read more than that memory may show; forget it from another conversation or by command"
FINDS: Final = "`recall` finds memories"
FOUND: Final = "the integrity of the memories found"
NOBODY_READS: Final = "nobody reads proposals here; have the conversation propose it"
PROPOSED: Final = "To be remembered, if you want it so: {text}\n`/memory keep {id}` keeps it."
"""The message about a proposed memory: all of its text, without invisible characters."""

THEY_DECIDE: Final = "it is not kept yet: your user is shown it and decides"
PROPOSAL: Final = "proposed"
"""The field of a result that names a proposal."""


_LIMIT: Final = 10
_MOST: Final = 50


class Action(StrEnum):
    """The action of a `memory` call."""

    LEARN = "learn"
    RECALL = "recall"
    CORRECT = "correct"
    FORGET = "forget"


_TAKES: Final = MappingProxyType(
    {
        Action.LEARN: Takes(("text",), ("domain",)),
        Action.RECALL: Takes(("query",), ("domain", "limit", "up_to")),
        Action.CORRECT: Takes(("id", "text"), ("domain",)),
        Action.FORGET: Takes(("id",)),
    }
)


class MemoryArguments(Arguments):
    """Arguments of `memory`; which of them an action needs is told where one is missing."""

    action: Action = Field(
        description="learn a text, recall memories that fit a query, correct or forget one by its id"
    )
    text: Content | None = Field(
        default=None, min_length=1, max_length=LONGEST_TEXT, description="the text to learn, or the correct text"
    )
    query: str | None = Field(default=None, min_length=1, max_length=10_000, description="words of the memories")
    id: Identifier | None = Field(default=None, min_length=1, max_length=64, description="as `recall` tells it")
    domain: str | None = Field(default=None, max_length=LONGEST_DOMAIN, description="its topic, in a word")
    limit: int | None = Field(default=None, ge=1, le=_MOST, description=f"how many to recall, {_LIMIT} if omitted")
    up_to: str | None = Field(
        default=None, max_length=2048, description="a label: recall up to it; your taint rises to it"
    )


class MemoryTool:
    """Learn, recall, correct and forget."""

    name = MEMORY
    description = (
        "Keep facts for later conversations, and find them again. A memory has the label of your taint. "
        "Memories above your taint, or learned from UNTRUSTED data, are found only with up_to."
    )
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = MemoryArguments

    def __init__(self, keeper: MemoryKeeper, search: KnowledgeSearch) -> None:
        self._keeper = keeper
        self._search = search

    def declare(self, arguments: MemoryArguments, context: ToolContext) -> CallFacts:
        """Declare the highest label that may be met, and the principal's clearance as the sink.

        Raises RefusedCallError: a parameter is missing or has no meaning for the action, or `up_to` is not a label.
        """
        check(self.name, arguments.action, arguments, _TAKES)
        sink = context.caller.ceiling
        if arguments.action is Action.LEARN:
            return _proposal(arguments, context) if _proposes(context) else CallFacts(clearance=sink, once=True)
        if arguments.action is Action.RECALL:
            return CallFacts(result=up_to(arguments.up_to, context), clearance=sink, once=True)
        asks = arguments.action is Action.CORRECT and _proposes(context)
        # The answer also tells that the named id exists.
        return CallFacts(result=up_to(None, context), clearance=sink, consequential=True, once=True, asks=asks)

    async def foresee(self, arguments: MemoryArguments, context: ToolContext) -> list[str]:
        """Tell that a recall may find text that an attacker may have written."""
        return [FOUND] if arguments.action is Action.RECALL and not context.session.taint.untrusted else []

    async def run(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Run the action; absent and too high are one answer."""
        does = {
            Action.LEARN: self._learn,
            Action.RECALL: self._recall,
            Action.CORRECT: self._correct,
            Action.FORGET: self._forget,
        }
        try:
            return await does[arguments.action](arguments, context, services)
        except NotFoundError:
            return Result(in_words(NotFoundError(next_step=FINDS)), failed=True)
        except RequestError as error:
            return Result(in_words(error), failed=True)

    async def _learn(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Keep a text with the label of the session; the call's key makes it the same memory."""
        text, domain = services.mask(arguments.text or ""), services.mask(arguments.domain or "")
        if _proposes(context):
            told = {PROPOSAL: memory_id(context.key), "text": text, "domain": domain, "note": THEY_DECIDE}
            session, said = context.session, _said(arguments, context)
            # The text of a reference came unread. An UNTRUSTED session's own words are not marked.
            outside = session.taint.untrusted and not session.before.untrusted
            delivery = NewDelivery(
                context.key,
                str(session.home),
                said,
                session.taint,
                OutboundKind.NOTICE,
                session.turn,
                untrusted=outside,
            )
            # Not as low as the result of a call without an answer: the memory will be kept with this label.
            return Result(json.dumps(told, ensure_ascii=False), session.taint, deliver=(delivery,))
        made = await self._keeper.learn(learner(context), text, context.key, domain=domain)
        return Result(json.dumps({"id": made.id, "learned_at": made.learned_at}), refs=(MemoryRef(made.id),))

    async def _recall(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the best matches that may enter the context, and count that they were recalled."""
        principal, label = context.caller.principal, up_to(arguments.up_to, context)
        found = await self._search.recall(
            principal,
            label,
            arguments.query or "",
            limit=arguments.limit or _LIMIT,
            domain=arguments.domain or "",
        )
        shown = list[Memory]()
        for memory in found:
            joined = label.join(heard(context, memory.label))
            if services.permits(joined):
                label = joined
                shown.append(memory)
        told: list[JsonValue] = [_entry(memory, services) for memory in shown]
        by = label.join(context.session.taint)
        await self._keeper.recalled(principal, by, [memory.id for memory in shown], context.key)
        came = tuple(MemoryRef(memory.id) for memory in shown)
        return Result(json.dumps({"memories": told, "note": ONLY}, ensure_ascii=False), label, refs=came)

    async def _correct(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Keep a text in the place of a memory that the session may know of."""
        old, label = await self._found(arguments, context, services)
        domain = None if arguments.domain is None else services.mask(arguments.domain)
        text = services.mask(arguments.text or "")
        made = await self._keeper.correct(learner(context), old.id, text, context.key, domain=domain)
        came = (MemoryRef(made.id), MemoryRef(old.id))
        return Result(json.dumps({"id": made.id, "corrects": old.id}), label, refs=came)

    async def _forget(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Erase the words of a memory, if it shows no less than the session has read.

        That it is gone is told to all who could see it, so a session that has read more would tell them.
        """
        found, label = await self._found(arguments, context, services)
        if not context.session.taint.flows_to(found.label):
            return Result(ABOVE, label, failed=True)
        caller = context.caller
        await self._keeper.forget(
            caller.principal, reader(context), found.id, actor=caller.asker, decides=decides(context)
        )
        return Result(json.dumps({"id": found.id, "status": "forgotten"}), label, refs=(MemoryRef(found.id),))

    async def _found(
        self, arguments: MemoryArguments, context: ToolContext, services: ToolServices
    ) -> tuple[Memory, Label]:
        """Return the memory that a call names, and the label of the answer about it.

        Raises NotFoundError: there is none that may be told of.
        """
        found = await self._keeper.find(context.caller.principal, reader(context), arguments.id or "")
        label = context.session.taint.join(heard(context, found.label))
        if not services.permits(label):
            raise NotFoundError
        return found, label


def _proposes(context: ToolContext) -> bool:
    """Say whether what a call learns is proposed to people and kept by them alone: an agent's, with `memory: auto`."""
    agent = context.session.agent
    return bool(context.session.turn) and agent is not None and agent.memory is MemoryUse.AUTO


def _proposal(arguments: MemoryArguments, context: ToolContext) -> CallFacts:
    """Declare the text of a proposal, and its address. Raises RefusedCallError: nobody reads there."""
    home = context.session.home
    if home.channel in UNREAD:
        raise RefusedCallError(NOBODY_READS)
    there = labelling.expected(context.document, home)
    return CallFacts(clearance=there.clearance, says=(home, _said(arguments, context)), once=True)


def _said(arguments: MemoryArguments, context: ToolContext) -> str:
    about = f"{arguments.domain}: " if arguments.domain else ""
    text = spelled(json.dumps(f"{about}{arguments.text or ''}", ensure_ascii=False))
    return PROPOSED.format(text=text, id=memory_id(context.key))


def _entry(memory: Memory, services: ToolServices) -> dict[str, JsonValue]:
    return {
        "id": memory.id,
        "text": services.mask(memory.text),
        "domain": services.mask(memory.domain) or None,
        "learned_at": memory.learned_at,
        "label": str(memory.label),
    }
