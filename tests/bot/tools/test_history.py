"""What a session may read back of what was said, in itself and in its principal's others."""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.sessions.log.event_types import ToolResult
from bot.tools.history import HistoryArguments, SessionsHistory
from bot.tools.sessions import NONE
from channels.messages import Address
from policy.labels import Label, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, bang, policy, results, tool_call, tool_context
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2" * 9
READ = bang("read_file", path="confidential/pipeline.md")


def other(owner: Person, chat: str = "other") -> Person:
    return Person(owner.app, owner.output, Address("console", chat))


async def asked(owner: Person, sid: str, **more: int) -> dict[str, Any]:
    """Return what the owner's agent reads of a session."""
    await owner.say(bang("sessions_history", session_id=sid, **more))
    told = [event.body.text for event in await owner.events() if isinstance(event.body, ToolResult)]
    return json.loads(str(told[-1]))


def trusted(label: Label) -> bool:
    return not label.untrusted


async def test_what_was_said_is_read_back_with_labels_and_without_secrets(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        one = other(owner)
        await one.say(f"my key is {SECRET}")
        found = await asked(owner, one.sid)
        assert [(entry["by"], entry["label"]) for entry in found["entries"]] == [
            ("owner", "PUBLIC"),
            ("agent", "PUBLIC"),
        ]
        assert found["entries"][0]["text"] == "my key is [redacted: secret]"
        assert SECRET not in json.dumps(found)
        assert [entry["what"] for entry in found["entries"]] == ["message"] * 2
        assert found["cursor"] is None
        assert (await owner.state()).taint == parse("PUBLIC")


async def test_an_entry_tells_this_and_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        one = other(owner)
        await one.say("hello")
        found = await asked(owner, one.sid, limit=1)
        answer = next(event for event in await one.events() if event.type == "agent.message")
        assert found == {
            "session": one.sid,
            "entries": [
                {
                    "n": found["entries"][0]["n"],
                    "at": answer.ts,
                    "by": "agent",
                    "what": "message",
                    "label": "PUBLIC",
                    "text": "You said: hello",
                }
            ],
            "cursor": found["cursor"],
        }
        assert isinstance(found["cursor"], int)


async def test_tools_are_shown_when_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        one = other(owner)
        await one.say(bang("current_time"))
        assert "call of current_time" not in json.dumps(await asked(owner, one.sid))
        told = await asked(owner, one.sid, include_tools=True)
        assert [entry["what"] for entry in told["entries"]] == [
            "message",
            "call of current_time",
            "result of current_time, ok",
            "message",
        ]
        assert told["entries"][1]["text"] == "{}"


async def test_pages_go_backwards_and_meet_everything_once(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        one = other(owner)
        for n in range(3):
            await one.say(f"message {n}")
        met, cursor = list[int](), None
        while True:
            page = await asked(owner, one.sid, limit=2, **({} if cursor is None else {"cursor": cursor}))
            met = [entry["n"] for entry in page["entries"]] + met
            cursor = page["cursor"]
            if cursor is None:
                break
        assert len(met) == 6
        assert met == sorted(set(met))
        assert (await asked(owner, one.sid, cursor=1))["entries"] == []


async def test_no_read_up_absent_foreign_higher_and_malformed_are_the_same(tmp_path: Path) -> None:
    two = {
        "owner": principal("console:owner"),
        "guest": principal("console:guest", role="member", clearance="PUBLIC"),
    }
    async with running(tmp_path, policy(principals=two)) as owner:
        guest = Person(owner.app, owner.output, Address("console", "guest"), "console:guest")
        high = other(owner)
        await guest.say("hello")
        await high.say(READ)
        for sid in (guest.sid, high.sid, "nonsense", "audit", "x" * 1000, "\ud800"):
            for tool in ("sessions_history", "session_status"):
                assert (await owner.say(bang(tool, session_id=sid))).strip() == f"{tool}: {NONE}"


async def test_what_untrusted_wrote_is_untrusted_where_it_is_read(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        one = other(owner)
        await one.say(bang("read_file", path="public/welcome.md"))
        await owner.say("hello")
        assert not (await owner.state()).taint.untrusted
        await asked(owner, one.sid)
        assert (await owner.state()).taint == DIRTY


async def test_what_may_not_enter_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        one = other(owner)
        await one.say(bang("read_file", path="public/welcome.md"))
        tool = SessionsHistory(owner.app.store.sessions)
        told = await tool.run(HistoryArguments(session_id=one.sid), *tool_call(permits=trusted))
        assert (told.text, told.failed) == (NONE, True)


async def test_a_result_bears_the_callers_taint(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        tool = SessionsHistory(owner.app.store.sessions)
        arguments = HistoryArguments(session_id="nobody")
        assert tool.declare(arguments, tool_context(CONFIDENTIAL)).result == CONFIDENTIAL
        assert (await tool.run(arguments, *tool_call(CONFIDENTIAL))).label == CONFIDENTIAL
        await owner.say("hello")
        told = await tool.run(HistoryArguments(session_id=""), *tool_call(CONFIDENTIAL, sid=owner.sid))
        assert (told.failed, told.label) == (False, CONFIDENTIAL)


async def test_a_reset_begins_an_empty_history_that_counts_from_its_beginning(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        one = other(owner)
        await one.say(READ)
        await one.say("/reset confirm")
        await one.say("again")
        found = await asked(owner, one.sid, include_tools=True)
        assert [entry["n"] for entry in found["entries"]] == [3, 4]
        assert "log 5 events" in await one.say("/status")


async def test_a_long_entry_is_cut_after_it_was_masked(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        one = other(owner)
        await one.say("x" * 3990 + f" {SECRET} and more")
        (entry, *_) = (await asked(owner, one.sid))["entries"]
        assert "ghp_" not in entry["text"]
        assert entry["text"].endswith("characters)")


async def test_neither_a_taint_nor_a_principal_can_be_smuggled(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for more in ({"taint": "RESTRICTED"}, {"principal": "boss"}, {"limit": 201}, {"cursor": 0}):
            await owner.say(bang("sessions_history", session_id=owner.sid, **more))
        assert results(await owner.events()) == [("sessions_history", "denied")] * 4
