"""A user's machine: the real command line in processes of its own, on a data directory of its own."""

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.journeys.forked import Forked, inherited
from tests.journeys.nursery import take_terminal
from tests.people import principal

Process = subprocess.Popen[bytes] | Forked
"""Both are treated alike."""


@dataclass(frozen=True)
class Ended:
    """A process that ended."""

    code: int
    out: str
    err: str


class Machine:
    """Runs `lockgate` in a folder of its own, in forks of a process that has imported it, or in fresh interpreters."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.folder = folder
        self._fresh = fresh
        self.data = folder / ".bot"

    @property
    def fresh(self) -> "Machine":
        """The same machine, where each process imports all it needs itself, as a user's."""
        return Machine(self.folder, fresh=True)

    def start(self, *arguments: str, **more: str) -> Process:
        """Start `lockgate` with `more` in its environment."""
        environment = {**inherited(), **more}
        if not self._fresh:
            return Forked(arguments, self.folder, environment)
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "bot", *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)

    def run(self, *arguments: str, typed: str | bytes = b"", **more: str) -> Ended:
        raw = typed if isinstance(typed, bytes) else typed.encode()
        with self.start(*arguments, **more) as process:
            out, err = process.communicate(raw, timeout=240)
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    def chat(self, *lines: str, **more: str) -> Ended:
        return self.run("chat", typed="".join(f"{line}\n" for line in lines), **more)

    @asynccontextmanager
    async def listening(self, config: str, tokens: Mapping[str, str]) -> AsyncGenerator[None]:
        """Run `lockgate run` on a configuration, end it as an operator does, and see that it told no token."""
        (self.folder / "config.yaml").write_text(config)
        process = await asyncio.to_thread(lambda: self.start("run", **tokens))
        try:
            yield
        finally:
            told = await asyncio.to_thread(_ended, process)
        assert process.returncode == 0, told
        assert "listening to " in told
        assert "Traceback" not in told
        assert not any(token in told for token in tokens.values())

    def on_terminal(self, *arguments: str, **more: str) -> tuple[Process, int]:
        """Start `lockgate` on a terminal of its own; return the process and the other end of the terminal.

        `more` goes to its environment.
        """
        environment = {**inherited(), "TERM": "xterm", **more}
        if self._fresh:
            return self.terminal_of([sys.executable, "-m", "bot", *arguments], environment)
        ours, theirs = pty.openpty()
        try:
            return Forked(arguments, self.folder, environment, theirs), ours
        finally:
            os.close(theirs)

    def terminal_of(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> "tuple[subprocess.Popen[bytes], int]":
        """Start a command on a terminal of its own; return the process and the other end of the terminal."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=take_terminal,  # noqa: PLW1509 - one thread, and nothing else makes it a terminal's own session
        )
        os.close(theirs)
        return process, ours


def policy(channel: str, ann: str, people: Mapping[str, tuple[str, str, str]]) -> dict[str, Any]:
    """Return a policy for a channel: ann's account owns the bot, others may be paired.

    `people` have an account, a role and a clearance each.
    """
    known = {
        "ann": principal("console:owner", ann),
        **{
            name: principal(account, role=role, clearance=clearance)
            for name, (account, role, clearance) in people.items()
        },
    }
    return {
        "principals": known,
        "paired": {"role": "member", "clearance": "INTERNAL"},
        "channels": {
            "console": {"classification": "top", "overshoot": "allow"},
            channel: {"classification": "CONFIDENTIAL", "overshoot": "allow"},
        },
        "recipients": {},
    }


def _ended(process: Process) -> str:
    """Let a process say that it listens, end it as an operator does, and return all that it told."""
    lines = list[bytes]()
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        # What the tests waited for may come a moment before it.
        while (not lines or b"listening to " not in lines[-1]) and (line := process.stderr.readline()):
            lines.append(line)
        process.terminate()
        return b"".join((*lines, process.stderr.read(), process.stdout.read())).decode()
