"""Commands that only report leave no trace: a backup can be put back where they were given."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
import typer
from redis import Redis

from bot.cli.main import app
from bot.store.servers.embedded_server import Supervisor
from tests.journeys.machine import Machine

_ROOT: Final = Path(__file__).parents[3]

LOOKS: Final = {
    "check": "",
    "doctor": "--json",
    "health": "",
    "openapi": "",
    "explain": "audit:1",
    "policy check": "",
    "policy test": "{folder}/cases.yaml",
    "policy who": "internal",
    "policy explain": "{folder}/cases.yaml x",
    "policy replay": "{folder}/config.yaml",
    "runs list": "",
    "runs show": "x",
    "runs stats": "x",
    "schedules list": "",
    "schedules show": "x",
    "memory list": "",
    "memory show": "x",
    "memory export": "",
    "skills list": "",
    "skills show": "x",
    "skills log": "x",
    "skills export": "x",
    "workflow list": "",
    "workflow show": "x",
    "workflow export": "x",
    "token list": "",
    "sessions list": "",
    "sessions show": "x",
    "sessions grants": "x",
    "audit tail": "",
    "audit verify": "",
    "audit trace": "s-1",
    "slack manifest": "",
    "keys list": "",
    "files list": "public",
}
"""The commands that only report, each with arguments."""

ACTS: Final = frozenset(
    {
        *("backup", "restore", "chat", "init", "run", "import"),
        # Each has a row in the audit: a question to the gate, and a copy that leaves.
        *("simulate", "export"),
        *("runs start", "runs steer", "runs pause", "runs resume", "runs stop"),
        *("schedules pause", "schedules resume", "schedules cancel"),
        *("memory correct", "memory forget"),
        *("skills approve", "skills reject", "skills deprecate", "skills rollback", "skills load", "skills save"),
        *("workflow start", "workflow resume", "workflow pass", "workflow import"),
        *("token create", "token rotate", "token revoke"),
        *("mcp serve", "mcp draft", "mcp login", "mcp logout"),
        *("sessions revoke", "sessions release", "sessions pause", "sessions resume", "sessions archive"),
        *("sessions restore", "sessions delete", "slack install"),
        *("keys rotate", "keys adopt", "keys retire", "files copy", "files put", "files label"),
    }
)


_PROGRAM: Final = """
import contextlib, io, json, sys
from redis import Redis
from bot.__main__ import run

store, config, commands = Redis.from_url(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
found = {}
for name, words in commands.items():
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = run(["--config", config, *words])
    left = [key.decode() for key in store.keys("*") if not key.startswith(b"lg:right:")]
    found[name] = {"code": code, "err": err.getvalue(), "left": left}
    store.flushall()
print(json.dumps(found))
"""
"""Carries commands out in one process, and tells what each left in the store."""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    (tmp_path / "config.yaml").write_text("{}")
    (tmp_path / "cases.yaml").write_text("[]")
    machine.data.mkdir(mode=0o700)
    return machine


@pytest.fixture
def store(machine: Machine) -> Iterator[Any]:
    """A client of the server, which stays over all commands."""
    supervisor = Supervisor(machine.data)
    supervisor.attach_blocking()
    client = cast("Any", Redis).from_url(supervisor.url)
    yield client
    client.close()
    supervisor.detach_blocking()


def names(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:  # noqa: ANN401 - the library's
    below = cast("dict[str, Any]", getattr(command, "commands", {}))
    if not below:
        yield " ".join(path)
    for name, one in below.items():
        yield from names(one, (*path, name))


def test_every_command_is_known_to_report_or_to_act() -> None:
    every = set(names(typer.main.get_command(app)))
    assert every == LOOKS.keys() | ACTS
    assert not LOOKS.keys() & ACTS


@pytest.mark.usefixtures("store")
def test_commands_that_only_report_write_nothing(machine: Machine) -> None:
    commands = {
        name: [*name.split(), *(one.format(folder=machine.folder) for one in arguments.split())]
        for name, arguments in LOOKS.items()
    }
    url = f"unix://{(machine.data / 'store' / 'socket').read_text()}"
    asked = [sys.executable, "-c", _PROGRAM, url, str(machine.folder / "config.yaml"), json.dumps(commands)]
    environment = {**os.environ, "LOCKGATE_DATA_DIR": str(machine.data)}
    done = subprocess.run(asked, cwd=_ROOT, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert {name: one["left"] for name, one in found.items() if one["left"]} == {}
    # Some find nothing here, and say so; none is misunderstood.
    assert not [name for name, one in found.items() if one["code"] not in {0, 1, 2} or "Usage:" in one["err"]]
    # The server's own files, and the keys, which a restore needs.
    assert {path.name for path in machine.data.iterdir()} <= {"store", "keys", "anchors.lock"}


def test_a_command_that_acts_makes_the_keys_known(machine: Machine, store: Any) -> None:  # noqa: ANN401 - as above
    assert machine.run("doctor").code == 0
    assert not store.exists("lg:{audit}:keys")
    assert machine.run("simulate", "clock").code == 0
    assert store.exists("lg:{audit}:keys", "lg:{audit}:chain") == 2


def test_a_report_compares_the_keys_too(machine: Machine) -> None:
    assert machine.run("simulate", "clock").code == 0
    (machine.data / "keys" / "audit").write_bytes(b"k" * 32)
    asked = machine.run("keys", "list")
    assert asked.code == 2
    assert "of this installation is not here" in asked.err


def test_a_fault_that_doctor_reports_is_not_logged_beside_it(machine: Machine) -> None:
    bucket = "{name: none, prefix: '', endpoint: 'http://127.0.0.1:1'}"
    (machine.folder / "config.yaml").write_text(f"files: {{bucket: {bucket}}}\n")
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    asked = machine.run("doctor", **keys)
    assert (asked.code, asked.err) == (2, "")
    assert asked.out.count("127.0.0.1:1") == 1
