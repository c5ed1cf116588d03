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
OUTSIDE = re.compile(r"\b(?:DESIGN|SPEC)\b|\blaw \d")
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
    return [*named, *ports, *OUTSIDE.findall(text)]


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


@pytest.mark.parametrize("text", ["`Scene.reveal`", "Implements the port `KinStore`.", "see DESIGN 3", "as law 9 says"])
def test_a_name_that_is_gone_is_found(text: str) -> None:
    assert _missing(text)
