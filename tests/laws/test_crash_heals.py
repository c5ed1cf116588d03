"""Law 20 in short, for every run of the tests; `poe chaos` does it at length."""

from pathlib import Path
from random import Random

import pytest

from bot.store.scripts.loader import Script
from tests.chaos.instants import at, compacted, crowded, installed, small_window, spawned, summarized
from tests.chaos.killing import Chaos

_SEED = 20

pytestmark = pytest.mark.anyio


async def test_crash_heals(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, Random(_SEED))  # noqa: S311 - repeatable, not secret
    await chaos.run(3)
    assert chaos.kills.total() == 3


async def test_crash_heals_in_the_middle_of_a_spawn(tmp_path: Path) -> None:
    """Its slot is reserved and there is no child; there is one and its parent does not know; its result came."""
    async with installed(tmp_path) as made:
        for n, instant in enumerate((at(Script.RESERVE), at(Script.ACCEPT), at(Script.RECEIVE))):
            assert await spawned(made, f"c{n}", instant, high=n == 1)
        assert await crowded(made, "crowd", at(Script.ACCEPT, 3))
        await made.check()


async def test_crash_heals_in_the_middle_of_a_recap(tmp_path: Path) -> None:
    """A model was asked and its recap is not kept; one is kept and nobody has heard of it."""
    async with installed(tmp_path, await small_window(tmp_path)) as made:
        assert await compacted(made, "c0", at(Script.RAISE_TAINT, 2, done=False))
        assert await summarized(made, "c1", at(Script.RAISE_TAINT, 3))
        await made.check()
