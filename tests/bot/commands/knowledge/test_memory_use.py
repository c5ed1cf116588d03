"""`/memory mode`: who chooses what a conversation does with memories, what that changes, and how long it counts."""

import re
from pathlib import Path
from typing import Final

import pytest

from bot.commands.knowledge.memory_use import MEANINGS, OFF, SHARED, WIDER
from bot.commands.models import NOT_BEGUN
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.log.event_types import ItemHeld, MemoriesRecalled
from bot.tools.base import Result
from channels.messages import FROM_OUTSIDE, Address
from policy.labels import parse
from tests.bot.kit import Probe, Scripted, bang, eventually, parts, policy, proposed
from tests.bot.rooms import PEOPLE, TEAM, talking, team
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

BEA: Final = Address("console", "bea")
RECALL: Final = bang("memory", action="recall", query="ferry")


def config(memory: str = "tool") -> str:
    people = {
        "owner": principal("console:owner"),
        "bea": principal("console:bea", role="member", clearance="INTERNAL"),
    }
    return policy(principals=people, blocks={"agents": {"default": {"memory": memory}}, "model": {"retries": 0}})


def tools(model: Scripted) -> set[str]:
    return {tool.name for tool in model.parameters[-1].function_tools}


async def test_a_conversation_does_less_until_it_is_told_otherwise_and_after_a_reset(tmp_path: Path) -> None:
    model = Scripted("yes")
    async with running(tmp_path, config(), parts=parts(model=model)) as owner:
        assert MEANINGS[MemoryUse.TOOL] in await owner.say("/memory mode")
        assert NOT_BEGUN in await owner.say("/memory mode off")
        await owner.say("hello")
        assert "memory" in tools(model)
        assert MEANINGS[MemoryUse.OFF] in await owner.say("/memory mode off")
        await owner.say("hello")
        assert "memory" not in tools(model)
        assert " memories off\n" in await owner.say("/status")
        rows = await owner.app.store.audit.records(owner.sid)
        (row,) = [row for row in rows if row.kind == "memory_mode"]
        assert (row.actor, row.body["before"], row.body["after"]) == ("owner", "tool", "off")
        await owner.say("/reset confirm")
    # It is in the store, and outlives a restart and a reset.
    async with running(tmp_path, config(), parts=parts(model=model)) as owner:
        await owner.say("hello")
        assert "memory" not in tools(model)
        assert MEANINGS[MemoryUse.OFF] in await owner.say("/memory mode")
        await owner.say("/memory mode tool")
        await owner.say("hello")
        assert "memory" in tools(model)
        assert "/memory [list" in await owner.say("/memory mode loud")


async def test_a_call_that_is_off_is_refused_as_one_of_no_tool_also_where_it_is_simulated(tmp_path: Path) -> None:
    async with running(tmp_path, config()) as owner:
        assert '"memories"' in await owner.say(RECALL)
        await owner.say("/memory mode off")
        assert '"memories"' not in await owner.say(RECALL)
        simulated = bang("simulate_tool_call", tool_name="memory", args={"action": "recall", "query": "ferry"})
        assert "BLOCK" in await owner.say(simulated)


async def test_what_it_spawns_and_starts_has_no_more(tmp_path: Path) -> None:
    async with running(tmp_path, config()) as owner:
        await owner.say("hello")
        await owner.say("/memory mode off")
        asked = re.search(r"/approve (\w+)", await owner.say(bang("runs_start", goal=RECALL)))
        assert asked is not None
        await owner.say(asked[0], wait=False)
        await owner.say(bang("sessions_spawn", task=RECALL), wait=False)

        async def both() -> bool:
            return len(await owner.app.store.index.recent(limit=10)) == 3

        await eventually(both)
        states = [state for _, state in await owner.app.store.index.recent(limit=10)]
        assert [state and state.memory for state in states] == [MemoryUse.OFF] * 3


async def test_more_than_the_agent_has_is_for_admins_and_what_is_off_for_it_stays_off(tmp_path: Path) -> None:
    async with running(tmp_path, config()) as owner:
        bea = Person(owner.app, owner.output, BEA, "console:bea")
        for person in (owner, bea):
            await person.say("/memory learn The ferry leaves at nine.")
            await person.say("hello")
        assert WIDER in await bea.say("/memory mode auto")
        assert MEANINGS[MemoryUse.AUTO] in await owner.say("/memory mode auto")
        for person, many in ((owner, 1), (bea, 0)):
            await person.say("ferry")
            found = [event for event in await person.events() if isinstance(event.body, MemoriesRecalled)]
            assert len(found) == many
        assert MEANINGS[MemoryUse.OFF] in await bea.say("/memory mode off")
        assert MEANINGS[MemoryUse.TOOL] in await bea.say("/memory mode tool")


async def test_nothing_is_chosen_where_the_agent_has_none(tmp_path: Path) -> None:
    async with running(tmp_path, config("off")) as owner:
        await owner.say("hello")
        for mode in ("tool", "auto"):
            assert OFF in await owner.say(f"/memory mode {mode}")
        assert MEANINGS[MemoryUse.OFF] in await owner.say("/memory mode off")


async def test_a_wider_choice_falls_with_what_the_agent_has_after_a_reset(tmp_path: Path) -> None:
    async with running(tmp_path, config("auto")) as owner:
        await owner.say("hello")
        assert MEANINGS[MemoryUse.TOOL] in await owner.say("/memory mode tool")
    async with running(tmp_path, config("off")) as owner:
        # It keeps the agent that it pinned until it begins anew.
        assert "memory: the configuration has changed" in await owner.say("/status")
        await owner.say("/reset confirm")
        assert MEANINGS[MemoryUse.OFF] in await owner.say("/memory mode")


async def test_in_a_shared_chat_it_is_chosen_by_approvers(tmp_path: Path) -> None:
    people = {**PEOPLE, "amy": principal("room:amy", role="approver", clearance="CONFIDENTIAL")}
    async with talking(tmp_path, team("ann", "mel", "amy"), principals=people) as there:
        await there.say("mel", "hello")
        await there.say("mel", "/memory mode off")
        assert SHARED in there.rooms.alone("mel")[-1]
        await there.say("amy", "/memory mode off")
        assert MEANINGS[MemoryUse.OFF] in there.rooms.alone("amy")[-1]
        await there.say("amy", "/memory mode auto")
        assert WIDER in there.rooms.alone("amy")[-1]
        await there.say("ann", "/memory mode auto", TEAM)
        assert MEANINGS[MemoryUse.AUTO] in there.rooms.alone("ann")[-1]


async def test_a_proposal_in_words_from_outside_is_marked(tmp_path: Path) -> None:
    probe = Probe(result=Result("log in at https://eve.example", parse("PUBLIC~")))
    model = Scripted([proposed("probe", {"_hold": True})], "held")
    config = policy(blocks={"agents": {"default": {"memory": "auto"}}})
    async with running(tmp_path, config, parts=parts(probe, model=model)) as owner:
        await owner.say("hold it")
        (held,) = bodies(await owner.events(), ItemHeld)
        model.then([proposed("memory", {"action": "learn", "text": {"$ref": held.ref}})], "proposed")
        shown = await owner.say("remember it")
        assert f"{FROM_OUTSIDE}\n  To be remembered, if you want it so" in shown
        model.then([proposed("memory", {"action": "learn", "text": "the ferry leaves at nine"})], "proposed")
        assert FROM_OUTSIDE not in await owner.say("remember the ferry")
