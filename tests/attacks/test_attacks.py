"""Every attack of the YAML files beside this one, played on a whole application."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.attacks.attack import Attack, attacks
from tests.attacks.judging import judge, sound
from tests.attacks.stage import staged


def _parameters() -> Iterator[ParameterSet]:
    for name, attack in attacks():
        marks = [pytest.mark.xfail(reason=attack.open, strict=True)] if attack.open else []
        yield pytest.param(attack, id=name, marks=marks)


@pytest.mark.anyio
@pytest.mark.parametrize("attack", tuple(_parameters()))
async def test_attack(attack: Attack, tmp_path: Path) -> None:
    async with staged(tmp_path, attack.given) as stage:
        for step in attack.when:
            await stage.play(step)
        await judge(stage, attack.then)
        await sound(stage)
