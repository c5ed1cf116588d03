"""A person installs the built wheel, beside a project that has packages named like ours, and talks to it."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.conventions.documents import ROOT

DJANGO: Final = "channels"
"""Django's channels: a well-known distribution with a top-level package of that name."""

SAID: Final = "hello\n/policy show\n"


def ran(command: Sequence[str | Path], folder: Path, typed: str = "") -> str:
    """Run a command in a folder as a person does, without any of this checkout on its path, and return its output."""
    left_out = ("LOCKGATE_", "PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment = {**kept, "LOCKGATE_DATA_DIR": str(folder / "data"), "PIPX_HOME": str(folder / "pipx")}
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        input=typed,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def uv() -> str:
    """Return the program that runs these tests."""
    found = os.environ.get("UV") or shutil.which("uv")
    assert found, "uv is needed, see CONTRIBUTING.md"
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    ran([uv(), "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_puts_one_package_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"lockgate"}
    ours = {str(path.relative_to(ROOT)) for part in ("bot", "channels", "policy") for path in tracked(part)}
    # Its template for `lockgate init` is the shipped configuration.
    ours |= {"config.yaml"}
    assert {name.removeprefix("lockgate/_program/") for name in names if "/_program/" in name} == ours


def tracked(part: str) -> list[Path]:
    """Return the files of a package but for the byte code."""
    return [path for path in (ROOT / part).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_it_works_beside_a_project_with_packages_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    ran([uv(), "venv", "--quiet", "--python", sys.executable, "env"], tmp_path)
    python = tmp_path / "env/bin/python"
    ran([uv(), "pip", "install", "--quiet", "--python", python, wheel, DJANGO], tmp_path)
    said = ran([tmp_path / "env/bin/lockgate", "chat"], tmp_path, SAID)
    assert "You said: hello" in said
    assert "is in force" in said
    assert ran([python, "-m", "lockgate", "openapi"], tmp_path) == ran(
        [tmp_path / "env/bin/lockgate", "openapi"], tmp_path
    )
    code = "import channels.consumer, lockgate.client; print(channels.__version__)"
    assert ran([python, "-c", code], tmp_path).strip()


def test_it_runs_without_being_installed(wheel: Path, tmp_path: Path) -> None:
    said = ran([sys.executable, "-m", "pipx", "run", "--quiet", "--spec", wheel, "lockgate", "chat"], tmp_path, SAID)
    assert "You said: hello" in said
