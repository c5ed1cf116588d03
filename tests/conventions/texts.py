"""Texts for the lint of words: sentences of literals, docstrings, comments and pages, each with its place and area.

An area is the unit that has a budget: `shown/ROOM`, `docstrings/ROOM` and `comments/ROOM` for source, the path for a
page. Code in texts (fences, inline code, placeholders of f-strings) stands for one word and is not looked into.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, cast

from tests.conventions.data import PACKAGES
from tests.conventions.source import Module, read

LEAST_WORDS: Final = 3
"""A literal of fewer words is a name, not a message."""

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'-]*")
_MARK: Final = re.compile(r"^\s*(?:[-*+│├└>]|\d+\.)+\s")
_ITEM: Final = re.compile(r"\s*[\w`*.]+: ")
_CODE: Final = re.compile(r"`[^`\n]*`|\{\w*\}")
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?: [^)]*)?\)")
_END: Final = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[^a-z\s])|\n{2,}")
_FENCE: Final = re.compile(r"^\s*(?:```|~~~)")
_TOOL_NOTE: Final = re.compile(r"#\s*(?:noqa|pyright:|type:|pragma|codespell:|nosec)")
_SYNTAX: Final = re.compile(r"/[a-z]+ [\[A-Z]|\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA)\s")
"""How the usage of a command and a statement for a database begin, which are no sentences."""
_PATTERNS: Final = frozenset({"compile", "search", "match", "fullmatch", "finditer", "findall", "sub", "split"})


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, with the line that its text begins at."""

    area: str
    path: str
    line: int
    text: str

    @property
    def shown(self) -> bool:
        """Whether people or models are shown it."""
        return self.area.startswith("shown/")


def sentences(root: Path) -> Iterator[Sentence]:
    """Yield every sentence of the source packages, the pages and the comments of other files under a root."""
    for module in read(root):
        yield from of_module(module)
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*")):
        if path.suffix in {".lua", ".yaml"}:
            name = path.relative_to(root).as_posix()
            yield from of_other(f"comments/{room(name)}", name, path.read_text("utf-8"))
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *root.glob("*.yaml"), *(root / "docs").rglob("*.yaml")]
    for path in sorted(pages):
        name = path.relative_to(root).as_posix()
        yield from of_other(name, name, path.read_text("utf-8"))


def of_other(area: str, path: str, text: str) -> Iterator[Sentence]:
    """Yield the sentences of a page in Markdown, or of the comments of a file in Lua or YAML."""
    blocks = _markdown(text) if path.endswith(".md") else _marked(text, "--" if path.endswith(".lua") else "#")
    for line, block in blocks:
        yield from _split(area, path, line, block)


@cache
def of_module(module: Module) -> tuple[Sentence, ...]:
    """Return the sentences of the docstrings, comments and literals of a module."""
    where = room(module.path)
    found = list[Sentence]()
    documented, quiet, spans = _roles(module)
    for node in module.nodes:
        if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in quiet:
            continue
        text = _text(node)
        if id(node) in documented:
            area = f"{documented[id(node)]}/{where}"
        elif " " in text and len(_WORD.findall(text)) >= LEAST_WORDS and not _SYNTAX.match(text):
            area = f"shown/{where}"
        else:
            continue
        for line, block in _paragraphs(text, node.lineno, prose=id(node) in documented):
            found += _split(area, module.path, line, block)
    for line, block in _marked(module.text, "#", spans):
        found += _split(f"comments/{where}", module.path, line, block)
    return tuple(found)


def room(path: str) -> str:
    """Return the room that a file of the source is in: its package and the folder below."""
    parts = path.split("/")[:-1]
    return "/".join(parts[:2])


def words(text: str) -> int:
    """Return how many words a sentence has; code and placeholders count as one each."""
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def _roles(module: Module) -> tuple[dict[int, str], frozenset[int], dict[int, list[tuple[int, int]]]]:
    """Return the docstrings with their kind, the literals that nobody reads, and where on which line literals stand."""
    documented, quiet = dict[int, str](), set[int]()
    spans = dict[int, list[tuple[int, int]]]()
    for node in module.nodes:
        quiet.update(id(inner) for inner in _unread(node))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            _mark(spans, node)
        for first, text in _documentation(node):
            documented[id(text)] = "shown" if first and _typed_by_people(node) else "docstrings"
    return documented, frozenset(quiet), spans


def _unread(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the literals of a node that are no text of their own, or none that people read."""
    match node:
        case ast.JoinedStr(values=values):
            yield from (inner for value in values for inner in _direct(value))
        case ast.Constant(value=value) if not isinstance(value, str):
            yield node
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re" | "re2"), attr=attr), args=args):
            if attr in _PATTERNS:
                yield from (inner for arg in args for inner in ast.walk(arg))
        case ast.Call(func=ast.Attribute(value=ast.Constant() as words_of, attr="split")):
            yield words_of
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name.endswith("_WORDS"):
            yield value
        case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
            if not _described(annotation):
                yield from ast.walk(annotation)
        case _:
            pass


def _documentation(node: ast.AST) -> Iterator[tuple[bool, ast.Constant]]:
    """Yield the texts that stand as statements in a body, and whether each is its first statement."""
    if isinstance(body := getattr(node, "body", None), list):
        for place, statement in enumerate(cast("list[ast.AST]", body)):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield place == 0, statement.value


def _described(annotation: ast.expr) -> bool:
    """Say whether an annotation tells people something: the help of an option, the description of a field."""
    return isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Annotated")


def _direct(value: ast.expr) -> Iterator[ast.AST]:
    """Yield the parts of an f-string that are read with it: its literals; a text in a placeholder is one of its own."""
    yield value
    if isinstance(value, ast.FormattedValue) and value.format_spec is not None:
        yield from ast.walk(value.format_spec)


def _typed_by_people(node: ast.AST) -> bool:
    """Say whether this is a function that the command line offers, whose docstring is its help."""
    decorators = getattr(node, "decorator_list", [])
    calls = (each.func for each in decorators if isinstance(each, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr in {"command", "callback"} for call in calls)


def _mark(spans: dict[int, list[tuple[int, int]]], node: ast.expr) -> None:
    last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    for line in range(node.lineno, last + 1):
        start = node.col_offset if line == node.lineno else 0
        spans.setdefault(line, []).append((start, end if line == last else 1_000_000))


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


def _paragraphs(text: str, line: int, *, prose: bool) -> Iterator[tuple[int, str]]:
    """Yield the parts of a text that end sentences: in `prose` paragraphs, items and parameters, in a message lines."""
    block, begun, kept = list[str](), line, list[tuple[int, str]]()
    for number, each in enumerate(text.split("\n"), line):
        if not prose or not each.strip() or _MARK.match(each) or _ITEM.match(each):
            kept.append((begun, " ".join(block)))
            block, begun = [], number
        if not block:
            begun = number
        block.append(_MARK.sub("", each, count=1).strip())
    kept.append((begun, " ".join(block)))
    yield from ((first, block) for first, block in kept if block.strip())


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of a page: paragraphs, headings, items and cells, without fenced code and comments."""
    text = re.sub(r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    fenced, block, begun = False, list[str](), 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        fence = bool(_FENCE.match(line))
        ends = fence or fenced or not line.strip() or line.startswith(("#", "|")) or bool(_MARK.match(line))
        if ends and block:
            yield begun, " ".join(block)
            block = []
        fenced ^= fence
        if fence or fenced or not line.strip():
            continue
        if line.startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", line.strip("|")) if cell.strip(" :-"))
        elif line.startswith("#"):
            yield number, line.lstrip("# ")
        else:
            begun = begun if block else number
            block.append(_MARK.sub("", line, count=1).strip())


def _marked(text: str, mark: str, spans: dict[int, list[tuple[int, int]]] | None = None) -> Iterator[tuple[int, str]]:
    """Yield the comments of a file, those on lines of their own that follow each other as one text.

    Args:
        text: the file.
        mark: how a comment begins.
        spans: where on which line literals stand, in which the mark begins none.
    """
    block, begun, before = list[str](), 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        at = _comment(line, mark, (spans or {}).get(number, []))
        said = "" if at < 0 or _TOOL_NOTE.match(line[at:]) else line[at:].lstrip(f"{mark} ")
        alone = at >= 0 and not line[:at].strip()
        if block and (not said or not alone or number != before + 1 or _MARK.match(f"{said} ")):
            yield begun, " ".join(block)
            block = []
        if said:
            begun = begun if block else number
            block.append(_MARK.sub("", said, count=1))
            before = number
            if not alone:
                yield begun, " ".join(block)
                block = []
    if block:
        yield begun, " ".join(block)


def _comment(line: str, mark: str, spans: list[tuple[int, int]]) -> int:
    """Return where the comment of a line begins, -1 for none."""
    at = line.find(mark)
    while at >= 0:
        # columns of the syntax tree are counted in bytes
        column = at if line.isascii() else len(line[:at].encode())
        free = at == 0 or mark != "#" or line[at - 1] in " \t"
        if free and not any(start <= column < end for start, end in spans):
            return at
        at = line.find(mark, at + 1)
    return -1


def _split(area: str, path: str, line: int, block: str) -> Iterator[Sentence]:
    text = _LINK.sub(r"\1", _CODE.sub("X", block)).replace("**", "").replace("*", "")
    for sentence in _END.split(text):
        if sentence.strip():
            yield Sentence(area, path, line, " ".join(sentence.split()))
