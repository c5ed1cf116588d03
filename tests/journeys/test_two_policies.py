"""Two processes with different files on one store: the newer serves, the older says so, and takes over when told."""

import pytest

from tests.journeys.machine import Machine, Process

OTHER = "policy:\n  rules:\n    - {id: no-time, hook: PRE_TOOL_CALL, tools: [current_time], action: BLOCK}\n"


class Typing:
    """Somebody at a chat: types lines and reads what is said."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._keyboard, self._screen = process.stdin, process.stdout

    def type(self, line: str, expected: str) -> str:
        """Type a line, or none, and read until something is said; return the line that says it."""
        if line:
            self._keyboard.write(f"{line}\n".encode())
            self._keyboard.flush()
        while expected not in (said := self._screen.readline().decode()):
            assert said, f"{expected!r} was not said"
        return said

    def leave(self) -> None:
        self._keyboard.close()


@pytest.mark.timeout(900)
def test_the_newer_process_serves_and_the_older_takes_over_when_told(machine: Machine) -> None:
    (machine.folder / "config.yaml").write_text("{}\n")
    (machine.folder / "other.yaml").write_text(OTHER)
    with machine.start("chat") as first:
        old = Typing(first)
        old.type("hello", "You said: hello")
        with machine.start("--config", "other.yaml", "chat") as second:
            said = old.type("", "stopped serving")
            assert f"process {second.pid} on " in said
            old.type("good morning", "No message is accepted here")
            Typing(second).type("!current_time {}", "no-time")
            # The doctor says so to whoever has the older file, and to nobody else.
            ended = machine.run("doctor")
            assert ended.code == 2
            assert f"process {second.pid} on " in ended.out
            assert machine.run("--config", "other.yaml", "doctor").code == 0
            # Killed, it leaves its policy in force: nobody falls back to another by himself.
            second.kill()
            second.wait(30)
        old.type("good morning", "No message is accepted here")
        assert "mend  policy in force: policy " in machine.run("doctor").out
        old.type("/policy reload", "is in force")
        old.type("good morning", "You said: good morning")
        assert machine.run("doctor").code == 0
        old.leave()
    # With nobody there, a changed file is nothing to mend: the next start puts it in force.
    (machine.folder / "config.yaml").write_text(OTHER)
    assert machine.run("doctor").code == 0
    assert "no-time" in machine.chat("!current_time {}").out
