"""A user's machine: the real command line in processes of its own, on a data directory of its own."""

import asyncio
import fcntl
import os
import pty
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """A process that ended."""

    code: int
    out: str
    err: str


class Machine:
    """Runs `lockgate` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / ".bot"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCKGATE_")}
        return {**kept, "PYTHONPATH": str(ROOT), **more}

    def start(self, *arguments: str, **more: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "bot", *arguments],
            cwd=self.folder,
            env=self.environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, typed: str | bytes = b"", **more: str) -> Ended:
        raw = typed if isinstance(typed, bytes) else typed.encode()
        with self.start(*arguments, **more) as process:
            out, err = process.communicate(raw, timeout=90)
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
            process.terminate()
            out, err = await asyncio.to_thread(process.communicate, timeout=30)
        told = (out + err).decode()
        assert process.returncode == 0, told
        assert "listening to " in told
        assert "Traceback" not in told
        assert not any(token in told for token in tokens.values())

    def on_terminal(self, *arguments: str) -> "tuple[subprocess.Popen[bytes], int]":
        """Start `lockgate` on a terminal of its own; return the process and the other end of the terminal."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "bot", *arguments],
            cwd=self.folder,
            env=self.environment(TERM="xterm"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - one thread, and nothing else makes it a terminal's own session
        )
        os.close(theirs)
        return process, ours


def policy(channel: str, ann: str, people: Mapping[str, tuple[str, str, str]]) -> dict[str, Any]:
    """Return a policy for a channel: ann's account owns the bot, others may be paired.

    `people` have an account, a role and a clearance each.
    """
    known = {
        "ann": {"role": "owner", "clearance": "top", "accounts": ["console:owner", ann]},
        **{
            name: {"role": role, "clearance": clearance, "accounts": [account]}
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


def _take_terminal() -> None:
    """Make standard input the terminal of the new process, so that Ctrl-C reaches it."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
