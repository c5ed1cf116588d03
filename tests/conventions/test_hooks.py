"""The hooks of `.pre-commit-config.yaml` load, need nothing from elsewhere, and find what they are for."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from tests.conventions.commit_message import wrong
from tests.conventions.documents import ROOT

FILE: Final = ".pre-commit-config.yaml"
CALL: Final = ["uv", "run", "--locked", "--group", "check"]
TOOLS: Final = Path(sys.executable).parent


class Hook(BaseModel):
    id: str
    entry: str
    language: str
    pass_filenames: bool = True


class Source(BaseModel):
    repo: Literal["local"]
    hooks: list[Hook]


class Config(BaseModel):
    repos: list[Source]


def hooks() -> list[Hook]:
    parser: Any = YAML(typ="safe", pure=True)
    loaded = Config.model_validate(parser.load((ROOT / FILE).read_text("utf-8")))
    return [hook for source in loaded.repos for hook in source.hooks]


def prek(folder: Path, home: Path, *arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    """Run prek there, with a home of its own; the variables of a git hook that tests may run in do not count."""
    around = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**around, "PREK_HOME": str(home / "prek"), "PATH": path, "PYTHONPATH": str(ROOT)}
    command = [str(TOOLS / "prek"), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook.id)
def test_a_hook_calls_a_tool_of_the_lock(hook: Hook) -> None:
    words = hook.entry.split()
    assert hook.language == "system"
    assert words[: len(CALL)] == CALL
    program, *arguments = words[len(CALL) :]
    assert (TOOLS / program).exists()
    if program == "python":
        assert arguments[0] == "-m"
        assert find_spec(arguments[1]) is not None


def test_the_hooks_pass_here(tmp_path: Path) -> None:
    """Each hook passes: those that look at given files here, the others as commands of `poe lint` word for word."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    linted = [step["cmd"].split() for step in project["tool"]["poe"]["tasks"]["lint"]["sequence"]]
    whole = [hook.id for hook in hooks() if hook.entry.split()[len(CALL) :] in linted and not hook.pass_filenames]
    assert whole == ["conventions", "imports"]
    skipped = [word for name in whole for word in ("--skip", name)]
    ended = prek(ROOT, tmp_path, "run", *skipped, "--files", FILE, "README.md", "tests/conventions/commit_message.py")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("Passed") == len(hooks()) - len(whole) - 1, "all but the one for messages"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the hooks, whose `uv` runs the tools of this environment."""
    folder, tools = tmp_path / "repository", tmp_path / "tools"
    folder.mkdir()
    tools.mkdir()
    for name in (FILE, "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (tools / "uv").write_text(f'#!/bin/sh\nshift {len(CALL) - 1}\nPATH="{TOOLS}:$PATH" exec "$@"\n', "utf-8")
    (tools / "uv").chmod(0o755)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(
    "hook, name, text",
    [
        ("ruff-format", "a.py", '"""A module."""\n\nX   =  1\n'),
        ("ruff-check", "a.py", "x = 1\n"),
        ("codespell", "a.md", f"This is t{'eh'} text.\n"),  # not found in this file
    ],
)
def test_a_hook_finds_what_it_is_for(hook: str, name: str, text: str, repository: Path, tmp_path: Path) -> None:
    (repository / name).write_text(text, "utf-8")
    subprocess.run(["git", "add", name], cwd=repository, check=True)
    path = f"{tmp_path / 'tools'}:{os.environ['PATH']}"
    ended = prek(repository, tmp_path, "run", hook, "--files", name, path=path)
    assert ended.returncode == 1
    assert "Failed" in ended.stdout


@pytest.mark.parametrize("message, code", [("Keep it short\n", 0), (f"Keep it {'very ' * 20}short\n", 1)])
def test_a_message_is_looked_at(message: str, code: int, repository: Path, tmp_path: Path) -> None:
    (repository / "message").write_text(message, "utf-8")
    path = f"{tmp_path / 'tools'}:{os.environ['PATH']}"
    ended = prek(*(repository, tmp_path, "run", "--stage", "commit-msg", "--commit-msg-filename", "message"), path=path)
    assert ended.returncode == code, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "message, told",
    [
        ("", "no subject"),
        ("# a comment alone\n", "no subject"),
        ("x" * 61, "begins with a capital"),
        ("X" * 61, "61 characters"),
        ("Keep it.", "full stop"),
        ("Keep it\nand say why", "empty line"),
    ],
)
def test_what_is_wrong_with_a_message_is_told(message: str, told: str) -> None:
    assert any(told in one for one in wrong(message))


@pytest.mark.parametrize("message", ["Keep it\n\nAnd say why.\n# comment\n", f"Merge branch {'x' * 60}", "X" * 60])
def test_a_good_message_passes(message: str) -> None:
    assert list(wrong(message)) == []
