"""Functions of a script that move into the one function that needs them.

A server runs a script's whole text at each call, so it makes every function anew, which takes longer than most of them
run. A function within another one is made when that one is called. This module reads and writes Lua text, and runs
none.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

_WORD: Final = re.compile(r"\w+")

_FUNCTION: Final = re.compile(
    r"^(?P<head>local function (?P<name>\w+)\((?P<given>[^)]*)\))(?P<body>.* end\n|(?:\n.*)*?\nend\n)", re.MULTILINE
)
"""A function at the beginning of a line: it ends on that line, or with the next `end` at the beginning of one."""

_DEFINED: Final = re.compile(r"^local (?:function )?(\w+(?:, \w+)*)", re.MULTILINE)

_ONE_CALL: Final = 2
"""How often a function is mentioned that is called from a single place: there, and where it is defined."""


@dataclass(frozen=True, slots=True)
class _Function:
    """A function: its text up to its arguments, and behind them.

    Attributes:
        words: All words behind its arguments.
        given: The names of its arguments.
        uses: The names defined before it, outside of all functions, that are among its words.
    """

    name: str
    head: str
    body: str
    words: frozenset[str]
    given: frozenset[str]
    uses: frozenset[str]


def words_of(text: str) -> frozenset[str]:
    """Return the words of a Lua text."""
    return frozenset(_WORD.findall(text))


def nest(text: str) -> str:
    """Return a script in which a function stands inside its only caller, or inside the one that holds all its callers.

    It moves into a function with a single call: else it would be made more than once. It stays outside of one with an
    argument that bears the name of something it uses.
    """
    functions = {function.name: function for function in _functions(text)}
    inside = _places(tuple(functions.values()), text)

    def written(function: _Function) -> str:
        within = "".join(written(other) for other in functions.values() if inside[other.name] == function.name)
        return f"{function.head}\n{within}{function.body.lstrip()}"

    return _FUNCTION.sub(lambda found: "" if inside[found["name"]] else written(functions[found["name"]]), text)


def _functions(text: str) -> Sequence[_Function]:
    """Return the functions of a script, in their order."""
    found, known, seen = list[_Function](), set[str](), 0
    for one in _FUNCTION.finditer(text):
        for names in _DEFINED.findall(text, seen, one.start()):
            known |= words_of(names)
        seen, words = one.start(), words_of(one["body"])
        uses = words & known
        found.append(_Function(one["name"], one["head"], one["body"], words, words_of(one["given"]), uses))
    return found


def _places(functions: Sequence[_Function], text: str) -> Mapping[str, str]:
    """Return the name of the function that each one moves into, none for one that stays."""
    outside, mentions = words_of(_FUNCTION.sub("", text)), Counter(_WORD.findall(text))
    # Each function by its name, with those around it before it.
    paths, inside = dict[str, list[_Function]](), dict[str, str]()
    # A caller stands behind the functions it calls, so its own place is known first.
    for function in reversed(functions):
        callers = [path for path in paths.values() if function.name in path[-1].words]
        path = _common([[], *callers] if function.name in outside else callers, function.uses)
        while path and mentions[path[-1].name] != _ONE_CALL:
            path.pop()
        inside[function.name] = path[-1].name if path else ""
        paths[function.name] = [*path, function]
    return inside


def _common(paths: Sequence[Sequence[_Function]], uses: frozenset[str]) -> list[_Function]:
    """Return the functions that all paths begin with, up to one with an argument of these names."""
    steps = takewhile(lambda step: len(set(step)) == 1, zip(*paths, strict=False))
    return list(takewhile(lambda one: not one.given & uses, (step[0] for step in steps)))
