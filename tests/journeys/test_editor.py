"""The editor of `lockgate chat`: history, completion, pastes, work that is shown, and terminals that cannot edit."""

import json
import socket
import stat
from collections.abc import Iterator

import pytest

from bot.cli.keyboard.history import TypedLine
from tests.journeys.machine import Machine
from tests.journeys.screen import Terminal, history_file

PUBLIC = "lockgate [PUBLIC]> "
UP, CTRL_C, CTRL_D = "\x1b[A", "\x03", "\x04"
SECRET = "AKIAIOSFODNN7" + "Q2W4ERT"


@pytest.fixture
def terminal(machine: Machine) -> Iterator[Terminal]:
    opened = Terminal(machine)
    opened.until(PUBLIC)
    yield opened
    opened.close()


def _kept(machine: Machine) -> list[str]:
    return [TypedLine(**json.loads(line)).text for line in history_file(machine).read_text().splitlines()]


def test_a_paste_is_one_message_and_never_a_command(terminal: Terminal) -> None:
    terminal.paste("/reset confirm\n/quit\r\nlast")
    terminal.until("/reset confirm", "/quit", "last")
    terminal.type("\n")
    terminal.until("You said:", "/reset confirm", "/quit", "last", PUBLIC)
    terminal.paste("/quit")
    terminal.type("\n")
    terminal.until("You said:", "/quit", PUBLIC)
    # A paste behind a command that was typed is its argument.
    terminal.type("/help ")
    terminal.paste("whoami")
    terminal.type("\n")
    terminal.until("/whoami  Tell who you are here", PUBLIC)
    # A command that replaces what was pasted is one.
    terminal.paste("/x")
    terminal.type("\x15/taint\n")
    terminal.until("Taint PUBLIC.", PUBLIC)


def test_a_pasted_word_answers_no_question(terminal: Terminal) -> None:
    terminal.type('!web_fetch {"url":"http://127.0.0.1:9/x"}\n')
    terminal.until("lockgate [PUBLIC~]> ")
    terminal.type('!write_file {"path":"public/a.txt","text":"hi"}\n')
    terminal.until("a question waits: `yes` or `no` answers it", "lockgate [PUBLIC~]> ")
    terminal.paste("yes")
    terminal.type("\n")
    terminal.until("this waits behind a question", "lockgate [PUBLIC~]> ")
    terminal.type("no\n")
    terminal.until("a person refused this call", "You said:", "yes", "lockgate [PUBLIC~]> ")


def test_lines_are_kept_for_the_next_time_privately_and_no_secret(machine: Machine, terminal: Terminal) -> None:
    for line in ("first line", f"the key is {SECRET}", "second line"):
        terminal.type(f"{line}\n")
        terminal.until("You said: ", PUBLIC)
    terminal.type("/answer q_1 the code of the door\n")
    terminal.until("There is nothing of that name here.", PUBLIC)
    terminal.type(CTRL_D)
    assert terminal.ends() == 0
    assert _kept(machine) == ["first line", "second line"]
    assert stat.S_IMODE(history_file(machine).stat().st_mode) == 0o600
    again = Terminal(machine)
    try:
        again.until(PUBLIC)
        again.type(UP)
        again.until(f"{PUBLIC}second line")
        again.type(UP)
        again.until(f"{PUBLIC}first line")
        again.type("\x05 edited\n")
        again.until("You said: first line edited", PUBLIC)
        again.type("/reset confirm\n")
        again.until("A new conversation begins", PUBLIC)
        again.type(f"{UP}{UP}")
        again.read(1)
        again.type(CTRL_C)
        again.type("/quit\n")
        assert again.ends() == 0
    finally:
        again.close()
    # What was forgotten does not come back.
    assert [line for line in _kept(machine) if not line.startswith("/")] == []


def test_an_answer_is_not_kept_however_its_command_is_written(machine: Machine, terminal: Terminal) -> None:
    terminal.type("/Answer q_1 the code of the door\n")
    terminal.until("There is nothing of that name here.", PUBLIC)
    terminal.type("/taint\n")
    terminal.until("Taint PUBLIC.", PUBLIC)
    terminal.type(CTRL_D)
    assert terminal.ends() == 0
    assert _kept(machine) == ["/taint"]


def test_forgotten_lines_do_not_come_back_with_the_arrow_keys(terminal: Terminal) -> None:
    terminal.type("the old plan\n")
    terminal.until("You said: the old plan", PUBLIC)
    terminal.type("/reset confirm\n")
    terminal.until("A new conversation begins", PUBLIC)
    terminal.read(1)
    for _ in range(3):
        terminal.type(UP)
        terminal.read(0.5)
        assert f"{PUBLIC}the old plan" not in terminal.shown()


def test_lines_of_another_conversation_go_when_it_is_deleted(machine: Machine, terminal: Terminal) -> None:
    terminal.type("the old plan\n")
    terminal.until("You said: the old plan", PUBLIC)
    sid = json.loads(history_file(machine).read_text().splitlines()[0])["sid"]
    terminal.type("/archive\n")
    terminal.until("/archive", PUBLIC)
    terminal.type("something new\n")
    terminal.until("You said: something new", PUBLIC)
    terminal.type(f"/delete {sid} confirm\n")
    terminal.until(f"/delete {sid} confirm", PUBLIC)
    terminal.type("/taint\n")
    terminal.until("Taint PUBLIC.", PUBLIC)
    terminal.read(1)
    assert "the old plan" not in _kept(machine)
    assert "something new" in _kept(machine)


def test_commands_actions_sessions_and_paths_are_completed(terminal: Terminal) -> None:
    terminal.type("hello there\n")
    terminal.until("You said: hello there", PUBLIC)
    terminal.type("/name Harbour works\n")
    terminal.until("This conversation is called Harbour works.", PUBLIC)
    terminal.type("/class")
    terminal.until("Set the classification of a shared chat")
    terminal.type(f"{CTRL_C}/pair ")
    terminal.until("approve", "revoke")
    terminal.type(f"{CTRL_C}/history Harb")
    terminal.until("Harbour works")
    terminal.type("\t\n")
    terminal.until("/history ", "hello there", PUBLIC)
    terminal.type('!read_file {"path": "conf\t')
    terminal.until('"confidential/')
    terminal.type("pip")
    terminal.until("confidential/pip", "confidential/pipeline.md  CONFIDENTIAL")
    terminal.type("\t")
    terminal.until('"confidential/pipeline.md')
    terminal.type('"}\n')
    terminal.until("· read_file allowed", "lockgate [CONFIDENTIAL~]> ")


def test_what_is_told_the_agent_when_it_asks_is_not_kept(machine: Machine, terminal: Terminal) -> None:
    schema = {"type": "enum", "values": ["fourteen twelve", "none"]}
    # Pasted, for the line that asks would be kept otherwise.
    terminal.paste(f"!ask_user {json.dumps({'question': 'The code of the door?', 'schema': schema})}")
    terminal.type("\n")
    terminal.until("The code of the door?", "the agent waits for your answer", PUBLIC)
    terminal.type("fourteen twelve\n")
    terminal.until("fourteen twelve", PUBLIC)
    terminal.type("/questions\n")
    terminal.until("/questions", PUBLIC)
    terminal.type(CTRL_D)
    assert terminal.ends() == 0
    kept = history_file(machine).read_text()
    assert "/questions" in kept
    assert "fourteen" not in kept


def test_a_turn_that_was_left_goes_on(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        config = {"web": {"unsafe_allow_private_addresses": [place], "seconds": 20}}
        (machine.folder / "config.yaml").write_text(json.dumps(config))
        opened = Terminal(machine)
        try:
            opened.until(PUBLIC)
            opened.type(f'!web_fetch {{"url":"http://{place}/x"}}\n')
            opened.until("· web_fetch, 1 s")
            opened.type(CTRL_D)
            assert opened.ends() == 0
        finally:
            opened.close()
    again = machine.chat("/status")
    assert "web_fetch" in again.out
    assert "status idle" in again.out


def test_work_is_shown_with_the_tool_and_answers_commands_meanwhile(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        config = {"web": {"unsafe_allow_private_addresses": [place]}}
        (machine.folder / "config.yaml").write_text(json.dumps(config))
        opened = Terminal(machine)
        try:
            opened.until(PUBLIC)
            _work_is_shown(opened, f'!web_fetch {{"url":"http://{place}/x"}}\n')
        finally:
            opened.close()


def _work_is_shown(opened: Terminal, fetch: str) -> None:
    opened.type(fetch)
    opened.until("· web_fetch, 1 s", "]> ")
    opened.until("· web_fetch, 2 s", "]> ")
    opened.type("/status\n")
    opened.until("status running", "· web_fetch, ", "]> ")
    opened.type("half a line")
    opened.until("· web_fetch, ", "]> half a line")
    opened.type(CTRL_C)
    opened.until("Stopping the turn", "  stopped")
    # The line that was being typed is still there, and the next Ctrl-C takes it away.
    opened.until("]> half a line")
    opened.type(CTRL_C)
    opened.until("]> ")
    assert "web_fetch, " not in opened.shown()
    opened.type(fetch)
    opened.until("· web_fetch, 1 s")
    opened.type("/stop\n")
    opened.until("Stopping the turn", "]> ")
    opened.type(CTRL_D)
    assert opened.ends() == 0


def test_what_a_model_writes_moves_no_cursor(terminal: Terminal) -> None:
    terminal.paste('!message {"channel": "console", "recipient": "owner", "text": "a\\u001b[2Jb\\u0007"}')
    terminal.type("\n")
    terminal.until("a\\x1b[2Jb\\x07", PUBLIC)
    assert b"\x1b[2J" not in terminal.raw
    terminal.paste("x\x1b[2Jy")
    terminal.type("\n")
    terminal.until("that line holds control characters, it was not sent", PUBLIC)
    assert b"\x1b[2J" not in terminal.raw


def test_without_colours(machine: Machine) -> None:
    coloured = {b"\x1b[2m", b"\x1b[36m", b"\x1b[0;36m", b"\x1b[0;38;5"}
    for environment, some in (({"NO_COLOR": "1"}, False), ({}, True)):
        opened = Terminal(machine, **environment)
        try:
            opened.until(PUBLIC)
            opened.type("/taint\n")
            opened.until("Taint PUBLIC.", PUBLIC)
            opened.type(f"{CTRL_C}")
            opened.until("nothing is running, /quit leaves", PUBLIC)
            opened.type(CTRL_D)
            assert opened.ends() == 0
        finally:
            opened.close()
        assert any(sequence in opened.raw for sequence in coloured) is some


def test_a_dumb_terminal_gets_no_control_sequence(machine: Machine) -> None:
    opened = Terminal(machine, term="dumb")
    try:
        opened.until(PUBLIC)
        opened.type("hello\n")
        opened.until("You said: hello", PUBLIC)
        opened.type("/quit\n")
        assert opened.ends() == 0
    finally:
        opened.close()
    assert b"\x1b" not in opened.raw
    assert not history_file(machine).exists()


def test_the_editor_is_imported_at_a_terminal_alone(machine: Machine) -> None:
    piped = machine.fresh.run("chat", typed="/quit\n", PYTHONPROFILEIMPORTTIME="1")
    assert piped.code == 0
    assert "bot.cli.chat" in piped.err
    assert "prompt_toolkit" not in piped.err


def test_only_the_editor_is_imported_before_the_prompt(machine: Machine) -> None:
    opened = Terminal(machine.fresh, PYTHONPROFILEIMPORTTIME="1")
    try:
        # The lines about imports are written over the prompt.
        while b"lockgate>" not in opened.raw:
            opened.read(1)
    finally:
        opened.close()
    before = opened.raw.partition(b"lockgate>")[0]
    assert b"prompt_toolkit" in before
    heavy = (
        "pydantic_ai",
        "redis",
        "bot.config.load",
        "bot.gate",
        "bot.sessions.models",
        "bot.tools",
        "policy.document",
    )
    assert [name for name in heavy if name.encode() in before] == []


def test_a_wrong_configuration_ends_the_prompt_with_its_sentence(machine: Machine) -> None:
    (machine.folder / "config.yaml").write_text("limits:\n  message_charakters: 5\n")
    opened = Terminal(machine)
    try:
        shown = opened.until("config.yaml:2: ", "message_characters")
        opened.type("hello\n")
        assert opened.ends() == 2
    finally:
        opened.close()
    assert shown.startswith("Lockgate. /help lists the commands, /quit leaves.\n")
    assert "Traceback" not in opened.shown()
    # The terminal is as it was: what is typed is seen again, and a paste comes as it is.
    assert opened.raw.rfind(b"\x1b[?2004l") > opened.raw.rfind(b"\x1b[?2004h")


def test_a_file_that_is_no_configuration_ends_before_the_prompt(machine: Machine) -> None:
    (machine.folder / "config.yaml").write_text("limits: [\n")
    opened = Terminal(machine)
    try:
        assert opened.ends() == 2
    finally:
        opened.close()
    assert "not valid YAML" in opened.shown()
    assert b"lockgate>" not in opened.raw


def test_a_limit_holds_for_a_line_that_was_typed_before_it_was_read(machine: Machine) -> None:
    (machine.folder / "config.yaml").write_text("limits:\n  message_characters: 20\n")
    opened = Terminal(machine.fresh)
    try:
        opened.until("lockgate> ")
        opened.type(f"{'long ' * 10}\nshort\n")
        opened.until("that line is longer than 20 characters, it was not sent", "You said: short")
        opened.type("/quit\n")
        assert opened.ends() == 0
    finally:
        opened.close()


def test_the_version_is_told(machine: Machine) -> None:
    told = machine.run("--version")
    assert (told.code, told.out.split()[0]) == (0, "lockgate")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(machine: Machine, shell: str) -> None:
    shown = machine.fresh.run("--show-completion", shell)
    assert shown.code == 0
    assert "lockgate" in shown.out
    asked = {"COMP_WORDS": "lockgate sess", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "lockgate sess"}
    completed = machine.fresh.run(
        **asked, _LOCKGATE_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_FISH_ACTION="get-args"
    )
    assert "sessions" in completed.out, completed
