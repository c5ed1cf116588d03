"""A backup that is taken while turns are made, and the installation that comes of it elsewhere."""

import json
import os
import re
import shutil
import signal
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.cli.operating.backups import check
from bot.config.load import load_config
from bot.core.errors import OperatorError
from tests.journeys.machine import Ended, Machine
from tests.journeys.test_first_minute import READ, SEND

VALUE = "a-value-of-the-environment"
CONFIG = "secrets: {weather: {env: WEATHER_KEY}, forum: {file: .bot/forum.txt}}\n"
NOTE = '!write_file {"path": "confidential/note.md", "text": "the ebb"}'


@dataclass(frozen=True)
class Backed:
    """A machine, a backup of it, and what the command told."""

    machine: Machine
    file: Path
    made: Ended

    def elsewhere(self, name: str) -> Path:
        """Return a new data directory, with the keys of the first."""
        data = self.machine.folder / name
        data.mkdir(mode=0o700)
        shutil.copytree(self.machine.data / "keys", data / "keys")
        return data


@pytest.fixture(scope="module")
def backed(tmp_path_factory: pytest.TempPathFactory) -> Backed:
    """A conversation that read a confidential file and wrote one; it was killed while it made turns, after a backup."""
    machine = Machine(tmp_path_factory.mktemp("backed"))
    (machine.folder / "config.yaml").write_text(CONFIG)
    machine.data.mkdir(mode=0o700)
    (machine.data / "forum.txt").write_text(f"{VALUE}-in-a-file")
    file = machine.folder / "one.backup"
    with machine.start("chat", WEATHER_KEY=VALUE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{READ}\n{NOTE}\n".encode())
        process.stdin.flush()
        while not (asked := re.search(rb"/approve ([a-z0-9]{8})", process.stdout.readline())):
            pass
        hellos = "".join(f"hello {n}\n" for n in range(400))
        process.stdin.write(b"/approve %s\n" % asked[1] + hellos.encode())
        process.stdin.flush()
        while b"You said: hello" not in process.stdout.readline():
            pass
        made = machine.run("backup", str(file), WEATHER_KEY=VALUE)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    return Backed(machine, file, made)


def test_a_backup_of_a_busy_installation_is_whole_elsewhere(backed: Backed) -> None:
    made, machine, file = backed.made, backed.machine, str(backed.file)
    assert (made.code, made.err) == (0, "")
    assert re.search(r"not in it: keys: audit \w{8}, session \w{8}, vault \w{8}", made.out)
    assert "not in it: the secret `weather`, which is in the variable WEATHER_KEY" in made.out
    assert stat.S_IMODE(backed.file.stat().st_mode) == 0o600
    held = backed.file.read_bytes()
    keys = [path.read_bytes() for path in (machine.data / "keys").iterdir()]
    assert not any(secret in held for secret in (VALUE.encode(), *keys))
    assert b"Port of Veldhaven" in held

    data = backed.elsewhere("elsewhere")
    more = {"WEATHER_KEY": VALUE, "LOCKGATE_DATA_DIR": str(data)}
    shutil.copy(machine.data / "forum.txt", data)
    refused = machine.run("restore", file, **more)
    assert (refused.code, refused.out) == (2, "")
    (data / "forum.txt").unlink()
    # Looked at before, as anybody would: nothing of that is in the way.
    for looking in (("doctor",), ("sessions", "list"), ("audit", "verify")):
        assert machine.run(*looking, **more).err == ""
    restored = machine.run("restore", file, **more)
    assert (restored.code, restored.err) == (0, "")
    assert "the audit is as of then" in restored.out
    assert "2 of 2 chains intact" in restored.out
    went_on = machine.chat("/taint", SEND, READ.replace("pipeline", "note"), **more)
    assert "  Taint CONFIDENTIAL~." in went_on.out
    assert "→ guest:" not in went_on.out
    assert "the ebb" in went_on.out

    # A second time, over what was said since: other processes are refused, and the audit tells of the way back.
    with machine.start("chat", **more) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"said later\n")
        process.stdin.flush()
        while b"You said" not in process.stdout.readline():
            pass
        busy = machine.run("restore", file, "--replace", **more)
        process.communicate()
    assert (busy.code, busy.out) == (2, "")
    assert "other processes use the store" in busy.err
    again = machine.run("restore", file, "--replace", **more)
    assert (again.code, again.err) == (0, "")
    assert "chains that end before an anchor kept here, or differ from it: 2" in again.out
    assert "2 of 2 chains intact" in again.out
    (row,) = json.loads(machine.run("audit", "tail", "--json", "-n", "1", **more).out)
    assert (row["kind"], row["body"]["shortened"], row["body"]["anchors"]) == ("restored", 2, "compared")
    assert [path.parts[-2] for path in data.glob(".before-restore-*/anchors")]


def test_a_changed_backup_is_refused_before_anything_is_written(backed: Backed, tmp_path: Path) -> None:
    data = backed.elsewhere("refused")
    before = sorted(data.iterdir())
    config = load_config(None, {"LOCKGATE_DATA_DIR": str(data)}, ())
    whole, file = backed.file.read_bytes(), tmp_path / "changed"
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    for broken, reason in (
        (bytes(changed), "is not the one that was written"),
        (whole[:-40], "its end is missing"),
        (whole + b"x", "something follows its end"),
        (whole.replace(b"backup 1\n", b"backup 2\n", 1), "a backup of another format"),
        (b"", "is not a backup"),
    ):
        file.write_bytes(broken)
        with pytest.raises(OperatorError, match=reason):
            check(config, file)
    file.write_bytes(whole)
    (data / "keys" / "session").write_bytes(bytes(32))
    with pytest.raises(OperatorError, match="the session key here is not the one of the backup"):
        check(config, file)
    # After a rotation the earlier key is there too, and the backup fits.
    (data / "keys" / "session.old").write_bytes((backed.machine.data / "keys" / "session").read_bytes())
    check(config, file)
    (data / "keys" / "audit").write_bytes(bytes(32))
    with pytest.raises(OperatorError, match="or it was made with another audit key"):
        check(config, file)
    (data / "keys" / "audit").unlink()
    with pytest.raises(OperatorError, match="there is no audit key here"):
        check(config, file)
    assert sorted(data.iterdir()) == before
