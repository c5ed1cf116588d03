"""Spawns, recaps and what comes meanwhile, killed at one request after another: `poe chaos`. Takes some minutes."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from bot.sessions.inbox import QueueMode
from tests.chaos.instants import (
    Installation,
    compacted,
    crowded,
    inquired,
    inspected,
    installed,
    meanwhile,
    raised,
    small_window,
    spawned,
    summarized,
)
from tests.chaos.tap import Trap

_MOST = 400

pytestmark = pytest.mark.anyio

Story = Callable[[Installation, str, Trap], Awaitable[bool]]


async def _at_every_request(made: Installation, story: Story, step: int = 1) -> int:
    """Play a story over and over, killed at its first request, one `step` later, … until it is over before that."""
    for nth in range(1, _MOST, step):
        sprung = [await story(made, f"c{nth}-{done}", Trap(nth=nth, done=done)) for done in (False, True)]
        if not any(sprung):
            return nth
    raise AssertionError("it never ended by itself")


@pytest.mark.parametrize("high, step", [(False, 1), (True, 3)])
async def test_crash_heals_at_every_request_of_a_spawn(tmp_path: Path, *, high: bool, step: int) -> None:
    async with installed(tmp_path) as made:
        assert await _at_every_request(made, partial(spawned, high=high), step) > 20
        await made.check()


async def test_crash_heals_among_the_requests_of_a_crowd_of_spawns(tmp_path: Path) -> None:
    async with installed(tmp_path) as made:
        assert await _at_every_request(made, crowded, 7) > 20
        await made.check()


@pytest.mark.parametrize("story", [compacted, summarized])
async def test_crash_heals_at_every_request_of_a_recap(tmp_path: Path, story: Story) -> None:
    async with installed(tmp_path, await small_window(tmp_path)) as made:
        assert await _at_every_request(made, story) > 5
        await made.check()


@pytest.mark.parametrize("story", [raised, inspected])
async def test_crash_heals_at_every_request_of_a_declared_raise(tmp_path: Path, story: Story) -> None:
    async with installed(tmp_path) as made:
        assert await _at_every_request(made, story, 2) > 5
        await made.check()


@pytest.mark.parametrize("late", [False, True])
async def test_crash_heals_at_every_request_of_a_question(tmp_path: Path, *, late: bool) -> None:
    async with installed(tmp_path) as made:
        assert await _at_every_request(made, partial(inquired, late=late)) > 5
        await made.check()


@pytest.mark.parametrize("mode", QueueMode)
async def test_crash_heals_at_every_request_of_a_turn_that_more_comes_to(tmp_path: Path, mode: QueueMode) -> None:
    async with installed(tmp_path) as made:
        assert await _at_every_request(made, partial(meanwhile, mode=mode), 2) > 5
        await made.check()
