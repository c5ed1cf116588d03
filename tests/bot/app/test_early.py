"""The store of a command that answers people loads before the command line is imported."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.app.early import early_store
from bot.store.servers.embedded_server import Supervisor, _try_lock  # pyright: ignore[reportPrivateUsage]
from tests.store.world import lives

ROOT = Path(__file__).parents[3]
_LOOKS = 100
_MOMENT = 0.005
_TRIES = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An installation whose store was used."""
    (tmp_path / "config.yaml").write_text("{}")
    used(tmp_path / "data")
    return tmp_path


def used(data: Path) -> None:
    data.mkdir(mode=0o700)
    supervisor = Supervisor(data)
    supervisor.attach_blocking()
    supervisor.detach_blocking()


def runs(data: Path) -> bool:
    """Say whether a server of this data directory runs: it holds the lock for as long as it lives.

    The janitor of one that ended looks at the lock, too, for a moment.
    """
    for _ in range(_LOOKS):
        lock = _try_lock(data / "store" / "server.lock")
        if lock is not None:
            os.close(lock)
            return False
        time.sleep(_MOMENT)
    return True


def place(folder: Path) -> dict[str, str]:
    return {"LOCKGATE_DATA_DIR": str(folder / "data")}


@pytest.mark.parametrize("command", ["chat", "run"])
def test_the_store_begins_before_the_command_is_imported_and_ends_after_it(folder: Path, command: str) -> None:
    data = folder / "data"
    for _ in range(_TRIES):
        with early_store(["--config", str(folder / "config.yaml"), command], place(folder)):
            if not runs(data):
                # The janitor of the server before had the lock, and that counts as a server.
                continue
            command_line = Supervisor(data)
            command_line.attach_blocking()
            pid = int(command_line.files.pid.read_text())
            command_line.detach_blocking()
            assert lives(pid)
        assert not lives(pid)
        return
    pytest.fail("the store never began")


def test_a_command_that_ends_at_once_ends_a_server_that_only_begins(folder: Path) -> None:
    with early_store([f"--config={folder / 'config.yaml'}", "chat"], place(folder)):
        pass
    assert not runs(folder / "data")


@pytest.mark.parametrize("word", ["check", "doctor", "health", "sessions", "--version", "--help"])
def test_no_other_command_starts_a_store(folder: Path, word: str) -> None:
    with early_store(["--config", str(folder / "config.yaml"), word], place(folder)):
        assert not runs(folder / "data")


@pytest.mark.parametrize(
    "arguments", [["chat", "--help"], ["--config"], ["--configuration", "x", "chat"], [], ["--config", "/none", "chat"]]
)
def test_a_command_line_that_is_not_understood_starts_no_store(folder: Path, arguments: list[str]) -> None:
    with early_store(arguments, place(folder)):
        assert not runs(folder / "data")


def elsewhere(folder: Path) -> None:
    (folder / "config.yaml").write_text(json.dumps({"store": {"url": "redis://127.0.0.1:1/0"}}))


def broken(folder: Path) -> None:
    (folder / "config.yaml").write_text("data_dir: [")


def no_text(folder: Path) -> None:
    (folder / "config.yaml").write_text("data_dir: 3")


def shared(folder: Path) -> None:
    (folder / "data").chmod(0o770)


@pytest.mark.parametrize("change", [elsewhere, broken, no_text, shared])
def test_a_store_that_is_elsewhere_or_may_not_be_used_is_not_started(
    folder: Path, change: Callable[[Path], None]
) -> None:
    change(folder)
    with early_store(["--config", str(folder / "config.yaml"), "run"], place(folder)):
        assert not runs(folder / "data")


def test_a_first_run_has_nothing_to_load(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("{}")
    with early_store(["--config", str(tmp_path / "config.yaml"), "chat"], place(tmp_path)):
        assert not (tmp_path / "data").exists()


def test_the_file_names_the_data_directory_beside_itself(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data_dir: mine\nstore:\n  url: null\n")
    used(tmp_path / "mine")
    with early_store(["--config", str(tmp_path / "config.yaml"), "chat"], {}):
        assert runs(tmp_path / "mine")
    assert not runs(tmp_path / "mine")


def test_a_store_elsewhere_by_the_environment_starts_none_here(folder: Path) -> None:
    variables = {**place(folder), "LOCKGATE_STORE_URL": "redis://127.0.0.1:1/0"}
    with early_store(["--config", str(folder / "config.yaml"), "chat"], variables):
        assert not runs(folder / "data")


def test_the_command_line_begins_with_it(folder: Path) -> None:
    """Typed as people type it: a file with a mistake is told at once, and leaves no server."""
    (folder / "config.yaml").write_text("unknown: 1\n")
    environment = {**os.environ, **place(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bot", "--config", str(folder / "config.yaml"), "chat"]
    done = subprocess.run(command, env=environment, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 2
    assert b"unknown field `unknown`" in done.stderr
    log = (folder / "data" / "store" / "server.log").read_text()
    assert log.count("Server initialized") == 2, "the fixture's server, and that of this command"
    assert not runs(folder / "data")


def test_reading_the_place_of_the_store_imports_no_schema() -> None:
    program = (
        "import sys, bot.app.early; print(sorted({'pydantic', 'typer', 'anyio', 'redis', 'policy.document.model'} & "
        "set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT)
    assert told.stdout.strip() == "[]"
