"""At a real terminal: a prompt at once, the taint in it, a status line, and Ctrl-C that stops a turn only."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.journeys.machine import Machine
from tests.journeys.screen import Terminal
from tests.sim.act import Act
from tests.sim.provider import provider


@pytest.fixture
def terminal(machine: Machine) -> Iterator[Terminal]:
    opened = Terminal(machine.fresh)
    yield opened
    opened.close()


def test_a_conversation_at_a_terminal(terminal: Terminal) -> None:
    terminal.until("lockgate [PUBLIC]> ")
    terminal.type("hello\n")
    # What is over in a moment is not announced.
    assert "working" not in terminal.until("You said: hello", "lockgate [PUBLIC]> ")
    terminal.type('!read_file {"path": "confidential/pipeline.md"}\n')
    terminal.until("· read_file allowed, taint CONFIDENTIAL~", "lockgate [CONFIDENTIAL~]> ")
    terminal.type("\x03")
    terminal.until("nothing is running, /quit leaves")
    terminal.type("/reset confirm\n")
    terminal.until("lockgate [PUBLIC]> ")
    terminal.type("\x04")
    assert terminal.ends() == 0


@pytest.mark.anyio
async def test_a_turn_that_takes_a_moment_is_shown_to_go_on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    async with provider(Act(text="at last", delay=2)) as played:
        name = "openai-chat:sim"
        model = {"name": name, "providers": {name: {"base_url": f"http://127.0.0.1:{played.port}/v1"}}}
        config = {"model": model, "policy": {"models": {name: {"clearance": "top"}}}}
        (machine.folder / "config.yaml").write_text(json.dumps(config))
        await asyncio.to_thread(_hello, machine)


def _hello(machine: Machine) -> None:
    opened = Terminal(machine)
    try:
        opened.until("lockgate [PUBLIC]> ")
        opened.type("hello\n")
        opened.until("· working, 1 s")
        opened.until("at last", "lockgate [PUBLIC]> ")
    finally:
        opened.close()


def test_what_is_typed_before_the_store_is_open_is_not_lost(terminal: Terminal) -> None:
    terminal.until("lockgate> ")
    terminal.type("early\n")
    terminal.until("early", "You said: early")
    terminal.type("/quit\n")
    assert terminal.ends() == 0


FETCH = '!web_fetch {"url":"http://127.0.0.1:9/x"}\n'
ASKS = '!write_file {"path":"public/a.txt","text":"hi"}\n'


def test_a_question_is_answered_by_a_word(terminal: Terminal) -> None:
    terminal.until("lockgate [PUBLIC]> ")
    terminal.type(FETCH)
    terminal.until("lockgate [PUBLIC~]> ")
    terminal.type(ASKS)
    terminal.until("Deny: `/deny", "`yes` or `no` answers it", "lockgate [PUBLIC~]> ")
    terminal.type("\x03")
    terminal.until("a question waits: `yes` or `no` answers it")
    terminal.type("what is this?\n")
    terminal.until("this waits behind a question")
    terminal.type("yes\n")
    terminal.until("write_file: written", "You said: what is this?", "lockgate [PUBLIC~]> ")
    # Nothing waits any more, so it is a word like any other.
    terminal.type("yes\n")
    terminal.until("You said: yes", "lockgate [PUBLIC~]> ")
    terminal.type(ASKS)
    terminal.until("Deny: `/deny")
    terminal.type("/stop\n")
    terminal.until("  stopped")
    terminal.type("\x04")
    assert terminal.ends() == 0


def test_a_question_is_asked_again_after_a_restart(machine: Machine) -> None:
    first = machine.chat(FETCH.strip(), ASKS.strip())
    assert "Deny: `/deny" in first.out
    again = Terminal(machine)
    try:
        again.until("Answer with `/approve", "`yes` or `no` answers it", "lockgate [PUBLIC~]> ")
        again.type("\x04")
        assert again.ends() == 0
    finally:
        again.close()


def test_on_a_pipe_what_is_said_waits_behind_a_question_and_stalls_nothing(machine: Machine) -> None:
    machine.chat(FETCH.strip(), ASKS.strip())
    behind = machine.chat("hello")
    assert behind.code == 0
    assert "Answer with `/approve" in behind.out
    assert "this waits behind a question" in behind.out
    answered = machine.chat("no")
    assert answered.code == 0
    assert "a person refused this call" in answered.out
    assert "You said: hello" in answered.out
