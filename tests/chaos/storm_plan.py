"""The plan of a storm: which inputs come when, and which faults. A seed and a size give one plan, always the same."""

import math
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from tests.bot.kit import bang
from tests.chaos.fault_proxy import Cut

LEASE_SECONDS: Final = 2
"""How long a worker's lease lasts in a storm; the shortest that a configuration takes."""

_MOST_OF_IT: Final = 0.8
"""The part of a storm in which work in the background begins, so that faults come to all of it."""

_LABELS: Final = ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL~")
_INPUTS_PER_SECOND: Final = 8
_WHOLE: Final = 1_200


class FaultKind(StrEnum):
    """What a fault does."""

    KILL = "kill"
    KILL_API = "kill_api"
    STOP = "stop"
    KILL_STORE = "kill_store"
    CUT = "cut"
    LOSE_ANSWER = "lose_answer"
    STEP_CLOCK = "step_clock"


_OF_A_WHOLE_STORM: Final = (
    (FaultKind.KILL, 24),
    (FaultKind.KILL_API, 36),
    (FaultKind.STOP, 12),
    (FaultKind.KILL_STORE, 2),
    (FaultKind.CUT, 150),
    (FaultKind.LOSE_ANSWER, 10),
    (FaultKind.STEP_CLOCK, 6),
)
"""How many faults of each kind come with 1,200 inputs."""


class WorkKind(StrEnum):
    """What goes on in the background: what a run does, or what a schedule sets off once."""

    COUNT = "count"
    TRIP = "trip"
    CHALLENGE = "challenge"
    EXPIRE = "expire"
    SCHEDULED = "scheduled"
    REMINDER = "reminder"


_WORK_OF_A_WHOLE_STORM: Final = 10
"""How much work of each kind comes with 1,200 inputs."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a storm is. `seconds` is how long inputs and faults come; the faults grow with the inputs."""

    inputs: int = _WHOLE
    sessions: int = 30
    workers: int = 4

    @property
    def seconds(self) -> float:
        """How long inputs and faults come."""
        return max(self.inputs / _INPUTS_PER_SECOND, 4.0)

    def faults(self, kind: FaultKind) -> int:
        """Return how many faults of a kind come."""
        return math.ceil(dict(_OF_A_WHOLE_STORM)[kind] * self.inputs / _WHOLE)

    @property
    def work(self) -> int:
        """How much work of each kind begins in the background."""
        return math.ceil(_WORK_OF_A_WHOLE_STORM * self.inputs / _WHOLE)


@dataclass(frozen=True, slots=True)
class Input:
    """What is said in a chat, `at` seconds after the storm began; `number` counts from 0 in each chat."""

    at: float
    chat: int
    number: int
    text: str

    @property
    def name(self) -> str:
        """What its answer bears."""
        return f"answer-{self.chat}-{self.number};"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault `at` seconds after the storm began.

    `worker` is the one it is about; behind the last are the process that takes inputs in and the one that answers
    programs. `seconds` is how long a
    worker is stopped or its successor is waited for, or how far the clock is stepped. `cut` is what a cut loses.
    """

    at: float
    kind: FaultKind
    worker: int = 0
    seconds: float = 0.0
    cut: Cut = Cut.REPLY


@dataclass(frozen=True, slots=True)
class Work:
    """Work in the background that begins `at` seconds after the storm did; a schedule of it is due `after` that.

    A run does as many `tasks` as it has.
    """

    at: float
    kind: WorkKind
    number: int
    tasks: int
    after: float

    @property
    def name(self) -> str:
        """What it is known by; it ends so that no name is in another."""
        return f"{self.kind}-{self.number};"


@dataclass(frozen=True, slots=True)
class Plan:
    """All inputs, all faults and all work, each by time. The chats that are `queued` have a turn for every input."""

    inputs: tuple[Input, ...]
    faults: tuple[Fault, ...]
    queued: frozenset[int]
    work: tuple[Work, ...] = ()


def drawn(seed: int, size: Size) -> Plan:
    """Return the plan of a seed for a storm of a size."""
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    times = sorted(random.uniform(0, size.seconds) for _ in range(size.inputs))
    counts, inputs = [0] * size.sessions, list[Input]()
    # Each chat has at least one input, where there are as many.
    chats = [*range(size.sessions), *(random.randrange(size.sessions) for _ in range(size.inputs))][: size.inputs]
    random.shuffle(chats)
    for at, chat in zip(times, chats, strict=True):
        inputs.append(Input(at, chat, counts[chat], _text(random, f"answer-{chat}-{counts[chat]};")))
        counts[chat] += 1
    faults = [
        _fault(random, kind, random.uniform(0.5, size.seconds), size.workers)
        for kind in FaultKind
        for _ in range(size.faults(kind))
    ]
    queued = frozenset(chat for chat in range(size.sessions) if chat % 3)
    return Plan(tuple(inputs), tuple(sorted(faults, key=lambda one: one.at)), queued, _work(random, size))


def _work(random: Random, size: Size) -> tuple[Work, ...]:
    work = [
        Work(random.uniform(0, size.seconds * _MOST_OF_IT), kind, number, random.randint(2, 4), random.uniform(0, 2))
        for kind in WorkKind
        for number in range(size.work)
    ]
    return tuple(sorted(work, key=lambda one: one.at))


def _text(random: Random, name: str) -> str:
    """Return an input: calls of tools, of which the first makes the answer bear a name."""
    lines = [bang("step", say=name, label=random.choice(_LABELS))]
    if random.random() < 0.3:
        lines.append(bang("write_file", path=f"workspace/{name[:-1]}.md", text=f"text of {name}"))
    if random.random() < 0.3:
        # Long enough that most faults come in the middle of some turn.
        lines.append(bang("step", say="more", seconds=round(random.uniform(0.1, 1.5), 2)))
    return "\n".join(lines)


def _fault(random: Random, kind: FaultKind, at: float, workers: int) -> Fault:
    match kind:
        case FaultKind.KILL:
            return Fault(at, kind, random.randrange(workers), random.uniform(0.1, 1.5))
        case FaultKind.STOP:
            return Fault(at, kind, random.randrange(workers), LEASE_SECONDS * random.uniform(1.5, 2.5))
        case FaultKind.KILL_STORE | FaultKind.KILL_API:
            return Fault(at, kind, seconds=random.uniform(0.1, 1.5))
        case FaultKind.CUT:
            return Fault(at, kind, random.randrange(workers + 2), cut=random.choice(tuple(Cut)))
        case FaultKind.LOSE_ANSWER:
            return Fault(at, kind)
        case FaultKind.STEP_CLOCK:
            return Fault(at, kind, seconds=random.choice((-3.0, -1.0, 1.0, 5.0, 30.0, 600.0)))
