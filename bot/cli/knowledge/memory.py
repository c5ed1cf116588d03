"""`lockgate memory`: the memories of a principal, as the owner sees, corrects, forgets and copies them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bot.access import labelling, principals
from bot.access.decision_context import DecisionContext
from bot.cli import identity
from bot.cli.background.runs import managing
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.clock import moment
from bot.core.errors import OperatorError
from bot.gate.results import explained
from bot.operations.background.run_telling import TYPED, shortened
from bot.operations.gated_calls import RefusedCall
from bot.operations.knowledge.memories import MemoryViewer, exported, memory_document, memory_lines, shown
from bot.sessions.knowledge.memories import MEMORY, Memory
from channels.console import OWNER
from policy.document.programs import is_program
from policy.labels import Label

if TYPE_CHECKING:
    from bot.app.app import App

NOBODY: Final = "nobody is known by that name"
WHO: Final = "name one of `policy.principals`, a program as `program:NAME`, or a shared chat as `chat:ADDRESS`"
NOTHING: Final = "nothing is remembered"

_NAMES: Final = "`lockgate memory list` names them"


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator at work: the application, whose memories they look at, and where they stand."""

    app: "App"
    by: MemoryViewer
    standing: DecisionContext
    typed: Label

    def shown(self, memory: Memory) -> Memory:
        return shown(memory, self.app.gate.masks.masked)


@asynccontextmanager
async def _operating(config: Config, whose: str, *, looking: bool = False) -> AsyncGenerator[_Operator]:
    """Look at the memories of a principal as the owner, at their own if `whose` is empty.

    Raises OperatorError: there is no such memory that the owner is cleared for, or it does not allow that.
    """
    async with managing(config, what="memory", names=_NAMES, looking=looking) as at:
        app, home = at.app, identity.address(OWNER)
        there = await app.gate.readers.destination(home)
        standing = DecisionContext.of_caller(at.caller, home, there, app.clock.wall_ms())
        by = MemoryViewer(whose or at.caller.principal, labelling.untrusted(at.by.reader), at.by.actor)
        yield _Operator(app, by, replace(standing, principal=by.principal), at.by.typed)


async def list_memories(config: Config, whose: str, *, as_json: bool, after: str) -> None:
    """Print a page of a principal's memories that the owner is cleared for, newest first.

    Raises OperatorError: there are none, and the name is unknown.
    """
    async with _operating(config, whose, looking=True) as at:
        page = await at.app.memories.listed(at.by, after=after)
        # People who are not in the policy any more have their memories still.
        if not page.memories and not _known(at):
            raise OperatorError(NOBODY, next_step=WHO)
        told = [at.shown(memory) for memory in page.memories]
    if as_json:
        print_json([memory_document(memory) for memory in told])
        return
    if not told:
        print_lines([NOTHING])
        return
    rows = [(one.id, moment(one.learned_at), str(one.label), one.domain, shortened(one.text)) for one in told]
    print_lines(table([("memory", "learned (UTC)", "label", "domain", "text"), *rows]))
    if page.cursor:
        print_lines([f"there are more: `lockgate memory list --of {at.by.principal} --after {page.cursor}`"])


def _known(at: _Operator) -> bool:
    """Say whether those whose memories are looked at are in the policy, or no people."""
    whose = at.by.principal
    return whose in at.app.gate.document.principals or principals.is_chat(whose) or is_program(whose)


async def show_memory(config: Config, whose: str, name: str, *, as_json: bool) -> None:
    """Print one memory, also one that was corrected or forgotten.

    Raises OperatorError: the owner is not cleared for any such memory.
    """
    async with _operating(config, whose, looking=True) as at:
        known = await at.app.memories.show(at.by, name)
        known = replace(known, memory=at.shown(known.memory))
    if as_json:
        print_json({**memory_document(known.memory), "recalled": known.uses})
    else:
        print_lines(memory_lines(known))


async def correct_memory(config: Config, whose: str, name: str, text: str) -> None:
    """Have something else known in the place of a memory, through the gate, and print its id.

    Raises OperatorError: the owner is not cleared for any such memory, or a rule refuses it.
    """
    async with _operating(config, whose) as at:
        made = await at.app.memories.correct(at.standing, at.by, name, text, key=at.app.ids.op(), typed=at.typed)
        if isinstance(made, RefusedCall):
            raise OperatorError(explained(made.decision, made.standing.reader, MEMORY, TYPED))
    print_lines([f"{made} stands in the place of {name}"])


async def forget_memory(config: Config, whose: str, name: str) -> None:
    """Erase the words of a memory for good. Raises OperatorError: the owner is not cleared for any such memory."""
    async with _operating(config, whose) as at:
        gone = await at.app.memories.forget(at.by, name)
    print_lines([f"{gone.id} is forgotten, its words are erased"])


async def export_memories(config: Config, whose: str) -> None:
    """Print all memories of a principal that the owner is cleared for, newest first, a line of JSON each."""
    async with _operating(config, whose, looking=True) as at:
        async for memory in at.app.memories.every(at.by):
            print_lines([exported(at.shown(memory))])
