"""What an agent with `memory: auto` would learn: shown in full, kept by people alone, at the label of its session."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from bot.access.principals import of_chat
from bot.core.errors import NotFoundError, in_sentences
from bot.tools.knowledge.memory import NOBODY_READS, THEY_DECIDE
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, DIRTY, TOP, Scripted, bang, parts, policy
from tests.bot.rooms import TEAM, talking, team
from tests.harness import Person, running

if TYPE_CHECKING:
    from bot.core.json_values import JsonObject

pytestmark = pytest.mark.anyio

AUTO: Final = {"agents": {"default": {"memory": "auto"}}, "model": {"retries": 0}}
FERRY: Final = "The ferry leaves at nine."
LEARN: Final = bang("memory", action="learn", text=FERRY, domain="harbor")
LOWER: Final = {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL"}}
KEEP: Final = re.compile(r"/memory keep (mem_[0-9a-f]{12})")


async def all_of(owner: Person, reader: Label = TOP) -> list[tuple[str, Label]]:
    return [(one.text, one.label) async for one in owner.app.knowledge.keeper.every("owner", reader)]


def proposed(shown: str) -> str:
    found = KEEP.search(shown)
    assert found is not None, shown
    return found[1]


async def test_it_is_shown_in_full_and_kept_by_a_person_alone(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks=AUTO)) as owner:
        shown = await owner.say(LEARN)
        name = proposed(shown)
        assert (f'"harbor: {FERRY}"' in shown, THEY_DECIDE in shown) == (True, True)
        assert await all_of(owner) == []
        await owner.say("and then?")
        assert await all_of(owner) == []
        for _ in range(2):
            assert f"Learned as {name}, labelled PUBLIC." in await owner.say(f"/memory keep {name}")
        assert await all_of(owner) == [(FERRY, PUBLIC)]
        kept = await owner.app.knowledge.keeper.find("owner", TOP, name)
        assert (kept.domain, kept.by_agent, kept.asker) == ("harbor", False, "owner")
        for strange in ("mem_0", "mem_" + "0" * 12):
            assert in_sentences(NotFoundError()) in await owner.say(f"/memory keep {strange}")


async def test_what_an_untrusted_session_proposes_stays_so(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks=AUTO)) as owner:
        await owner.say("hello")
        await owner.say(f"/taint raise {DIRTY}")
        name = proposed(await owner.say(LEARN))
        assert "labelled PUBLIC~" in await owner.say(f"/memory keep {name}")
        assert await all_of(owner) == [(FERRY, DIRTY)]


async def test_it_goes_with_its_conversation(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks=AUTO)) as owner:
        name = proposed(await owner.say(LEARN))
        await owner.say("/reset confirm")
        assert in_sentences(NotFoundError()) in await owner.say(f"/memory keep {name}")
        other = Person(owner.app, owner.output, Address("console", "desk"))
        assert in_sentences(NotFoundError()) in await other.say(f"/memory keep {name}")


async def test_nothing_in_it_is_hidden_from_who_decides(tmp_path: Path) -> None:
    words = "tea\u202e at ||five||\n`/memory keep mem_0` keeps it.\u200b"
    async with running(tmp_path, policy(blocks=AUTO)) as owner:
        shown = await owner.say(bang("memory", action="learn", text=words))
        assert ("\u202e" in shown, "\u200b" in shown, "\\n`/memory keep mem_0`" in shown) == (False, False, True)
        # Nor is any of it taken for formatting.
        await owner.say(bang("memory", action="learn", text="Pay ~~never~~ at once, to &#68;E99."))
        said = await owner.app.store.outbox.deliveries(owner.sid)
        (kind,) = {one.kind for one in said if "Pay ~~never~~" in one.text and "` keeps it." in one.text}
        assert OutboundKind(kind).verbatim


async def test_above_its_address_nothing_is_proposed(tmp_path: Path) -> None:
    low = {"owner": {"channel": "console", "chat": "owner", "clearance": "PUBLIC"}}
    async with running(tmp_path, policy(blocks=AUTO, recipients=low)) as owner:
        await owner.say("hello")
        await owner.say(f"/taint raise {CONFIDENTIAL}")
        shown = await owner.say(LEARN)
        assert (FERRY in shown, KEEP.search(shown)) == (False, None)
        assert await all_of(owner) == []


async def test_a_background_session_has_nobody_to_propose_to(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks=AUTO)) as owner:
        await owner.say(bang("sessions_spawn", task=LEARN))
        (sid,) = [sid for sid, _ in await owner.app.store.index.recent(limit=10) if sid != owner.sid]
        child = Person(owner.app, owner.output)
        events = await owner.app.store.sessions.events(sid, limit=1000)
        await child.settled()
        assert await all_of(owner) == []
        told = [str(event.body) for event in events] + [str(event.body) for event in await owner.events()]
        assert NOBODY_READS in "\n".join(told)


async def test_what_an_agent_would_correct_is_asked_about(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks=AUTO)) as owner:
        name = proposed(await owner.say(LEARN))
        await owner.say(f"/memory keep {name}")
        asked = await owner.say(bang("memory", action="correct", id=name, text="The ferry leaves at ten."))
        assert ("May `memory` run" in asked, "at ten" in asked) == (True, True)
        assert await all_of(owner) == [(FERRY, PUBLIC)]


async def test_the_model_is_told_that_it_proposes(tmp_path: Path) -> None:
    for blocks, told in ((AUTO, True), ({"model": {"retries": 0}}, False)):
        model = Scripted("yes")
        async with running(tmp_path, policy(blocks=blocks), parts=parts(model=model)) as owner:
            await owner.say("/reset confirm")
            await owner.say("hello")
            assert ("decide whether it is kept" in model.instructions[-1]) is told


async def test_a_rule_that_stops_learning_stops_a_proposal(tmp_path: Path) -> None:
    rule: JsonObject = {
        "id": "no-learning",
        "hook": "PRE_TOOL_CALL",
        "tools": ["memory"],
        "when": 'arg_action == "learn"',
        "action": "BLOCK",
        "message": "nothing is learned",
    }
    async with running(tmp_path, policy(blocks=AUTO, rules=[rule])) as owner:
        assert KEEP.search(await owner.say(LEARN)) is None
        assert await all_of(owner) == []


async def test_in_a_shared_chat_members_see_it_and_it_is_the_chats(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), blocks=AUTO, chats=LOWER) as people:
        await people.say("ann", LEARN)
        (shown,) = [text for text in people.rooms.said if KEEP.search(text)]
        await people.say("mel", f"/memory keep {proposed(shown)}")
        assert "Learned as" in people.rooms.alone("mel")[-1]
        keeper = people.app.knowledge.keeper
        assert [one.text async for one in keeper.every(of_chat(TEAM), TOP)] == [FERRY]
        assert [one async for one in keeper.every("ann", TOP)] == []
