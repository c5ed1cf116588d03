"""`memory`: what an agent learns, recalls, corrects and forgets.

A memory keeps the label of all that its session has read, so that what anybody may have written stays UNTRUSTED when
another session recalls it. A call finds what flows to the session's taint. With `up_to` the session is raised to that
label first, whatever is found then, so that neither the answer nor its label tells of a memory above it (law
`no_read_up`). What corrects or erases needs an approval once the session is UNTRUSTED.
"""

import json
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import Field, JsonValue

from bot.access import labelling
from bot.core.errors import NotFoundError, RequestError
from bot.knowledge.keeper import Learner, MemoryKeeper
from bot.knowledge.recall import KnowledgeSearch
from bot.sessions.knowledge.memories import LONGEST_DOMAIN, LONGEST_TEXT, Memory
from bot.tools.base import Arguments, CallFacts, Content, RefusedCallError, Result, ToolContext, ToolServices
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label
from policy.request import Effect

ONLY: Final = "only memories that the caller's level may know of are found"
"""The last words of every recall, whether or not anything was left out."""

ABOVE: Final = "this session has read more than that memory may show; forget it from another conversation or by command"
FOUND: Final = "the integrity of what is found"

_LIMIT: Final = 10
_MOST: Final = 50


class Action(StrEnum):
    """What a call of `memory` does."""

    LEARN = "learn"
    RECALL = "recall"
    CORRECT = "correct"
    FORGET = "forget"


_NEEDS: Final = MappingProxyType(
    {
        Action.LEARN: ("text",),
        Action.RECALL: ("query",),
        Action.CORRECT: ("id", "text"),
        Action.FORGET: ("id",),
    }
)
_MAY_HAVE: Final = MappingProxyType(
    {
        Action.LEARN: ("domain",),
        Action.RECALL: ("domain", "limit", "up_to"),
        Action.CORRECT: ("domain",),
        Action.FORGET: (),
    }
)


class MemoryArguments(Arguments):
    """Arguments of `memory`; which of them an action needs is told where one is missing."""

    action: Action = Field(description="learn a text, recall what fits a query, correct or forget what an id names")
    text: Content | None = Field(
        default=None, min_length=1, max_length=LONGEST_TEXT, description="what is learned, or what is right instead"
    )
    query: str | None = Field(default=None, min_length=1, max_length=10_000, description="words of what is recalled")
    id: str | None = Field(default=None, min_length=1, max_length=64, description="as `recall` tells it")
    domain: str | None = Field(default=None, max_length=LONGEST_DOMAIN, description="what it is about, in a word")
    limit: int | None = Field(default=None, ge=1, le=_MOST, description=f"how many to recall, {_LIMIT} if omitted")
    up_to: str | None = Field(
        default=None, max_length=2048, description="a label: recall up to it; what this session said is labelled so"
    )


class MemoryTool:
    """Learn, recall, correct and forget."""

    name = "memory"
    description = (
        "Keep what is worth knowing in later conversations, and find it again. A memory keeps the label of what you "
        "have read; one above that is not found unless you ask with up_to."
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
        """Declare what may be met at most, and what the principal may know as the sink.

        Raises RefusedCallError: a parameter is missing or has no meaning for the action, or `up_to` is no label.
        """
        _check(arguments)
        sink = context.caller.ceiling
        if arguments.action is Action.LEARN:
            return CallFacts(clearance=sink, once=True)
        if arguments.action is Action.RECALL:
            return CallFacts(result=_reader(arguments, context), clearance=sink, once=True)
        return CallFacts(result=context.session.taint, clearance=sink, consequential=True, once=True)

    async def foresee(self, arguments: MemoryArguments, context: ToolContext) -> list[str]:
        """Tell that a recall may find what anybody may have written."""
        return [FOUND] if arguments.action is Action.RECALL and not context.session.taint.untrusted else []

    async def run(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Do what the action says; absent and too high are one answer."""
        does = {
            Action.LEARN: self._learn,
            Action.RECALL: self._recall,
            Action.CORRECT: self._correct,
            Action.FORGET: self._forget,
        }
        try:
            return await does[arguments.action](arguments, context, services)
        except RequestError as error:
            return Result(f"{error}; {error.next_step}" if error.next_step else str(error), failed=True)

    async def _learn(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Keep a text with the label of what asks for it; the call's key makes it the same memory."""
        text, domain = services.scrub(arguments.text or ""), services.scrub(arguments.domain or "")
        made = await self._keeper.learn(_learner(context), text, context.key, domain=domain)
        return Result(json.dumps({"id": made.id, "learned_at": made.learned_at}))

    async def _recall(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return what fits a query best, as far as it may enter the context, and count that it was recalled."""
        principal, label = context.caller.principal, _reader(arguments, context)
        found = await self._search.recall(
            principal,
            label,
            arguments.query or "",
            limit=arguments.limit or _LIMIT,
            domain=arguments.domain or "",
        )
        shown = list[Memory]()
        for memory in found:
            joined = label.join(_heard(context, memory.label))
            if services.permits(joined):
                label = joined
                shown.append(memory)
        told: list[JsonValue] = [_entry(memory, services) for memory in shown]
        by = label.join(_known_by(context))
        await self._keeper.recalled(principal, by, [memory.id for memory in shown], context.key)
        return Result(json.dumps({"memories": told, "note": ONLY}, ensure_ascii=False), label)

    async def _correct(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Keep a text in the place of a memory that the session may know of."""
        old, label = await self._found(arguments, context, services)
        domain = None if arguments.domain is None else services.scrub(arguments.domain)
        text = services.scrub(arguments.text or "")
        made = await self._keeper.correct(_learner(context), old.id, text, context.key, domain=domain)
        return Result(json.dumps({"id": made.id, "corrects": old.id}), label)

    async def _forget(self, arguments: MemoryArguments, context: ToolContext, services: ToolServices) -> Result:
        """Erase the words of a memory, if it shows no less than the session has read.

        That it is gone is told to all who could see it, so a session that has read more would tell them.
        """
        found, label = await self._found(arguments, context, services)
        if not _known_by(context).flows_to(found.label):
            return Result(ABOVE, label, failed=True)
        await self._keeper.forget(context.caller.principal, context.caller.reader, found.id, context.caller.asker)
        return Result(json.dumps({"id": found.id, "status": "forgotten"}), label)

    async def _found(
        self, arguments: MemoryArguments, context: ToolContext, services: ToolServices
    ) -> tuple[Memory, Label]:
        """Return the memory that a call names, and the label of what is told of it.

        Raises NotFoundError: there is none that may be told of.
        """
        found = await self._keeper.find(context.caller.principal, context.caller.reader, arguments.id or "")
        label = context.session.taint.join(_heard(context, found.label))
        if not services.permits(label):
            raise NotFoundError
        return found, label


def _check(arguments: MemoryArguments) -> None:
    """Raise RefusedCallError if a parameter is missing or has no meaning for the action."""
    action = arguments.action
    given = {name for name in arguments.model_fields_set - {"action"} if getattr(arguments, name) is not None}
    missing = [name for name in _NEEDS[action] if name not in given]
    if missing:
        raise RefusedCallError(f"memory with action `{action.value}` needs {_named(missing)}")
    strange = sorted(given.difference(_NEEDS[action], _MAY_HAVE[action]))
    if strange:
        raise RefusedCallError(f"memory with action `{action.value}` takes no {_named(strange)}")


def _named(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _reader(arguments: MemoryArguments, context: ToolContext) -> Label:
    """Return the label up to which a recall finds memories. Raises RefusedCallError: `up_to` is none."""
    if arguments.up_to is None:
        return context.session.taint
    try:
        return labelling.named(context.document, arguments.up_to)
    except LabelTextError as error:
        raise RefusedCallError(str(error)) from None


def _learner(context: ToolContext) -> Learner:
    """Return who teaches what a call says: an agent in its turn, or a person by a command."""
    caller, session = context.caller, context.session
    return Learner(
        principal=caller.principal,
        asker=caller.asker,
        label=_known_by(context),
        reader=caller.reader,
        sid=session.sid if session.turn else "",
        by_agent=bool(session.turn),
        authors=session.authors,
    )


def _known_by(context: ToolContext) -> Label:
    """Return the label of what a call makes: of all the session has read, and of what it may be known by."""
    session = context.session
    return session.taint.join(session.visibility) if session.turn else session.taint


def _heard(context: ToolContext, label: Label) -> Label:
    """Return the label of a memory as it is told: in a shared chat any member may have worded it."""
    return labelling.members_words(context.document, context.caller.principal, context.session.home, label)


def _entry(memory: Memory, services: ToolServices) -> dict[str, JsonValue]:
    return {
        "id": memory.id,
        "text": services.mask(memory.text),
        "domain": services.mask(memory.domain) or None,
        "learned_at": memory.learned_at,
        "label": str(memory.label),
    }
