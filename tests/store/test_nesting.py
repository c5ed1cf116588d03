"""Functions of scripts inside the one that needs them: where each comes to stand, and that scripts say the same."""

import re
from typing import Final

import pytest

from bot.store.redis_store import RedisStore
from bot.store.scripts.loader import Script, load_scripts
from bot.store.scripts.nesting import nest
from tests.store.world import command

pytestmark = pytest.mark.anyio

ONE: Final = "local function one(n)\n  return n + 1\nend\n"
TWO: Final = "local function two(n) return one(n) * 2 end\n"
THREE: Final = "local function three(n) return one(n) * 3 end\n"
FOUR: Final = "local function four(n)\n  return two(n) + two(n) + one(n)\nend\n"
HIDING: Final = "local function four(one)\n  return two(one)\nend\n"
LEAST: Final = "local most, least = 5, 2\nlocal function one(n)\n  return n + least\nend\n"
LOW: Final = "local function two(least) return one(least) * 2 end\n"
KNOWN: Final = "local known = 2\nlocal function one(n)\n  known = known + n\n  return known\nend\n"


def holders(text: str) -> dict[str, str]:
    """Return the function that each one stands in, by name."""
    found, around = dict[str, str](), [""]
    for line in text.splitlines():
        if begun := re.match(r"local function (\w+)", line):
            found[begun[1]] = around[-1]
            around.append(begun[1])
        if len(around) > 1 and (line == "end" or re.match(r"\S.* end$", line)):
            around.pop()
    assert around == [""]
    return found


CASES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "in its only caller": (ONE + TWO + "return two(3)\n", {"one": "two"}),
    "out of one that two places call": (ONE + TWO + "return two(3) + two(4)\n", {}),
    "out of all if the rest calls it": (ONE + TWO + "return two(3) + one(4)\n", {}),
    "out of one of two callers": (ONE + TWO + THREE + "return two(3) + three(4)\n", {}),
    "in the one that holds both callers": (ONE + TWO + FOUR + "return four(4)\n", {"one": "four", "two": "four"}),
    "out of one with an argument of its name": (ONE + TWO + HIDING + "return four(4)\n", {}),
    "out of one with an argument of a value": (LEAST + LOW + "return two(4)\n", {}),
    "behind the values it changes": (KNOWN + TWO + "return two(4) + known\n", {"one": "two"}),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_function_stands_where_it_is_needed(store: RedisStore, case: str) -> None:
    text, expected = CASES[case]
    assert {name: holder for name, holder in holders(nest(text)).items() if holder} == expected
    assert await command(store, "EVAL", nest(text), 0) == await command(store, "EVAL", text, 0)


@pytest.mark.parametrize("script", Script)
def test_a_script_defines_each_function_once(script: Script) -> None:
    defined = re.findall(r"local function (\w+)", load_scripts()[script].text)
    assert len(defined) == len(set(defined))


def test_a_write_makes_no_function_that_only_a_run_needs() -> None:
    inside = holders(load_scripts()[Script.COMMIT].text)
    assert inside["read_notes"] == inside["move_run"] == "write_run"
