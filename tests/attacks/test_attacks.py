"""Every attack of the YAML files beside this one, played on a whole application."""

from pathlib import Path

import pytest

from tests.attacks.attack import FOLDER, attacks_of, names
from tests.attacks.judging import judge, sound
from tests.attacks.stage import staged


@pytest.mark.anyio
@pytest.mark.parametrize("name", list(names()))
async def test_attack(name: str, tmp_path: Path) -> None:
    stem, _, key = name.partition("/")
    attack = attacks_of(stem)[key]
    async with staged(tmp_path, attack.given) as stage:
        for step in attack.when:
            await stage.play(step)
        await judge(stage, attack.then)
        await sound(stage)


def test_every_attack_is_found_by_its_id() -> None:
    parsed = [f"{path.stem}/{one}" for path in sorted(FOLDER.glob("*.yaml")) for one in attacks_of(path.stem)]
    assert list(names()) == parsed
    assert len(set(parsed)) == len(parsed) > 500
