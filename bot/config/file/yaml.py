"""YAML as a configuration needs it: plain values, and the line each of them stands on.

The text is parsed to nodes and built here rather than by the library. So a duplicate key, an alias or a tag is a
problem with a line like any other, and no file can build more than was written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from policy.errors import Problem

if TYPE_CHECKING:
    from pydantic import JsonValue

Path: TypeAlias = tuple[str | int, ...]

_CORE: Final = "tag:yaml.org,2002:"
_PLAIN: Final = frozenset(_CORE + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq"))


class _Mark(Protocol):
    line: int


class _Node(Protocol):
    """The part of the library's nodes in use, which it does not annotate.

    `id` is scalar, sequence or mapping; `value` a text, nodes, or pairs of nodes.
    """

    id: str
    tag: str
    value: Any
    start_mark: _Mark


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document: its value, the line of each path in it, and the faults of its syntax."""

    value: "JsonValue"
    lines: Mapping[Path, int]
    problems: tuple[Problem, ...]

    def line(self, path: Path) -> int:
        """Return the line of a path, or of the nearest thing around it that was written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class BrokenYamlError(Exception):
    """The text is not YAML; `line` is where reading stopped, 0 if unknown."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@lru_cache(maxsize=1)
def parse_yaml(text: str) -> Parsed:
    """Read one document; an empty text has the value None.

    A start reads it twice, and remembers it in between: it takes a tenth of the time to the first prompt.

    Raises BrokenYamlError: the text cannot be read as YAML at all.
    """
    try:
        composed: object = YAML(typ="safe", pure=True).compose(text)  # pyright: ignore[reportUnknownMemberType] - untyped
    except MarkedYAMLError as error:
        mark = cast("_Mark | None", error.problem_mark or error.context_mark)
        said = cast("str", error.problem or error.context or "")
        raise BrokenYamlError(_sentence(said), mark.line + 1 if mark else 0) from None
    except RecursionError:
        raise BrokenYamlError("nested too deeply", 0) from None
    except (YAMLError, ValueError):
        raise BrokenYamlError("holds a character or sequence that YAML does not allow", 0) from None
    if composed is None:
        return Parsed(None, {(): 1}, ())
    builder = _Builder()
    # Composing takes more stack for each level than building does, so a composed document can be built.
    value = builder.build(cast("_Node", composed), ())
    return Parsed(value, builder.lines, tuple(builder.problems))


def _sentence(problem: str) -> str:
    words = " ".join(problem.replace("'", "`").split()) or "this cannot be read"
    return f"not valid YAML, {words[0].lower()}{words[1:]}"


class _Builder:
    """Builds plain values from nodes and notes lines and problems on the way."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._built: set[int] = set()

    def build(self, node: _Node, path: Path) -> "JsonValue":
        self.lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in self._built:
            return self._problem(path, "aliases (`*name`) are not supported, write the value out")
        self._built.add(id(node))
        if node.tag not in _PLAIN:
            return self._problem(path, f"the tag `{node.tag.removeprefix(_CORE)}` is not supported, remove it")
        if node.id == "mapping":
            return dict(self._entries(node, path))
        if node.id == "sequence":
            return [self.build(inner, (*path, place)) for place, inner in enumerate(cast("list[_Node]", node.value))]
        return self._scalar(node, path)

    def _entries(self, node: _Node, path: Path) -> "Iterator[tuple[str, JsonValue]]":
        seen: dict[str, int] = {}
        for key, inner in cast("list[tuple[_Node, _Node]]", node.value):
            line = key.start_mark.line + 1
            if key.id != "scalar" or key.tag == f"{_CORE}merge":
                self._problem((*path, "<<"), "a field's name must be a plain text", line)
                continue
            name = str(key.value)
            if name in seen:
                self._problem((*path, f"{name} "), f"`{name}` is given twice, first on line {seen[name]}", line)
                continue
            seen[name] = line
            self.lines[*path, name] = line
            yield name, self.build(inner, (*path, name))

    def _scalar(self, node: _Node, path: Path) -> "JsonValue":
        text = str(node.value)
        try:
            match node.tag.removeprefix(_CORE):
                case "null":
                    return None
                case "bool":
                    return text.lower() == "true"
                case "int":
                    return _integer(text)
                case "float":
                    return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
                case _:
                    return text
        except ValueError:
            return self._problem(path, f"`{text[:40]}` is not a number")

    def _problem(self, path: Path, message: str, line: int | None = None) -> None:
        if line is not None:
            self.lines[path] = line
        self.problems.append(Problem(path, message))


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    return int(digits) if digits.lstrip("+-").isdecimal() else int(digits, 0)
