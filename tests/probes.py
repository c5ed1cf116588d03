"""Branch coverage by probes in the code, as a plugin of pytest: `pytest -p tests.probes`.

Before Python 3.12 a tracer slows down each instruction of all code, libraries too: tests took three times as long. So
the modules of our packages are loaded with probes between their statements. A probe notes the step from the line before
it to its own, which is what coverage.py calls an arc; that reads the notes and reports them, by its own rules for what
a line and a branch are. Modules with probes are compiled once, and kept beside those without. Other processes that a
test starts are not measured.

A note in a function is an item of a list that is set: that takes a quarter of the time of a pair in a set. Where one
line alone comes before, the step has an item of its own. Elsewhere the probe has an item for each line of the function.
"""

import ast
import marshal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NamedTuple

import pytest
from coverage import CoverageData

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("bot", "channels", "lockgate", "policy")
DATA: Final = ROOT / ".coverage/data"

Arc = tuple[int, int]

_STEPS: Final = "_probe_steps"
_WAYS: Final = "_probe_ways"
_WENT: Final = "_probe_went"
_STEP: Final = "_probe_step"
_FROM: Final = "_probe_from"
_COMPOUND: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)


class Way(NamedTuple):
    """A probe in a function whose first line is `first`: to `line` from the entry or from any of its `lines` lines."""

    first: int
    lines: int
    line: int


@dataclass(frozen=True)
class Places:
    """What the items of a module's lists stand for: steps between two lines, and ways with an item for each origin."""

    steps: list[Arc] = field(default_factory=list[Arc])
    ways: list[Way] = field(default_factory=list[Way])

    @property
    def width(self) -> int:
        """How many items the ways have: one for the entry of the function, and one for each of its lines."""
        return sum(way.lines + 1 for way in self.ways)


class Seen:
    """What the probes of a module noted: `outer` are the arcs of the bodies of the module and its classes."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.outer = set[Arc]()
        self.steps = [False] * len(places.steps)
        self.ways = [False] * places.width

    @property
    def arcs(self) -> set[Arc]:
        """All arcs that were seen."""
        found = {arc for arc, seen in zip(self._places.steps, self.steps, strict=True) if seen} | self.outer
        items = iter(self.ways)
        for first, lines, line in self._places.ways:
            found |= {(first + offset - 1 if offset else -first, line) for offset in range(lines + 1) if next(items)}
        return found


_LOADED: Final = list[tuple[str, Seen]]()
"""What was seen in this process, with its file."""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Load our packages with probes from now on: nothing imported one yet."""
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in PACKAGES)
    if loaded:
        raise RuntimeError(f"loaded without probes: {' '.join(loaded)}")
    sys.meta_path.insert(0, _Finder())


def pytest_sessionfinish() -> None:
    """Write what this process saw, beside what others write."""
    arcs = dict[str, set[Arc]]()
    for path, seen in _LOADED:
        arcs.setdefault(path, set()).update(seen.arcs)
    write(arcs, DATA)


def write(arcs: dict[str, set[Arc]], basename: Path) -> None:
    """Write arcs by their files for `coverage combine`; files of our packages that were not imported count too."""
    basename.parent.mkdir(exist_ok=True)
    data = CoverageData(str(basename), suffix=True)
    data.add_arcs(arcs)
    data.touch_files([str(path) for package in PACKAGES for path in ROOT.joinpath(package).rglob("*.py")])
    data.write()


class _Finder(MetaPathFinder):
    """Finds the modules of our packages as usual, and loads them with probes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module of ours, None for others."""
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Loads a module with probes, from its cache where that is as new as the module and this one."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module; its probes note what they see for its file."""
        code, places = self._probed()
        _LOADED.append((self.path, equip(module.__dict__, places)))
        exec(code, module.__dict__)  # noqa: S102 - what the loader that this one stands for does

    def _probed(self) -> tuple[CodeType, Places]:
        """Return the code with probes."""
        cache = cache_from_source(self.path, optimization="probes")
        stamp = b"".join(self._stamp(file) for file in (self.path, __file__))
        try:
            kept = self.get_data(cache)
        except OSError:
            kept = b""
        if kept.startswith(stamp):
            code, steps, ways = marshal.loads(kept[len(stamp) :])  # noqa: S302 - our own file, as Python's are
            return code, Places(steps, [Way(*way) for way in ways])
        code, places = compiled(self.get_data(self.path), self.path)
        plain = (code, places.steps, [tuple(way) for way in places.ways])
        self.set_data(cache, stamp + marshal.dumps(plain))
        return code, places

    def _stamp(self, file: str) -> bytes:
        told = self.path_stats(file)
        return f"{told['mtime']!r} {told['size']} ".encode()


def equip(names: dict[str, object], places: Places) -> Seen:
    """Give a module's names to code with probes, and return what these will see."""
    seen = Seen(places)
    names[_STEPS], names[_WAYS], names[_WENT] = seen.steps, seen.ways, seen.ways.__setitem__
    names[_STEP] = partial(_step, seen.outer, dict[int, int]())
    return seen


def _step(arcs: set[Arc], last: dict[int, int], scope: int, line: int) -> None:
    """Note a step in the body of a module or class: a name of its own there would be an attribute."""
    arcs.add((last.get(scope, -scope), line))
    last[scope] = line


def compiled(source: bytes, path: str) -> tuple[CodeType, Places]:
    """Compile a module with probes; return what they note as well."""
    tree, places = ast.parse(source), Places()
    tree.body = _Outer(places, 1).module(tree.body)
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True), places


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _at(line: int, node: ast.AST) -> None:
    """Say that a probe stands in a line, where errors and tracers look for it."""
    for part in ast.walk(node):
        if isinstance(part, (ast.expr, ast.stmt)) and not hasattr(part, "lineno"):
            part.lineno = part.end_lineno = line
            part.col_offset = part.end_col_offset = 0


class _Scope:
    """The body of a module, class or function; `first` is its first line."""

    def __init__(self, places: Places, first: int) -> None:
        self._places = places
        self._first = first

    def probe(self, line: int, before: int | None) -> list[ast.stmt]:
        """Return statements that note the step to a line: from the one `before`, or from whatever ran last."""
        raise NotImplementedError

    def passed(self, line: int, then: ast.expr) -> ast.expr:
        """Return an expression that notes the step to a line and has the value of another."""
        raise NotImplementedError

    def body(self, statements: Iterable[ast.stmt], before: int | None) -> list[ast.stmt]:
        """Put probes into a body whose first statement runs after the line `before`, if only after that."""
        found = list[ast.stmt]()
        for statement in statements:
            if isinstance(statement, (ast.Global, ast.Nonlocal)):
                found.append(statement)
                continue
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                for decorator in statement.decorator_list:
                    found += self.placed(decorator.lineno, before)
                    before = decorator.lineno
            found += self.placed(statement.lineno, before)
            before = None if isinstance(statement, _COMPOUND) else statement.lineno
            found.append(self._inside(statement))
        return found

    def placed(self, line: int, before: int | None) -> list[ast.stmt]:
        """Return a probe with its place in the file; the end of a body is told as its first line, negative."""
        probe = self.probe(line, before)
        for statement in probe:
            _at(abs(line), statement)
        return probe

    def _inside(self, statement: ast.stmt) -> ast.stmt:
        """Put probes into the bodies of a statement."""
        line = statement.lineno
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = _Function(self._places, _first(statement), statement.end_lineno or line)
                statement.body = inner.function(statement.body)
            case ast.ClassDef():
                statement.body = _Outer(self._places, _first(statement)).whole(statement.body)
            case ast.If():
                statement.body = self.body(statement.body, line)
                statement.orelse = self.body(statement.orelse, line)
            case ast.For() | ast.AsyncFor() | ast.While():
                # Each round, and the end but for a break, comes from the line of the loop.
                statement.body = self.placed(line, None) + self.body(statement.body, line)
                statement.orelse = self.placed(line, None) + self.body(statement.orelse, line)
            case ast.With() | ast.AsyncWith():
                statement.body = self.body(statement.body, line)
            case ast.Try() | ast.TryStar():
                statement.body = self.body(statement.body, line)
                for handler in statement.handlers:
                    self._handler(handler)
                statement.orelse = self.body(statement.orelse, None)
                statement.finalbody = self.body(statement.finalbody, None)
            case ast.Match():
                statement.cases = [part for case in statement.cases for part in self._case(case)]
            case _:
                pass
        return statement

    def _handler(self, handler: ast.ExceptHandler) -> None:
        line = handler.lineno
        body = self.body(handler.body, line)
        if handler.type is None:
            body = self.placed(line, None) + body
        else:
            handler.type = self.passed(line, handler.type)
            _at(line, handler.type)
        handler.body = body

    def _case(self, case: ast.match_case) -> tuple[ast.match_case, ast.match_case]:
        """Return a case before which stands one that never applies, as it is looked at."""
        line = case.pattern.lineno
        looked = ast.match_case(ast.MatchAs(), self.passed(line, ast.Constant(value=False)), [ast.Pass()])
        for part in ast.walk(looked):
            if isinstance(part, (ast.expr, ast.stmt, ast.pattern)):
                part.lineno = part.end_lineno = line
                part.col_offset = part.end_col_offset = 0
        case.body = self.body(case.body, line)
        return looked, case


def _called(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


class _Function(_Scope):
    """The body of a function, to its `last` line: it keeps the line before in a variable of its own.

    The entry counts as 0 there, the first line as 1.
    """

    def __init__(self, places: Places, first: int, last: int) -> None:
        super().__init__(places, first)
        self._lines = last - first + 1

    def function(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the body of the function with probes."""
        told = list(statements[: _is_text(statements[0])])
        begin = self._now(-self._first)
        _at(self._first, begin)
        rest = self.body(statements[len(told) :], -self._first)
        return [*told, begin, *rest, *self.placed(-self._first, None)]

    def probe(self, line: int, before: int | None) -> list[ast.stmt]:
        if before is None:
            item = ast.Subscript(ast.Name(_WAYS, ast.Load()), self._way(line), ast.Store())
        else:
            self._places.steps.append((before, line))
            place = ast.Constant(len(self._places.steps) - 1)
            item = ast.Subscript(ast.Name(_STEPS, ast.Load()), place, ast.Store())
        return [ast.Assign([item], ast.Constant(value=True)), self._now(line)]

    def passed(self, line: int, then: ast.expr) -> ast.expr:
        now = ast.NamedExpr(ast.Name(_FROM, ast.Store()), self._offset(line))
        went = _called(_WENT, self._way(line), ast.Constant(value=True))
        return ast.BoolOp(ast.Or(), [went, ast.BoolOp(ast.And(), [now, then])])

    def _now(self, line: int) -> ast.stmt:
        return ast.Assign([ast.Name(_FROM, ast.Store())], self._offset(line))

    def _offset(self, line: int) -> ast.expr:
        return ast.Constant(line - self._first + 1 if line > 0 else 0)

    def _way(self, line: int) -> ast.expr:
        """Return the place of the item for the step from the line before to a line."""
        begin = ast.Constant(self._places.width)
        self._places.ways.append(Way(self._first, self._lines, line))
        return ast.BinOp(ast.Name(_FROM, ast.Load()), ast.Add(), begin)


class _Outer(_Scope):
    """The body of a module or class."""

    def module(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the body of the module with probes, which come after what has to be first."""
        count = sum(
            1
            for place, one in enumerate(statements)
            if (place == 0 and _is_text(one)) or (isinstance(one, ast.ImportFrom) and one.module == "__future__")
        )
        early = [probe for one in statements[:count] for probe in self.placed(one.lineno, None)]
        return [*statements[:count], *early, *self.whole(statements[count:])]

    def whole(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Return the body with probes, and one at its end."""
        return [*self.body(statements, None), *self.placed(-self._first, None)]

    def probe(self, line: int, before: int | None) -> list[ast.stmt]:
        return [ast.Expr(self._noted(line))]

    def passed(self, line: int, then: ast.expr) -> ast.expr:
        return ast.BoolOp(ast.Or(), [self._noted(line), then])

    def _noted(self, line: int) -> ast.expr:
        return _called(_STEP, ast.Constant(self._first), ast.Constant(line))
