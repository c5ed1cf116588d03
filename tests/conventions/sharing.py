"""The mutable state that a process keeps in memory between two inputs, found in the source of `bot` and `channels`.

A class that fills a container in `__init__` may know something that another process does not; so may a cached function.
Each module with one has a line in `sharing.toml`. It names either the row of "State of a process" in
docs/operating.md, or the reason why no other process needs to know it. Values that are no containers, such as a flag,
are left to review.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.conventions.documents import ROOT
from tests.conventions.source import Module, read

SECTION: Final = "## State of a process"
_CONTAINERS: Final = frozenset(
    {
        *("dict", "list", "set", "bytearray", "Counter", "OrderedDict", "defaultdict", "deque"),
        *("WeakKeyDictionary", "WeakSet", "WeakValueDictionary"),
    }
)
_LITERALS: Final = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_CACHES: Final = frozenset({"functools.cache", "functools.lru_cache"})
_LISTED: Final = Path(__file__).with_name("sharing.toml")


@dataclass(frozen=True, slots=True)
class Listed:
    """What the list says of a module: the rows of the table, or why there is none."""

    rows: tuple[str, ...]
    why: str


def holders(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the modules that keep something, each with the names of what it keeps."""
    found = {module.name: list(_kept(module)) for module in read(root) if module.within(("bot", "channels"))}
    return {name: kept for name, kept in sorted(found.items()) if kept}


def _kept(module: Module) -> Iterator[str]:
    for node in module.nodes:
        match node:
            case ast.FunctionDef(name="__init__", body=body):
                for inner in body:
                    yield from _filled(inner)
            case ast.FunctionDef(name=name, decorator_list=decorators):
                if any(_is_cache(module, one) for one in decorators):
                    yield f"{name}()"
            case _:
                pass


def _is_cache(module: Module, decorator: ast.expr) -> bool:
    return module.full_name(decorator.func if isinstance(decorator, ast.Call) else decorator) in _CACHES


def _filled(node: ast.stmt) -> Iterator[str]:
    """Yield the attributes of `self` that a statement of `__init__` gives a container."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            pairs = list(zip(targets, values, strict=True))
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            pairs = [(target, value)]
        case _:
            return
    for target, value in pairs:
        if isinstance(target, ast.Attribute) and _is_container(value):
            yield target.attr


def _is_container(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Subscript(value=func)) | ast.Call(func=func):
            return ast.unparse(func).rpartition(".")[2] in _CONTAINERS
        case ast.Tuple(elts=values):
            return any(map(_is_container, values))
        case _:
            return isinstance(value, _LITERALS)


@cache
def listed() -> dict[str, Listed]:
    """Return what the list says of each module."""
    told = tomllib.loads(_LISTED.read_text("utf-8"))
    shared = {
        name: Listed(tuple([rows] if isinstance(rows, str) else rows), "") for name, rows in told["shown"].items()
    }
    return shared | {name: Listed((), why) for name, why in told["own"].items()}


def table(text: str) -> dict[str, str]:
    """Return the rows of the table in the docs: the first cell, and the rest of its line."""
    section = text.partition(f"{SECTION}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?P<what>[^|]+?) \|(?P<rest>.*)\|$", section, re.MULTILINE)
    return {what: rest for what, rest in rows if what not in {"state", "---"}}
