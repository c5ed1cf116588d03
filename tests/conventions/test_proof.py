"""docs/proof.md: it has each law and each limit, and all commands, paths and tests on it exist."""

import re
import shlex
import tomllib
from collections.abc import Iterator

import pytest

from tests.conventions.documents import ROOT, prose, text_of
from tests.conventions.test_docs import is_test, typed_commands

PAGE = "docs/proof.md"
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:bot|policy|channels|docs|tests)/[\w./-]+")
_PROGRAMS = ("poe", "lockgate")


def _rows(page: str, title: str) -> list[list[str]]:
    """Return the cells of all rows below a heading, without those of the tables' heads."""
    part = re.split(r"^## ", prose(page), flags=re.MULTILINE)
    (found,) = [one for one in part if one.startswith(f"{title}\n")]
    rows = [line.strip("|").split(" | ") for line in found.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows if row[-1].strip() not in {"shown by", "command"}]


SHOWN = [row for title in ("Guarantees", "Measurements", "Limits") for row in _rows(PAGE, title)]


def _codes(text: str) -> Iterator[list[str]]:
    """Yield the words of each command and each test that a text names."""
    for code in _CODE.findall(text):
        words = [code] if code.startswith("!") else shlex.split(code)
        if words[0] in _PROGRAMS or _PATH.match(words[0]):
            yield words


def test_each_law_has_one_sentence_and_a_test() -> None:
    laws = re.findall(r"^\| `(\w+)` \|", text_of("docs/laws.md"), re.MULTILINE)
    told = [row for row in _rows(PAGE, "Guarantees") if len(row) == 3]
    assert [row[0].strip("`") for row in told] == laws
    assert [row[0] for row in told if not (row[1].endswith(".") and "::" in row[2])] == []


def test_each_limit_of_the_protection_is_told_and_shown() -> None:
    limits = text_of("docs/architecture.md").partition("## Limits of the protection\n")[2].partition("\n## ")[0]
    named = [name.rstrip(".") for name in re.findall(r"^- \*\*(.+?)\*\*", limits, re.MULTILINE)]
    told = [row[0] for row in _rows(PAGE, "Limits")]
    assert [name for name in named if name not in told] == []


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: row[0].strip("`")[:40])
def test_what_shows_it_exists(row: list[str]) -> None:
    shown = row[-1]
    assert shown
    for words in _codes(shown):
        _exists(words)


def _exists(words: list[str]) -> None:
    """Say what is missing of a command or a test."""
    for path, _, name in (word.partition("::") for word in words if _PATH.match(word)):
        assert (ROOT / path).exists(), path
        assert not name or is_test(path, name), f"{path}::{name}"
    if words[0] == "lockgate":
        commands = set(typed_commands())
        assert words[1] in commands or " ".join(words[1:3]) in commands, words
    if words[0] == "poe":
        tasks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["poe"]["tasks"]
        assert words[1] in tasks, words
        options = [word for word in words if word.startswith("--")]
        assert [option for option in options if option not in _options(words[1], tasks[words[1]])] == [], words


def _options(name: str, task: dict[str, object]) -> str:
    """Return the text in which the options of a task stand: its entry, and the module that it runs."""
    module = ROOT / "tests" / name.partition("-")[0]
    source = "".join(path.read_text("utf-8") for path in module.glob("*.py")) if module.is_dir() else ""
    return f"{task}{source}"


def test_a_command_that_is_not_there_is_noticed() -> None:
    """A page that is never wrong shows that nothing looks."""
    for wrong in (
        ["poe", "adversaries"],
        ["poe", "adversary", "--years"],
        ["lockgate", "audit", "believe"],
        ["tests/policy/test_laws.py::test_there_is_none"],
        ["tests/policy/test_none.py"],
    ):
        with pytest.raises(AssertionError):
            _exists(wrong)
