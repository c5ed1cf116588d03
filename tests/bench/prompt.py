"""`lockgate chat` to its first prompt, warm, at a terminal of its own.

The clock runs from starting the process until the prompt has appeared. Warm: it ran before, so that modules are
compiled, files are in the page cache and the data directory is made. The reference is Python's start with the libraries
that a prompt needs. Of several starts the quickest counts, as what the machine's other work adds is not ours. How long
a first line, typed at the prompt, takes to its answer is told on standard error: store, tools and model library are
loaded in that time.
"""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Final

from tests.bench.measure import Row, at_most

_ROOT: Final = Path(__file__).parents[2]
_ROUNDS: Final = 7
_NEEDED: Final = "anyio._backends._asyncio, typer, pydantic, ruamel.yaml, prompt_toolkit"
"""The libraries that a prompt needs: typer checks arguments with pydantic."""

_PYTHON: Final = 0.16
"""Seconds that the start alone takes at most on a machine that the goal is stated for."""
_PATIENCE: Final = 60.0
_PROMPT: Final = b">"
_LINE: Final = b"good morning\n"
_ANSWER: Final = b"You said: good morning"


def rows() -> Iterator[Row]:
    taken: tuple[list[float], ...] = ([], [], [])
    with TemporaryDirectory(prefix="lgb") as folder:
        _chat(Path(folder))
        for _ in range(_ROUNDS):
            for times, value in zip(taken, (*_chat(Path(folder)), _python(Path(folder))), strict=True):
                times.append(value)
    prompt, answer, start = map(min, taken)
    print(f"first answer, to a line typed at the first prompt: {answer:.2f} s after the start", file=sys.stderr)
    yield Row("first_prompt", prompt, "s", start, at_most(0.35, machine=_PYTHON))


def _chat(folder: Path) -> tuple[float, float]:
    """Return the seconds from the start to the prompt and to the first answer."""
    begin = time.perf_counter()
    with _terminal(folder, "-m", "bot", "chat") as screen:
        _shown(screen, _PROMPT)
        prompt = time.perf_counter() - begin
        os.write(screen, _LINE)
        _shown(screen, _ANSWER)
        answer = time.perf_counter() - begin
        os.write(screen, b"/quit\n")
    return prompt, answer


def _python(folder: Path) -> float:
    begin = time.perf_counter()
    with _terminal(folder, "-c", f"import {_NEEDED}; print('>', end='')") as screen:
        _shown(screen, _PROMPT)
        return time.perf_counter() - begin


@contextmanager
def _terminal(folder: Path, *arguments: str) -> Generator[int]:
    """Run Python at a terminal of its own; wait for its end when the block is left."""
    screen, keyboard = pty.openpty()
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**known, "PYTHONPATH": str(_ROOT), "LOCKGATE_DATA_DIR": str(folder / "data"), "TERM": "xterm"}
    process = subprocess.Popen(
        (sys.executable, *arguments), stdin=keyboard, stdout=keyboard, stderr=keyboard, cwd=folder, env=environment
    )
    os.close(keyboard)
    try:
        yield screen
        process.wait(_PATIENCE)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        os.close(screen)


def _shown(screen: int, wanted: bytes) -> None:
    """Read the screen until something stands there.

    Raises TimeoutError: it does not come. OSError: the program ended before.
    """
    seen, end = b"", time.monotonic() + _PATIENCE
    while wanted not in seen:
        left = end - time.monotonic()
        if left <= 0 or not select([screen], [], [], left)[0]:
            raise TimeoutError(f"{wanted!r} did not come, but {seen!r}")
        seen += os.read(screen, 4096)
