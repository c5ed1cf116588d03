"""The table of what each process knows: each place of the source that keeps something is in it, or says why not."""

import re
from pathlib import Path
from typing import Final

from tests.conventions.documents import ROOT
from tests.conventions.sharing import SECTION, holders, listed, table

OPERATING: Final = (ROOT / "docs/operating.md").read_text("utf-8")
KEPT_ELSEWHERE: Final = frozenset(
    {
        *("sessions, inboxes, outboxes, approvals, runs, schedules, knowledge, workflows", "run records"),
        *("the policy, people's changes, tokens", "other settings, plugins, variables", "keys"),
        *("heads when audit keys were retired", "files and workspaces", "the embedded store", "the open console"),
        *("reasons why a process is not ready", "rates and waits of platforms", "spent buttons", "stops of turns"),
        "how much of a long answer was shown when a platform asked to wait",
        "who was told: of failures, new chats, loops of bots, floods, refusals, kinds that are not read",
    }
)
"""Rows of things that no module keeps in a container: they are in the store, in files, or single values."""


def test_each_module_that_keeps_something_is_listed() -> None:
    found = holders()
    told = "name its row of the table in docs/operating.md, or why no other process needs to know, in sharing.toml"
    assert not {name: kept for name, kept in found.items() if name not in listed()}, told
    assert not listed().keys() - found.keys(), "these keep nothing any more"


def test_each_row_is_there_and_of_something() -> None:
    rows = table(OPERATING)
    named = {row for one in listed().values() for row in one.rows}
    assert named | KEPT_ELSEWHERE == rows.keys()
    assert not named & KEPT_ELSEWHERE
    assert all(rest.count("|") == 1 and all(cell.strip() for cell in rest.split("|")) for rest in rows.values())


def test_each_place_of_the_data_directory_is_in_the_table() -> None:
    places = OPERATING.partition("## The data directory\n")[2].partition("\n## ")[0]
    folders = {place.partition("/")[0] for place in re.findall(r"^\| `([\w/.*-]+)`", places, re.MULTILINE)}
    section = OPERATING.partition(f"{SECTION}\n")[2].partition("\n## ")[0]
    assert folders == {
        "anchors",
        "console",
        "files",
        "keys",
        "ready",
        "retired-keys",
        "session-files",
        "store",
        "workspace",
    }
    assert {folder for folder in folders if f"`{folder}" not in section} == set()


def test_a_new_cache_is_found(tmp_path: Path) -> None:
    """A container in `__init__`, under any of its spellings, and a cached function are found; a local one is not."""
    source = tmp_path / "bot/fresh.py"
    source.parent.mkdir()
    source.write_text(
        "from collections import OrderedDict\n"
        "from functools import lru_cache\n"
        "class Names:\n"
        "    def __init__(self) -> None:\n"
        "        self._one = OrderedDict[str, str]()\n"
        "        self._two: dict[str, str] = {}\n"
        "        self._three, self._four = 1, [2]\n"
        "        local = {}\n"
        "        self._five = local\n"
        "@lru_cache(5)\n"
        "def six() -> int: ...\n"
    )
    ((name, kept),) = holders(tmp_path).items()
    assert (name, sorted(kept)) == ("bot.fresh", ["_four", "_one", "_two", "six()"])
