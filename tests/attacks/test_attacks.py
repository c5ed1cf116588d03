"""Every attack of the YAML files beside this one, played on a whole application."""

from pathlib import Path

import pytest

from tests.attacks.attack import Attack, attacks
from tests.attacks.judging import judge, sound
from tests.attacks.stage import staged


@pytest.mark.anyio
@pytest.mark.parametrize("attack", [pytest.param(attack, id=name) for name, attack in attacks()])
async def test_attack(attack: Attack, tmp_path: Path) -> None:
    async with staged(tmp_path, attack.given) as stage:
        for step in attack.when:
            await stage.play(step)
        await judge(stage, attack.then)
        await sound(stage)
