"""Conditions as an operator writes them: a strict part of CEL, read, typed and written out again.

The library that evaluates CEL knows no types before it runs: a misspelt member loads, and `==` across types is silently
false. So a condition is read here first. Every name must be a known variable, the operands of every operator must have
types that fit it, and the whole must be a boolean. Anything outside this part of the language is refused by name.
`text` is the condition written out again from the parsed form, with brackets around every part, so that both readers
parse it alike. Levels become numbers.

    condition ? a : b      ||  &&  !      ==  !=  <  <=  >  >=  in      +  -  *  /  %
    "text"  'text'  12  1.5  true  false  [a, b]  PUBLIC INTERNAL CONFIDENTIAL RESTRICTED
    text.startsWith(t)  text.endsWith(t)  text.contains(t)  size(list)
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NoReturn

from policy.errors import ExpressionError, nearest
from policy.labels import Level

BOOL: Final = "boolean"
INT: Final = "whole number"
DOUBLE: Final = "number with a fraction"
STRING: Final = "text"
LEVEL: Final = "level"

_LIST: Final = "list of "
TEXTS: Final = f"{_LIST}{STRING}"
_NOTHING: Final = "empty list"

LONGEST: Final = 2000
"""Characters a condition may have."""

_DEEPEST: Final = 30
_LARGEST: Final = 2**63 - 1
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?)(?![\w.])
        |(?P<int>\d+)(?![\w.])
        |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
        |(?P<name>[A-Za-z_]\w*)
        |(?P<sign>\|\||&&|==|!=|<=|>=|[!<>+\-*/%?:.,()\[\]])
        |(?P<end>\Z))""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE: Final = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|(["'\\ntr])|(.))""", re.DOTALL)
_ESCAPED: Final = MappingProxyType({"n": "\n", "t": "\t", "r": "\r"})
_COMPARING: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_ORDERED: Final = frozenset({INT, DOUBLE, LEVEL, STRING})
_METHODS: Final = ("startsWith", "endsWith", "contains")
_FUNCTIONS: Final = (*_METHODS, "size")
_LEVELS: Final = MappingProxyType({level.name: level for level in Level})
_WORDS: Final = frozenset({"true", "false", "in", "null"})


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked condition: `text` for the library, and the `variables` it names, each with its type."""

    text: str
    variables: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Node:
    """A part that was read: its text, its type, how deep it nests, and whether it is a whole number written out."""

    text: str
    type: str
    depth: int = 0
    number: bool = False


_Part = Callable[[], _Node]


def check(text: str, variables: Mapping[str, str], elsewhere: Mapping[str, str] = MappingProxyType({})) -> Expression:
    """Return a condition ready for the library.

    `variables` are the known names with their types, `elsewhere` names that are none here, with the reason.

    Raises ExpressionError: it is not a condition over these variables.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"a condition of {len(text)} characters is longer than {LONGEST}, split the rule")
    reader = _Reader(text, variables, elsewhere)
    node = reader.whole()
    if node.type != BOOL:
        raise ExpressionError(f"a condition must be a boolean, this is a {node.type}")
    if not reader.used:
        raise ExpressionError("this condition names no variable, so it is always the same, leave `when` out")
    return Expression(node.text, tuple(sorted(reader.used.items())))


class _Reader:
    """Reads one condition from left to right; each method reads one kind of part and returns it typed."""

    def __init__(self, text: str, variables: Mapping[str, str], elsewhere: Mapping[str, str]) -> None:
        self._text = text
        self._variables = variables
        self._elsewhere = elsewhere
        self._depth = 0
        self.used: dict[str, str] = {}
        self._at = self._next = 0
        self._kind = self._word = ""
        self._advance()

    def whole(self) -> _Node:
        node = self._choice()
        if self._kind != "end":
            self._fail(f"`{self._word}` is not expected here")
        return node

    def _fail(self, problem: str, at: int | None = None) -> NoReturn:
        place = (self._at if at is None else at) + 1
        raise ExpressionError(f"at character {place} of the condition: {problem}")

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._next)
        if match is None:
            rest = self._text[self._next :].lstrip()
            self._at = len(self._text) - len(rest)
            self._fail(f"`{rest[:20]}` cannot be read")
        self._kind = str(match.lastgroup)
        self._word = match[self._kind]
        self._at, self._next = match.start(self._kind), match.end()

    def _take(self, *signs: str) -> str | None:
        """Go past one of these signs, if it is next, and return it."""
        if self._kind in {"sign", "name"} and self._word in signs:
            word = self._word
            self._advance()
            return word
        return None

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            self._fail(f"`{sign}` is missing" if self._kind == "end" else f"`{sign}` is expected, not `{self._word}`")

    def _made(self, text: str, kind: str, *parts: _Node) -> _Node:
        depth = 1 + max(part.depth for part in parts)
        if depth > _DEEPEST:
            self._fail(f"nested deeper than {_DEEPEST}, split the rule")
        return _Node(text, kind, depth)

    def _need(self, node: _Node, kind: str, operator: str) -> None:
        if node.type != kind:
            self._fail(f"`{operator}` takes a {kind}, not a {node.type}")

    def _alike(self, one: _Node, other: _Node, operator: str) -> tuple[_Node, _Node]:
        """Return both with the same type; a whole number written out may stand for one with a fraction."""
        if one.type == DOUBLE and other.number:
            other = _Node(f"{other.text}.0", DOUBLE)
        elif other.type == DOUBLE and one.number:
            one = _Node(f"{one.text}.0", DOUBLE)
        if one.type != other.type:
            self._fail(f"`{operator}` joins a {one.type} with a {other.type}, which never fit")
        return one, other

    def _choice(self) -> _Node:
        """Read the contents of brackets: any expression, with `? :` binding least."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"nested deeper than {_DEEPEST}, split the rule")
        node = self._any()
        if self._take("?"):
            self._need(node, BOOL, "?")
            yes = self._choice()
            self._expect(":")
            yes, no = self._alike(yes, self._choice(), ":")
            node = self._made(f"({node.text} ? {yes.text} : {no.text})", yes.type, node, yes, no)
        self._depth -= 1
        return node

    def _any(self) -> _Node:
        return self._chain("||", self._all)

    def _all(self) -> _Node:
        return self._chain("&&", self._comparison)

    def _chain(self, operator: str, part: _Part) -> _Node:
        """Read parts joined by one operator of booleans; they are kept side by side, however many."""
        parts = [part()]
        while self._take(operator):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        for node in parts:
            self._need(node, BOOL, operator)
        return self._made(f"({f' {operator} '.join(node.text for node in parts)})", BOOL, *parts)

    def _comparison(self) -> _Node:
        left = self._sum()
        operator = self._take(*_COMPARING)
        if operator is None:
            return left
        right = self._sum()
        if operator == "in":
            if right.type not in {f"{_LIST}{left.type}", _NOTHING}:
                self._fail(f"`in` looks for a {left.type} in a {right.type}, which never fits")
        else:
            left, right = self._alike(left, right, operator)
            if operator not in {"==", "!="} and left.type not in _ORDERED:
                self._fail(f"`{operator}` does not order a {left.type}")
        if self._word in _COMPARING and self._kind != "string":
            self._fail("comparisons cannot follow one another, join them with `&&`")
        return self._made(f"({left.text} {operator} {right.text})", BOOL, left, right)

    def _sum(self) -> _Node:
        return self._arithmetic(("+", "-"), self._product)

    def _product(self) -> _Node:
        return self._arithmetic(("*", "/", "%"), self._unary)

    def _arithmetic(self, operators: tuple[str, ...], part: _Part) -> _Node:
        node = part()
        while operator := self._take(*operators):
            left, right = self._alike(node, part(), operator)
            if left.type not in ({INT} if operator == "%" else {INT, DOUBLE}):
                self._fail(f"`{operator}` does not calculate with a {left.type}")
            node = self._made(f"({left.text} {operator} {right.text})", left.type, left, right)
        return node

    def _unary(self) -> _Node:
        if self._take("!"):
            node = self._unary_part()
            self._need(node, BOOL, "!")
            return self._made(f"(!{node.text})", BOOL, node)
        if self._take("-"):
            node = self._unary_part()
            if node.type not in {INT, DOUBLE}:
                self._fail(f"`-` does not calculate with a {node.type}")
            if node.number and not node.text.startswith("-"):
                return _Node(f"-{node.text}", INT, number=True)
            return self._made(f"(-{node.text})", node.type, node)
        return self._member()

    def _unary_part(self) -> _Node:
        """Read the operand of a sign; several signs nest like brackets."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"nested deeper than {_DEEPEST}, split the rule")
        node = self._unary()
        self._depth -= 1
        return node

    def _member(self) -> _Node:
        node = self._primary()
        while self._take("."):
            name, begin = self._word, self._at
            if self._kind != "name":
                self._fail("a name is expected after `.`")
            self._advance()
            if not self._take("("):
                self._fail(f"`.{name}` is a field, and variables have none", begin)
            if name not in _METHODS:
                self._unknown_function(name, begin)
            self._need(node, STRING, name)
            argument = self._choice()
            self._need(argument, STRING, name)
            self._expect(")")
            node = self._made(f"{node.text}.{name}({argument.text})", BOOL, node, argument)
        if self._kind == "sign" and self._word == "[":
            self._fail("nothing can be taken out of a list by its place, use `in`")
        return node

    def _primary(self) -> _Node:
        kind, word = self._kind, self._word
        if kind == "sign" and word == "(":
            self._advance()
            node = self._choice()
            self._expect(")")
            return node
        if kind == "sign" and word == "[":
            return self._list()
        if kind == "end":
            self._fail("the condition ends too early")
        if kind == "sign":
            self._fail(f"`{word}` is not expected here")
        if kind == "name":
            return self._named(word)
        node = self._literal(kind, word)
        self._advance()
        return node

    def _literal(self, kind: str, word: str) -> _Node:
        if kind == "string":
            return _Node(self._string(word[1:-1]), STRING)
        if kind == "double":
            if float(word) == float("inf"):
                self._fail(f"`{word[:20]}` is too large")
            return _Node(repr(float(word)), DOUBLE)
        if int(word) > _LARGEST:
            self._fail(f"`{word[:20]}` is too large")
        return _Node(str(int(word)), INT, number=True)

    def _string(self, inside: str) -> str:
        """Return a text in the one form that is passed on."""

        def meant(match: re.Match[str]) -> str:
            code, known, other = match.groups()
            if other is not None:
                self._fail(f"`\\{other}` is no escape, known are `\\n`, `\\t`, `\\r`, `\\u0000` and a sign itself")
            return _ESCAPED.get(known, known) if known else chr(int(code, 16))

        meaning = _ESCAPE.sub(meant, inside)
        if any("\ud800" <= char <= "\udfff" for char in meaning):
            self._fail("half a surrogate pair is no character")
        return f'"{"".join(map(_written, meaning))}"'

    def _named(self, word: str) -> _Node:
        begin = self._at
        self._advance()
        if self._kind == "sign" and self._word == "(":
            return self._call(word, begin)
        if word in {"true", "false"}:
            return _Node(word, BOOL)
        if word in _LEVELS:
            return _Node(str(int(_LEVELS[word])), LEVEL)
        if word in _WORDS:
            self._fail(f"`{word}` is not expected here", begin)
        if word not in self._variables:
            near = nearest(word, (*self._variables, *_LEVELS))
            self._fail(self._elsewhere.get(word, f"unknown variable `{word}`{near}"), begin)
        kind = self.used[word] = self._variables[word]
        return _Node(word, kind)

    def _call(self, name: str, begin: int) -> _Node:
        if name != "size":
            self._unknown_function(name, begin)
        self._advance()
        node = self._choice()
        self._expect(")")
        if not node.type.startswith(_LIST):
            self._fail(f"`size` counts the entries of a list, not a {node.type}")
        return self._made(f"size({node.text})", INT, node)

    def _unknown_function(self, name: str, begin: int) -> NoReturn:
        if name == "matches":
            self._fail("`matches` is not available, name a pattern under `patterns` and use `has_<its name>`", begin)
        self._fail(f"unknown function `{name}`{nearest(name, _FUNCTIONS)}", begin)

    def _list(self) -> _Node:
        self._advance()
        entries = list[_Node]()
        while not self._take("]"):
            entries.append(self._choice())
            if entries[-1].type not in {STRING, INT, DOUBLE, LEVEL, BOOL}:
                self._fail(f"a list holds no {entries[-1].type}")
            if entries[-1].type != entries[0].type:
                self._fail(f"a list of a {entries[0].type} cannot hold a {entries[-1].type}")
            if self._kind == "sign" and self._word != "]":
                self._expect(",")
            elif not (self._kind == "sign" and self._word == "]"):
                self._fail("`]` is missing" if self._kind == "end" else f"`,` is expected, not `{self._word}`")
        if not entries:
            return _Node("[]", _NOTHING)
        return self._made(f"[{', '.join(node.text for node in entries)}]", f"{_LIST}{entries[0].type}", *entries)


def _written(char: str) -> str:
    """Return a character as the library reads it back within double quotes."""
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() or char > "\uffff" else f"\\u{ord(char):04x}"
