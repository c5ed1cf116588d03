"""The guide of a page, done as a reader does it: its configuration is written, its processes start, the rest is typed.

The blocks of the page's first section are taken in their order. A `yaml` block becomes config.yaml. In `sh` blocks,
`lockgate run …` starts a process of its own, and everything else is given to a shell; a block marked `stream` goes on
in a shell of its own until the end. A line `NAME=…` is where the reader fills in what they were told before. What a
block prints is compared with the `json` or `text` block that follows it, where `…` stands for anything.
"""

import asyncio
import json
import os
import re
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from tests.conventions.documents import Block, blocks, text_of
from tests.journeys.forked import inherited
from tests.journeys.machine import Machine
from tests.journeys.machine import Process as Program

DEFAULT: Final = "http://127.0.0.1:8484"
"""Where the API listens unless config.yaml says otherwise, as pages write it."""

BIN: Final = Path(sys.executable).parent
"""Where `lockgate` is installed."""

ANYTHING: Final = "…"
_KEPT: Final = frozenset({"API", "TOKEN", "SID", "QID"})
"""What a reader exports in their shell and uses later."""

_FILLED: Final = re.compile(r"^(?:export )?(?P<name>[A-Z_]+)=…$", re.MULTILINE)


def steps(page: str, until: str) -> list[Block]:
    """Return the blocks of a page before a heading, in their order."""
    end = text_of(page).partition(f"\n## {until}\n")[0].count("\n") + 1
    kinds = ("yaml", "sh", "json", "text", "python")
    return sorted(
        (block for kind in kinds for block in blocks(page, kind) if block.line < end), key=lambda block: block.line
    )


def matches(pattern: object, told: object) -> bool:
    """Say whether a value is as a page shows it."""
    if pattern == ANYTHING:
        return True
    if isinstance(pattern, dict) and isinstance(told, dict):
        wanted, there = cast("dict[str, object]", pattern), cast("dict[str, object]", told)
        return wanted.keys() == there.keys() and all(matches(value, there[name]) for name, value in wanted.items())
    if isinstance(pattern, list) and isinstance(told, list):
        shown, all_of = cast("list[object]", pattern), cast("list[object]", told)
        if shown[-1:] == [ANYTHING]:
            shown = shown[:-1]
            all_of = all_of[: len(shown)]
        return len(shown) == len(all_of) and all(map(matches, shown, all_of))
    return pattern == told


def lines_match(pattern: str, told: str) -> bool:
    """Say whether a text is as a page shows it, line by line; a line `…` stands for any lines."""
    parts = [
        r"(?:.*\n)*" if line.strip() == ANYTHING else re.escape(line).replace(ANYTHING, r".*") + r"\n"
        for line in pattern.splitlines()
    ]
    return re.fullmatch("".join(parts), told if told.endswith("\n") else f"{told}\n") is not None


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@dataclass
class Reader:
    """Somebody who follows a page on a machine of their own; `known` is what they fill in and export."""

    machine: Machine
    port: int
    place: Mapping[str, str]
    known: dict[str, str] = field(default_factory=dict[str, str])
    programs: list[Program] = field(default_factory=list[Program])
    streams: list[tuple[Process, Block | None]] = field(default_factory=list[tuple[Process, "Block | None"]])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def here(self, text: str) -> str:
        """Return a text of the page for this machine."""
        return text.replace(DEFAULT, self.url)

    def configure(self, text: str, more: Mapping[str, object]) -> None:
        """Write config.yaml as shown, on a port that is free, with further blocks."""
        blocks_of = "".join(f"{name}: {json.dumps(value)}\n" for name, value in more.items())
        shown = text.replace("api: {}", f"api: {{port: {self.port}}}")
        assert shown != text, "the page's configuration has no `api: {}`"
        (self.machine.folder / "config.yaml").write_text(f"{shown}{blocks_of}", "utf-8")

    async def starts(self, role: str) -> Program:
        program = await asyncio.to_thread(self.machine.start, "run", "--role", role, **self.place)
        self.programs.append(program)
        return program

    async def listening(self) -> None:
        """Wait until the API takes requests."""
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return

    async def types(self, text: str, known: Mapping[str, str] | None = None) -> str:
        """Type into a shell; return what it prints. With `known` it is a shell of its own, which knows that."""
        process = await self.shell(f"{text}\nprintf '\\0'\nenv -0", known)
        out, err = await asyncio.wait_for(process.communicate(), 240)
        assert process.returncode == 0, (text, out.decode(), err.decode())
        printed, *variables = out.decode().split("\0")
        if known is None:
            self.known |= {
                name: value for name, _, value in (each.partition("=") for each in variables) if name in _KEPT
            }
        return printed

    async def follows(self, text: str, printed: Block | None) -> None:
        """Type into a shell of its own what goes on."""
        self.streams.append((await self.shell(text), printed))

    async def shell(self, text: str, known: Mapping[str, str] | None = None) -> Process:
        """Type into a shell that goes on by itself."""
        values = self.known if known is None else known

        def filled(found: re.Match[str]) -> str:
            return f"export {found['name']}={values[found['name']]}"

        return await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", _FILLED.sub(filled, self.here(text))),
            cwd=self.machine.folder,
            env={**inherited(), **self.place, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **values},
            stdout=PIPE,
            stderr=PIPE,
        )

    async def ended_streams(self) -> None:
        """Wait until what goes on has ended, and compare it with the page."""
        for process, printed in self.streams:
            out, err = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode == 0, err.decode()
            assert printed is None or lines_match(printed.text, out.decode()), out.decode()


@asynccontextmanager
async def reader(
    machine: Machine, port: int, place: Mapping[str, str] = MappingProxyType({})
) -> AsyncGenerator[Reader]:
    """Sit down at a machine, and end all that was started; `place` is its environment beside that of tests."""
    following = Reader(machine, port, place)
    try:
        yield following
    finally:
        for process, _ in following.streams:
            if process.returncode is None:
                process.kill()
                await process.wait()
        for program in following.programs:
            program.terminate()
        told = [await asyncio.to_thread(program.communicate) for program in following.programs]
    assert not [err for _, err in told if b"Traceback" in err], told


def compare(printed: Block, told: str) -> dict[str, Any]:
    """Compare what was printed with the page; return it, as JSON if it is."""
    if printed.words[0] == "json":
        document = json.loads(told)
        assert matches(json.loads(printed.text), document), (printed.line, told)
        return document
    assert lines_match(printed.text, told), (printed.line, told)
    return {}
