"""A trace forward finds also what no session names, whatever changed since, and beside what cannot be read."""

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest

from bot.lineage.graph import NodeKind
from bot.lineage.loading import LineageViewer
from bot.lineage.tracer import LineageQuery, LineageTrace
from bot.lineage.walk import Direction
from bot.sessions.log.event_types import AgentMessage, ItemHeld, ToolCall, ToolResult, UserMessage
from bot.store.records.names import NAMES
from bot.store.redis_store import RedisStore
from bot.store.schema import session_keys
from channels.messages import Address
from policy.labels import parse
from tests.bot.kit import bang, eventually, policy
from tests.bot.rooms import CHANNELS, talking, team
from tests.harness import Person, running
from tests.store import world

pytestmark = pytest.mark.anyio

OPERATOR: Final = LineageViewer()
FILE: Final = "public/welcome.md"
ABOVE: Final = "confidential/pipeline.md"
FOREVER: Final = 1_500
"""Corrections of one memory, more than calls may stand in one another."""


async def trace(
    owner: Person, name: str, direction: Direction = Direction.FORWARD, viewer: LineageViewer = OPERATOR
) -> LineageTrace:
    return await owner.app.lineage.trace(LineageQuery(name, direction, limit=200), viewer)


def ids(lineage: LineageTrace) -> set[str]:
    return {one.node.id for one in lineage.nodes}


def side(owner: Person, chat: str = "side") -> Person:
    """Return the owner at another chat of theirs: another session."""
    return Person(owner.app, owner.output, Address("console", chat), "console:owner")


async def event_of(person: Person, kind: type, place: int = -1) -> str:
    seqs = [event.seq for event in await person.events() if isinstance(event.body, kind)]
    return f"{person.sid}-{seqs[place]}"


async def test_a_memory_that_no_session_recalled_is_found(tmp_path: Path) -> None:
    config = policy(blocks={"agents": {"default": {"memory": "auto"}}})
    async with running(tmp_path, config) as owner:
        await owner.say(bang("read_file", path=FILE))
        shown = await owner.say(bang("memory", action="learn", text="the ferry leaves at nine"))
        memory = shown.split("/memory keep ")[1].split("`")[0]
        await owner.say(f"/memory keep {memory}")
        assert memory in ids(await trace(owner, f"file:{FILE}"))
        shown = await owner.say(f"/memory correct {memory} the ferry leaves at ten")
        later = next(word for word in shown.split() if word.startswith("mem_"))
        assert later != memory
        for name in (f"file:{FILE}", memory):
            assert {memory, later} <= ids(await trace(owner, name))
        somebody = LineageViewer(parse("RESTRICTED~"), "somebody")
        assert not {memory, later} & ids(await trace(owner, f"file:{FILE}", viewer=somebody))


async def test_what_came_of_a_skill_before_it_changed_is_found(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("skill", action="create", name="tide", steps=["look", "write"]), wait=False)

        async def asks() -> bool:
            return (await owner.state()).asks

        await eventually(asks)
        await owner.say("approve")
        (label,) = await owner.app.store.skills.versions("owner")
        (skill,) = (await owner.app.store.skills.changes("owner", label, 0, 5)).changed
        other = side(owner)
        await other.say(bang("session", action="apply", task="look at the tide"))
        used = await event_of(other, ToolResult)
        assert used in ids(await trace(owner, skill.id))
        # The session that applied it is quiet since.
        await owner.say(f"/skills deprecate {skill.id}")
        (changed,) = (await owner.app.store.skills.changes("owner", label, 0, 5)).changed
        assert changed.changed_at > (await other.state()).updated_at
        assert used in ids(await trace(owner, skill.id))


async def test_a_session_is_traced_forward_with_all_its_generations(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("good morning")
        first = await event_of(owner, AgentMessage)
        await owner.say("/reset")
        await owner.say("/reset confirm")
        await owner.say("hello")
        second = await event_of(owner, AgentMessage)
        assert {first, second} <= ids(await trace(owner, owner.sid))
        known = await trace(owner, owner.sid, viewer=LineageViewer(parse("RESTRICTED~")))
        assert (first in ids(known), second in ids(known)) == (False, True)


async def test_a_memory_that_was_corrected_without_end_is_traced(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        store, before = owner.app.store, ""
        for number in range(FOREVER):
            memory = replace(world.learned("owner"), id=f"mem_{number}", corrects=before)
            await store.memories.learn(memory, FOREVER + 1, ())
            before = memory.id
        found = await owner.app.lineage.trace(LineageQuery(before, limit=200), OPERATOR)
        assert [one.node.id for one in found.nodes][:2] == [f"mem_{FOREVER - 1}", f"mem_{FOREVER - 2}"]


@pytest.mark.parametrize("what", ["event", "record"])
async def test_one_damaged_session_does_not_keep_all_others_from_being_told(tmp_path: Path, what: str) -> None:
    async with running(tmp_path) as owner:
        other = side(owner)
        for one in (owner, other):
            await one.say(bang("read_file", path=FILE))
        assert (await trace(owner, f"file:{FILE}")).complete
        store = owner.app.store
        assert isinstance(store, RedisStore)
        if what == "event":
            place = f"{(await other.state()).seq + 1}-0"
            await world.command(store, "XADD", session_keys(other.sid).log, place, "k", "\x01")
        else:
            await world.command(store, "HSET", session_keys(other.sid).state, NAMES["taint"], "NOSUCH")
        for viewer, complete in ((OPERATOR, False), (LineageViewer(parse("PUBLIC~")), what == "record")):
            found = await trace(owner, f"file:{FILE}", viewer=viewer)
            assert await event_of(owner, ToolResult) in ids(found)
            assert not any(name.startswith(other.sid) for name in ids(found))
            assert found.complete == complete


async def test_a_title_names_places_and_tells_nothing_that_was_said(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        url = "https://ada:word@example.com/salary/4000?q=the+salary+is+4000#4000"
        await owner.say(bang("fetch", url=url))
        await owner.say(bang("fetch", url="https://the salary is 4000/"))
        await owner.say(bang("fetch", url="https://[4000"))
        await owner.say(bang("message", to="say that the salary is 4000", deliver_to="guest"))
        await owner.say(bang("write_file", path="workspace/tides.txt", text="4000"))
        calls = [await event_of(owner, ToolCall, place) for place in range(5)]
        titles = {one.node.id: one.node.title for one in (await trace(owner, owner.sid)).nodes}
        assert [titles[call] for call in calls] == [
            "call of fetch, example.com",
            "call of fetch",
            "call of fetch",
            "call of message, guest",
            "call of write_file, workspace/tides.txt",
        ]
        assert {one.node.kind for one in (await trace(owner, calls[0], Direction.BACK)).nodes} == {
            NodeKind.CALL,
            NodeKind.MESSAGE,
        }


def told(lineage: LineageTrace) -> list[tuple[str, str]]:
    """Return who has seen what came of something: the addresses, and the kinds of what they were told."""
    seen = [one.node for one in lineage.nodes if one.node.kind is NodeKind.DELIVERY]
    return [(node.where, node.title.split()[0]) for node in seen]


async def test_people_who_are_asked_with_what_is_held_have_seen_it(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path=ABOVE, _hold=True))
        ref = next(event.body.ref for event in await owner.events() if isinstance(event.body, ItemHeld))
        asked = bang("schedule_create", kind="reminder", when="in 2 hours", text={"$ref": ref})
        assert "Sales pipeline" in await owner.say(asked)
        assert ("console::owner:", "question") in told(await trace(owner, f"file:{ABOVE}"))


ASKING: Final[dict[str, Any]] = {
    "channels": {**CHANNELS, "room": {"classification": "CONFIDENTIAL", "overshoot": "ask"}},
    "chats": {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL"}},
}


async def test_what_goes_on_in_a_private_chat_came_from_the_chat_where_it_was_asked(tmp_path: Path) -> None:
    house = Address("room", "ann")
    async with talking(tmp_path, team("ann", "mel"), **ASKING) as people:
        receipt = await people.say("ann", bang("read_file", path=ABOVE))
        code = re.findall(r"/deny (\w+)", people.rooms.alone("ann")[-1])[-1]
        await people.say("ann", f"/continue {code}")
        await people.settled(house)
        owner = Person(people.app, StringIO(), house, "room:ann")
        events = await people.app.store.sessions.events(receipt.sid)
        (asked,) = [event.seq for event in events if isinstance(event.body, UserMessage)]
        found = await trace(owner, f"{receipt.sid}-{asked}")
        assert await event_of(owner, UserMessage) in ids(found)
        assert (str(house), "answer") in told(found)
