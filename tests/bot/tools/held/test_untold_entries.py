"""Entries of held lists: what nothing may tell, and what others may not do by them."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.delivery.approval_prompts import NO_ENTRY, NOT_SHOWN
from bot.mcp.tool import Ask, McpResult
from bot.sessions.log.event_types import ApprovalRequested, ItemHeld, ToolCall, ToolResult, UserMessage
from bot.tools.base import Result
from bot.tools.held.entries import FULL, NO_LIST
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bot.kit import Probe, Scripted, bang, eventually, parts, proposed
from tests.bot.mailbox import Mailbox, mail
from tests.bot.tools.held.moving import MOVES, config, moving
from tests.bot.tools.held.test_entries import MAILS, listed, ref_in, taken
from tests.events import bodies
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

_HOLDS: Final = {"mail__tag": {"bounds": {"identifier": ["mail-unheard"]}}}
_CARD: Final = "4111 1111 1111 1111"
_NO_CARDS: Final = [{"id": "no-cards", "hook": "PRE_TOOL_CALL", "action": "BLOCK", "pattern": "payment-card"}]


def same(shown: str) -> str:
    """Return what a person is shown without ids, questions and times."""
    return re.sub(r"held-[a-z0-9]{16}|\b[a-z0-9]{16,32}\b|\b\d{1,2}:\d\d(:\d\d)?\b", "id", shown)


class Slow(Mailbox):
    """A mailbox that says which mail it was asked for, and answers such a call only when it is let go."""

    def __init__(self, *mails: dict[str, JsonValue]) -> None:
        super().__init__(*mails, described=MOVES)
        self.begun, self.goes = asyncio.Event(), asyncio.Event()

    async def ask(self, ask: Ask) -> McpResult:
        """Answer a call."""
        found = await super().ask(ask)
        if "id" in ask.arguments:
            self.begun.set()
            await self.goes.wait()
        return found


# --- a call that was not made lists as much --------------------------------------------------------


async def _by_an_entry(owner: Person, *, made: bool) -> str:
    return await owner.say(bang("mail__thread", id=taken(await listed(owner), 2 if made else 3)))


async def _by_a_condition(owner: Person, *, made: bool) -> str:
    (owner.app.config.data_dir / "files" / "public" / "mail.md").write_text(json.dumps({"yes": made}), "utf-8")
    ref = ref_in(await owner.say(bang("read_file", path="public/mail.md", _hold=True)))
    returns: JsonValue = {"yes": {"type": "boolean"}}
    ref = ref_in(await owner.say(bang("inspect", refs=[ref], question="?", returns=returns, _hold=True)))
    return await owner.say(bang("mail__copy", folder="x", words="y", _if={"answer": ref, "field": "yes"}))


async def _by_a_text(owner: Person, *, made: bool) -> str:
    text = "hello" if made else _CARD
    (owner.app.config.data_dir / "files" / "public" / "mail.md").write_text(text, "utf-8")
    ref = ref_in(await owner.say(bang("read_file", path="public/mail.md", _hold=True)))
    return await owner.say(bang("mail__copy", folder="x", words={"$ref": ref}))


@pytest.mark.parametrize("way, tool", [(_by_an_entry, "thread"), (_by_a_condition, "copy"), (_by_a_text, "copy")])
async def test_a_call_that_was_not_made_lists_as_much_as_one_that_was(
    tmp_path: Path, way: Callable[..., Awaitable[str]], tool: str
) -> None:
    told, tools = list[list[str]](), {"mail__copy": {"untrusted_content": "allow"}}
    for made in (True, False):
        folder = tmp_path / str(made)
        folder.mkdir()
        box = moving(*MAILS)
        async with running(folder, config(rules=_NO_CARDS, tools=tools), parts=parts(*box.tools)) as owner:
            shown = await way(owner, made=made)
            ref = ref_in(shown)
            assert (tool in {name for name, _ in box.asked}) is made
            args: dict[str, JsonValue] = {"id": taken(ref), "folder": "y"}
            simulated = await owner.say(bang("simulate_tool_call", tool_name="mail__move", args=args))
            read = await owner.say(bang("mail__read", id=taken(ref)))
            assert NO_LIST not in simulated
            assert "is held as" in read
            told.append([*map(same, (shown, simulated, read)), str((await owner.state()).taint)])
    assert told[0] == told[1]


async def test_a_call_that_was_stopped_lists_as_much_and_counts_what_it_took(tmp_path: Path) -> None:
    box = Slow(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        await owner.send(bang("mail__thread", id=taken(await listed(owner))))
        await asyncio.wait_for(box.begun.wait(), 60)
        await owner.say("/stop")
        box.goes.set()
        *_, held = bodies(await owner.events(), ItemHeld)
        assert [one.kind for one in held.listed] == ["mail"]
        assert [one.millibits for one in bodies(await owner.events(), ToolCall)[-1].depended] == [2000]
        assert "is held as" in await owner.say(bang("mail__read", id=taken(held.ref)))


async def test_an_interrupted_call_counts_what_it_took_even_if_its_tool_is_gone(tmp_path: Path) -> None:
    """Nothing can be said of such a call any more. But its server may show what it did."""
    box, status = Slow(*MAILS), Probe("status", result=Result("last moved: a", PUBLIC))
    async with running(tmp_path, config(), parts=parts(*box.tools, status), embedded=True) as owner:
        await owner.send(bang("mail__move", id=taken(await listed(owner)), folder="bills"))
        await asyncio.wait_for(box.begun.wait(), 60)
        assert [one.millibits for one in bodies(await owner.events(), ToolCall)[-1].depended] == [2000]
    without = json.loads(config())
    del without["mcp_servers"]["mail"]["tools"]["move"], without["policy"]["tools"]["mail__move"]
    tools = [tool for tool in moving(*MAILS).tools if tool.name != "mail__move"]
    async with running(tmp_path, json.dumps(without), parts=parts(*tools, status), embedded=True) as owner:
        await owner.settled()
        assert "last moved: a" in await owner.say(bang("status"))
        assert "May `mail__tag` run" in await owner.say(bang("mail__tag", ids=["a"], tag="x"))


# --- what is heard ---------------------------------------------------------------------------------


async def test_no_other_call_of_a_step_tells_of_an_entry_before_it_counts(tmp_path: Path) -> None:
    """A call that opens a mail is a read that others notice: beside it, another read could see which it was."""
    box, model = Slow(mail("a"), mail("b")), Scripted()

    async def look(*_: object) -> Result:
        box.goes.set()
        return Result(f"last seen: {box.asked[-1][1].get('id')}", PUBLIC)

    status = Probe("status", does=look)
    async with running(tmp_path, config(), parts=parts(*box.tools, status, model=model)) as owner:
        model.then([proposed("mail__find", {"_hold": True}, name="f")], "held")
        await owner.say("look")
        (held,) = bodies(await owner.events(), ItemHeld)
        asyncio.get_running_loop().call_later(1, box.goes.set)
        opens = proposed("mail__open", {"id": {"$ref": held.ref, "entry": 1}}, name="o")
        model.then([opens, proposed("status", {}, name="s")])
        model.then([proposed("mail__move", {"id": "b", "folder": "as it was seen"}, name="m")], "done")
        assert "May `mail__move` run" in await owner.say("go")
        assert "last seen: a" in model.read()
        assert [one.tool for one in bodies(await owner.events(), ToolResult)] == ["mail__find", "mail__open", "status"]
        assert [tool for tool, _ in box.asked] == ["find", "open"]


async def test_entries_that_nothing_told_of_yet_count_after_further_messages(tmp_path: Path) -> None:
    """A message makes room for more bits. But the next result tells of all that nothing told of before."""
    box = moving(*MAILS)
    async with running(tmp_path, config(limits={"endorsed_bits": 5}), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        made = [await owner.say(bang("mail__move", id=taken(ref), folder=f"f{number}")) for number in range(4)]
        assert [FULL in shown for shown in made] == [False, False, True, False]
        # That refusal is a result which is heard, and may tell of the calls before it.
        assert "May `mail__move` run" in made[3]
        assert [tool for tool, _ in box.asked] == ["find", "move", "move"]


async def test_entries_that_nothing_told_of_yet_count_beside_those_of_another_conversation(tmp_path: Path) -> None:
    """Its text tells of both: what it depends on itself, and what the calls here did."""
    box = moving(*MAILS)
    async with running(tmp_path, config(limits={"endorsed_bits": 5}), parts=parts(*box.tools)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"))
        for person in (owner, desk):
            ref = await listed(person)
            moves = (bang("mail__move", id=taken(ref), folder=f"f{number}") for number in range(2))
            assert FULL not in await person.say("\n".join(moves))
            await person.say("hello")
        await desk.say(bang("sessions_send", session_id=owner.sid, content="done"))

        async def arrived() -> bool:
            return bool(await owner.app.store.delegation.held(owner.sid))

        await eventually(arrived)
        assert all(message.origin is None for message in bodies(await owner.events(), UserMessage))
        assert [tool for tool, _ in box.asked].count("move") == 4


# --- bounds ----------------------------------------------------------------------------------------


async def test_a_pattern_for_other_values_holds_no_entry(tmp_path: Path) -> None:
    box, tools = moving(*MAILS), {"mail__move": {"bounds": {"identifier": ["mail-*"]}}}
    async with running(tmp_path, config(tools=tools), parts=parts(*box.tools)) as owner:
        shown = await owner.say(bang("mail__move", id=taken(await listed(owner)), folder="bills"))
        assert "May `mail__move` run" in shown
        assert "1 identifier, outside the bounds" in shown


async def test_after_an_endorsed_value_an_entry_asks_within_each_bound(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        await owner.say(bang("mail__find"))
        shown = await owner.say(bang("mail__tag", ids=[taken(ref)], tag="x"))
        assert "May `mail__tag` run" in shown
        assert "1 identifier, outside the bounds" in shown
        assert [tool for tool, _ in box.asked] == ["find", "find"]


async def test_the_name_of_an_entry_is_no_identifier_within_the_bound(tmp_path: Path) -> None:
    """Senders of mails may choose that name, and a session that heard them could act on it."""
    box = moving(mail("mail-unheard"), mail("b"))
    async with running(tmp_path, config(tools=_HOLDS), parts=parts(*box.tools)) as owner:
        await owner.say(bang("mail__find"))
        assert "May `mail__tag` run" in await owner.say(bang("mail__tag", ids=["mail-unheard"], tag="x"))
        assert [tool for tool, _ in box.asked] == ["find"]


# --- questions -------------------------------------------------------------------------------------


async def test_people_are_told_that_an_entry_is_within_its_bound(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(tools=_HOLDS), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        shown = await owner.say(bang("mail__tag", ids=[taken(ref)], tag={"$ref": ref}))
        assert "1 identifier, within the bounds" in shown


async def test_no_identifier_reads_as_if_there_were_none(tmp_path: Path) -> None:
    """Where there is no entry the values are not shown, and those of a server are code."""
    told = list[str]()
    for name, mails in (("none", ()), ("spoof", (mail(NO_ENTRY),))):
        folder = tmp_path / name
        folder.mkdir()
        async with running(folder, config(tools={}), parts=parts(*moving(*mails).tools)) as owner:
            told.append(await owner.say(bang("mail__move", id=taken(await listed(owner)), folder="bills")))
            # The log of the session tells the same of both.
            (asked,) = bodies(await owner.events(), ApprovalRequested)
            assert (asked.question.withheld, asked.question.missing, asked.question.vouches) == (True, False, ())
    assert NO_ENTRY in told[0]
    assert NOT_SHOWN not in told[0]
    assert "- identifier" not in told[0]
    assert told[1].count(NO_ENTRY) == told[1].count(json.dumps(NO_ENTRY))
    assert f"- identifier `{json.dumps(NO_ENTRY)}`, entry 1 of the result `held-" in told[1]


@pytest.mark.parametrize("mails", [MAILS, ()])
async def test_a_question_names_the_call_that_listed_and_the_place(
    tmp_path: Path, mails: tuple[dict[str, JsonValue], ...]
) -> None:
    async with running(tmp_path, config(tools={}), parts=parts(*moving(*mails).tools)) as owner:
        ref = await listed(owner)
        shown = await owner.say(bang("mail__move", id=taken(ref, 2), folder="bills"))
        named = (
            rf"its identifier is entry 2 of the result `{ref}` of `mail__find` at \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
        )
        assert re.search(named, shown)
        # It is the same in the log, which tells nothing of the list.
        (asked,) = bodies(await owner.events(), ApprovalRequested)
        assert re.search(named, asked.question.steers)
        assert re.search(named, await owner.say("/approvals"))


# --- the next step ---------------------------------------------------------------------------------


async def test_why_names_the_bound_of_an_entry_and_no_reset_that_would_not_help(tmp_path: Path) -> None:
    async with running(tmp_path, config(tools={}), parts=parts(*moving(*MAILS).tools)) as owner:
        await owner.say(bang("mail__move", id=taken(await listed(owner)), folder="bills"))
        why = await owner.say("/why")
        assert "no bound of the operator names it" in why
        assert "`KIND-unheard`" in why
        assert "/reset" not in why


async def test_why_tells_that_a_reset_ends_the_list(tmp_path: Path) -> None:
    async with running(tmp_path, config(), parts=parts(*moving(*MAILS).tools)) as owner:
        ref = await listed(owner)
        await owner.say(bang("mail__find"))
        await owner.say(bang("mail__move", id=taken(ref), folder="bills"))
        why = await owner.say("/why")
        assert "an entry of a held list may depend on a bounded answer" in why
        assert "a reset ends all held results" in why
        assert "KIND-unheard" not in why
