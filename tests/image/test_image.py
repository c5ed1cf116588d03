"""The image: its steps are executed, and what they made runs as it would in a container, not root and read-only."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.bot.kit import eventually
from tests.conventions.documents import ROOT
from tests.image.stages import Stage, built, instructions
from tests.journeys.test_metrics import asked
from tests.journeys.test_telegram import config, hears
from tests.sim.ports import free_port
from tests.sim.telegram import telegram

FILE = ROOT / "deploy/Dockerfile"

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The last stage, with all that was built."""
    return built(FILE, ROOT, tmp_path_factory.mktemp("image"))


def said(image: Stage, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(image.inside(command, frozen=True), capture_output=True, text=True, check=False)


async def test_it_runs_read_only_and_not_as_root_and_tells_its_health(image: Stage) -> None:
    async with telegram() as server:
        ann, port = server.user("ann"), free_port()
        settings = json.loads(config(server, ann)) | {"metrics": {"port": port}}
        path = image.root / image.environment["LOCKGATE_CONFIG"].removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
        start = image.inside([*image.entry, *image.command], frozen=True, more={"BOT_TOKEN": server.token})
        process = await asyncio.create_subprocess_exec(*start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            ann.says(None, "good morning")
            await hears(server, ann.private, "good morning")
            await eventually(lambda: healthy(image), 60)
            assert (await asyncio.to_thread(said, image, *image.health)).stdout == "ready: all\n"
            assert (await asked(port, "/health"))[0] == 200
            mine = await asyncio.to_thread(Path(f"/proc/{process.pid}/status").read_text)
            assert "Uid:\t10001\t10001" in mine
            assert "NoNewPrivs:\t1" in mine
            assert "CapBnd:\t0000000000000000" in mine
        finally:
            process.send_signal(signal.Signals[image.stop])
            told, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, told
    assert not await healthy(image)


async def healthy(image: Stage) -> bool:
    """Say whether the image's own health check is content, in a container beside the one that runs."""
    return (await asyncio.to_thread(said, image, *image.health)).returncode == 0


def test_nothing_but_the_volume_can_be_written(image: Stage) -> None:
    for place in ("/opt/lockgate/x", "/etc/lockgate.yaml", "/x", "/usr/local/bin/x"):
        assert "Read-only file system" in said(image, "touch", place).stderr, place
    assert said(image, "touch", f"{image.volumes[0]}/x", "/tmp/x").returncode == 0  # noqa: S108 - in the container
    assert said(image, "id", "-u").stdout == "10001\n"


def test_it_has_no_sources_no_tests_and_no_developers_tools(image: Stage) -> None:
    assert not (image.root / "src").exists()
    there = {path.name for path in (image.root / "opt/lockgate/bin").iterdir()}
    assert "lockgate" in there
    assert not there & {"pytest", "ruff", "poe", "uv"}


def test_the_context_leaves_out_all_but_what_is_copied() -> None:
    lines = Path(f"{FILE}.dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    steps = [rest.split()[:-1] for word, rest in instructions(FILE) if word == "COPY" and "--from" not in rest]
    assert kept == {name for step in steps for name in step}
    assert "*" in lines
