"""Two machines, each with a data directory of its own, on one store and one bucket: they share files and labels."""

import asyncio
import io
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from bot.app.app import App
from bot.app.opening import open_app
from bot.core.ids import new_key
from bot.files.kept import StoredFile
from bot.files.locations import shared
from bot.sessions.log.event_types import ToolResult
from channels.console import Console
from channels.messages import Address
from policy.labels import PUBLIC, parse
from tests.bot.kit import bang
from tests.buckets import bucket_files
from tests.harness import Person
from tests.journeys import machine_worker
from tests.people import principal
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
CONFIDENTIAL = parse("CONFIDENTIAL")
CHATS = ("ann", "ben", "cem", "dia")
CROSSED = {("one", "two"), ("two", "one")}
"""A file of each machine is read by the other."""
ROUNDS = 30


def config(bucket: dict[str, str]) -> str:
    """Return the configuration that all machines share."""
    folder = {"integrity": "TRUSTED", "clearance": "top"}
    policy = {
        "principals": {"owner": principal("console:owner", *(f"console:{chat}" for chat in CHATS))},
        "folders": {"shared": {"floor": "PUBLIC", **folder}, "secret": {"floor": "CONFIDENTIAL", **folder}},
    }
    return json.dumps({"files": {"bucket": bucket}, "policy": policy})


@dataclass(frozen=True)
class Did:
    """A turn: on which machine, and the last result with its label."""

    machine: str
    text: str
    label: str


async def did(person: Person, *lines: str) -> Did:
    """Have a chat do things in one turn."""
    state = await person.app.store.sessions.state(person.sid)
    before = 0 if state is None else (await person.events())[-1].seq
    await person.send("\n".join((bang("machine"), *lines)))
    await person.settled()
    results = [event for event in await person.events() if event.seq > before and isinstance(event.body, ToolResult)]
    told = [event.body.text for event in results if isinstance(event.body, ToolResult)]
    return Did(told[0].removeprefix("on "), told[-1], str(results[-1].label))


@asynccontextmanager
async def machines(folder: Path, environment: dict[str, str]) -> AsyncGenerator[None]:
    """Run two workers, each in a process of its own."""
    command, begun = (
        [sys.executable, "-m", "tests.journeys.machine_worker", str(folder)],
        list[asyncio.subprocess.Process](),
    )
    try:
        for name in ("one", "two"):
            begun.append(
                await asyncio.create_subprocess_exec(
                    *command, name, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE
                )
            )
        for process in begun:
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), 60) == b"up\n"
        yield
    finally:
        for process in begun:
            process.kill()
            await process.wait()


async def test_a_file_of_one_machine_is_read_by_the_other_with_its_label_while_both_race(tmp_path: Path) -> None:
    address = await asyncio.to_thread(SERVERS.buckets().fresh)
    files = bucket_files(address)
    plan = StoredFile(shared("secret", PUBLIC, "plan.md"), b"the plan", None)
    await asyncio.to_thread(files.restore, plan)
    (tmp_path / "config.yaml").write_text(config({"name": address.name, "endpoint": address.endpoint}))
    keys = {f"LOCKGATE_{use}_KEY": new_key().hex() for use in ("AUDIT", "SESSION", "VAULT")}
    keys |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    keys["LOCKGATE_STORE_URL"] = await SERVERS.at(tmp_path)
    environment = {**os.environ, **keys}
    settings = await asyncio.to_thread(machine_worker.settings, tmp_path, "router", keys["LOCKGATE_STORE_URL"])
    async with (
        machines(tmp_path, environment),
        open_app(settings, [Console(io.StringIO())], environment, machine_worker.parts("router")) as app,
    ):
        pairs = await _raced(app)
    assert pairs >= CROSSED
    assert not (tmp_path / "one" / "files").exists()
    for number in range(2):
        found = await asyncio.to_thread(files.find, shared("shared", PUBLIC, f"{number}-ann.md"), CONFIDENTIAL)
        assert found is not None
        assert found.label == CONFIDENTIAL
        assert await asyncio.to_thread(files.find, shared("shared", PUBLIC, f"{number}-ann.md"), PUBLIC) is None


async def _raced(app: App) -> set[tuple[str, str]]:
    """Let two chats write while two read what was written before; return which machines wrote and read the same."""
    ann, ben, cem, dia = (Person(app, io.StringIO(), Address("console", chat), f"console:{chat}") for chat in CHATS)
    pairs, wrote, told = set[tuple[str, str]](), list[tuple[str, Did]](), count()
    while not pairs >= CROSSED and (number := next(told)) < ROUNDS:
        names = [f"{number}-ann.md", f"{number}-ben.md"]
        writes = [
            did(who, bang("read_file", path="secret/plan.md"), bang("write_file", path=f"shared/{name}", text=name))
            for who, name in zip((ann, ben), names, strict=True)
        ]
        reads = [
            did(who, bang("read_file", path=f"shared/{name}", up_to="CONFIDENTIAL"))
            for who, (name, _) in zip((cem, dia), wrote, strict=False)
        ]
        (*done,) = await asyncio.gather(*writes, *reads)
        for (name, by), read in zip(wrote, done[2:], strict=True):
            assert (read.text, read.label) == (name, "CONFIDENTIAL")
            pairs.add((by.machine, read.machine))
        assert [one.text for one in done[:2]] == ["written", "written"]
        wrote = list(zip(names, done[:2], strict=True))
    return pairs
