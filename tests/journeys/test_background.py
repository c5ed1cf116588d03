"""Stories of sessions that work for one another, told at the console."""

import json

from tests.journeys.machine import Machine


def call(tool: str, **arguments: str) -> str:
    return f"!{tool} {json.dumps(arguments)}"


def test_background_research_that_reports_back(machine: Machine) -> None:
    """Somebody sends a helper to look something up and goes on talking; the report comes as a message."""
    look = call("list_files", path="public")
    ended = machine.chat(call("sessions_spawn", task=look, title="what is public"), "thank you", "/agents", "/taint")
    assert (ended.code, ended.err) == (0, "")
    assert "· sessions_spawn allowed, taint PUBLIC" in ended.out
    assert "[result of background session" in ended.out
    assert "welcome.md" in ended.out
    assert "ended, completed, taint PUBLIC~: what is public" in ended.out
    # What comes back was looked up where anybody may write, and the conversation that heard it knows.
    assert "Taint PUBLIC~." in ended.out.splitlines()[-1] or "PUBLIC → PUBLIC~ by session" in ended.out


def test_what_may_not_come_back_does_not(machine: Machine) -> None:
    """A helper may read what the conversation has not; it tells that it is done, and the conversation stays PUBLIC."""
    read = call("read_file", path="confidential/pipeline.md")
    tell = call("message", channel="console", recipient="guest", text="we open at nine")
    ended = machine.chat(call("sessions_spawn", task=read), tell, "/taint")
    assert "Veldhaven" not in ended.out
    assert "it has read more than this session" in ended.out
    assert "→ guest: we open at nine" in ended.out
    assert "  Taint PUBLIC." in ended.out


def test_two_sessions_hand_over_work(machine: Machine) -> None:
    """A helper tells what it has so far, goes on, and hands over the rest; whoever sent it off hears both."""
    first = call("sessions_send", session_id="parent", content="the list comes next")
    task = f"{first}\n{call('list_files', path='public')}"
    ended = machine.chat(call("sessions_spawn", task=task), "/agents")
    assert ended.code == 0
    told = ended.out.index("the list comes next")
    assert "[message from session" in ended.out
    assert told < ended.out.index("[result of background session")
    assert "ended, completed" in ended.out


def test_refused_here_continued_by_one_that_has_read_nothing(machine: Machine) -> None:
    """Having read a confidential file, the conversation may tell no guest; what its person types is another matter."""
    tell = call("message", channel="console", recipient="guest", text="we open at nine")
    ended = machine.chat(call("read_file", path="confidential/pipeline.md"), tell, f"/spawn {tell}", "/agents")
    assert "· message refused by no_write_down" in ended.out
    assert ended.out.count("→ guest: we open at nine") == 1
    assert "ended, completed, taint PUBLIC" in ended.out
