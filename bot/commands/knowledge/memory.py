"""Commands about memories: see, teach, correct, forget and copy them.

A person sees all that is known of them, where the address that answers is cleared for it, and nothing above (law
`no_read_up`). In a shared chat the memories are the chat's: each member may see them, and who taught one, or an admin,
corrects and forgets it.
"""

from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling, principals
from bot.access.authorize import at_least
from bot.access.decision_context import DecisionContext
from bot.commands.background.runs import options, refused
from bot.commands.command import CommandRequest, Reply, Run, UsageError
from bot.commands.inbox.waiting import WaitingEntry
from bot.commands.knowledge.memory_use import MemoryUseCommands
from bot.commands.sessions import LARGEST
from bot.core.errors import NotFoundError
from bot.core.ids import Ids
from bot.delivery import time_left
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON
from bot.operations.gated_calls import RefusedCall
from bot.operations.knowledge.memories import (
    MemoryOperations,
    MemoryViewer,
    exported,
    memory_line,
    memory_lines,
    shown,
)
from bot.operations.knowledge.proposals import find_proposal, proposals
from bot.sessions.knowledge.memories import MEMORY, Memory
from policy.labels import PUBLIC, Label, join_all
from policy.request import Role

NONE: Final = "Nothing is remembered that may be shown here. `/memory learn TEXT` teaches something."
UNFIT: Final = "Nothing fits that, as far as may be told here."
PROPOSED: Final = "Memory {id}, proposed {age}: `/memory keep {id}` keeps it."
LEARNED: Final = "Learned as {id}, labelled {label}. `/memory forget {id}` erases it."
CORRECTED: Final = "Memory {id} replaces {old}, labelled {label}."
FORGOTTEN: Final = "Memory {} is forgotten: its words are erased."
TOO_LARGE: Final = (
    "This copy cannot be shown whole here. The owner makes it with `lockgate memory export --of {principal}`."
)

LISTS: Final = "`/memory` lists the memories"
"""The next step after an unknown memory was named, unknown as far as the person may know."""

_OPTIONS: Final = frozenset({"domain"})


@dataclass(frozen=True, slots=True)
class MemoryCommands:
    """See, teach, correct and forget the caller's memories, or those of the shared chat where they ask."""

    memories: MemoryOperations
    gate: Gate
    ids: Ids
    use: MemoryUseCommands

    async def manage(self, request: CommandRequest, argument: str) -> Reply:
        """Run the subcommand in the first word; list the memories if there is none."""
        action, _, rest = argument.partition(" ")
        actions: dict[str, Run] = {
            "": self._list,
            "list": self._list,
            "recall": self._recall,
            "show": self._show,
            "learn": self._learn,
            "correct": self._correct,
            "forget": self._forget,
            "export": self._export,
            "keep": self._keep,
            "mode": self.use.mode,
        }
        if action not in actions:
            raise UsageError("there is no such action")
        try:
            return await actions[action](request, rest.strip())
        except NotFoundError:
            raise NotFoundError(next_step=LISTS) from None

    async def _list(self, request: CommandRequest, argument: str) -> Reply:
        """List memories that may be told of here, newest first."""
        if len(argument.split()) > 1:
            raise UsageError("")
        page = await self.memories.listed(await _viewer(request), after=argument)
        lines = self._lines(page.memories)
        if page.cursor:
            lines.append(f"More with `/memory list {page.cursor}`.")
        return Reply("\n".join(lines) or NONE, _label(page.memories))

    async def _recall(self, request: CommandRequest, argument: str) -> Reply:
        """Show what fits some words best, as an agent would recall it here."""
        given, query = options(argument, _OPTIONS)
        if not query:
            raise UsageError("say what is to be recalled")
        found = await self.memories.recall(await _viewer(request), query, domain=given.get("domain", ""))
        return Reply("\n".join(self._lines(found)) or UNFIT, _label(found))

    async def _show(self, request: CommandRequest, argument: str) -> Reply:
        known = await self.memories.show(await _viewer(request), _id(argument))
        lines = memory_lines(replace(known, memory=shown(known.memory, self.gate.masks.masked)))
        return Reply("\n".join(lines), known.memory.label)

    async def _learn(self, request: CommandRequest, argument: str) -> Reply:
        given, text = options(argument, _OPTIONS)
        if not text:
            raise UsageError("say what is to be learned")
        standing = await _standing(request)
        domain = given.get("domain", "")
        made = await self.memories.learn(standing, self.ids.op(), text, request.typed, domain=domain)
        if isinstance(made, RefusedCall):
            return refused(request, made, MEMORY)
        return Reply(LEARNED.format(id=made, label=request.typed), request.typed)

    async def waiting(self, request: CommandRequest) -> tuple[WaitingEntry, ...]:
        """Return the agent's newest proposals in this conversation that the caller has not kept."""
        state, by, found = await request.state(), await _viewer(request), list[WaitingEntry]()
        if state is None or not by.decides:
            return ()
        async for name, at, label in proposals(self.use.sessions, state, (await request.standing(None)).reader):
            try:
                await self.memories.show(by, name)
            except NotFoundError:
                found.append(WaitingEntry(at, PROPOSED.format(id=name, age=time_left.ago(at, request.now)), label))
        return tuple(found)

    async def _keep(self, request: CommandRequest, argument: str) -> Reply:
        """Keep the agent's proposed memory of this conversation."""
        state, name = await request.state(), _id(argument)
        if state is None:
            raise NotFoundError
        reader = (await request.standing(None)).reader
        proposal = await find_proposal(self.use.sessions, state, name, reader)
        made = await self.memories.keep(await _standing(request), proposal, request.typed)
        if isinstance(made, RefusedCall):
            return refused(request, made, MEMORY)
        label = proposal.label.join(request.typed)
        return Reply(LEARNED.format(id=made, label=label), label)

    async def _correct(self, request: CommandRequest, argument: str) -> Reply:
        name, _, text = argument.partition(" ")
        if not text.strip():
            raise UsageError("name a memory and say what is right")
        by = await _viewer(request)
        standing, key = await _standing(request), self.ids.op()
        made = await self.memories.correct(standing, by, name, text.strip(), key=key, typed=request.typed)
        if isinstance(made, RefusedCall):
            return refused(request, made, MEMORY)
        label = (await self.memories.show(by, made)).memory.label
        return Reply(CORRECTED.format(id=made, old=name, label=label), label)

    async def _forget(self, request: CommandRequest, argument: str) -> Reply:
        gone = await self.memories.forget(await _viewer(request), _id(argument))
        return Reply(FORGOTTEN.format(gone.id), gone.label)

    async def _export(self, request: CommandRequest, argument: str) -> Reply:
        """Show all memories that may be told of here, a line of JSON each."""
        if argument:
            raise UsageError("")
        by, lines, label, size = await _viewer(request), list[str](), PUBLIC, 0
        async for memory in self.memories.every(by):
            lines.append(exported(shown(memory, self.gate.masks.masked)))
            label, size = label.join(memory.label), size + len(lines[-1]) + 1
            if size > LARGEST:
                break
        if not lines:
            return Reply(NONE)
        text, standing = "\n".join(lines), await request.standing(None)
        said = self.gate.output.reply(standing, standing.destination, text, label)
        # A copy of which something is missing is none.
        whole = said.decision.verdict in MAY_GO_ON and said.text == text
        if size > LARGEST or not whole:
            return Reply(TOO_LARGE.format(principal=by.principal), label)
        return Reply(text, label)

    def _lines(self, memories: tuple[Memory, ...]) -> list[str]:
        return [memory_line(shown(memory, self.gate.masks.masked)) for memory in memories]


async def _standing(request: CommandRequest) -> DecisionContext:
    """Return the caller's decision context; in a shared chat their memories are the chat's."""
    standing = await request.standing(await request.state())
    return replace(standing, principal=await _whose(request))


async def _viewer(request: CommandRequest) -> MemoryViewer:
    standing, whose = await request.standing(None), await _whose(request)
    decides = whose == request.caller.principal or at_least(request.caller.role, Role.ADMIN)
    most = labelling.ceiling(request.gate.document, whose, request.caller.principal) or PUBLIC
    # People are told also what anybody may have written: a label says so.
    reader = labelling.untrusted(standing.reader.meet(most))
    return MemoryViewer(whose, reader, request.caller.principal, decides)


async def _whose(request: CommandRequest) -> str:
    if await request.in_shared_chat():
        return principals.of_chat(request.address)
    return request.caller.principal


def _label(memories: tuple[Memory, ...]) -> Label:
    return join_all(memory.label for memory in memories)


def _id(argument: str) -> str:
    if len(argument.split()) != 1:
        raise UsageError("name one memory")
    return argument
