"""The life of a conversation as its owner and the operator see it: archived and begun anew, and deleted for good."""

import json
from pathlib import Path

from bot.cli.chat import SECOND
from tests.bot.kit import bang
from tests.journeys.machine import Machine

WORD = "swordfish"


def sessions(machine: Machine) -> list[dict[str, str]]:
    return json.loads(machine.run("sessions", "list", "--json").out)


def test_a_session_archived_and_its_chat_begun_anew(machine: Machine) -> None:
    first = machine.chat("remember the harbour", "/archive", "what did I say?", "/status")
    assert "The conversation is archived" in first.out
    assert "You said: what did I say?" in first.out
    new, old = sessions(machine)
    assert (old["status"], new["status"]) == ("archived", "idle")
    assert old["id"] != new["id"]
    assert f"session {new['id']}" in first.out
    # The next process goes on where the chat is by now, and what was archived is still read.
    again = machine.chat("and now?", f"/history {old['id']}", f"/restore {old['id']}")
    assert "You said: and now?" in again.out
    assert "remember the harbour" in again.out
    assert "its chat goes on in another conversation by now" in again.out
    assert [one["id"] for one in sessions(machine)] == [new["id"], old["id"]]
    assert machine.run("sessions", "archive", new["id"]).out == f"{new['id']} is archived\n"
    assert f"`lockgate sessions restore {new['id']}`" in machine.run("sessions", "pause", new["id"]).err
    assert machine.run("sessions", "restore", new["id"]).out == f"{new['id']} is restored\n"
    assert "· going on" in machine.chat("there again").out


def test_a_second_console_is_told_of_the_first(machine: Machine) -> None:
    with machine.start("chat") as first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(b"/whoami\n")
        first.stdin.flush()
        first.stdout.readline()
        assert machine.chat("/whoami").err == f"{SECOND}\n"
        first.communicate()
    assert machine.chat("/whoami").err == ""


def test_a_pipe_does_not_wait_for_a_conversation_that_rests(machine: Machine) -> None:
    shown = machine.chat("hello", "/pause", "later").out
    assert shown.endswith("· this conversation rests: `/resume` lets it go on\n")
    # What was told meanwhile is answered, in another process too.
    assert "You said: later" in machine.chat("/resume").out


def held(folder: Path) -> list[Path]:
    """Return the files that hold the word."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if WORD.encode() in path.read_bytes()]


def test_delete_leaves_nothing(machine: Machine) -> None:
    long = f"{WORD} " * 8_000
    note = bang("write_file", path="workspace/note.md", text=WORD)
    machine.chat(f"remember the {WORD}", long, note, bang("sessions_spawn", task=f"look for the {WORD}"))
    (mine, *_) = [one for one in sessions(machine) if one["status"] == "idle"]
    out = machine.folder / "export.jsonl"
    assert machine.run("export", mine["id"], "--out", str(out)).code == 0
    assert held(machine.data)
    asked = machine.run("sessions", "delete", mine["id"])
    assert (asked.code, "--yes" in asked.err) == (2, True)
    done = machine.run("sessions", "delete", mine["id"], "--yes")
    assert "The conversation is deleted, with 1 background session." in done.out
    assert "exports" in done.out
    # In keys, in the store's file, in the workspace: nothing. An export made before stays, and its signature holds.
    assert held(machine.data) == []
    assert sessions(machine) == []
    assert machine.run("export", mine["id"]).code == 2
    assert machine.run("export", "verify", str(out)).code == 0
    assert "intact" in machine.run("audit", "verify").out
    assert "going on" not in machine.chat("hello").out
