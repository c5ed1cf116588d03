"""Stories of things that are passed on without being read into the conversation."""

import json
import re

from tests.journeys.machine import Machine

_CONFIG = """\
policy:
  principals:
    owner: {role: owner, clearance: top, accounts: ["console:owner"]}
    board: {role: member, clearance: CONFIDENTIAL, accounts: ["console:board"]}
  recipients:
    owner: {channel: console, chat: owner, clearance: top}
    board: {channel: console, chat: board, clearance: CONFIDENTIAL}
    guest: {channel: console, chat: guest, clearance: PUBLIC}
"""


def message(recipient: str, text: str | dict[str, str]) -> str:
    return f"!message {json.dumps({'channel': 'console', 'recipient': recipient, 'text': text})}"


def test_a_confidential_file_is_forwarded_from_a_public_chat(machine: Machine) -> None:
    """Somebody has the board sent its figures, and may go on telling guests of it, because he did not read them."""
    machine.folder.joinpath("config.yaml").write_text(_CONFIG)
    fetched = machine.chat('!read_file {"path": "confidential/pipeline.md", "_hold": true}')
    assert "Veldhaven" not in fetched.out
    held = re.search(r"held-\w+", fetched.out)
    assert held is not None
    it = {"$ref": held[0]}

    # The next day, in another process.
    ended = machine.chat(message("board", it), message("guest", it), message("guest", "the board has it"), "/taint")
    assert ended.code == 0
    to_board, _, rest = ended.out.partition("· message refused by no_write_down")
    # Files are UNTRUSTED here: anybody may have written this one.
    assert "→ board: Text from outside; nobody here checked it:\n  # Sales pipeline" in to_board
    assert "Veldhaven" in to_board
    assert "Veldhaven" not in rest
    assert "→ guest: the board has it" in rest
    assert ended.out.splitlines()[-2].strip() == "Taint PUBLIC."


def test_what_was_held_can_still_be_read_and_then_counts(machine: Machine) -> None:
    """He may look at it after all; from then on the conversation is as confidential as what it read."""
    machine.folder.joinpath("config.yaml").write_text(_CONFIG)
    fetched = machine.chat('!read_file {"path": "confidential/pipeline.md", "_hold": true}')
    held = re.search(r"held-\w+", fetched.out)
    assert held is not None
    ended = machine.chat(f'!admit {{"ref": "{held[0]}"}}', message("guest", "good figures"), "/taint")
    assert "Veldhaven" in ended.out
    assert "· message refused by no_write_down" in ended.out
    assert "  Taint CONFIDENTIAL~." in ended.out
