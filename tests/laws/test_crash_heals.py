"""Law 20 in short, for every run of the tests; `poe chaos` does it at length."""

from pathlib import Path
from random import Random

import pytest

from tests.chaos.killing import Chaos

_SEED = 20


@pytest.mark.anyio
async def test_crash_heals(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, Random(_SEED))  # noqa: S311 - repeatable, not secret
    await chaos.run(3)
    assert chaos.kills.total() == 3
