"""Changes of the text of a configuration that leave every other byte of it alone, comments included.

The text is parsed for the places of its values, and the new ones are put in there. The result is parsed again: it must
hold exactly the values of before and the change. A text for which that fails is not changed, so nothing of an operator
is lost to an unusual way of writing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Protocol, cast

from pydantic import JsonValue
from ruamel.yaml import YAML

from bot.config.file.yaml import BrokenYamlError, parse_yaml
from bot.core.errors import ConfigError

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.+/-]*")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.+/-]*(?::[A-Za-z0-9_.+/-]+)*")
_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that YAML, or a reader of it, takes for something else than a text."""

_BLOCKS: Final = frozenset({"|", ">"})
"""Ways of writing a text over several lines."""

_INDENT: Final = 2


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A value to write at a path. With `adds`, it is an item that joins the list there."""

    path: tuple[str, ...]
    value: JsonValue
    adds: bool = False


class _Place(Protocol):
    index: int
    line: int
    column: int


class _Node(Protocol):
    """The part of the library's nodes in use, which it does not annotate."""

    id: str
    value: Any
    flow_style: bool | None
    style: str | None
    start_mark: _Place
    end_mark: _Place


def edited(text: str, changes: Sequence[SettingChange]) -> str:
    """Return the text with the changes in it.

    Raises ConfigError: one of them cannot be made without touching other lines.
    """
    return reduce(_edited, changes, text)


def changed(value: JsonValue, change: SettingChange) -> JsonValue:
    """Return a document with a change in it, as plain values."""
    name, *rest = change.path
    fields = dict(value) if isinstance(value, dict) else dict[str, JsonValue]()
    if rest:
        fields[name] = changed(fields.get(name), SettingChange(tuple(rest), change.value, change.adds))
    elif change.adds:
        there = fields.get(name)
        items = list(there) if isinstance(there, list) else list[JsonValue]()
        fields[name] = items if change.value in items else [*items, change.value]
    else:
        fields[name] = change.value
    return fields


def _edited(text: str, change: SettingChange) -> str:
    before = parse_yaml(text).value
    wanted = changed(before, change)
    if wanted == before and before is not None:
        return text
    made = _Edit(text).make(change)
    try:
        after = parse_yaml(made)
    except BrokenYamlError:
        after = None
    if after is None or after.problems or after.value != wanted:
        raise ConfigError(
            f"`{'.'.join(change.path)}` cannot be changed without touching other lines",
            next_step=f"write it by hand: {'.'.join(change.path)}: {written(change.value)}",
        )
    return made


class _Edit:
    """One change of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = "\r\n" if "\r\n" in text else "\n"
        self._root = cast("_Node | None", YAML(typ="safe", pure=True).compose(text))  # pyright: ignore[reportUnknownMemberType] - untyped

    def make(self, change: SettingChange) -> str:
        if self._root is None or self._root.id != "mapping":
            return self._appended(_block(change.path, _first(change), 0))
        node, key, block = self._root, None, True
        for place, name in enumerate(change.path):
            entry = _entry(node, name)
            if entry is None:
                return self._entered(node, key, change.path[place:], _first(change), block=block)
            block = not node.flow_style
            key, node = entry
            empty = node.id == "scalar" and place < len(change.path) - 1
            if empty or (node.id == "mapping" and not node.value):
                # A block whose lines are all comments, or which is said to be empty.
                return self._filled(node, key, change.path[place + 1 :], _first(change), block=block)
        if not change.adds:
            return self._replaced(node, cast("_Node", key), written(change.value))
        return self._joined(node, cast("_Node", key), written(change.value))

    def _appended(self, lines: Sequence[str]) -> str:
        text = self._text if not self._text or self._text.endswith("\n") else f"{self._text}{self._end}"
        return text + "".join(f"{line}{self._end}" for line in lines)

    def _entered(self, node: _Node, key: _Node | None, path: Sequence[str], value: JsonValue, *, block: bool) -> str:
        """Put a new entry into a mapping that has some; `key` is its name, None for the whole document."""
        if node.id != "mapping":
            return self._text
        if node.flow_style:
            last = cast("_Node", node.value[-1][1])
            return self._spliced(last.end_mark.index, last.end_mark.index, f", {_flow_entry(path, value)}")
        if key is None:
            return self._appended(_block(path, value, 0))
        first = cast("_Node", node.value[0][0])
        return self._below(key.end_mark.line, _block(path, value, first.start_mark.column)) if block else self._text

    def _filled(self, node: _Node, key: _Node, path: Sequence[str], value: JsonValue, *, block: bool) -> str:
        """Put a first entry, or a value, in the place of an empty one."""
        if not block or not path:
            text = f"{{{_flow_entry(path, value)}}}" if path else written(value)
            return self._replaced(node, key, text)
        emptied = self._replaced(node, key, "")
        indent = key.start_mark.column + _INDENT
        return _Edit(emptied)._below(key.end_mark.line, _block(path, value, indent))  # noqa: SLF001 - itself

    def _joined(self, node: _Node, key: _Node, item: str) -> str:
        """Put an item into a list."""
        if node.id != "sequence" or not node.value:
            return self._replaced(node, key, f"[{item}]")
        last = cast("_Node", node.value[-1])
        if not node.flow_style:
            return self._below(last.end_mark.line, [f"{' ' * node.start_mark.column}- {item}"])
        return self._spliced(last.end_mark.index, last.end_mark.index, f", {item}")

    def _replaced(self, node: _Node, key: _Node, text: str) -> str:
        """Put a text in the place of a value that is written on its line; an empty one takes the value away."""
        folded = node.style in _BLOCKS if node.id == "scalar" else not node.flow_style
        if folded:
            # Its end is not known well enough: comments on the next value may be taken for a part of it.
            return self._text
        start, end = node.start_mark.index, node.end_mark.index
        if start == end:
            # Nothing stands behind the colon.
            start = end = self._text.index(":", key.end_mark.index) + 1
        else:
            start = len(self._text[:start].rstrip(" "))
        return self._spliced(start, end, f" {text}" if text else "")

    def _below(self, row: int, lines: Sequence[str]) -> str:
        """Put lines below a row: below the name of a mapping, they come before the comments on its first entry."""
        rows = self._text.splitlines(keepends=True)
        head = "".join(rows[: row + 1])
        head = head if head.endswith("\n") else f"{head}{self._end}"
        return head + "".join(f"{line}{self._end}" for line in lines) + "".join(rows[row + 1 :])

    def _spliced(self, start: int, end: int, text: str) -> str:
        return f"{self._text[:start]}{text}{self._text[end:]}"


def _entry(node: _Node, name: str) -> tuple[_Node, _Node] | None:
    """Return the key and the value of a name in a mapping, None if there is none."""
    if node.id != "mapping":
        return None
    entries = cast("list[tuple[_Node, _Node]]", node.value)
    return next(((key, value) for key, value in entries if str(key.value) == name), None)


def _first(change: SettingChange) -> JsonValue:
    """Return the value that is written where nothing is yet."""
    return [change.value] if change.adds else change.value


def _block(path: Sequence[str], value: JsonValue, indent: int) -> list[str]:
    """Return the lines of a value below its path; a mapping of mappings has a line for each entry."""
    name, *rest = path
    lead = f"{' ' * indent}{_key(name)}:"
    if rest:
        return [lead, *_block(rest, value, indent + _INDENT)]
    if isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
        return [lead, *(line for key, inner in value.items() for line in _block([key], inner, indent + _INDENT))]
    return [f"{lead} {written(value)}"]


def _flow_entry(path: Sequence[str], value: JsonValue) -> str:
    name, *rest = path
    inner = f"{{{_flow_entry(rest, value)}}}" if rest else written(value)
    return f"{_key(name)}: {inner}"


def written(value: JsonValue) -> str:
    """Return a value as YAML on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
            return value if plain else _quoted(value)
        case dict():
            return f"{{{', '.join(_flow_entry([key], inner) for key, inner in value.items())}}}"
        case list():
            return f"[{', '.join(written(inner) for inner in value)}]"
        case _:
            return str(value)


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) and name.lower() not in _WORDS else _quoted(name)


_ESCAPES: Final[Mapping[str, str]] = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _quoted(text: str) -> str:
    return f'"{"".join(_ESCAPES.get(char, char) for char in text)}"'
