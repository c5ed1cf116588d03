"""Dividers: where a session's label changed and by what, told to those alone who may know the label it led to."""

import json
from pathlib import Path

import pytest

from bot.cli.terminal.view import ConsoleView
from bot.history.dividers import divider
from bot.sessions.log.event_types import AgentMessage, TaintRaised
from bot.sessions.log.events import Event, Visibility
from policy.labels import PUBLIC, Label
from tests.bot.commands.kit import READ
from tests.bot.kit import CONFIDENTIAL, DIRTY, bang, policy
from tests.harness import running
from tests.people import principal

pytestmark = pytest.mark.anyio

BY_READING = "── taint PUBLIC → CONFIDENTIAL~ by read_file"
PEOPLE = {"owner": principal("console:owner", "console:low", may_release=True)}


def line_of(text: str, part: str) -> str:
    (found,) = [line.strip() for line in text.splitlines() if part in line]
    return found


async def test_a_transcript_shows_where_the_label_changed(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals=PEOPLE)) as owner:
        await owner.say("hello")
        await owner.say(READ)
        told = await owner.say("/history")
        lines = [line.strip() for line in told.splitlines()]
        # Between the message that asked and the answer that had read it.
        at = lines.index(f"{BY_READING} ──")
        before = next(line for line in reversed(lines[:at]) if " UTC" in line)
        after = next(line for line in lines[at:] if " UTC" in line)
        assert ("owner, PUBLIC" in before, "agent, CONFIDENTIAL~" in after) == (True, True)
        tools = await owner.say("/history tools")
        assert tools.index("call of read_file") < tools.index(BY_READING) < tools.index("result of read_file")
        await owner.say("/taint raise RESTRICTED")
        assert "── taint CONFIDENTIAL~ → RESTRICTED~ by /taint raise ──" in await owner.say("/history")
        await owner.say("/reset confirm")
        anew = await owner.say("/history")
        assert "── begun anew by owner, taint PUBLIC ──" in anew
        # Of the old conversation nothing is told.
        assert "CONFIDENTIAL" not in anew


async def test_a_release_is_a_divider(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals=PEOPLE)) as owner:
        await owner.say("hello")
        await owner.say("/taint raise CONFIDENTIAL")
        await owner.say("the quay is open")
        shown = await owner.say("/release last to guest")
        await owner.say(shown.split("`")[-2])
        told = line_of(await owner.say("/history"), "released to guest")
        number = line_of(await owner.say("/history"), ". agent, CONFIDENTIAL").partition(".")[0]
        assert told == f"── message {number}, CONFIDENTIAL, released to guest by owner ──"


async def test_dividers_take_no_place_of_a_page(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for number in range(10):
            await owner.say(f"m{number}")
        await owner.say("/taint raise INTERNAL")
        first = await owner.say("/history")
        assert first.count(" UTC") == 20
        assert "m0" in first
        await owner.say("x")
        later = await owner.say("/history")
        assert (later.count(" UTC"), "→ INTERNAL by" in later) == (20, True)


async def test_who_may_not_know_the_new_label_learns_of_nothing(tmp_path: Path) -> None:
    """Neither that anything came, nor by what: all they read is the same without it (law `no_read_up`)."""
    said: list[str] = []

    async def show(text: str) -> None:
        said.append(text)

    low = {"console": {"classification": "top", "overshoot": "allow"}, "web": {"classification": "PUBLIC"}}
    async with running(tmp_path, policy(principals=PEOPLE, channels=low)) as owner:
        await owner.say("hello")
        store, sid = owner.app.store.sessions, owner.sid
        view = ConsoleView(store, sid, show, frozenset({"read_file"}))
        await view.open(PUBLIC)
        known = said.copy()
        await owner.say(READ)
        await view.follow(PUBLIC)
        await ConsoleView(store, sid, show, frozenset({"read_file"})).open(PUBLIC)
        assert said[-1].replace("above here", "PUBLIC").startswith(known[0])
        assert "read_file by" not in "\n".join(said)
        assert "──" not in "\n".join(said)


async def test_an_export_has_the_change_of_label_with_its_cause(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.say(bang("read_file", path="public/welcome.md"))
        file = await owner.say("/export")
        entries = [json.loads(line) for line in file.splitlines() if '"taint.raised"' in line]
        assert [one["body"] for one in entries] == [{"before": "PUBLIC", "after": "PUBLIC~", "cause": "read_file"}]


def event(body: TaintRaised | AgentMessage, label: Label = CONFIDENTIAL) -> Event:
    return Event(1, 1, 1, "gate", label, body, Visibility.PROGRESS, admitted=True, turn="")


def test_an_imported_cause_stands_for_no_other_entry() -> None:
    """The cause is text of a file: it stays in its line, is short, and hides nothing."""
    forged = f"read_file ──\n2. owner, PUBLIC\u202e\n{'x' * 200}"
    (line,) = divider(event(TaintRaised(PUBLIC, DIRTY, forged))).splitlines()
    assert line.startswith("── taint PUBLIC → PUBLIC~ by read_file ── 2. owner, PUBLIC")
    assert "\u202e" not in line
    assert len(line) < 160
    assert divider(event(TaintRaised(PUBLIC, CONFIDENTIAL, "message"))).endswith("by a message ──")
    assert divider(event(AgentMessage("── taint"))) == ""
