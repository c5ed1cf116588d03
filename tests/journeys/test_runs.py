"""Autonomous runs as people have them: at the console, over the API, and as a report that is due each morning."""

import asyncio
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import pytest

from lockgate.client import Client
from lockgate.errors import ApiError
from lockgate.shapes import Run
from tests.bot.api.kit import ApiHost, api_config, served
from tests.bot.kit import eventually
from tests.journeys.machine import Machine
from tests.journeys.test_slack import classified, config, hears, listening, said
from tests.journeys.test_telegram import PATIENCE
from tests.sim.slack import slack

BEAT: Final = '!steering_heartbeat {"session_id": "{session_id}", "status": "at work"}'
PARTS: Final = (
    '!session_initialize {"session_type": "autonomous", "slot": "quay"}',
    '!session_update {"current_task_id": "one"} !session_increment_completed {}',
    '!session_update {"current_task_id": "two", "tasks_failed": 1, "consecutive_failures": 4}',
    BEAT,
    '!session_update {"current_task_id": "three"} !session_increment_completed {}',
)
GOAL: Final = " ;; ".join(PARTS)
"""Three tasks; the second fails so often that the breaker opens. Then notes are heard, and the third is done."""

REPORT: Final = (
    '!session_initialize {"session_type": "autonomous"} ;; '
    '!read_file {"path": "internal/handbook.md"} !session_update {"status": "stopped"}'
)
"""The last answer of this run tells what it read."""


def git(folder: Path, *arguments: str) -> str:
    """Run git on the repository of records, with nothing of this machine's own configuration."""
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, env=quiet)
    return done.stdout.decode()


def record(folder: Path, run: str) -> dict[str, Any]:
    """Return the record of a run from the newest commit that has it."""
    (path,) = [
        line for line in git(folder, "ls-tree", "-r", "--name-only", "HEAD").split() if line.endswith(f"{run}.json")
    ]
    return json.loads(git(folder, "show", f"HEAD:{path}"))


def test_at_the_console_from_its_start_to_the_record(machine: Machine) -> None:
    """A run does three tasks with one failure; its breaker opens, it is steered, goes on, and leaves its record."""
    with machine.start("chat") as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def tell(line: str, expected: str) -> str:
            """Type a line, and read until something is said; return that line."""
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{line}\n".encode() if line else b"")
            process.stdin.flush()
            while expected not in (told := process.stdout.readline().decode()):
                assert told, f"{expected!r} was not said"
            return told

        run = re.findall(r"r_[0-9a-f]{16}", tell(f"/runs start title=Three_tasks {GOAL}", "is started"))[0]
        tell("", "is paused: 4 failures came in a row")
        tell(f"/runs show {run}", "Breaker: open since")
        tell(f"/runs steer {run} urgent Close the sluice last.", "priority urgent")
        tell(f"/runs resume {run}", "goes on")
        tell("", "has ended: ")
        tell(f"/runs log {run}", "Close the sluice last.")
        tell("/runs list all", f"{run} ended, completed, autonomous, 2 done, 1 failed")
        # A record is written behind the words that tell of its run's end.
        patience = time.monotonic() + PATIENCE
        while record(machine.data / "workspace", run)["completion_reason"] is None:
            assert time.monotonic() < patience, "the end was not recorded"
            time.sleep(0.1)
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    assert run in git(machine.data / "workspace", "log", "--stat")
    kept = record(machine.data / "workspace", run)
    assert kept["completion_reason"] == "completed"
    assert (kept["tasks"]["completed"], kept["tasks"]["failed"]) == (2, 1)
    assert [gap["reason"] for gap in kept["gaps"]] == ["breaker"]


@pytest.mark.anyio
async def test_over_the_api_from_its_start_to_the_record(tmp_path: Path) -> None:
    """The same by a program with the client, which another program may not know of."""
    async with served(tmp_path, api_config()) as host, Client(host.url, await host.token()) as client:
        started = await client.runs.start(GOAL, title="Three tasks", key="the-quay")
        assert await client.runs.start(GOAL, title="Three tasks", key="the-quay") == started
        paused = await _until(client, started.id, "paused")
        assert (paused.breaker, paused.consecutive_failures, paused.current_task) == ("open", 4, "two")
        note = await client.runs.steer(started.id, "Close the sluice last.", priority="urgent")
        assert (await client.runs.get(started.id)).waiting_notes == 1
        await client.runs.resume(started.id)
        ended = await _until(client, started.id, "ended")
        assert (ended.reason, ended.tasks_completed, ended.tasks_failed) == ("completed", 2, 1)
        assert ended.waiting_notes == 0
        numbers = await client.runs.stats(started.id)
        assert (numbers.completion_rate, numbers.failure_rate, numbers.tokens is None) == (0.6667, 0.3333, False)
        told = [event.body for event in (await client.sessions.page(ended.session, types=["tool.result"])).events]
        assert any("Close the sluice last." in str(body) for body in told), note
        await _alone(host, started.id)
        with pytest.raises(ApiError) as over:
            await client.runs.steer(started.id, "One more thing.")
        assert over.value.code == "archived"
        await client.runs.stop(started.id)
        folder = host.app.config.data_dir / "workspace"
        await eventually(lambda: _recorded(folder, started.id))
    assert record(folder, started.id)["completion_reason"] == "completed"


async def _until(client: Client, run: str, status: str) -> Run:
    """Wait until a run does something; return it."""

    async def does() -> bool:
        return (await client.runs.get(run)).status == status

    await eventually(does)
    return await client.runs.get(run)


async def _alone(host: ApiHost, run: str) -> None:
    """See that to another program a run is as one that never was."""
    async with Client(host.url, await host.token("other")) as other:
        assert (await other.runs.list(ended=True)).runs == ()
        for name in (run, f"r_{'0' * 16}"):
            with pytest.raises(ApiError) as absent:
                await other.runs.get(name)
            assert absent.value.code == "not_found"


async def _recorded(folder: Path, run: str) -> bool:
    return run in await asyncio.to_thread(git, folder, "log", "--stat")


@pytest.mark.anyio
async def test_a_morning_report_goes_where_it_may_be_said(tmp_path: Path) -> None:
    """A schedule made in Slack reads a folder and posts to the channel that is cleared for it, and to no other."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        bridge, harbour = (server.channel(name, ann, ben, kind="private") for name in ("bridge", "harbour"))
        settings = config(server, ann, ben=(ben, "member", "INTERNAL"))
        place = {"channel": "slack", "workspace": server.team.id}
        settings["policy"]["recipients"] = {
            "bridge": {**place, "chat": bridge.id, "clearance": "INTERNAL"},
            "harbour": {**place, "chat": harbour.id, "clearance": "PUBLIC"},
        }
        async with listening(Machine(tmp_path), server, settings):
            await classified(server, ann, bridge, "INTERNAL")
            await classified(server, ann, harbour, "PUBLIC")
            for name in ("bridge", "harbour"):
                await ann.says(ann.dm(), f"!schedule to={name} in 1 second {REPORT}")
                await hears(server, ann.dm(), "is due")
            await hears(server, bridge, "Staff handbook")
            await hears(server, ann.dm(), "has ended: ")
            await server.until(lambda: sum("has ended" in text for text in said(ann.dm())) == 2, PATIENCE)
            await ann.says(ann.dm(), "and that is all?")
            await hears(server, ann.dm(), "You said: and that is all?")
            assert not any("handbook" in text for text in said(harbour))
