"""What a session may know of itself and of its principal's other sessions."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.sessions.background.delegation import Lineage
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Title
from bot.tools.sessions import ONLY, SessionsList, SessionStatus
from channels.messages import Address
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, DIRTY, Services, bang, policy, results, tool_call, tool_context
from tests.harness import Person, running
from tests.people import principal
from tests.store.world import taken_slot

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2" * 9

TWO = {
    "owner": principal("console:owner"),
    "guest": principal("console:guest", role="member", clearance="PUBLIC"),
}


def trusted(label: Label) -> bool:
    return not label.untrusted


def told(shown: str, tool: str = "session_status") -> dict[str, Any]:
    return json.loads(shown.split(f"{tool}: ", 1)[1].strip())


def at(owner: Person, chat: str, account: str = "console:owner") -> Person:
    """Return somebody at another address of the same console."""
    return Person(owner.app, owner.output, Address("console", chat), account)


async def test_a_list_holds_what_the_callers_taint_may_know_of(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals=TWO)) as owner:
        guest, low, high = at(owner, "guest", "console:guest"), at(owner, "low"), at(owner, "high")
        for other in (guest, low, high):
            await other.say("hello")
        await high.say(bang("read_file", path="confidential/pipeline.md"))
        shown = told(await owner.say(bang("sessions_list")), "sessions_list")
        assert [one["id"] for one in shown["sessions"]] == [owner.sid, low.sid]
        assert shown["sessions"][1] == {
            "id": low.sid,
            "kind": "chat",
            "channel": "console",
            "user": "owner",
            "taint": "PUBLIC",
            "status": "idle",
            "created": (await low.state()).created_at,
            "updated": (await low.state()).updated_at,
            "title": None,
        }
        assert list(shown)[-1] == "note"
        assert shown["note"] == ONLY
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        after = told(await owner.say(bang("sessions_list", kind="chat", active_within=60)), "sessions_list")
        assert {one["id"] for one in after["sessions"]} == {owner.sid, low.sid, high.sid}
        assert after["note"] == ONLY
        assert told(await owner.say(bang("sessions_list", kind="task")), "sessions_list")["sessions"] == []


async def test_a_list_is_read_in_pages_at_one_level(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for chat in ("a", "b"):
            await at(owner, chat).say("hello")
        first = told(await owner.say(bang("sessions_list", limit=2)), "sessions_list")
        second = told(await owner.say(bang("sessions_list", limit=2, cursor=first["cursor"])), "sessions_list")
        assert second["cursor"] is None
        met = [one["id"] for one in (*first["sessions"], *second["sessions"])]
        assert set(met) == {owner.sid, at(owner, "a").sid, at(owner, "b").sid}
        await owner.say("/taint raise INTERNAL")
        refused = await owner.say(bang("sessions_list", limit=2, cursor=first["cursor"]))
        assert refused == (await owner.say(bang("sessions_list", limit=2, cursor="forged")))
        assert "begin at the first page" in refused


async def test_a_list_bears_the_callers_taint(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        tool = SessionsList(owner.app.store.index)
        for cursor in (None, "forged"):
            arguments = tool.arguments(cursor=cursor)
            assert tool.declare(arguments, tool_context(CONFIDENTIAL)).result == CONFIDENTIAL
            assert (await tool.run(arguments, *tool_call(CONFIDENTIAL))).label == CONFIDENTIAL


async def test_nobody_else_can_be_named_in_a_list(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for smuggled in ({"principal": "boss"}, {"taint": "RESTRICTED"}, {"limit": 0}, {"limit": 201}, {"kind": "x"}):
            await owner.say(bang("sessions_list", **smuggled))
        assert results(await owner.events()) == [("sessions_list", "denied")] * 5


async def test_a_session_tells_of_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        found = told(await owner.say(bang("session_status")))
        assert found["id"] == owner.sid
        assert (found["channel"], found["user"], found["taint"]) == ("console", "owner", "PUBLIC")
        assert (found["clearance"], found["status"], found["queued"]) == ("RESTRICTED~", "running", 0)
        assert found["usage"] == {"requests": 1, "input_tokens": 1, "output_tokens": 3, "complete": True, "cost": 0}
        assert "'yield_reason': 'completed'" in str(found["last_turn"])


async def test_a_status_tells_this_and_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.say("again")
        desk = at(owner, "desk")
        await desk.say("hello")
        found = told(await desk.say(bang("session_status", session_id=owner.sid)))
        state = await owner.state()
        assert state.last_turn is not None
        last = found["last_turn"]
        assert found == {
            "id": owner.sid,
            "channel": "console",
            "user": "owner",
            "taint": "PUBLIC",
            "clearance": "RESTRICTED~",
            "status": "idle",
            "agent": found["agent"],
            "created": state.created_at,
            "last_turn": {
                "id": state.last_turn.id,
                "state": "ok",
                "yield_reason": "completed",
                "result_event_id": last["result_event_id"],
                "error": "",
            },
            "usage": {"requests": 2, "input_tokens": 6, "output_tokens": 6, "complete": True, "cost": 0},
            "children": [],
            "queued": 0,
        }
        assert (found["agent"]["name"], found["agent"]["configured"]) == ("default", True)
        (entry,) = json.loads(
            (await desk.say(bang("sessions_history", session_id=owner.sid, limit=1))).split("sessions_history: ")[1]
        )["entries"]
        assert entry["n"] == last["result_event_id"]


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
        tool = SessionStatus(owner.app.store, owner.app.agents)
        for session in (None, "nobody"):
            arguments = tool.arguments(session_id=session)
            assert tool.declare(arguments, tool_context(CONFIDENTIAL)).result == CONFIDENTIAL
            assert (await tool.run(arguments, *tool_call(CONFIDENTIAL))).label == CONFIDENTIAL


async def test_a_session_id_cannot_be_smuggled(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("session_status", sid="x", principal="boss", taint="PUBLIC"))
        assert results(await owner.events()) == [("session_status", "denied")]


async def test_a_title_is_shown_to_those_its_label_flows_to(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.app.store.sessions.name(owner.sid, Title("the plan", CONFIDENTIAL))
        tool = SessionsList(owner.app.store.index)
        for taint, shown in ((PUBLIC, None), (CONFIDENTIAL, "the plan")):
            told = await tool.run(tool.arguments(), *tool_call(taint))
            assert [one["title"] for one in json.loads(told.text)["sessions"]] == [shown]


async def test_a_title_taints_whoever_reads_it_or_is_not_read(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.app.store.sessions.name(owner.sid, Title(f"see {SECRET}", DIRTY))
        tool = SessionsList(owner.app.store.index)
        told = await tool.run(tool.arguments(), tool_context(), Services(masking=owner.app.gate.masks.masked))
        assert told.label == DIRTY
        assert json.loads(told.text)["sessions"][0]["title"] == "see [redacted: secret]"
        refused = await tool.run(tool.arguments(), *tool_call(permits=trusted))
        assert refused.label == PUBLIC
        assert json.loads(refused.text)["sessions"][0]["title"] is None


async def test_what_waits_and_who_was_spawned_is_counted_as_far_as_the_caller_may_know(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        store = owner.app.store
        await owner.send("hello")
        item = NewItem(owner.sid, "d", "owner", CONFIDENTIAL, SessionMessage("x"), str(owner.address), "owner")
        await store.sessions.accept(item)
        for sid, label in (("seen", PUBLIC), ("hidden", CONFIDENTIAL)):
            lineage = Lineage(owner.sid, 1, sid, 1, 2**50)
            await taken_slot(store, "owner", sid, owner.sid)
            await store.sessions.accept(replace(item, sid=sid, label=label, lineage=lineage, reserved=2**50))
        tool = SessionStatus(store, owner.app.agents)
        for taint, queued, children in ((PUBLIC, 1, ["seen"]), (CONFIDENTIAL, 2, ["hidden", "seen"])):
            found = json.loads((await tool.run(tool.arguments(), *tool_call(taint, sid=owner.sid))).text)
            assert (found["queued"], found["children"]) == (queued, children)
            assert "updated" not in found, "a hidden input would show in it"
