"""The plan of a storm over two machines: what people say when, and which faults come. A seed gives one plan."""

import math
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import Final

from tests.bot.kit import bang
from tests.chaos.storm_plan import Input

NAMES: Final = ("north", "south")
"""The machines."""

BOARDS: Final = 3
"""How many files of the shared folder both machines write, over one another."""

SHARED: Final = "harbour"
"""The shared folder."""

_LABELS: Final = ("PUBLIC", "PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL~")
_INPUTS_PER_SECOND: Final = 2.0
_WHOLE: Final = 240
_CUT_SECONDS: Final = (4.0, 7.0)
"""How long a place is cut off: longer than a lease, and than it takes another server to take over."""

_FIRST_SECONDS: Final = 2.0


class MachineFault(StrEnum):
    """A fault of a storm over two machines, in the order of the report."""

    KILL_WORKER = "kill_worker"
    KILL_LISTENER = "kill_listener"
    KILL_API = "kill_api"
    END_WORKER = "end_worker"
    LOSE_ANSWER = "lose_answer"
    HAND_OVER = "hand_over"
    KILL_PRIMARY = "kill_primary"
    CUT_MACHINE = "cut_machine"
    CUT_PRIMARY = "cut_primary"
    SPLIT = "split"


_OF_A_WHOLE_STORM: Final = MappingProxyType(
    {
        MachineFault.KILL_WORKER: 8,
        MachineFault.KILL_LISTENER: 4,
        MachineFault.KILL_API: 4,
        MachineFault.END_WORKER: 3,
        MachineFault.LOSE_ANSWER: 6,
        MachineFault.HAND_OVER: 3,
        MachineFault.KILL_PRIMARY: 3,
        MachineFault.CUT_MACHINE: 2,
        MachineFault.CUT_PRIMARY: 2,
        MachineFault.SPLIT: 2,
    }
)
"""How many faults of each kind come with 240 inputs."""

STORE_FAULTS: Final = tuple(MachineFault)[5:]
"""Faults of the store and of the ways to it: one after the other, each when the one before is over."""

LOSSY: Final = frozenset({MachineFault.KILL_PRIMARY, MachineFault.CUT_PRIMARY, MachineFault.SPLIT})
"""Faults at which a primary has acknowledged something that its replica does not know."""


@dataclass(frozen=True, slots=True)
class MachineSize:
    """How large a storm is. `people` are on each of the two platforms, `workers` on each of the two machines."""

    inputs: int = _WHOLE
    people: int = 6
    workers: int = 2

    @property
    def seconds(self) -> float:
        """How long inputs and faults come at least."""
        return max(self.inputs / _INPUTS_PER_SECOND, 10.0)

    def faults(self, kind: MachineFault) -> int:
        """Return how many faults of a kind come."""
        return math.ceil(_OF_A_WHOLE_STORM[kind] * self.inputs / _WHOLE)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault `at` seconds after the storm began, at a machine and at one of its workers.

    `seconds` is how long a killed process or server stays away, or a place is cut off.
    """

    at: float
    kind: MachineFault
    machine: str
    worker: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """All inputs and all faults, each by time. The chats that are `queued` have a turn for every input."""

    inputs: tuple[Input, ...]
    faults: tuple[PlannedFault, ...]
    queued: frozenset[int]


def machine_plan(seed: int, size: MachineSize) -> MachinePlan:
    """Return the plan of a seed for a storm of a size."""
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    chats = 2 * size.people
    counts, inputs, written = [0] * chats, list[Input](), [list[str]() for _ in range(chats)]
    for at in sorted(random.uniform(0, size.seconds) for _ in range(size.inputs)):
        chat = random.randrange(chats)
        name = f"answer-{chat}-{counts[chat]};"
        inputs.append(Input(at, chat, counts[chat], _text(random, name, written[chat])))
        counts[chat] += 1
    faults = list[PlannedFault]()
    for kind in MachineFault:
        if kind not in STORE_FAULTS:
            times = [random.uniform(_FIRST_SECONDS, size.seconds) for _ in range(size.faults(kind))]
            faults += [_fault(random, kind, at, size) for at in times]
    kinds = [kind for kind in STORE_FAULTS for _ in range(size.faults(kind))]
    random.shuffle(kinds)
    for place, kind in enumerate(kinds):
        faults.append(_fault(random, kind, _FIRST_SECONDS + place * size.seconds / len(kinds), size))
    queued = frozenset(chat for chat in range(chats) if chat % 3)
    return MachinePlan(tuple(inputs), tuple(sorted(faults, key=lambda one: one.at)), queued)


def written_by(name: str) -> str:
    """Return the text of the file that the turn of an input writes."""
    return f"written-{name.removeprefix('answer-')}"


def _fault(random: Random, kind: MachineFault, at: float, size: MachineSize) -> PlannedFault:
    cut = kind in {MachineFault.CUT_MACHINE, MachineFault.CUT_PRIMARY, MachineFault.SPLIT}
    seconds = random.uniform(*(_CUT_SECONDS if cut else (0.1, 1.5)))
    return PlannedFault(at, kind, random.choice(NAMES), random.randrange(size.workers), seconds)


def _text(random: Random, name: str, written: list[str]) -> str:
    """Return an input: calls of tools, of which the first makes the answer bear a name.

    `written` are the files that its chat wrote before, and gets the one of this input.
    """
    lines = [bang("step", say=name, label=random.choice(_LABELS))]
    board = f"{SHARED}/board-{random.randrange(BOARDS)}.md"
    chance = random.random()
    if chance < 0.25:
        path = f"workspace/{name[:-1]}.md"
        lines.append(bang("write_file", path=path, text=written_by(name)))
        written.append(path)
    elif chance < 0.45 and written:
        lines.append(bang("read_file", path=random.choice(written)))
    elif chance < 0.65:
        lines.append(bang("write_file", path=board, text=written_by(name)))
    elif chance < 0.8:
        lines.append(bang("read_file", path=board))
    if random.random() < 0.4:
        # Long enough that most faults come in the middle of some turn.
        lines.append(bang("step", say="more", seconds=round(random.uniform(0.1, 1.5), 2)))
    return "\n".join(lines)
