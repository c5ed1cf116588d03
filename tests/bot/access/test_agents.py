"""Snapshots of agents: one text and one digest in every process, and nothing else is taken for one."""

import json
import subprocess
import sys
from types import MappingProxyType

import pytest

from bot.access.agents import AgentSnapshot, Pin, lost, pin_of, read, short_digest, written
from bot.sessions.limits import SessionLimits

SNAPSHOT = AgentSnapshot(
    name="support",
    instructions="You help customers. \ud83d",
    models=("openai:a", "openai:b"),
    tools=MappingProxyType({"read_file": "0123", "web_fetch": "4567"}),
    limits=SessionLimits(5000, 60, None),
    credential="acme",
    addressed=("openai:b",),
)

PROGRAM = """
import sys
from bot.access.agents import pin_of, AgentSnapshot
from bot.tools.references import definition_digest
from bot.tools.clock import CurrentTime
from bot.tools.files import ReadFile
tools = {name: definition_digest(made) for name, made in {("t", CurrentTime()), ("f", ReadFile(None))}}
print(pin_of(AgentSnapshot("support", "x", ("offline",), tools, None)))
"""


def test_what_is_written_is_read_again() -> None:
    pin = pin_of(SNAPSHOT)
    assert read(written(SNAPSHOT), pin.digest) == SNAPSHOT
    assert Pin.parse(str(pin)) == pin
    assert str(pin) == f"support/{short_digest(written(SNAPSHOT))}"


def test_the_digest_is_the_same_in_every_process_and_for_every_hash_seed() -> None:
    pins = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("0", "1", "77")
    }
    (pin,) = pins
    assert pin.startswith("support/")


def test_the_order_of_tools_changes_nothing() -> None:
    turned = MappingProxyType({"web_fetch": "4567", "read_file": "0123"})
    assert pin_of(SNAPSHOT) == pin_of(
        AgentSnapshot("support", SNAPSHOT.instructions, SNAPSHOT.models, turned, SNAPSHOT.limits, "acme", ("openai:b",))
    )


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"name": "x"}', written(SNAPSHOT).replace("5000", "[]")])
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the text does not fit its digest"):
        read(text, "000000000000")
    if "5000" not in text and "tokens" not in text and "support" not in text:
        with pytest.raises(ValueError, match=r"the text is not a snapshot|Expecting value"):
            read(text, short_digest(text))


def test_a_text_that_was_changed_is_refused() -> None:
    told = json.loads(written(SNAPSHOT))
    told["tools"]["message"] = "89ab"
    with pytest.raises(ValueError, match="does not fit its digest"):
        read(json.dumps(told), pin_of(SNAPSHOT).digest)


def test_a_lost_agent_has_nothing() -> None:
    gone = lost("support")
    assert (gone.models, gone.instructions, gone.credential) == ((), "", "")
    assert not gone.offers("read_file")
