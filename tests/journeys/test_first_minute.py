"""A newcomer's first minute, as the README tells it: something harmless, something refused, why, and anew."""

import json

from tests.journeys.machine import Machine
from tests.people import principal

READ = '!read_file {"path": "confidential/pipeline.md"}'
CALL = '{"channel": "console", "recipient": "guest", "text": "the deal is on"}'
SEND = f"!message {CALL}"


def test_what_was_read_decides_where_may_be_spoken(machine: Machine) -> None:
    ended = machine.fresh.chat(
        "good morning",
        READ,
        "/taint",
        SEND,
        f"/simulate message {CALL}",
        "/why",
        "/reset",
        "/reset confirm",
        "/taint",
        SEND,
    )
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    told = iter(lines)

    def follows(expected: str) -> bool:
        return any(expected in line for line in told)

    assert follows("good morning")
    assert follows("· read_file allowed, taint CONFIDENTIAL~")
    assert follows("Port of Veldhaven")
    assert follows("  Taint CONFIDENTIAL~.")
    assert follows("- PUBLIC → CONFIDENTIAL~ by read_file")
    assert follows("· message refused by no_write_down")
    assert follows("Rule `no_write_down`")
    assert follows("You can: start anew with `/reset`")
    assert follows("BLOCK, taint CONFIDENTIAL~ → CONFIDENTIAL~")
    assert follows("fixed rule no_write_down says BLOCK")
    assert follows("Refused: message.")
    assert follows("Type `/reset confirm` to do it")
    assert follows("A new conversation begins, taint PUBLIC")
    assert follows("  Taint PUBLIC.")
    assert follows("→ guest: the deal is on")
    assert ended.out.count("→ guest:") == 1


def test_the_conversation_and_its_taint_outlive_the_process(machine: Machine) -> None:
    machine.chat("remember the tide", READ)
    ended = machine.chat("/taint", SEND)
    assert "· going on, taint CONFIDENTIAL~" in ended.out
    assert "you: remember the tide" in ended.out
    assert "  Taint CONFIDENTIAL~." in ended.out
    assert "→ guest:" not in ended.out


def test_killed_in_the_middle_it_goes_on_where_it_was(machine: Machine) -> None:
    with machine.fresh.start("chat") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{READ}\nsecond\n".encode())
        process.stdin.flush()
        while "allowed" not in process.stdout.readline().decode():
            pass
        process.kill()
    ended = machine.fresh.run("chat", typed="/taint\n")
    assert ended.code == 0
    assert "Taint CONFIDENTIAL~." in ended.out
    shown = json.loads(machine.run("sessions", "list", "--json").out)
    log = json.loads(machine.run("sessions", "show", shown[0]["id"], "--json").out)["events"]
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    said = [event["body"]["text"] for event in log if event["type"] == "user.message"]
    assert said in ([READ], [READ, "second"])
    results = [event for event in log if event["type"] == "tool.result"]
    assert len(results) == 1


def test_an_approval_is_answered_in_place(machine: Machine) -> None:
    first = machine.chat(READ, '!write_file {"path": "confidential/note.md", "text": "mine"}', "/approvals")
    assert "May `write_file` run with exactly these arguments?" in first.out
    identity = first.out.split("`/approve ")[1].split("`")[0]
    assert not (machine.data / "files/confidential/note.md").exists()
    second = machine.chat(f"/approve {identity}", f"/approve {identity}", "/approvals")
    assert f"{identity} approved, `write_file` goes on" in second.out
    assert "· write_file allowed" in second.out
    assert "There is nothing of that name here" in second.out
    assert "Nothing waits for an answer." in second.out
    assert (machine.data / "files/confidential/note.md").read_text() == "mine"


def test_a_denied_call_is_not_made(machine: Machine) -> None:
    first = machine.chat(READ, '!write_file {"path": "confidential/note.md", "text": "mine"}')
    identity = first.out.split("`/approve ")[1].split("`")[0]
    second = machine.chat(f"/deny {identity}")
    assert f"{identity} denied, `write_file` is refused" in second.out
    assert not (machine.data / "files/confidential/note.md").exists()


def test_a_taint_can_be_raised_on_purpose(machine: Machine) -> None:
    ended = machine.chat("hello", "/taint raise INTERNAL", "/taint raise PUBLIC", "/taint", SEND)
    assert "that is PUBLIC or more already" in ended.out
    assert "- PUBLIC → INTERNAL by /taint raise" in ended.out
    assert "→ guest:" not in ended.out


def test_the_first_run_leaves_what_is_there_alone(machine: Machine) -> None:
    machine.chat("hello")
    assert machine.data.stat().st_mode & 0o777 == 0o700
    welcome = machine.data / "files/public/welcome.md"
    welcome.write_text("mine")
    (machine.data / "files/internal/handbook.md").unlink()
    machine.chat("hello")
    assert welcome.read_text() == "mine"
    assert not (machine.data / "files/internal/handbook.md").exists()


def test_who_gives_himself_a_name_begins_a_conversation_of_his_own(machine: Machine) -> None:
    assert "Port of Veldhaven" in machine.chat(READ).out
    ann = principal("console:owner")
    (machine.folder / "config.yaml").write_text(json.dumps({"policy": {"principals": {"ann": ann}}}))
    ended = machine.chat("good morning", "/taint")
    assert (ended.code, ended.err) == (0, "")
    assert "You said: good morning" in ended.out
    assert "CONFIDENTIAL" not in ended.out
