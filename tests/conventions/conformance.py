"""docs/conformance.md taken apart, and all that has to stand in it: each parameter of a tool and each field of the API.

A row begins with the name of what it is about, as code: a tool, a tool with one of its actions, a route, or a document
that the API takes or answers with, and behind it in brackets one parameter or field. A name that ends otherwise, as in
`sessions_list → id`, is for readers and known to nothing here.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from bot.app.programs import document
from bot.tools import catalogue
from tests.conventions.documents import ROOT, named_tests_in, prose, text_of

if TYPE_CHECKING:
    from bot.tools.parameters import Takes

PAGE: Final = "docs/conformance.md"

_ACTION: Final = "action"
_ANSWER: Final = " → "
_CODE: Final = re.compile(r"`([^`]+)`")
_ROUTE: Final = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /v1/")
_REFUSAL: Final = re.compile(r"\d{3} [a-z_]+\Z")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what it is about, and the tests, file and function, that show it."""

    line: str
    subject: str
    tests: tuple[tuple[str, str], ...]


def rows() -> Iterator[Row]:
    """Yield the rows of the page's tables, without their headings."""
    for line in prose(PAGE).splitlines():
        if not line.startswith("| ") or line.startswith("| promise |"):
            continue
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        code = _CODE.match(cells[0])
        yield Row(line, code[1] if code else "", tuple(named_tests_in(cells[-1])))


def required() -> set[str]:
    """Return the names of all that is offered: agents' tools, programs' routes, and how these are refused."""
    return {*_of_tools(), *_of_routes(), *_refusals()}


def is_name(subject: str) -> bool:
    """Say whether a row is about something that would have to be in `required`, were it there."""
    if _ANSWER in subject:
        return False
    head = subject.partition("(")[0]
    tools = {tool.name for tool in _tools()}
    return (
        bool(_ROUTE.match(head) or _REFUSAL.match(head))
        or head in {*tools, *_schemas()}
        or head.partition(" ")[0] in tools
    )


def asked_for(subject: str) -> str:
    """Return the parameter, field or action that a row's test has to name, empty where the row is about all of it."""
    named = re.search(r"\(([\w.-]+)\)\Z", subject)
    if named:
        return named[1].rpartition(".")[2]
    return "" if _ROUTE.match(subject) else subject.rpartition(" ")[2]


def told_in(subject: str, line: str) -> set[str]:
    """Return the fields that a row says a tool answers with: the names behind its arrow."""
    if _ANSWER not in subject:
        return set()
    codes = " ".join(_CODE.findall(line.removeprefix("| ").split(" | ")[0]))
    return set(re.findall(r"\b[a-z_]+\b", codes.partition(_ANSWER)[2]))


def _of_tools() -> Iterator[str]:
    for tool in _tools():
        yield tool.name
        schema = cast("dict[str, Any]", tool.arguments.model_json_schema())
        names = list(_parameters(schema, schema.get("$defs", {})))
        if _ACTION not in names:
            yield from (f"{tool.name}({name})" for name in names)
            continue
        takes = cast("dict[str, Takes]", vars(sys.modules[tool.__module__])["_TAKES"])
        for action, which in takes.items():
            yield f"{tool.name} {action}"
            yield from (f"{tool.name} {action}({name})" for name in (*which.needs, *which.may_have))


def _tools() -> tuple[type[Any], ...]:
    """Return the classes of the built-in tools."""
    return cast("tuple[type[Any], ...]", vars(catalogue)["_TOOLS"])


def _parameters(schema: dict[str, Any], models: dict[str, Any], above: str = "") -> Iterator[str]:
    """Yield the names of parameters, and behind a point those of an object that one is."""
    for name, one in schema.get("properties", {}).items():
        yield f"{above}{name}"
        for kind in one.get("anyOf", (one,)):
            nested = models.get(str(kind.get("$ref", "")).rpartition("/")[2], {})
            yield from _parameters(nested, models, f"{above}{name}.")


def _of_routes() -> Iterator[str]:
    for path, methods in _document()["paths"].items():
        for method, route in methods.items():
            yield f"{method.upper()} {path}"
            for parameter in route.get("parameters", ()):
                if parameter["in"] != "path":
                    yield f"{method.upper()} {path}({parameter['name']})"
    for name, schema in _schemas().items():
        yield from (f"{name}({field})" for field in schema["properties"])


def _refusals() -> Iterator[str]:
    """Yield the refusals that docs/api.md lists, which has all that there are: status and code."""
    for status, codes in re.findall(r"^\| (\d{3}) \| ([^|]+) \|", text_of("docs/api.md"), re.MULTILINE):
        yield from (f"{status} {code}" for code in _CODE.findall(codes))


@cache
def _document() -> dict[str, Any]:
    return cast("dict[str, Any]", document())


def _schemas() -> dict[str, dict[str, Any]]:
    """Return the documents that requests and answers are."""
    schemas = _document()["components"]["schemas"].items()
    return {name: schema for name, schema in schemas if "properties" in schema}


@dataclass(frozen=True, slots=True)
class _File:
    """What a file of tests has at its top: the text of each definition, and which others it names."""

    texts: dict[str, str]
    names: dict[str, frozenset[str]]


@cache
def _file(path: str) -> _File:
    text = (ROOT / path).read_text("utf-8")
    lines = text.splitlines()
    texts, names = dict[str, str](), dict[str, frozenset[str]]()
    for node in ast.parse(text).body:
        targets = [getattr(node, "name", "")]
        if isinstance(node, ast.Assign):
            targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            targets = [node.target.id]
        begins = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        own = "\n".join(lines[begins - 1 : node.end_lineno])
        used = frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
        texts |= dict.fromkeys(filter(None, targets), own)
        names |= dict.fromkeys(filter(None, targets), used)
    return _File(texts, names)


def source(path: str, name: str) -> str:
    """Return the text of a test with what it names of its file, empty where there is no such test."""
    file, met, waiting = _file(path), set[str](), [name]
    while waiting:
        one = waiting.pop()
        if one in file.texts and one not in met:
            met.add(one)
            waiting.extend(file.names[one])
    return "\n".join(file.texts[one] for one in sorted(met))
