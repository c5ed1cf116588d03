"""The thresholds of coverage are those of the house style, and what falls short of one is told."""

import pytest

from tests.conventions.thresholds import THRESHOLDS, File, shortfalls


def covered(lines: int, branches: int) -> File:
    return {
        "summary": {"num_statements": 10, "covered_lines": lines, "num_branches": 10, "covered_branches": branches},
        "missing_lines": [],
        "missing_branches": [],
    }


@pytest.mark.parametrize(
    "path",
    [
        "policy/engine.py",
        "bot/gate/gate.py",
        "bot/gate/output.py",
        "bot/access/labelling.py",
        "bot/access/authorize.py",
    ],
)
def test_one_missing_branch_in_the_core_is_told(path: str) -> None:
    assert shortfalls({path: covered(10, 10)}) == []
    assert shortfalls({path: covered(10, 9)}) != []


def test_nine_tenths_are_enough_elsewhere() -> None:
    assert shortfalls({"bot/app/app.py": covered(9, 9)}) == []
    assert shortfalls({"bot/app/app.py": covered(9, 8)}) != []


def test_the_thresholds_are_those_of_the_house_style() -> None:
    assert {(threshold.pattern, threshold.percent) for threshold in THRESHOLDS} == {
        ("policy/*", 100),
        ("bot/gate*", 100),
        ("bot/access/labelling.py", 100),
        ("bot/access/authorize.py", 100),
        ("channels/rich_text.py", 100),
        ("channels/*/render.py", 100),
        ("*", 90),
    }
