"""The house rules that no other tool checks, each a function from the source to findings.

`RULES` names them all. They look at syntax trees only: what a rule cannot see there (a name fetched with `getattr`
from a string, say) is left to review; the linter bans what it can of that.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.conventions.data import (
    BODY_READERS,
    IMMUTABLE_ANNOTATIONS,
    IMPURE_CALLS,
    MAX_FILE_LINES,
    MAX_FUNCTION_LINES,
    PACKAGES,
    PURE_IMPORTS,
    RESERVED,
    SITES,
    Reserved,
    Site,
)
from tests.conventions.shape import named_arguments, one_meaning, rooms, shallow
from tests.conventions.source import Finding, Module, read

Rule = Callable[[tuple[Module, ...]], Iterator[Finding]]

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_MUTABLE_CALLS: Final = frozenset(
    {"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"}
)
_BARE: Final = frozenset(
    {"asyncio.create_task", "asyncio.ensure_future", "asyncio.gather", "asyncio.run_coroutine_threadsafe", "time.sleep"}
)
_MUTABLE_NODES: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_WITHIN: Final = (ast.In, ast.NotIn)  # codespell:ignore notin
_LABEL_FIELDS: Final = frozenset({"level", "compartments", "integrity"})


def empty_package(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """A package's `__init__` holds its docstring and no code, so it can hand on nothing that is protected."""
    for module in modules:
        if module.path.endswith("__init__.py"):
            body = module.tree.body[1:] if ast.get_docstring(module.tree) else module.tree.body
            for node in body:
                yield module.finding("empty_package", node, "a package's `__init__` holds its docstring only")


def named_by_owner(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """An import names the module that owns what it imports; nobody hands on what it imported itself."""
    known = {module.name: module for module in modules}
    for module in modules:
        for node in module.nodes:
            if not isinstance(node, ast.ImportFrom) or (owner := known.get(node.module or "")) is None:
                continue
            for alias in node.names:
                child = f"{node.module}.{alias.name}"
                if alias.name not in owner.defined and child not in known:
                    yield module.finding("named_by_owner", node, f"`{child}` is not defined there, import its owner")
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and (owner := known.get(module.full_name(node.value))) is not None:
                source = owner.imports.get(node.attr, "")
                if source.split(".")[0] in PACKAGES and f"{owner.name}.{node.attr}" not in known:
                    yield module.finding("named_by_owner", node, f"`{owner.name}.{node.attr}` is owned by `{source}`")


def reserved_names(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """What only some may make or call is neither called, passed on, renamed nor subclassed elsewhere."""
    for module in modules:
        for reserved in RESERVED:
            if not module.within(reserved.modules):
                yield from _uses(module, reserved)
        if not module.within(("policy", "bot.access.labelling")):
            yield from _label_copies(module)


def _uses(module: Module, reserved: Reserved) -> Iterator[Finding]:
    types = _types(module)
    for node in module.nodes:
        for used in _acted_on(module, node):
            if used in types:
                continue
            name = module.full_name(used)
            if name == reserved.name or (name.startswith(f"{reserved.name}.__")):
                yield module.finding("reserved_names", node, f"`{reserved.name}`: {reserved.why}")


def _types(module: Module) -> frozenset[ast.AST]:
    """Return the nodes that only say a type: annotations, and what stands in square brackets."""
    found: list[ast.expr | None] = []
    for node in module.nodes:
        match node:
            case ast.Subscript(slice=inner):
                found.append(inner)
            case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
                found.append(annotation)
            case ast.FunctionDef(returns=annotation) | ast.AsyncFunctionDef(returns=annotation):
                found.append(annotation)
            case _:
                pass
    return frozenset(inner for outer in found if outer is not None for inner in ast.walk(outer))


def _acted_on(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions whose value is called, passed on, renamed or subclassed by a node."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            yield func
            if module.full_name(func) not in {"isinstance", "issubclass", "typing.cast"}:
                yield from args
                yield from (keyword.value for keyword in keywords)
        case ast.ClassDef(bases=bases):
            yield from bases
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
            yield value
        case ast.Return(value=ast.expr() as value) | ast.Lambda(body=value):
            yield value
        case ast.Tuple(elts=values, ctx=ast.Load()) | ast.List(elts=values, ctx=ast.Load()):
            yield from values
        case ast.Dict(values=values):
            yield from values
        case _:
            pass


def _label_copies(module: Module) -> Iterator[Finding]:
    for node in module.nodes:
        if isinstance(node, ast.Call) and module.full_name(node.func) in {"dataclasses.replace", "copy.replace"}:
            fields = {keyword.arg for keyword in node.keywords} & _LABEL_FIELDS
            if fields:
                yield module.finding("reserved_names", node, "a label is not changed, join it with another")


def one_site(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """What has one way in or out is called in one place."""
    for site in SITES:
        found = [(module, node) for module in modules for node in _calls(module, site)]
        home = [(module, node) for module, node in found if module.within((site.module,))]
        for module, node in found:
            if not module.within((site.module,)):
                yield module.finding("one_site", node, f"only `{site.module}` calls `{site.call}`")
        for module, node in home[1:]:
            yield module.finding("one_site", node, f"`{site.call}` is called in one place, this is another")
        if not home and not site.planned:
            yield Finding("one_site", site.module.replace(".", "/"), 1, f"`{site.call}` is called nowhere")


def _calls(module: Module, site: Site) -> Iterator[ast.Call]:
    if module.within(site.apart_from):
        return
    for node in module.nodes:
        if isinstance(node, ast.Call):
            parts = ast.unparse(node.func).rsplit(".", 2)
            aliased = module.full_name(node.func).rpartition(".")[2]
            receiver = parts[-2].removeprefix("_") if len(parts) > 1 else ""
            if site.call in (parts[-1], aliased) and receiver not in site.harmless:
                yield node


def sizes(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """A file and a function end before a reader loses the thread."""
    for module in modules:
        lines = module.text.count("\n")
        if lines > MAX_FILE_LINES:
            yield module.finding("sizes", lines, f"{lines} lines, the cap is {MAX_FILE_LINES}")
        for node in module.nodes:
            if isinstance(node, _FUNCTIONS):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    told = f"`{node.name}` has {length} lines, the cap is {MAX_FUNCTION_LINES}"
                    yield module.finding("sizes", node, told)


def structured_concurrency(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """Tasks belong to a task group, and nothing sleeps on the loop."""
    for module in modules:
        groups = _task_groups(module)
        for node in module.nodes:
            if not isinstance(node, ast.Call):
                continue
            name = module.full_name(node.func)
            loose = isinstance(node.func, ast.Attribute) and node.func.attr in {"create_task", "ensure_future"}
            if name in _BARE or (loose and ast.unparse(node.func).rpartition(".")[0] not in groups):
                yield module.finding("structured_concurrency", node, f"`{ast.unparse(node.func)}` outside a task group")


def _task_groups(module: Module) -> frozenset[str]:
    """Return the names that hold a task group: from `async with`, or annotated as one."""
    found: set[str] = set()
    for node in module.nodes:
        match node:
            case ast.withitem(context_expr=ast.Call(func=func), optional_vars=ast.expr() as target):
                if module.full_name(func) == "asyncio.TaskGroup":
                    found.add(ast.unparse(target))
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                if module.full_name(annotation) == "asyncio.TaskGroup":
                    found |= {name, f"self.{name}", f"self._{name}"}
            case _:
                pass
    return frozenset(found)


def no_assert(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """`python -O` removes assertions, so nothing is validated by one."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Assert):
                yield module.finding("no_assert", node, "`assert` is no validation, raise one of our errors")


def no_globals(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """No module keeps state: top-level values cannot be changed, and no function rebinds them."""
    for module in modules:
        for node in module.tree.body:
            match node:
                case ast.Assign(value=value, targets=targets):
                    fine = all(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
                case ast.AnnAssign(value=ast.expr() as value, annotation=annotation):
                    names = {leaf.id for leaf in ast.walk(annotation) if isinstance(leaf, ast.Name)}
                    names |= {leaf.attr for leaf in ast.walk(annotation) if isinstance(leaf, ast.Attribute)}
                    fine = bool(names & IMMUTABLE_ANNOTATIONS)
                case _:
                    continue
            if not fine and _mutable(value):
                yield module.finding("no_globals", node, "a module-level value that can be changed, freeze it")
        for node in module.nodes:
            if isinstance(node, ast.Global):
                yield module.finding("no_globals", node, "`global` rebinds a module's value")


def _mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in _MUTABLE_CALLS
    return isinstance(value, _MUTABLE_NODES)


def pure_policy(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """`policy` imports only what is known to be pure, and calls no builtin that reaches outside."""
    for module in modules:
        if not module.within(("policy",)):
            continue
        for node in module.nodes:
            match node:
                case ast.Import(names=names):
                    tops = {alias.name.split(".")[0] for alias in names}
                case ast.ImportFrom(module=name):
                    tops = {(name or "").split(".")[0]}
                case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                    yield module.finding("pure_policy", node, f"`{name}` reaches outside")
                    continue
                case ast.AsyncFunctionDef() | ast.Await():
                    yield module.finding("pure_policy", node, "the core is not async")
                    continue
                case _:
                    continue
            for top in sorted(tops - PURE_IMPORTS):
                yield module.finding("pure_policy", node, f"`{top}` is not known to be pure, see PURE_IMPORTS")


def typed_bodies(modules: tuple[Module, ...]) -> Iterator[Finding]:
    """What an event, a message or a question holds is a field of its class, and no name in a JSON object."""
    for module in modules:
        if not module.within(("bot",)) or module.within(BODY_READERS):
            continue
        for node in module.nodes:
            match node:
                case ast.Subscript(value=ast.Attribute(attr="body") as body):
                    pass
                case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="body") as body, attr="get")):
                    pass
                case ast.Compare(ops=[how], comparators=[ast.Attribute(attr="body") as body]) if isinstance(
                    how, _WITHIN
                ):
                    pass
                case _:
                    continue
            told = f"`{ast.unparse(body)}` is looked into by name, match its class"
            yield module.finding("typed_bodies", node, told)


RULES: Final[Mapping[str, Rule]] = {
    rule.__name__: rule
    for rule in (
        empty_package,
        named_by_owner,
        reserved_names,
        one_site,
        sizes,
        structured_concurrency,
        no_assert,
        no_globals,
        pure_policy,
        rooms,
        one_meaning,
        shallow,
        named_arguments,
        typed_bodies,
    )
}


def findings(root: Path, *rules: str) -> list[Finding]:
    """Return what the named rules, or all, find in the source under a root; a file that is not Python comes first."""
    modules = read(root)
    broken = [module.broken() for module in modules]
    sound = tuple(module for module, finding in zip(modules, broken, strict=True) if finding is None)
    found = [finding for finding in broken if finding is not None]
    return found + [finding for name in rules or RULES for finding in RULES[name](sound)]
