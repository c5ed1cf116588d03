"""The source as the conventions see it: modules with their syntax trees, and what a name in them stands for."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.conventions.data import PACKAGES


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach: the rule's name, where, and what is wrong in one sentence."""

    rule: str
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True)
class Module:
    """A source file: `name` as imported, `path` relative to the root."""

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree.

        Raises SyntaxError: the file is not Python.
        """
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the syntax tree, which each rule looks through. Raises SyntaxError: as of `tree`."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def imports(self) -> dict[str, str]:
        """What each imported name stands for, wherever in the file it is imported."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        return found

    @cached_property
    def defined(self) -> frozenset[str]:
        """The names this module binds at its top level by anything but an import."""
        return frozenset(_bound(self.tree.body))

    def full_name(self, node: ast.AST) -> str:
        """Return what a name or dotted name stands for, "" for any other expression."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, f"{self.name}.{node.id}" if node.id in self.defined else node.id)
        if isinstance(node, ast.Attribute):
            left = self.full_name(node.value)
            return f"{left}.{node.attr}" if left else ""
        return ""

    def within(self, packages: tuple[str, ...]) -> bool:
        """Say whether this is one of these modules or inside one of them."""
        return any(self.name == package or self.name.startswith(f"{package}.") for package in packages)

    def broken(self) -> Finding | None:
        """Return a finding if the file is not Python."""
        try:
            _ = self.tree
        except SyntaxError as error:
            return self.finding("python", error.lineno or 1, error.msg)
        return None

    def finding(self, rule: str, node: ast.AST | int, message: str) -> Finding:
        """Return a finding at a node or line of this module."""
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return Finding(rule, self.path, line, message)


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If(body=then, orelse=other):
                yield from _bound(then + other)
            case ast.Try(body=then, orelse=other):
                yield from _bound(then + other)
            case _:
                pass


@cache
def _module(name: str, path: str, text: str) -> Module:
    """Return the same module for the same text, so that copies of the source are parsed once."""
    return Module(name, path, text)


def read(root: Path) -> tuple[Module, ...]:
    """Return every module of the source packages under a root, in the order of their paths."""
    found: list[Module] = []
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root)
            parts = relative.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(_module(name, relative.as_posix(), path.read_text("utf-8")))
    return tuple(found)
