"""What `lockgate run` tells of its readiness, and what `lockgate doctor --ready` makes of that."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from bot.cli.ready import FOLDER, NOBODY, ReadinessFile, found, ready, telling
from bot.core.clock import SystemClock
from bot.operations.readiness import Missing, Readiness, ReadinessChecks
from tests.bot.kit import eventually
from tests.harness import Person, running
from tests.store.world import command

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
READY = Readiness("worker", ())
WAITING = Readiness("all", (Missing("store", "it is away", "start it"), Missing("worker", "it loads")))


async def is_ready(owner: Person) -> bool:
    """Say whether the worker of an application is ready."""
    return (await owner.app.readiness.look("worker", listens=False, works=True)).ready


def test_nobody_is_not_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ready(tmp_path, CLOCK, as_json=False) == 1
    assert capsys.readouterr().out == f"{NOBODY}\n"


def test_what_is_missing_is_told_in_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ReadinessFile(tmp_path, {})
    file.write(WAITING)
    assert found(tmp_path, CLOCK) == [WAITING]
    assert ready(tmp_path, CLOCK, as_json=False) == 1
    assert capsys.readouterr().out == "wait   all, store: it is away, start it\nwait   all, worker: it loads\n"
    file.write(READY)
    assert ready(tmp_path, CLOCK, as_json=False) == 0
    assert capsys.readouterr().out == "ready  worker\n"
    assert ready(tmp_path, CLOCK, as_json=True) == 0
    assert '"ready": true' in capsys.readouterr().out
    file.remove()
    assert found(tmp_path, CLOCK) == []


@pytest.mark.parametrize("seconds, there", [(5, 1), (20, 1), (100, 0), (-20, 1), (-3600, 0)])
def test_a_process_that_tells_nothing_more_is_not_ready_and_then_gone(tmp_path: Path, seconds: int, there: int) -> None:
    ReadinessFile(tmp_path, {}).write(READY)
    (path,) = (tmp_path / FOLDER).glob("*.json")
    before = CLOCK.wall_ms() / 1000 - seconds
    os.utime(path, (before, before))
    told = found(tmp_path, CLOCK)
    assert len(told) == there == len(list((tmp_path / FOLDER).glob("*.json")))
    assert ready(tmp_path, CLOCK, as_json=True) == (0 if seconds == 5 else 1)


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b'{"role": "all", "ready": false, "missing": []}', b"\xff"])
def test_a_file_that_cannot_be_read_tells_that_it_is_not_ready(tmp_path: Path, written: bytes) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "1.json").write_bytes(written)
    assert ready(tmp_path, CLOCK, as_json=True) == 1


async def test_a_service_manager_is_told_once_and_the_file_goes_at_the_end(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(0)
        file = ReadinessFile(tmp_path, {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        states = iter([WAITING, READY, READY])
        for state in states:
            await asyncio.to_thread(file.write, state)
        assert manager.recv(100) == b"READY=1"
        with pytest.raises(BlockingIOError):
            manager.recv(100)

        async def look() -> Readiness:
            return READY

        async def there() -> bool:
            return bool(await asyncio.to_thread(found, tmp_path, CLOCK))

        async with telling(file, look):
            await eventually(there)
        assert not await there()


def test_who_tells_after_the_end_leaves_nothing(tmp_path: Path) -> None:
    """A thread that writes is not cancelled with what waits for it."""
    file = ReadinessFile(tmp_path, {})
    file.remove()
    file.write(READY)
    assert found(tmp_path, CLOCK) == []


async def test_a_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    ReadinessFile(tmp_path, {"NOTIFY_SOCKET": "@nobody-is-there"}).notify("READY=1")


async def test_a_process_is_ready_when_nothing_is_missing(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        first = await app.readiness.look("all", listens=True, works=True)
        assert [one.subject for one in first.missing] == ["worker"]
        serving = asyncio.create_task(app.serve())
        await eventually(lambda: is_ready(owner))
        await app.drain(asyncio.Event())
        (ending,) = (await app.readiness.look("worker", listens=False, works=True)).missing
        assert ending.subject == "process"
        serving.cancel()
        await asyncio.wait([serving])


async def test_a_platform_that_is_not_heard_yet_is_missing(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        checks = ReadinessChecks(owner.app.reloader, ["telegram"], working=lambda: True, keys=owner.app.shared_keys)
        (missing,) = (await checks.look("channels", listens=True, works=False)).missing
        assert missing.subject == "channel telegram"
        assert not (await checks.look("worker", listens=False, works=True)).missing
        checks.heard.add("telegram")
        assert (await checks.look("all", listens=True, works=True)).ready


async def test_a_platform_that_another_process_listens_to_is_not_missing(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app, names = owner.app, ["telegram"]
        rights = app.store.rights
        checks = ReadinessChecks(
            app.reloader, names, working=lambda: True, keys=app.shared_keys, waiting=rights.waiting
        )

        async def stand_by(name: str) -> None:
            async with rights.hold(name):
                await asyncio.Event().wait()

        async def look() -> bool:
            return (await checks.look("channels", listens=True, works=False)).ready

        async with asyncio.TaskGroup() as tasks:
            # Another right of the platform tells nothing of who listens.
            beside = [tasks.create_task(stand_by("telegram/7/parked/")) for _ in range(2)]
            await eventually(lambda: _waits(rights.waiting, 1))
            assert not await look()
            listens = [tasks.create_task(stand_by("telegram/7")) for _ in range(2)]
            await eventually(look)
            for task in (*beside, *listens):
                task.cancel()
        assert not rights.waiting


async def _waits(waiting: set[str], count: int) -> bool:
    return len(waiting) == count


async def test_an_api_that_is_not_served_yet_is_missing(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        checks = ReadinessChecks(owner.app.reloader, [], working=lambda: False, keys=owner.app.shared_keys)
        (missing,) = (await checks.look("api", listens=False, works=False, answers=True)).missing
        assert missing.subject == "api"
        checks.heard.add("api")
        assert (await checks.look("api", listens=False, works=False, answers=True)).ready


async def test_another_policy_in_force_is_missing(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await eventually(lambda: is_ready(owner))
        await owner.app.store.policy.put_policy("f" * 64, "another process", ())
        (missing,) = (await owner.app.readiness.look("worker", listens=False, works=True)).missing
        assert missing.subject == "policy"
        assert "another process" in missing.problem


async def test_a_store_that_is_away_is_missing(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await command(owner.app.store, "CLIENT", "PAUSE", 8_000, "ALL")
        found_missing = (await owner.app.readiness.look("all", listens=True, works=False)).missing
        assert [one.subject for one in found_missing] == ["store"]

        async def is_back() -> bool:
            return (await owner.app.readiness.look("all", listens=True, works=False)).ready

        await eventually(is_back)
