"""Memories that are recalled by themselves: which ones, decided and audited how, and what a crash leaves of it."""

import asyncio
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from pydantic_ai.messages import ModelRequest, UserPromptPart

from bot.access.principals import of_chat
from bot.agent.recollection import HEAD
from bot.core.json_values import JsonObject
from bot.history import event_log
from bot.sessions.knowledge.memories import Memory
from bot.sessions.log.event_types import MemoriesRecalled, UserMessage
from bot.sessions.log.events import Event
from bot.sessions.models import Status, Turn, Write
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP, Scripted, bang, eventually, parts, policy, standing
from tests.bot.rooms import TEAM, talking, team
from tests.clocks import LEASE_SECONDS
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

AUTO: Final = {"agents": {"default": {"memory": "auto"}}}
FERRY: Final = "The ferry leaves at nine."


def config(*rules: JsonObject, **blocks: object) -> str:
    return policy(blocks={**AUTO, "model": {"retries": 0}, **blocks}, rules=list(rules))


async def learned(owner: Person, text: str, label: Label = PUBLIC, whose: str = "owner") -> str:
    name = f"mem_{abs(hash((text, label))):012}"[:16]
    await owner.app.store.memories.learn(Memory(name, whose, label, text, 1, "owner"), 1000, ())
    return name


async def recalled(owner: Person) -> list[Event]:
    return [event for event in await owner.events() if isinstance(event.body, MemoriesRecalled)]


async def rows(owner: Person) -> list[JsonObject]:
    """Return the audit's rows of recalls that the runtime made."""
    return [row.body for row in await owner.app.store.audit.records(owner.sid) if row.body.get("cause") == "auto"]


def prompts(model: Scripted, number: int = -1) -> list[str]:
    """Return what the last request of a model was asked with, part by part."""
    last = model.asked[number][-1]
    assert isinstance(last, ModelRequest)
    return [str(part.content) for part in last.parts if isinstance(part, UserPromptPart)]


def memories(block: str) -> list[JsonObject]:
    head, _, told = block.partition("\n")
    assert head == HEAD
    return json.loads(told)["memories"]


async def test_what_fits_a_message_is_read_with_it_and_is_not_its_sender_s_words(tmp_path: Path) -> None:
    model = Scripted("at nine")
    async with running(tmp_path, config(), parts=parts(model=model)) as owner:
        name = await learned(owner, FERRY)
        await learned(owner, "Tea is at five.")
        await owner.say("When does the ferry go?")
        said, block = prompts(model)
        assert said == "When does the ferry go?"
        ((one,), (event,)) = memories(block), await recalled(owner)
        assert (one["id"], one["text"], one["label"]) == (name, FERRY, "PUBLIC")
        assert isinstance(event.body, MemoriesRecalled)
        assert (event.body.text, event.body.memories) == (block, (name,))
        assert (event.label, event.admitted, event.actor) == (PUBLIC, True, "memory")
        assert (await owner.state()).taint == PUBLIC
        # It counts as a use, and is decided and audited like any call of the tool.
        assert await owner.app.knowledge.keeper.uses("owner", TOP, name) == 1
        (row,) = await rows(owner)
        assert (row["tool"], row["hook"], row["verdict"]) == ("memory", "PRE_TOOL_CALL", "ALLOW")
        every = await owner.app.store.audit.records(owner.sid)
        assert "POST_TOOL_RESPONSE" in [one.body.get("hook") for one in every if one.body.get("call") == row["call"]]
        assert "memories auto, 1 recalled in the newest turn" in await owner.say("/status")
        # The next turn reads it where it stood, and recalls anew for what is said then.
        await owner.say("thanks")
        assert [len(memories(block)) for block in prompts(model, 0)[1:]] == [1]
        assert prompts(model) == ["thanks"]
        assert FERRY in str(model.asked[-1][0])
        assert "memories auto, 0 recalled in the newest turn" in await owner.say("/status")


async def test_no_more_are_recalled_than_is_configured(tmp_path: Path) -> None:
    model = Scripted("yes")
    async with running(tmp_path, config(knowledge={"recalled": 2}), parts=parts(model=model)) as owner:
        for number in range(4):
            await learned(owner, f"ferry number {number}")
        await owner.say("ferry")
        assert len(memories(prompts(model)[1])) == 2


async def test_an_agent_that_does_not_ask_for_it_recalls_what_it_calls_for_alone(tmp_path: Path) -> None:
    model = Scripted("yes")
    async with running(tmp_path, policy(blocks={"model": {"retries": 0}}), parts=parts(model=model)) as owner:
        await learned(owner, FERRY)
        await owner.say("ferry")
        assert (prompts(model), await recalled(owner), await rows(owner)) == (["ferry"], [], [])
        assert "memory" in {tool.name for tool in model.parameters[-1].function_tools}
        assert " memories tool\n" in await owner.say("/status")


async def test_an_agent_without_memories_has_no_such_tool(tmp_path: Path) -> None:
    model = Scripted("yes")
    # As people write it: in YAML's older version this would be no text.
    given = "agents:\n  default:\n    memory: off\nmodel: {retries: 0}\n"
    async with running(tmp_path, given, parts=parts(model=model)) as owner:
        await learned(owner, FERRY)
        await owner.say("ferry")
        assert prompts(model) == ["ferry"]
        assert "memory" not in {tool.name for tool in model.parameters[-1].function_tools}
        assert " memories off\n" in await owner.say("/status")
        # What a person asks for is theirs to see all the same.
        assert FERRY in await owner.say("/memory recall ferry")


@pytest.mark.parametrize("raised", [False, True])
async def test_a_message_changes_no_taint_by_what_is_remembered(tmp_path: Path, *, raised: bool) -> None:
    """What is above is not recalled, and what anybody may have written crowds nothing out."""
    async with running(tmp_path, config()) as owner:
        for number in range(30):
            await learned(owner, f"when does the ferry leave at nine, number {number}", DIRTY)
        names = [await learned(owner, FERRY, label) for label in (PUBLIC, INTERNAL, CONFIDENTIAL)]
        taint = CONFIDENTIAL if raised else PUBLIC
        await owner.say("hello")
        if raised:
            await owner.say(f"/taint raise {CONFIDENTIAL}")
        await owner.say("when does the ferry leave")
        assert (await owner.state()).taint == taint
        found = (await recalled(owner))[-1]
        assert isinstance(found.body, MemoriesRecalled)
        assert set(found.body.memories) == set(names if raised else names[:1])
        assert found.label == taint


async def test_a_session_that_is_untrusted_recalls_what_is_so(tmp_path: Path) -> None:
    files = tmp_path / "data" / "files" / "public"
    async with running(tmp_path, config()) as owner:
        name = await learned(owner, "ferry", DIRTY)
        files.mkdir(parents=True, exist_ok=True)
        await owner.say(bang("memory", action="recall", query="ferry", up_to="PUBLIC~"))
        assert (await owner.state()).taint == DIRTY
        await owner.say("ferry")
        found = (await recalled(owner))[-1]
        assert isinstance(found.body, MemoriesRecalled)
        assert (found.body.memories, found.label) == ((name,), DIRTY)


async def test_in_a_shared_chat_what_any_member_may_have_worded_makes_it_not_untrusted(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), blocks=AUTO) as people:
        await people.say("ann", "/memory learn The ferry leaves at nine.")
        await people.say("ann", "ferry")
        chat = Person(people.app, io.StringIO(), TEAM)
        assert await recalled(chat) == []
        keeper = people.app.knowledge.keeper
        (kept,) = [one async for one in keeper.every(of_chat(TEAM), TOP)]
        # What does not enter was not recalled.
        assert await keeper.uses(of_chat(TEAM), TOP, kept.id) == 0
        assert not (await chat.state()).taint.untrusted
        assert len(await rows(chat)) == 1


@pytest.mark.parametrize("action", ["BLOCK", "REQUIRE_APPROVAL"])
async def test_a_rule_that_stops_a_recall_stops_this_one_and_nobody_is_asked(tmp_path: Path, action: str) -> None:
    rule: JsonObject = {
        "id": "no-recall",
        "hook": "PRE_TOOL_CALL",
        "tools": ["memory"],
        "when": 'arg_action == "recall"',
        "action": action,
        "message": "recalls are stopped",
    }
    model = Scripted("yes")
    async with running(tmp_path, config(rule), parts=parts(model=model)) as owner:
        name = await learned(owner, FERRY)
        await owner.say("ferry")
        assert (prompts(model), await recalled(owner)) == (["ferry"], [])
        (row,) = await rows(owner)
        assert ("no-recall" in str(row["rules"]), row["verdict"] == "ALLOW") == (True, False)
        assert await owner.app.knowledge.keeper.uses("owner", TOP, name) == 0
        assert "May `memory` run" not in owner.shown


async def test_a_rule_on_results_stops_or_redacts_what_is_recalled(tmp_path: Path) -> None:
    rule: JsonObject = {
        "id": "no-mail",
        "hook": "POST_TOOL_RESPONSE",
        "tools": ["memory"],
        "pattern": "email",
        "action": "REDACT",
        "message": "no addresses",
    }
    model = Scripted("yes")
    async with running(tmp_path, config(rule), parts=parts(model=model)) as owner:
        await learned(owner, "the ferry is run by bea@example.com")
        await owner.say("ferry")
        assert ("bea@example.com" in str(model.asked), "the ferry is run by" in prompts(model)[1]) == (False, True)
    stop: JsonObject = {**rule, "action": "BLOCK"}
    async with running(tmp_path, config(stop), parts=parts(model=Scripted("yes"))) as owner:
        before = len(await recalled(owner))
        await owner.say("ferry")
        assert len(await recalled(owner)) == before


async def test_what_the_policy_keeps_out_of_contexts_is_not_put_there(tmp_path: Path) -> None:
    model = Scripted("yes")
    given = policy(blocks={**AUTO, "model": {"retries": 0}}, tools={"memory": {"hold": True}})
    async with running(tmp_path, given, parts=parts(model=model)) as owner:
        name = await learned(owner, FERRY)
        await owner.say("ferry")
        assert prompts(model) == ["ferry"]
        assert await owner.app.knowledge.keeper.uses("owner", TOP, name) == 0


async def test_what_other_sessions_send_recalls_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, config()) as owner:
        await learned(owner, FERRY)
        await owner.say(bang("sessions_spawn", task="ferry"))
        await eventually(lambda: _heard(owner))
        (child,) = [one for one in (await owner.app.store.index.recent(limit=10)) if one[0] != owner.sid]
        log = await owner.app.store.sessions.events(child[0], limit=1000)
        assert not [event for event in log if isinstance(event.body, MemoriesRecalled)]
        bodies = [event.body for event in await owner.events()]
        foreign = [one for one in bodies if isinstance(one, UserMessage) and one.origin is not None]
        assert len(foreign) == 1
        # The person's own line named the word and recalled it, the result did not.
        assert len(await recalled(owner)) == 1


async def _heard(owner: Person) -> bool:
    state = await owner.settled()
    bodies = [event.body for event in await owner.events()]
    return state is not None and any(isinstance(one, UserMessage) and one.origin is not None for one in bodies)


async def test_what_has_no_room_is_left_out_the_least_fitting_first(tmp_path: Path) -> None:
    providers = {"providers": {"offline": {"context_tokens": 12_500, "output_tokens": 500}}, "retries": 0}
    model = Scripted("yes")
    async with running(tmp_path, config(model=providers), parts=parts(model=model)) as owner:
        for number in range(5):
            await learned(owner, f"ferry {number} {'x ' * 1_900}")
        await owner.say("ferry")
        (found,) = await recalled(owner)
        assert isinstance(found.body, MemoriesRecalled)
        assert 0 < len(found.body.memories) < 5
        assert len(memories(prompts(model)[1])) == len(found.body.memories)


async def test_a_turn_that_goes_on_after_a_crash_reads_the_same_and_counts_it_once(tmp_path: Path) -> None:
    blocks = {"store": {"lease_seconds": LEASE_SECONDS}}
    hanging, then = Scripted("never", wait=asyncio.Event()), Scripted("at nine")
    async with running(tmp_path, config(**blocks), parts=parts(model=hanging), serve=False) as owner:
        name = await learned(owner, FERRY)
        serving = asyncio.create_task(owner.app.serve())
        await owner.send("ferry?")
        await eventually(lambda: _is_asked(hanging))
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    async with running(tmp_path, config(**blocks), parts=parts(model=then)) as owner:
        # Learned meanwhile: a turn that recalled already does not do so again.
        await learned(owner, "The ferry is red.")
        await owner.settled()
        assert prompts(then) == prompts(hanging)
        assert len(await recalled(owner)) == 1
        assert await owner.app.knowledge.keeper.uses("owner", TOP, name) == 1
        assert "at nine" in owner.shown


async def test_a_turn_that_crashed_before_it_recalled_does_so_when_it_goes_on(tmp_path: Path) -> None:
    model = Scripted("at nine")
    async with running(tmp_path, config(), parts=parts(model=model), serve=False) as owner:
        name = await learned(owner, FERRY)
        await owner.send("ferry?")
        claim = await owner.app.store.sessions.claim(owner.sid, "worker")
        assert claim is not None
        (item,) = claim.items
        turn = Turn("t1", item.position, item.dedupe, "owner", claim.now)
        here = standing(sid=owner.sid, turn="t1", now=claim.now)
        began = event_log.turn_started(here, 1), event_log.user_message(here, "owner", "ferry?", label=PUBLIC)
        write = Write("w1", claim.state.seq, take=1, turn=turn, status=Status.RUNNING, events=began, release=True)
        await owner.app.store.sessions.record(claim, write)
    async with running(tmp_path, config(), parts=parts(model=model)) as owner:
        await owner.settled()
        assert [one["id"] for one in memories(prompts(model)[1])] == [name]


async def _is_asked(model: Scripted) -> bool:
    return bool(model.asked)


@pytest.mark.parametrize("said", ["", "  ", "🙂"])
async def test_a_message_without_words_recalls_nothing(tmp_path: Path, said: str) -> None:
    async with running(tmp_path, config()) as owner:
        await learned(owner, FERRY)
        await owner.say(said or "x")
        assert await recalled(owner) == []


async def test_history_shows_what_was_recalled_where_tools_are_shown(tmp_path: Path) -> None:
    async with running(tmp_path, config()) as owner:
        await learned(owner, FERRY)
        await owner.say("ferry")
        sid = owner.sid
        plain = await owner.say(bang("sessions_history", session_id=sid))
        whole = await owner.say(bang("sessions_history", session_id=sid, include_tools=True))
        assert ("recalled memories" in plain, "recalled memories" in whole) == (False, True)
        assert parse("PUBLIC") == (await owner.state()).taint
