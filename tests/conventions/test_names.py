"""What words about the code name is there: classes, their members, ports and laws, in pages and in the code itself."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("bot", "channels", "lockgate", "policy")
FILES = sorted(path for top in (*OURS, "tests") for path in (ROOT / top).rglob("*.py"))
# A decision of `docs/adr` tells what was so when it was made.
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

MEMBER = re.compile(r"`([A-Z]\w*[a-z]\w*)\.(\w+)[`(]")
PORT = re.compile(r"Implements the ports? `(\w+)`(?: and `(\w+)`)?")
OUTSIDE = re.compile(r"\b(?:DESIGN|SPEC)\b|\b(?:STYLE|HOUSE)(?:\.md| \d)|\blaw \d")
"""Documents that are not in the repository, and laws by a number that no page has."""

DECISION = re.compile(r"\bADR (\d{4})\b|\bdocs/adr/(\d{4})")
DECISIONS = frozenset(path.name[:4] for path in (ROOT / "docs/adr").glob("*.md"))
FOREIGN = frozenset({"CancelledError", "TaskGroup", "Path", "Semaphore"})


@cache
def members() -> dict[str, set[str]]:
    """Return the classes of the code, each with what is defined or assigned in it; of one name, of all of them."""
    found = dict[str, set[str]]()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_within(node))
    return found


def _within(node: ast.ClassDef) -> Iterator[str]:
    for part in ast.walk(node):
        match part:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def _missing(text: str) -> list[str]:
    known = members()
    named = [
        f"{owner}.{member}"
        for owner, member in MEMBER.findall(text)
        if owner not in FOREIGN and member not in known.get(owner, set())
    ]
    ports = [port for found in PORT.findall(text) for port in found if port and port not in known]
    return [*named, *ports, *_cited(text)]


def _cited(text: str) -> list[str]:
    """Return what a text cites that does not ship: documents outside, and decisions that nobody wrote down."""
    decided = [match[0] for match in DECISION.finditer(text) if (match[1] or match[2]) not in DECISIONS]
    return [*OUTSIDE.findall(text), *decided]


@pytest.mark.parametrize("top", [*OURS, "tests"])
def test_what_the_code_says_of_itself_is_there(top: str) -> None:
    here = Path(__file__)
    found = {
        str(path.relative_to(ROOT)): missing
        for path in FILES
        if path.relative_to(ROOT).parts[0] == top and path != here and (missing := _missing(path.read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_of_the_code_is_there(page: Path) -> None:
    assert _missing(page.read_text("utf-8")) == []


def test_every_file_cites_only_what_ships() -> None:
    # also scripts, examples, attacks, decisions and the changelog
    others = [path for suffix in ("lua", "yaml", "yml", "md", "toml", "svg") for path in _tracked(suffix)]
    assert len(others) > 100
    cited = {str(path.relative_to(ROOT)): found for path in others if (found := _cited(path.read_text("utf-8")))}
    assert cited == {}


def _tracked(suffix: str) -> Iterator[Path]:
    """Yield the files of a kind, but for those of tools and of an environment."""
    for path in ROOT.rglob(f"*.{suffix}"):
        if not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(ROOT).parts[:-1]):
            yield path


@pytest.mark.parametrize("text", ["see DESIGN 3", "SPEC.md has it", "by STYLE 11", "HOUSE.md", "docs/adr/9999-none.md"])
def test_a_citation_of_what_does_not_ship_is_found(text: str) -> None:
    assert _cited(text)


@pytest.mark.parametrize("text", ["`Scene.reveal`", "Implements the port `KinStore`.", "see DESIGN 3", "as law 9 says"])
def test_a_name_that_is_gone_is_found(text: str) -> None:
    assert _missing(text)
