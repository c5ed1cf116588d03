"""The search: breadth first by the number of steps, then at random, and what was found made as short as it gets."""

import heapq
import itertools
import time
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.adversary.judging import Judged, judged
from tests.adversary.plans import Place, Plan, Script, drawn, grown, smaller
from tests.adversary.stage import Stage

_AHEAD: Final = 1
"""How many steps longer a plan may be to be tried with others, if the secret made a difference in it."""


@dataclass(slots=True)
class Found:
    """What a search came to: the shortest attack and why it is one, or nothing."""

    world: str
    finds: str
    states: int = 0
    sequences: int = 0
    seconds: float = 0.0
    plan: Plan | None = None
    why: tuple[str, ...] = ()
    by: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a search goes on: so many sequences breadth first, so many at random, and so many seconds at most."""

    breadth: int
    random: int
    seconds: float = float("inf")
    seed: int = 0


async def search(stage: Stage, bounds: Bounds) -> Found:
    """Look for an attack in a world."""
    found = Found(stage.world.name, stage.world.finds)
    begin = time.monotonic()
    until = begin + bounds.seconds
    await _breadth_first(stage, bounds, found, until)
    if found.plan is None:
        await _at_random(stage, bounds, found, until)
    if found.plan is not None:
        await _shrink(stage, found)
    found.seconds = time.monotonic() - begin
    return found


async def _breadth_first(stage: Stage, bounds: Bounds, found: Found, until: float) -> None:
    """Try every plan by its size; one in which the secret made a difference somewhere goes before others."""
    world = stage.world
    empty = Plan(tuple(Script() for _ in world.lanes))
    seen, tried, order = set[str](), set[str](), itertools.count()
    queue = [(0, 0, empty, frozenset[Place]())]
    while queue:
        _, _, plan, knowing = heapq.heappop(queue)
        if plan.size >= world.depth:
            continue
        for longer in grown(plan, world.alphabet, world.roles, knowing):
            written = longer.shown(world.names)
            if written in tried:
                continue
            tried.add(written)
            if found.sequences >= bounds.breadth or time.monotonic() > until:
                return
            told = await _try(stage, longer, found)
            if told.why:
                found.by = "breadth first"
                return
            if told.state not in seen:
                seen.add(told.state)
                found.states = len(seen)
                first = longer.size - (_AHEAD if told.shaped else 0)
                heapq.heappush(queue, (first, next(order), longer, told.knowing))


async def _at_random(stage: Stage, bounds: Bounds, found: Found, until: float) -> None:
    random, world = Random(bounds.seed), stage.world  # noqa: S311 - a search, repeatable by its seed
    seen = set[str]()
    for _ in range(bounds.random):
        if time.monotonic() > until:
            return
        told = await _try(stage, drawn(random, world.alphabet, world.roles, 3 * world.depth), found)
        if told.state not in seen:
            seen.add(told.state)
            found.states += 1
        if told.why:
            found.by = "at random"
            return


async def _try(stage: Stage, plan: Plan, found: Found) -> Judged:
    """Run a plan; an attack counts if it succeeds twice, for what differs by chance is none."""
    found.sequences += 1
    told = await judged(stage, plan)
    if told.why:
        again = await judged(stage, plan)
        if again.why != told.why:
            shown = plan.shown(stage.world.names)
            raise AssertionError(f"two runs of one plan differ:\n{shown}\n{told.why}\n{again.why}")
        found.plan, found.why = plan, told.why
    return told


async def _shrink(stage: Stage, found: Found) -> None:
    """Make an attack smaller as long as it stays one."""
    while True:
        assert found.plan is not None
        for less in smaller(found.plan):
            found.sequences += 1
            told = await judged(stage, less)
            if told.why:
                found.plan, found.why = less, told.why
                break
        else:
            return
