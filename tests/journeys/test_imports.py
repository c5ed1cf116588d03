"""An operator moves a session from one installation to another, at the command line."""

import json
from pathlib import Path

import pytest

from tests.journeys.machine import Machine

READ = '!read_file {"path": "confidential/pipeline.md"}'


@pytest.fixture
def other(tmp_path: Path) -> Machine:
    """Another machine nobody used yet."""
    folder = tmp_path / "other"
    folder.mkdir()
    return Machine(folder)


def exported(machine: Machine, name: str = "session.jsonl") -> Path:
    """Talk, and export that; return the file."""
    machine.chat("hello", READ)
    (session,) = json.loads(machine.run("sessions", "list", "--json").out)
    ended = machine.run("export", session["id"], "--out", name)
    assert (ended.code, ended.err) == (0, "")
    return machine.folder / name


def test_a_session_is_exported_and_imported_on_the_same_machine(machine: Machine) -> None:
    file = exported(machine)
    ended = machine.run("import", str(file))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("imported ")
    assert "labelled CONFIDENTIAL~, archived" in ended.out
    listed = json.loads(machine.run("sessions", "list", "--json").out)
    assert sorted(one["status"] for one in listed) == ["archived", "idle"]
    assert "was imported before, as " in machine.run("import", str(file)).out
    (new,) = [one["id"] for one in listed if one["status"] == "archived"]
    assert "session.imported" in machine.run("sessions", "show", new).out
    assert json.loads(machine.run("audit", "tail", "--chain", new, "--json").out)[0]["kind"] == "imported"
    assert machine.run("audit", "verify").code == 0


def test_another_installation_takes_it_when_it_was_told_the_key(machine: Machine, other: Machine) -> None:
    file = exported(machine)
    key = machine.run("export", "key").out.strip()
    refused = other.run("import", str(file))
    assert refused.code == 2
    assert "signed by an installation that is not known here" in refused.err
    assert "Traceback" not in refused.err
    checked = other.run("export", "verify", str(file))
    assert (checked.code, f"its key is {key}" in checked.out) == (3, True)
    top = other.run("import", str(file), "--as-top")
    assert "labelled RESTRICTED~, archived" in top.out
    (other.folder / "config.yaml").write_text(f"imports: {{keys: {{first: {key}}}}}\n")
    assert "signed by `first`" in other.run("export", "verify", str(file)).out
    assert "labelled CONFIDENTIAL~, archived" in other.run("import", str(file)).out


def test_what_cannot_be_imported_is_told_in_one_sentence(machine: Machine, tmp_path: Path) -> None:
    file = exported(machine)
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(file.read_bytes().replace(b"hello", b"jello", 1))
    ended = machine.run("import", str(changed))
    assert (ended.code, ended.out) == (2, "")
    assert "the file is not as it was exported, line " in ended.err
    assert "copy the file again, or export its session anew" in ended.err
    ended = machine.run("import", str(file), "--principal", "ownr")
    assert (ended.code, "there is no principal `ownr`, did you mean `owner`" in ended.err) == (2, True)
    ended = machine.run("import", str(tmp_path / "nowhere"))
    assert (ended.code, "cannot read" in ended.err) == (2, True)
    assert machine.run("export", "key", "--out", "x").code == 2
