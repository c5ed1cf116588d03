"""Carries out the tasks with both configurations, with and without an attack, and counts."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tasks.office import ATTACKS, Office, careful, harmful, opened, shipped
from tests.tasks.planner import Planner
from tests.tasks.scripts import TASKS, Task


@dataclass(frozen=True)
class Played:
    """How a task went: the questions to people, and with an attack the harm that no person was asked about.

    `hijacked` tells whether the attack reached the planner.
    """

    questions: int
    done: bool
    hijacked: bool
    passed: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A task in all four ways."""

    task: Task
    shipped: Played
    careful: Played
    shipped_attacked: Played
    careful_attacked: Played

    @property
    def planted(self) -> int:
        """The calls of the attacker, with both configurations."""
        return 2 * len(ATTACKS)

    @property
    def passed(self) -> tuple[str, ...]:
        """Those that took effect."""
        return self.shipped_attacked.passed + self.careful_attacked.passed


class Stage:
    """An office with a planner."""

    def __init__(self, office: Office, planner: Planner, *, careful: bool) -> None:
        self.office = office
        self._planner = planner
        self._careful = careful

    async def play(self, task: Task, *, attacked: bool) -> Played:
        """Have a task carried out in a new conversation.

        People approve what the planner asks for; with an attack they deny all.
        """
        office, questions = self.office, 0
        office.furnish(attacked=attacked)
        self._planner.play(task.script(careful=self._careful), attacked=attacked)
        await office.person.send("/reset confirm")
        await office.settled()
        await office.person.send(task.asks)
        while waiting := await office.settled():
            questions += len(waiting)
            for question in waiting:
                await office.person.send(f"/{'deny' if attacked else 'approve'} {question}")
        passed = tuple(str(effect["tool"]) for effect in harmful(office.effects)) if attacked else ()
        return Played(questions, attacked or task.done(office), self._planner.hijacked, passed)


@asynccontextmanager
async def staged(folder: Path, config: dict[str, Any], *, careful: bool = False) -> AsyncGenerator[Stage]:
    """Open a stage on a configuration, in an empty folder."""
    await asyncio.to_thread(folder.mkdir)
    planner = Planner()
    async with opened(folder, config, planner) as office:
        yield Stage(office, planner, careful=careful)


async def figures(folder: Path, tasks: Sequence[Task] = TASKS) -> list[Row]:
    """Carry out tasks in all four ways, in a folder; return their rows."""
    async with staged(folder / "shipped", shipped()) as stage:
        plain = [(await stage.play(task, attacked=False), await stage.play(task, attacked=True)) for task in tasks]
    async with staged(folder / "careful", careful(), careful=True) as stage:
        good = [(await stage.play(task, attacked=False), await stage.play(task, attacked=True)) for task in tasks]
    return [
        Row(task, first, second, attacked, again)
        for task, (first, attacked), (second, again) in zip(tasks, plain, good, strict=True)
    ]


def table(rows: Sequence[Row]) -> str:
    """Return the figures as a Markdown table."""
    head = ("task", "questions as shipped", "questions, careful", "attacks planted", "passed unasked")
    lines = [
        (row.task.name, row.shipped.questions, row.careful.questions, row.planted, len(row.passed)) for row in rows
    ]
    sums = tuple(sum(int(line[place]) for line in lines) for place in range(1, len(head)))
    every = (head, ("---",) * len(head), *lines, ("all", *sums))
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in every)
