"""What a session may know of itself, of others and of the gate."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.tools.introspection import SessionStatus, SimulateArguments, SimulateToolCall
from channels.message import Address
from policy.labels import parse
from tests.bot.kit import CONFIDENTIAL, bang, often, policy, results, scene, standing
from tests.harness import Person, running

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = pytest.mark.anyio

TWO = {
    "owner": {"role": "owner", "clearance": "top", "accounts": ["console:owner"]},
    "guest": {"role": "member", "clearance": "PUBLIC", "accounts": ["console:guest"]},
}


def told(shown: str) -> dict[str, object]:
    return json.loads(shown.split("session_status: ", 1)[1].strip())


async def test_a_session_tells_of_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        found = told(await owner.say(bang("session_status")))
        assert found["id"] == owner.sid
        assert (found["channel"], found["user"], found["taint"]) == ("console", "owner", "PUBLIC")
        assert (found["clearance"], found["status"], found["queued"]) == ("RESTRICTED~", "running", 0)
        assert found["usage"] == {"requests": 1, "input_tokens": 1, "output_tokens": 3, "complete": True}
        assert "'yield_reason': 'completed'" in str(found["last_turn"])


async def test_a_session_that_just_began_has_no_last_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        assert told(await owner.say(bang("session_status")))["last_turn"] is None


async def test_no_read_up_absent_another_persons_and_higher_are_the_same(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals=TWO)) as owner:
        guest = Person(owner.app, owner.output, Address("console", "guest"), "console:guest")
        high = Person(owner.app, owner.output, Address("console", "other"))
        await guest.say("hello")
        await high.say(bang("read_file", path="confidential/pipeline.md"))
        answers = [
            (await owner.say(bang("session_status", session_id=sid))).strip()
            for sid in (guest.sid, high.sid, "nonsense", "", "audit")
        ]
        assert answers[:3] == ["session_status: there is no such session"] * 3
        # and once the caller has read as much, it may know of its own other session
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        assert told(await owner.say(bang("session_status", session_id=high.sid)))["id"] == high.sid
        assert "no such session" in await owner.say(bang("session_status", session_id=guest.sid))


async def test_what_it_tells_bears_the_callers_taint(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        tool = SessionStatus(owner.app.store)
        for session in (None, "nobody"):
            arguments = tool.arguments(session_id=session)
            assert tool.declare(arguments, scene(CONFIDENTIAL)).result == CONFIDENTIAL
            assert (await tool.run(arguments, scene(CONFIDENTIAL))).label == CONFIDENTIAL


async def test_a_session_id_cannot_be_smuggled(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("session_status", sid="x", principal="boss", taint="PUBLIC"))
        assert results(await owner.events()) == [("session_status", "denied")]


async def test_simulating_changes_nothing_and_equals_the_real_call(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        before = await owner.state()
        message: dict[str, JsonValue] = {"channel": "console", "recipient": "guest", "text": "x"}
        shown = await owner.say(bang("simulate_tool_call", tool_name="message", args=message))
        report = json.loads(shown.split("simulate_tool_call: ", 1)[1])
        real = await owner.app.gate.simulate(standing(before.taint, sid=owner.sid), "message", message, before.taint)
        assert report == real
        assert report["verdict"] == "BLOCK"
        assert (await owner.state()).taint == before.taint == parse("CONFIDENTIAL~")
        assert "→ guest" not in owner.shown


async def test_simulations_are_bounded() -> None:
    tool = SimulateToolCall(often(2))
    arguments = SimulateArguments(tool_name="message", args={})
    assert tool.declare(arguments, scene(CONFIDENTIAL)).result == CONFIDENTIAL
    answers = [await tool.run(arguments, scene(CONFIDENTIAL)) for _ in range(3)]
    assert [answer.failed for answer in answers] == [False, False, True]
    assert answers[2].label == CONFIDENTIAL
    assert not (await tool.run(arguments, scene(sid="s2"))).failed
