"""The operator asks what an answer came from, and who has seen what came of a file."""

import json
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.bot.kit import bang
from tests.journeys.machine import Machine

FILE: Final = "public/welcome.md"
_TEXT: Final = "{http://www.w3.org/2000/svg}text"


def sessions(machine: Machine) -> list[dict[str, str]]:
    return json.loads(machine.run("sessions", "list", "--json").out)


def traced(machine: Machine, *arguments: str) -> dict[str, list[dict[str, str]]]:
    ended = machine.run("audit", "trace", *arguments, "--json")
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def ids(document: dict[str, list[dict[str, str]]], kind: str) -> list[str]:
    return [node["id"] for node in document["nodes"] if node["kind"] == kind]


def drawn(file: Path) -> str:
    """Return the words of a picture."""
    return "\n".join(one.text or "" for one in ET.parse(file).iter(_TEXT))  # noqa: S314 - our own


def test_an_answer_names_its_file_its_memory_and_its_session_and_each_of_them_names_the_answer(
    machine: Machine,
) -> None:
    machine.chat(bang("memory", action="learn", text="the ferry leaves at nine"), "/reset", "/reset confirm")
    said = machine.chat(
        bang("read_file", path=FILE),
        bang("memory", action="recall", query="ferry"),
        bang("sessions_spawn", task="say what the tide does"),
        "and what does that mean?",
    )
    assert "and what does that mean?" in said.out
    sid = next(one["id"] for one in sessions(machine) if one["channel"] == "console")
    whole = traced(machine, sid, "--svg", "back.svg")
    (answer,) = whole["start"]
    (file,) = ids(whole, "file")
    (memory,) = ids(whole, "memory")
    (child,) = ids(whole, "session")
    assert file.startswith(f"file:{FILE}#")
    picture = drawn(machine.folder / "back.svg")
    assert all(name in picture for name in (FILE, memory, child, "answer", "CONFIDENTIAL"))
    for source in (f"file:{FILE}", memory, child):
        went = traced(machine, source, "--forward", "--limit", "200")
        assert answer in ids(went, "answer"), source
    seen = machine.run("audit", "trace", f"file:{FILE}", "--forward", "--svg", "who.svg").out
    assert seen.endswith("The picture is in who.svg; a browser shows it.\n")
    told = seen.split("Who has seen it, as far as this page shows:\n")[1]
    assert "- console::owner: answer sent, for owner, PUBLIC" in told
    assert "console::owner" in drawn(machine.folder / "who.svg")


def test_pages_go_on_and_what_is_wrong_is_told_with_what_helps(machine: Machine) -> None:
    machine.chat("one", "two", "three")
    (session,) = sessions(machine)
    page = machine.run("audit", "trace", session["id"], "--limit", "2")
    assert f"More with `lockgate audit trace {session['id']} --cursor 2`." in page.out
    near = machine.run("audit", "trace", session["id"], "--limit", "1", "--depth", "1")
    assert f"More with `lockgate audit trace {session['id']} --depth 1 --cursor 1`." in near.out
    rest = machine.run("audit", "trace", session["id"], "--cursor", "2", "--depth", "1")
    assert rest.code == 0
    wrong = machine.run("audit", "trace", "yesterday")
    assert wrong.code == 2
    assert "`file:FOLDER/NAME`" in wrong.err
    absent = machine.run("audit", "trace", "file:public/none.md")
    assert (absent.code, "there is nothing of that name" in absent.err) == (2, True)
    unwritable = machine.run("audit", "trace", session["id"], "--svg", "no/where.svg")
    assert (unwritable.code, "cannot be written" in unwritable.err) == (2, True)
    row = machine.run("audit", "trace", f"{session['id']}:1")
    assert row.out == machine.run("explain", f"{session['id']}:1").out


def test_a_copy_that_was_brought_in_is_traced_within_itself(machine: Machine) -> None:
    machine.chat(bang("read_file", path=FILE))
    (session,) = sessions(machine)
    assert machine.run("export", session["id"], "--out", "copy.jsonl").code == 0
    assert machine.run("import", "copy.jsonl").code == 0
    (copy,) = [one["id"] for one in sessions(machine) if one["status"] == "archived"]
    found = traced(machine, copy)
    assert [name.partition("#")[0] for name in ids(found, "file")] == [f"file:{FILE}"]
    assert {node["where"] for node in found["nodes"] if node["kind"] in {"result", "call"}} == {copy}
