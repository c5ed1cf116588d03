"""Branch coverage by probes in the code, as a plugin of pytest: `pytest -p tests.probes`.

Before Python 3.12 a tracer slows down each instruction of all code, libraries too: tests took three times as long. So
the modules of our packages are loaded with probes between their statements. A probe notes the step from the line before
it to its own, which is what coverage.py calls an arc; that reads the notes and reports them, by its own rules for what
a line and a branch are. Modules with probes are compiled once, and kept beside those without. Other processes that a
test starts are not measured.
"""

import ast
import marshal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

import pytest
from coverage import CoverageData

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("bot", "channels", "lockgate", "policy")
DATA: Final = ROOT / ".coverage/data"

Arc = tuple[int, int]

_SEEN: Final = "_probe_seen"
_STEP: Final = "_probe_step"
_FROM: Final = "_probe_from"
_COMPOUND: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)

_ARCS: Final = dict[str, set[Arc]]()
"""What was seen in this process, by file."""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Load our packages with probes from now on: nothing imported one yet."""
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in PACKAGES)
    if loaded:
        raise RuntimeError(f"loaded without probes: {' '.join(loaded)}")
    sys.meta_path.insert(0, _Finder())


def pytest_sessionfinish() -> None:
    """Write what this process saw, beside what others write."""
    write(_ARCS, DATA)


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

    def get_code(self, fullname: str) -> CodeType:
        """Return the code with probes."""
        cache = cache_from_source(self.path, optimization="probes")
        stamp = b"".join(self._stamp(file) for file in (self.path, __file__))
        try:
            kept = self.get_data(cache)
        except OSError:
            kept = b""
        if kept.startswith(stamp):
            return marshal.loads(kept[len(stamp) :])  # noqa: S302 - our own file, as Python's are
        code = compiled(self.get_data(self.path), self.path)
        self.set_data(cache, stamp + marshal.dumps(code))
        return code

    def _stamp(self, file: str) -> bytes:
        told = self.path_stats(file)
        return f"{told['mtime']!r} {told['size']} ".encode()

    def exec_module(self, module: ModuleType) -> None:
        """Run the module; its probes note their arcs with those of its file."""
        equip(module.__dict__, _ARCS.setdefault(self.path, set()))
        super().exec_module(module)


def equip(names: dict[str, object], arcs: set[Arc]) -> None:
    """Give a module's names to code with probes, which adds what it sees to `arcs`."""
    names[_SEEN] = arcs.add
    names[_STEP] = partial(_step, arcs, dict[int, int]())


def _step(arcs: set[Arc], last: dict[int, int], scope: int, line: int) -> None:
    """Note a step in the body of a module or class: a name of its own there would be an attribute."""
    arcs.add((last.get(scope, -scope), line))
    last[scope] = line


def compiled(source: bytes, path: str) -> CodeType:
    """Compile a module with probes."""
    tree = ast.parse(source)
    tree.body = _Outer(1).module(tree.body)
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


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

    def __init__(self, first: int) -> None:
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
                statement.body = _Function(_first(statement)).function(statement.body)
            case ast.ClassDef():
                statement.body = _Outer(_first(statement)).whole(statement.body)
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
    """The body of a function: it keeps the line before in a variable of its own."""

    def function(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the body of the function with probes."""
        told = list(statements[: _is_text(statements[0])])
        begin = self._now(-self._first)
        _at(self._first, begin)
        rest = self.body(statements[len(told) :], -self._first)
        return [*told, begin, *rest, *self.placed(-self._first, None)]

    def probe(self, line: int, before: int | None) -> list[ast.stmt]:
        return [ast.Expr(self._noted(line, before)), self._now(line)]

    def passed(self, line: int, then: ast.expr) -> ast.expr:
        now = ast.NamedExpr(ast.Name(_FROM, ast.Store()), ast.Constant(line))
        return ast.BoolOp(ast.Or(), [self._noted(line, None), ast.BoolOp(ast.And(), [now, then])])

    @staticmethod
    def _now(line: int) -> ast.stmt:
        return ast.Assign([ast.Name(_FROM, ast.Store())], ast.Constant(line))

    @staticmethod
    def _noted(line: int, before: int | None) -> ast.expr:
        # A pair of constants is made when the module is compiled.
        last = ast.Name(_FROM, ast.Load()) if before is None else ast.Constant(before)
        return _called(_SEEN, ast.Tuple([last, ast.Constant(line)], ast.Load()))


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
