"""`lockgate memory`: what is remembered of a principal, as the owner sees, corrects, forgets and copies it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bot.access.decision_context import DecisionContext
from bot.cli import identity
from bot.cli.background.runs import managing
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.clock import moment
from bot.core.errors import OperatorError
from bot.gate.results import explained
from bot.operations.gated_calls import RefusedCall
from bot.operations.knowledge.memories import MEMORY, MemoryViewer, exported, memory_document, memory_lines
from bot.operations.run_telling import TYPED, shortened
from channels.console import OWNER
from policy.labels import Label

if TYPE_CHECKING:
    from bot.app.app import App

_NAMES: Final = "`lockgate memory list` names them"


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator at work: the application, whose memories they look at, and where they stand."""

    app: "App"
    by: MemoryViewer
    standing: DecisionContext
    typed: Label

    def masked(self, text: str) -> str:
        return self.app.gate.masks.masked(text)


@asynccontextmanager
async def _operating(config: Config, whose: str) -> AsyncGenerator[_Operator]:
    """Look at the memories of a principal as the owner, at their own if `whose` is empty.

    Raises OperatorError: there is no such memory that the owner is cleared for, or it does not allow that.
    """
    async with managing(config, what="memory", names=_NAMES) as at:
        app, home = at.app, identity.address(OWNER)
        there = await app.gate.readers.destination(home)
        standing = DecisionContext.of_caller(at.caller, home, there, app.clock.wall_ms())
        by = MemoryViewer(whose or at.caller.principal, at.by.reader, at.by.actor)
        yield _Operator(app, by, replace(standing, principal=by.principal), at.by.typed)


async def list_memories(config: Config, whose: str, *, as_json: bool, after: str) -> None:
    """Print a page of a principal's memories that the owner is cleared for, newest first."""
    async with _operating(config, whose) as at:
        page = await at.app.memories.listed(at.by, after=after)
        told = [(memory, at.masked(memory.text)) for memory in page.memories]
    if as_json:
        print_json([memory_document(memory, text) for memory, text in told])
        return
    rows = [(one.id, moment(one.learned_at), str(one.label), one.domain, shortened(text)) for one, text in told]
    print_lines(table([("memory", "learned (UTC)", "label", "domain", "text"), *rows]))
    if page.cursor:
        print_lines([f"there are more: `lockgate memory list --of {at.by.principal} --after {page.cursor}`"])


async def show_memory(config: Config, whose: str, name: str, *, as_json: bool) -> None:
    """Print one memory, also one that was corrected or forgotten.

    Raises OperatorError: there is none that the owner is cleared for.
    """
    async with _operating(config, whose) as at:
        known = await at.app.memories.show(at.by, name)
        text = at.masked(known.memory.text)
    if as_json:
        print_json({**memory_document(known.memory, text), "recalled": known.uses})
    else:
        print_lines(memory_lines(known, text))


async def correct_memory(config: Config, whose: str, name: str, text: str) -> None:
    """Have something else known in the place of a memory, through the gate, and print its id.

    Raises OperatorError: there is none that the owner is cleared for, or a rule refuses it.
    """
    async with _operating(config, whose) as at:
        made = await at.app.memories.correct(at.standing, at.by, name, text, key=at.app.ids.op(), typed=at.typed)
        if isinstance(made, RefusedCall):
            raise OperatorError(explained(made.decision, made.standing.reader, MEMORY, TYPED))
    print_lines([f"{made} stands in the place of {name}"])


async def forget_memory(config: Config, whose: str, name: str) -> None:
    """Erase the words of a memory for good. Raises OperatorError: there is none that the owner is cleared for."""
    async with _operating(config, whose) as at:
        gone = await at.app.memories.forget(at.by, name)
    print_lines([f"{gone.id} is forgotten, its words are erased"])


async def export_memories(config: Config, whose: str) -> None:
    """Print all memories of a principal that the owner is cleared for, newest first, a line of JSON each."""
    async with _operating(config, whose) as at:
        async for memory in at.app.memories.every(at.by):
            print_lines([exported(memory, at.masked(memory.text))])
