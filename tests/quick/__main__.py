"""`poe quick`: look at what changed, and run the tests that are about it, in less than a minute.

Formatting, lint, types and spelling of the files that differ from the last commit, the import contracts, and of the
tests those that are changed or import a changed module. `poe check` looks at everything.
"""

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.quick.choice import OURS, about, changed, imported

_ROOT: Final = Path(__file__).parents[2]


def main() -> int:
    """Return 1 if anything is wrong with what changed."""
    parser = argparse.ArgumentParser(prog="poe quick", description=__doc__)
    parser.add_argument("--since", default="HEAD", help="the revision to compare with, the last commit if not given")
    begin, files = time.monotonic(), changed(_ROOT, parser.parse_args().since)
    ours = [str(file) for file in files if file.suffix == ".py" and file.parts[0] in OURS]
    tests = [str(test) for test in about(files, imported(_ROOT))]
    with ThreadPoolExecutor() as pool:
        looks = [pool.submit(_run, *command) for command in _looks([str(file) for file in files], ours)]
        tested = not tests or _run("pytest", "-q", *tests)
    wrong = not all([tested, *(look.result() for look in looks)])
    seconds = time.monotonic() - begin
    print(f"{len(files)} files changed, {len(tests)} test files, {seconds:.0f} s: {'WRONG' if wrong else 'fine'}")
    return int(wrong)


def _looks(files: list[str], ours: list[str]) -> list[tuple[str, ...]]:
    """Return the commands that look at changed files, `ours` of which are source files."""
    if not ours:
        return [("codespell", *files)] if files else []
    return [
        ("ruff", "format", "--check", "--quiet", *ours),
        ("ruff", "check", "--quiet", *ours),
        ("codespell", *files),
        ("basedpyright", *ours),
        ("lint-imports", "--no-logo"),
    ]


def _run(*command: str) -> bool:
    """Run a command and print what it says if something is wrong; return whether nothing is."""
    done = subprocess.run(
        [sys.executable, "-m", *command] if command[0] == "pytest" else command,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"$ {' '.join(command)}", done.stdout, sep="\n", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
