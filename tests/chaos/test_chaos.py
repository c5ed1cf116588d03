"""Chaos at length: `poe chaos`. The seed is printed and may be given as LOCKGATE_CHAOS_SEED."""

import os
import secrets
from pathlib import Path
from random import Random

import pytest

from tests.chaos.killing import Chaos

_ROUNDS = 25
_RUNS = 4


@pytest.mark.anyio
@pytest.mark.parametrize("run", range(_RUNS))
async def test_crash_heals(run: int, tmp_path: Path) -> None:
    seed = f"{os.environ.get('LOCKGATE_CHAOS_SEED') or secrets.token_hex(4)}-{run}"
    chaos = Chaos(tmp_path, Random(seed))  # noqa: S311 - repeatable, not secret
    try:
        await chaos.run(_ROUNDS)
    finally:
        print(f"seed {seed}: {chaos.sent} messages, killed {dict(chaos.kills)}")
