"""Another session key at the command line, while a process holds a conversation."""

import json
from pathlib import Path

from tests.journeys.machine import Machine


def test_a_conversation_goes_on_while_its_key_becomes_an_old_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with machine.start("chat") as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def said(text: bytes) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(text + b"\n")
            process.stdin.flush()
            while b"You said: " + text not in process.stdout.readline():
                pass

        said(b"high water")
        rotated = machine.run("keys", "rotate", "session")
        assert (rotated.code, rotated.err) == (0, "")
        assert "names new conversations now" in rotated.out
        assert "key rotate session" in machine.run("audit", "tail").out
        said(b"low water")
        process.communicate()
    listed = json.loads(machine.run("keys", "list", "--json").out)
    assert [one["state"] for one in listed if one["use"] == "session"] == ["in force", "old"]
    later = machine.chat("/history")
    assert all(text in later.out for text in ("high water", "low water"))
    refused = machine.run("keys", "retire", "session")
    assert (refused.code, refused.err.splitlines()[1]) == (2, "keep `keys/session.old`")
    for change, step in (("rotate", "move `keys/vault` to `keys/vault.old`"), ("retire", "delete `keys/vault.old`")):
        by_hand = machine.run("keys", change, "vault")
        assert by_hand.code == 2
        assert by_hand.err.splitlines()[1].startswith(step)
