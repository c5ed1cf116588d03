"""House rules on shape, as functions from the source to findings: rooms, names of classes, inheritance, parameters."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.conventions.source import Finding, Module

HALL: Final = 12
"""Files directly in `bot/`: what belongs together has a room."""

ROOM: Final = 20
"""Files in any other folder."""

POSITIONAL: Final = 4
"""Parameters that a call may give without their names."""

ANCESTORS: Final = 2
"""Classes of ours that a class of ours may derive from, itself not counted."""


def rooms(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """A folder holds so few files that a reader can look them over."""
    folders = defaultdict[str, list[Module]](list)
    for module in modules:
        folders[module.path.rpartition("/")[0]].append(module)
    for folder, found in folders.items():
        most = HALL if folder == "bot" else ROOM
        for module in found[most:]:
            yield module.finding("rooms", 1, f"`{folder}` holds {len(found)} files, at most {most} are looked over")


def one_meaning(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """A public class name stands for one thing in all of the source.

    The client has names of its own: a value there is what the API's document of that name tells.
    """
    first: dict[str, str] = {}
    for module in (module for module in modules if not module.within(("lockgate",))):
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                other = first.setdefault(node.name, module.path)
                if other != module.path:
                    yield module.finding("one_meaning", node, f"`{node.name}` is a class of `{other}` already")


def shallow(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """A class of ours derives from at most two others of ours, directly or not."""
    bases: dict[str, frozenset[str]] = {}
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                parents = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
                bases[f"{module.name}.{node.name}"] = frozenset(map(module.full_name, parents))
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                above = _above(f"{module.name}.{node.name}", bases)
                if len(above) > ANCESTORS:
                    yield module.finding("shallow", node, f"`{node.name}` derives from {', '.join(sorted(above))}")


def named_arguments(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """A function takes at most four arguments without their names, and none that it does not name itself."""
    for module in modules:
        for node in module.nodes:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            taken = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            if len(taken) - (taken[:1] in (["self"], ["cls"])) > POSITIONAL:
                yield module.finding("named_arguments", node, f"`{node.name}` takes more than {POSITIONAL} by place")
            if node.args.kwarg is not None and _anything(node.args.kwarg.annotation):
                yield module.finding("named_arguments", node, f"`{node.name}` takes any argument there is")


def _above(name: str, bases: dict[str, frozenset[str]]) -> frozenset[str]:
    """Return the classes of ours that one derives from."""
    ours = frozenset(base for base in bases.get(name, ()) if base in bases)
    return ours.union(*(_above(base, bases) for base in ours))


def _anything(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id in ("Any", "object")
