"""The page of the first hour, done as its reader does it: three terminals, an empty folder, and the built wheel.

A block is marked by where it is typed. The programs of the clone listen at free ports in place of the shown ones, so
several tests may run at once. It takes half a minute: a wheel is built and installed, and five programs start.
"""

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

import pytest

from tests.conventions.documents import ROOT, Block, blocks, text_of
from tests.journeys.machine import Machine
from tests.journeys.screen import Terminal
from tests.journeys.test_installed import uv
from tests.sim import provider, slack_hand, telegram_by_hand
from tests.sim.ports import free_port

PAGE: Final = "docs/first-hour.md"
PATIENCE: Final = 120.0
LONGEST: Final = 180.0
"""Seconds that the page may take: it promises three minutes."""

ANYTHING: Final = "…"


def read_blocks() -> list[Block]:
    """Return what the page has its reader do, in order."""
    end = text_of(PAGE).partition("\n## The rules of the wizard\n")[0].count("\n") + 1
    shown = (block for kind in ("sh", "text") for block in blocks(PAGE, kind) if block.line < end)
    return sorted(shown, key=lambda block: block.line)


class Program:
    """A program in a terminal of its own: what it prints, and what is typed there."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, encoding="utf-8"
        )
        self.printed = ""
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def until(self, pattern: str) -> re.Match[str]:
        """Wait until this was printed; what was printed before does not count again."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.printed)) is None:
            assert time.monotonic() < deadline, (pattern, self.printed)
            try:
                self.printed += self._lines.get(timeout=0.1)
            except Empty:
                assert self.process.poll() is None, self.printed
        self.printed = self.printed[found.end() :]
        return found

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def close(self) -> None:
        with self.process:
            self.process.terminate()
            self._reader.join(PATIENCE)


class Installed(Machine):
    """A machine with the wheel installed in a folder that was empty."""

    def on_terminal(self, *arguments: str, **more: str) -> "tuple[subprocess.Popen[bytes], int]":
        return self.terminal_of([str(self.folder / arguments[0]), *arguments[1:]], {**outside(), **more})


def outside() -> dict[str, str]:
    """Return the environment of a person, without any of this checkout on a path."""
    left_out = ("LOCKGATE_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


class FirstHour:
    """One reader of the page, and what they have open; `known` is what they were told and have to repeat."""

    def __init__(self, folder: Path, clone: Path) -> None:
        self.machine = Installed(folder)
        self.folder = folder
        self.clone = clone
        self.ports = {str(provider.HAND_PORT): str(free_port()), str(telegram_by_hand.HAND_PORT): str(free_port())}
        self.known: dict[str, str] = {"CLONE": str(clone)}
        self.programs: dict[str, Program] = {}
        self.terminal: Terminal | None = None
        self.code = ""

    def does(self, block: Block) -> None:
        """Do what a block shows, where it is marked to be done."""
        text = block.text
        for shown, here in self.ports.items():
            text = text.replace(f":{shown}", f":{here}")
        match block.words:
            case ("sh", "clone"):
                # Into a folder of the test, so that the checkout stays clean.
                built = [uv(), *text.split()[1:], "--out-dir", str(self.clone / "dist"), str(ROOT)]
                subprocess.run(built, cwd=self.folder, check=True)
            case ("sh", "provider" | "telegram"):
                self.plays(block.words[1], text)
            case ("sh", "run"):
                self.programs["run"] = Program(
                    [str(self.folder / text.split()[0]), *text.split()[1:]], self.folder, {**outside(), **self.known}
                )
            case ("sh",):
                self.types(text)
            case ("text", "here"):
                self.sees(text)
            case ("text", "telegram"):
                self.says(text)
            case _:
                raise AssertionError(block)

    def plays(self, name: str, text: str) -> None:
        """Start a program of the clone by the task of its name."""
        tasks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["poe"]["tasks"]
        task = text.rsplit(maxsplit=1)[-1]
        assert task == f"sim-{name}"
        module = tasks[task]["cmd"].split()[-1]
        shown = {"provider": provider.HAND_PORT, "telegram": telegram_by_hand.HAND_PORT}[name]
        command = [sys.executable, "-m", module, "--port", self.ports[str(shown)]]
        self.programs[name] = program = Program(command, ROOT, dict(os.environ))
        if name == "telegram":
            self.known["TELEGRAM_TOKEN"] = program.until(r"token is (\S+)")[1]
        else:
            program.until(r"plays on")

    def types(self, text: str) -> None:
        """Type into a shell; its first line is what the reader fills in, and exports for all that follows."""
        filled = re.sub(r"(\w+)=…", lambda found: f"{found[1]}={self.known[found[1]]}", text)
        assert ANYTHING not in filled
        environment = {**outside(), "PATH": f"{Path(uv()).parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(["bash", "-euc", filled], cwd=self.folder, env=environment, check=True)

    def sees(self, text: str) -> None:
        """See what stands in the terminal of the empty folder, and type what stands behind its prompts."""
        seen = list[str]()
        for line in text.splitlines():
            question = re.fullmatch(r"(.*)>(?: (.*))?", line)
            if line.startswith("$ "):
                self.opens(line.removeprefix("$ "))
            elif question is not None:
                self.until(*seen, f"{question[1]}> ")
                self.shell.type(f"{question[2] or ''}\n")
                seen.clear()
            else:
                seen += filter(None, line.split(ANYTHING))
        if seen:
            shown = self.until(*seen)
            self.code = found[1] if (found := re.search(r"minutes: ([0-9a-z]{8}) ", shown)) else self.code

    @property
    def shell(self) -> Terminal:
        assert self.terminal is not None
        return self.terminal

    def until(self, *expected: str) -> str:
        return self.shell.until(*expected)

    def opens(self, command: str) -> None:
        """Start a program there, after the one before ended in order."""
        if self.terminal is not None:
            assert self.terminal.ends() == 0
            self.terminal.close()
        self.terminal = Terminal(self.machine, command=command, **self.known)

    def says(self, text: str) -> None:
        """Say what Alice says in the terminal that plays Telegram, and see what the bot does."""
        for line in text.splitlines():
            if line.startswith("alice@private> "):
                self.programs["telegram"].type(line.partition("> ")[2].replace(ANYTHING, self.code))
            else:
                self.programs["telegram"].until(re.escape(line.split("the bot says: ")[-1]))

    def close(self) -> None:
        if self.terminal is not None:
            self.terminal.close()
        for program in self.programs.values():
            program.close()


@contextmanager
def reader(folder: Path, clone: Path) -> Generator[FirstHour]:
    following = FirstHour(folder, clone)
    try:
        yield following
    finally:
        following.close()


@pytest.mark.timeout(600)
def test_the_page_is_done_in_three_minutes(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    folder, clone = tmp_path / "empty", tmp_path / "clone"
    folder.mkdir()
    began = time.monotonic()
    with reader(folder, clone) as following:
        for block in read_blocks():
            following.does(block)
        seconds = time.monotonic() - began
        told = following.programs["telegram"].printed
    # What was written to the wizard is no message of a conversation.
    assert "You said" not in told
    assert following.code not in told
    record_property("seconds", round(seconds, 1))
    assert seconds < LONGEST


def test_the_simulators_may_all_play_at_once() -> None:
    assert len({provider.HAND_PORT, slack_hand.HAND_PORT, telegram_by_hand.HAND_PORT}) == 3
