"""Which files a change touches, and which tests are about them."""

import ast
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

OURS: Final = ("bot", "channels", "lockgate", "policy", "tests")
_MOST: Final = 6
"""Test files that are run for one module: the ones that import least beside it, as they are most about it."""


def changed(root: Path, since: str) -> list[Path]:
    """Return the files that differ from a revision, new ones included and deleted ones not, relative to `root`."""
    differing = _git(root, "diff", "--name-only", "--diff-filter=d", "-z", since)
    return sorted(
        {Path(name) for name in (*differing, *_git(root, "ls-files", "--others", "--exclude-standard", "-z"))}
    )


def about(files: Iterable[Path], imports: Mapping[Path, Collection[str]]) -> list[Path]:
    """Return the test files that are changed, and those that import a changed module directly.

    `imports` are the test files with the modules of ours that each imports.
    """
    chosen = set[Path]()
    for file in files:
        if file in imports:
            chosen.add(file)
        elif file.suffix == ".py":
            importing = [test for test, modules in imports.items() if module(file) in modules]
            chosen.update(
                sorted(importing, key=lambda test: (test.stem != f"test_{file.stem}", len(imports[test]), test))[:_MOST]
            )
    return sorted(chosen)


def imported(root: Path) -> dict[Path, frozenset[str]]:
    """Return all test files but those of chaos, with the modules of ours that each imports."""
    tests = (path.relative_to(root) for path in (root / "tests").rglob("test_*.py"))
    return {test: _modules(root / test) for test in tests if "chaos" not in test.parts}


def module(file: Path) -> str:
    """Return the name that a file is imported by."""
    return ".".join(file.parent.parts if file.stem == "__init__" else file.with_suffix("").parts)


def _modules(file: Path) -> frozenset[str]:
    """Return the modules that a file imports, and what may be one: a name that is imported from a package."""
    found = set[str]()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(name for name in found if name.partition(".")[0] in OURS)


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\0") if name]
