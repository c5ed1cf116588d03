"""`/memory`: what a person sees, teaches, corrects, forgets and copies, and where."""

import json
import re
from pathlib import Path

import pytest

from bot.access.principals import of_chat
from bot.commands.knowledge.memory import LISTS, NONE, UNFIT
from bot.core.errors import CursorError, FullError, NotFoundError, in_sentences, sentence
from bot.operations.knowledge.memories import NOT_YOURS
from bot.sessions.knowledge.memories import Memory
from channels.messages import Address
from policy.labels import PUBLIC, Label
from tests.bot.commands.kit import COUPLE, READ
from tests.bot.kit import CONFIDENTIAL, INTERNAL, TOP, bang, policy
from tests.bot.rooms import TEAM, talking, team
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


async def learned(owner: Person, number: int, label: Label = PUBLIC, text: str = "") -> Memory:
    """Have something learned a moment after what was before."""
    memory = Memory(f"mem_{number:012}", "owner", label, text or f"fact {number}", number, "owner")
    return await owner.app.store.memories.learn(memory, 1000, ())


def named(told: str) -> list[str]:
    return re.findall(r"mem_[0-9a-f]{12}", told)


async def test_a_memory_is_taught_seen_corrected_and_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        assert NONE in await owner.say("/memory")
        assert "that may be shown here" in await owner.say("/memory export")
        taught = await owner.say("/memory learn domain=harbor The ferry leaves at nine.")
        assert "labelled PUBLIC" in taught
        name = named(taught)[0]
        assert f"{name} " in await owner.say("/memory list")
        assert ", PUBLIC [harbor]: The ferry leaves at nine." in await owner.say("/memory")
        assert "The ferry leaves at nine." in await owner.say("/memory recall when does the ferry go")
        assert UNFIT in await owner.say("/memory recall domain=kitchen ferry")
        shown = await owner.say(f"/memory show {name}")
        for told in ("kept.", "Text: The ferry leaves at nine.\n", "UTC, from owner", "Domain: harbor"):
            assert told in shown
        # What a person looks up is no use: it enters no context.
        assert "Recalled: 0 times" in shown
        # Another's is as absent.
        assert NONE in await bea.say("/memory")
        assert UNFIT in await bea.say("/memory recall ferry")
        for line in ("show {}", "forget {}", "correct {} x"):
            assert in_sentences(NotFoundError(next_step=LISTS)) in await bea.say(f"/memory {line.format(name)}")

        corrected = await owner.say(f"/memory correct {name} The ferry leaves at ten.")
        new = named(corrected)[0]
        assert f"Memory {new} replaces {name}, labelled PUBLIC." in corrected
        assert named(await owner.say("/memory")) == [new]
        before = await owner.say(f"/memory show {name}")
        assert (f"Corrected by: {new}" in before, "Corrected: 20" in before) == (True, True)
        (line,) = [line for line in (await owner.say("/memory export")).splitlines() if "{" in line]
        copy = json.loads(line[line.index("{") :])
        assert (copy["id"], copy["corrects"], copy["label"]) == (new, name, "PUBLIC")

        assert f"{new} is forgotten" in await owner.say(f"/memory forget {new}")
        assert NONE in await owner.say("/memory")
        left = await owner.say(f"/memory show {new}")
        assert (f"Memory {new}: forgotten." in left, "Text: erased" in left, "at ten" in left) == (True, True, False)


async def test_all_that_is_known_of_a_person_is_seen_where_it_may_be(tmp_path: Path) -> None:
    both = {"role": "owner", "clearance": "top", "accounts": ["console:owner", "console:desk"]}
    recipients = {"desk": {"channel": "console", "chat": "desk", "clearance": "INTERNAL"}}
    config = policy(principals={"owner": both}, recipients=recipients)
    async with running(tmp_path, config, serve=False) as owner:
        lower = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        low = await learned(owner, 1)
        mid = await learned(owner, 2, INTERNAL)
        high = await learned(owner, 3, CONFIDENTIAL, "fact of the board")
        assert named(await owner.say("/memory")) == [high.id, mid.id, low.id]
        assert named(await lower.say("/memory")) == [mid.id, low.id]
        assert "board" not in await lower.say("/memory recall fact board")
        for line in ("show {}", "forget {}", "correct {} x"):
            above = (await lower.say(f"/memory {line.format(high.id)}")).replace(high.id, "")
            assert above == (await lower.say(f"/memory {line.format('mem_0')}")).replace("mem_0", "")
        assert len((await owner.say("/memory export")).strip().splitlines()) == 3
        assert len((await lower.say("/memory export")).strip().splitlines()) == 2
        # It keeps the label that it was learned with, also where a person corrects it from an address below.
        corrected = await owner.say(f"/memory correct {high.id} It changed.")
        assert "labelled CONFIDENTIAL" in corrected


async def test_they_are_listed_in_pages_and_a_cursor_is_good_for_who_may_know_of_it(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        for number in range(1, 46):
            await learned(owner, number, (PUBLIC, INTERNAL, CONFIDENTIAL)[number % 3])
        seen, line = list[str](), "/memory"
        while line:
            told = await owner.say(line)
            more = re.findall(r"More with `(/memory list \S+)`", told)
            seen += named(told.partition("More with")[0])
            line = more[0] if more else ""
        assert seen == [f"mem_{number:012}" for number in range(45, 0, -1)]
        for strange in ("mem_0", "x" * 500):
            assert in_sentences(CursorError()) in await owner.say(f"/memory list {strange}")
        assert in_sentences(CursorError()) in await bea.say(f"/memory list {seen[3]}")


async def test_what_does_not_fit_is_answered_with_the_usage(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for odd, why in (
            ("erase", "no such action"),
            ("list a b", ""),
            ("show", "Name one memory."),
            ("forget a b", "Name one memory."),
            ("recall", "what is to be recalled"),
            ("learn domain=harbor", "what is to be learned"),
            ("learn label=PUBLIC x", "there are `domain=`"),
            ("correct mem_0", "say what is right"),
            ("export x", ""),
        ):
            told = await owner.say(f"/memory {odd}")
            assert why in told
            assert "Write it as `/memory [" in told
        assert "at most 4000 characters" in await owner.say(f"/memory learn {'x' * 4001}")


async def test_a_rule_about_the_tool_counts_for_what_a_person_teaches(tmp_path: Path) -> None:
    rule = {
        "id": "no-learning",
        "hook": "PRE_TOOL_CALL",
        "tools": ["memory"],
        "when": 'arg_action in ["learn", "correct"]',
        "action": "BLOCK",
        "message": "nothing is learned here",
    }
    async with running(tmp_path, policy(rules=[rule]), serve=False) as owner:
        assert "nothing is learned here" in await owner.say("/memory learn x")
        old = await learned(owner, 1)
        assert "nothing is learned here" in await owner.say(f"/memory correct {old.id} x")
        assert named(await owner.say("/memory")) == [old.id]
        # A person is always let forget.
        assert "is forgotten" in await owner.say(f"/memory forget {old.id}")


async def test_a_copy_that_is_too_large_is_the_owners_to_make(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for number in range(1, 7):
            await learned(owner, number, text="x" * 4000)
        assert "`lockgate memory export --of owner`" in await owner.say("/memory export")


async def test_a_person_sees_what_their_agent_learned_and_who_recalled_it(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        await owner.say(bang("memory", action="learn", text="The harbor deal is off."))
        await owner.say(bang("memory", action="recall", query="harbor"))
        (name,) = set(named(await owner.say("/memory")))
        shown = await owner.say(f"/memory show {name}")
        assert "Label: CONFIDENTIAL~\n" in shown or "Label: CONFIDENTIAL\n" in shown
        assert "by the agent for owner" in shown
        assert "Recalled: once, as" in shown
        assert f"Session: {owner.sid}" in shown


async def test_a_shared_chats_memories_are_the_chats(tmp_path: Path) -> None:
    chats = {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL"}}
    async with talking(tmp_path, team("ann", "mel"), serve=False, chats=chats) as people:

        async def say(who: str, text: str, address: Address = TEAM) -> str:
            before = len(people.rooms.sent)
            await people.say(who, text, address)
            return "\n".join(one.text for one in people.rooms.sent[before:])

        taught = await say("mel", "/memory learn We meet on Mondays.")
        name = named(taught)[0]
        kept = await people.app.knowledge.keeper.find(of_chat(TEAM), TOP, name)
        assert (kept.principal, kept.asker) == (of_chat(TEAM), "mel")
        # It is labelled as the chat is.
        assert kept.label == INTERNAL
        for who in ("ann", "mel"):
            assert named(await say(who, "/memory")) == [name]
        # Of what is above what the chat is cleared for nobody hears there.
        high = Memory("mem_0", of_chat(TEAM), CONFIDENTIAL, "the deal", 9**15, "ann")
        await people.app.store.memories.learn(high, 10, ())
        assert await say("ann", "/memory recall deal") == UNFIT
        assert named(await say("ann", "/memory")) == [name]
        # Nobody's own memories are reachable from it, nor the chat's from elsewhere.
        own = Address("room", "ann")
        assert named(await say("ann", "/memory learn I am Ann.", own)) != [name]
        assert named(await say("ann", "/memory")) == [name]
        assert name not in await say("ann", "/memory", own)
        # Ann is an admin.
        assert " replaces " in await say("ann", f"/memory correct {name} We meet on Tuesdays.")


async def test_in_a_shared_chat_who_taught_it_changes_it(tmp_path: Path) -> None:
    chats = {"team": {"channel": "room", "chat": "team", "classification": "PUBLIC"}}
    async with talking(tmp_path, team("ann", "mel"), serve=False, chats=chats) as people:
        await people.say("ann", "/memory learn We meet on Mondays.")
        name = named(people.rooms.said[-1])[0]
        for line in ("forget {}", "correct {} x"):
            await people.say("mel", f"/memory {line.format(name)}")
            assert people.rooms.said[-1] == sentence(NOT_YOURS)
        await people.say("mel", "/memory learn We meet at nine.")
        mine = named(people.rooms.said[-1])[0]
        await people.say("mel", f"/memory forget {mine}")
        assert f"{mine} is forgotten" in people.rooms.said[-1]
        await people.say("ann", f"/memory forget {name}")
        assert f"{name} is forgotten" in people.rooms.said[-1]


async def test_where_as_many_are_kept_as_may_it_is_told_what_makes_room(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks={"knowledge": {"memories": 1}}), serve=False) as owner:
        name = named(await owner.say("/memory learn tea"))[0]
        full = in_sentences(FullError("memories"))
        assert full.endswith("(`knowledge.memories`). Forget one first.")
        assert full in await owner.say("/memory learn coffee")
        assert full in await owner.say(f"/memory correct {name} coffee")
        await owner.say(f"/memory forget {name}")
        assert "Learned as" in await owner.say("/memory learn coffee")
