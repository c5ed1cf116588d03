"""Nothing that was checkpointed is lost: processes that die while they write, full disks, and many writers at once."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from bot.store.redis_store import RedisStore
from bot.workflows.errors import ConflictError
from bot.workflows.export import NOT_WRITTEN
from bot.workflows.keeper import DecisionText
from bot.workflows.state_file import rendered
from tests.bot.workflows.desk import Desk
from tests.fleets import Served
from tests.store.world import fresh

ROOT: Final = Path(__file__).parents[3]


def reports(server: Served, folder: Path, *moments: str) -> list[dict[str, Any]]:
    """Let a program of its own die at moments, at every one of its writes if none is named."""
    command = [sys.executable, "-m", "tests.bot.workflows.dying", server.url, str(folder), fresh(), *moments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "FAILED" not in done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_whatever_moment_a_process_dies_at_the_checkpoint_is_there_once(server: Served, tmp_path: Path) -> None:
    found = reports(server, tmp_path)
    assert len(found) > 5
    for one in found:
        # The file is whole, or it is as it was; what stands beside it is whole, too.
        assert (one["whole"], one["bak"], one["healed"], one["file"]) == (True,) * 4, one
        assert (one["found"], one["again"], one["last"]) == (4, 4, 4), one
        assert (one["sub_step"], one["note"], one["label"]) == ("currents", "", "PUBLIC"), one


@pytest.mark.parametrize("moment, version", [("before", 3), ("behind", 4)])
def test_a_process_that_dies_at_the_commit_wrote_it_or_did_not(
    server: Served, tmp_path: Path, moment: str, version: int
) -> None:
    (one,) = reports(server, tmp_path, moment)
    assert (one["found"], one["again"], one["last"], one["sub_step"]) == (version, 4, 4, "currents")
    assert (one["healed"], one["file"], one["note"]) == (True, True, "")


def test_on_a_full_disk_the_state_is_safe_and_told(server: Served, tmp_path: Path) -> None:
    told, one = reports(server, tmp_path, "full")
    assert told["note"] == NOT_WRITTEN
    assert (one["whole"], one["found"], one["sub_step"], one["healed"], one["file"]) == (
        True,
        4,
        "currents",
        True,
        True,
    )


async def decided(desk: Desk, names: range) -> None:
    """Decide one thing after another, each until no other writer comes first."""
    for number in names:
        while True:
            now = await desk.found()
            said = DecisionText(f"t{number}", "yes")
            try:
                await desk.keeper.write_decision(desk.actor(), "quay", now.version, said, op=fresh())
                break
            except ConflictError:
                continue


@pytest.mark.anyio
async def test_writers_at_once_lose_nothing_and_the_file_is_the_newest(store: RedisStore, tmp_path: Path) -> None:
    one = Desk(store, tmp_path)
    two = Desk(store, tmp_path, who=one.who)
    await one.begin()
    await asyncio.gather(decided(one, range(8)), decided(two, range(8, 16)))
    assert one.path().read_text("utf-8") == rendered((await one.found()).document)
    log = (await one.found()).document.decision_log
    assert {entry.title for entry in log} == {f"t{number}" for number in range(16)}
    assert len(log) == 16
    assert (await one.found()).note == ""


@pytest.mark.anyio
async def test_a_person_who_edits_while_a_worker_writes_takes_nothing_from_it(
    store: RedisStore, tmp_path: Path
) -> None:
    desk = Desk(store, tmp_path)
    await desk.begin()

    def edit(number: int) -> None:
        try:
            state = desk.state()
        except (ValueError, FileNotFoundError):
            return
        desk.put(state | {"branch": f"b{number}"})

    async def editing() -> None:
        for number in range(12):
            await asyncio.to_thread(edit, number)
            await asyncio.sleep(0.01)

    await asyncio.gather(decided(desk, range(12)), editing())
    now = await desk.found()
    assert {entry.title for entry in now.document.decision_log} == {f"t{number}" for number in range(12)}
    assert desk.path().read_text("utf-8") == rendered(now.document)
    assert now.document.branch.startswith("b")
