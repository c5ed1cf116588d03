"""The adversary in a small: it finds nothing in what is mended, and it finds what is planted."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from tests.adversary.every import PLANTED, WORLDS
from tests.adversary.plans import Plan, Script, Step, drawn, grown, smaller
from tests.adversary.search import Bounds, search
from tests.adversary.stage import Stage, staged
from tests.adversary.views import below, differences
from tests.adversary.worlds import READ, World, spawn

pytestmark = pytest.mark.anyio

MENDED = tuple(world for world in WORLDS if not world.known)
RANDOM = 3
SHARE = 6
"""A check tries one in so many sequences of each world, a minute in all; `poe adversary` tries all, and more."""

LONG_ENOUGH = Bounds(breadth=1_000, random=0)
BY_NAME = {world.name: world for world in WORLDS}


@pytest.mark.parametrize("world", MENDED, ids=lambda world: world.name)
async def test_the_adversary_finds_nothing(world: World) -> None:
    async with staged(world) as stage:
        found = await search(stage, Bounds(world.breadth // SHARE, RANDOM))
    assert found.plan is None, f"{found.plan.shown(world.names)}\n{found.why}"
    assert found.sequences > RANDOM
    assert found.states > 1


@pytest.mark.parametrize("world", PLANTED, ids=lambda world: world.name)
async def test_the_adversary_finds_what_is_planted(world: World) -> None:
    """No search that finds nothing tells anything unless it finds what is there."""
    async with staged(world) as stage:
        found = await search(stage, LONG_ENOUGH)
    assert found.plan is not None
    assert found.plan.size <= 3
    assert found.why


async def test_two_runs_with_one_secret_look_the_same_from_below() -> None:
    """The scheduler, the ids and the moments make no difference: only a secret can."""
    world = BY_NAME["everything"]
    random = Random(7)  # noqa: S311 - repeatable
    async with staged(world) as stage:
        for _ in range(8):
            plan = drawn(random, world.alphabet, world.roles, 12)
            one, other = [await _seen(stage, plan) async for _ in _twice()]
            assert list(differences(one, other)) == [], plan.shown(world.names)


async def _twice() -> AsyncIterator[int]:
    for time in range(2):
        await asyncio.sleep(0)
        yield time


async def _seen(stage: Stage, plan: Plan) -> tuple[str, ...]:
    return await below(stage, await stage.run(plan, "1"))


def test_a_plan_grows_by_one_step_wherever_there_is_a_script() -> None:
    alphabet = {"low": (spawn("child"), READ), "child": (READ,)}
    (first, second) = grown(Plan((Script(),)), alphabet, ("low",), frozenset())
    assert (first.size, second.size) == (1, 1)
    longer = list(grown(first, alphabet, ("low",), frozenset({(0, 0)})))
    assert [plan.size for plan in longer] == [2, 2, 2, 2]
    assert longer[-1].script((0, 0)).steps == (Step(READ.tool, READ.arguments, guarded=True),)


def test_a_plan_is_made_smaller_step_by_step() -> None:
    inner = Step("x", role="child", script=Script((READ,)), times=3)
    plan = Plan((Script((inner,), heard=(READ,)),))
    less = list(smaller(plan))
    assert all(one.size < plan.size or one != plan for one in less)
    assert Plan((Script((inner,)),)) in less
    assert Plan((Script((), heard=(READ,)),)) in less
