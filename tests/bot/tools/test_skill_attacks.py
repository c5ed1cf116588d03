"""Attacks on skills and briefings: by a member's agent, by an agent over MCP, and around what is off or ruled out."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.access.principals import of_chat
from bot.knowledge.keeper import Learner
from bot.knowledge.skill_keeper import Decided, SkillEdit, SkillKeeper
from bot.sessions.knowledge.skills import SkillText, digest
from policy.labels import PUBLIC, Label
from tests.bot.api.kit import served
from tests.bot.api.mcp_server.agents import configured, steering
from tests.bot.kit import DIRTY, TOP, bang, policy
from tests.bot.rooms import TEAM, talking, team
from tests.harness import running

pytestmark = pytest.mark.anyio
CHATS = {"team": {"channel": "room", "chat": "team", "classification": "PUBLIC"}}
VAULT = "/memory learn The vault code is seven."


async def put(keeps: SkillKeeper, who: str, label: Label, key: str) -> str:
    return (await keeps.create(Learner(who, "ann", label, label), SkillText("Tea", "", "", ("Boil.",)), key)).id


async def approved(keeps: SkillKeeper, who: str, name: str) -> None:
    last = (await keeps.find(who, TOP, name)).latest
    await keeps.approve(who, TOP, name, decided=Decided(last.number, digest(last.text)), actor="ann")


def asked(action: str, skill: str, memory: str) -> tuple[str, dict[str, JsonValue]]:
    """Return the tool that has an action, and what it is given beside that to name something."""
    given: dict[str, dict[str, JsonValue]] = {
        "rollback": {"skill_id": skill, "version": 1},
        "update": {"skill_id": skill, "name": "Tea", "steps": ["x"]},
        "reflect": {"skill_id": skill, "outcome": "success"},
        "correct": {"id": memory, "text": "x"},
        "forget": {"id": memory},
    }
    tool = {"reflect": "session", "correct": "memory", "forget": "memory"}.get(action, "skill")
    return tool, {"action": action, **given.get(action, {"skill_id": skill})}


async def test_a_member_has_the_agent_roll_back_no_skill_of_the_chat(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), chats=CHATS) as people:
        keeps, who = people.app.knowledge.skills, of_chat(TEAM)
        name = await put(keeps, who, PUBLIC, "one")
        await approved(keeps, who, name)
        await keeps.update(Learner(who, "ann", PUBLIC, PUBLIC), name, SkillEdit("Tea", ("Boil twice.",)), "two")
        await approved(keeps, who, name)
        await people.say("mel", bang("skill", action="rollback", skill_id=name, version=1))
        assert (await keeps.find(who, TOP, name)).current == 2


@pytest.mark.parametrize("action", ["versions", "audit_log", "rollback", "update", "reflect", "correct", "forget"])
async def test_a_trusted_agent_over_mcp_is_not_told_what_a_page_had_learned(tmp_path: Path, action: str) -> None:
    told = list[object]()
    for there in (True, False):
        (folder := tmp_path / str(there)).mkdir()
        async with served(folder, configured(), works=False) as host, steering(host) as one:
            knowledge, who, skill, memory = (
                host.app.knowledge,
                "program:crane",
                "skill_000000000000",
                "mem_000000000000",
            )
            if there:
                skill = await put(knowledge.skills, who, DIRTY, "dirty")
                memory = (await knowledge.keeper.learn(Learner(who, who, DIRTY, DIRTY), "evil", "k")).id
            tool, given = asked(action, skill, memory)
            got = await one.call(tool, **given)
            said = got.text.replace(skill, "ID").replace(memory, "ID")
            told.append((said, got.label, got.failed, await one.words()))
    assert told[0] == told[1]


@pytest.mark.parametrize("action", ["versions", "update", "rollback", "audit_log", "reflect", "correct"])
async def test_in_a_shared_chat_a_call_by_id_makes_untrusted_whatever_there_is(tmp_path: Path, action: str) -> None:
    """What members wrote may be anybody's words, so whether they wrote something is, too."""
    for there in (True, False):
        (folder := tmp_path / str(there)).mkdir()
        async with talking(folder, team("ann", "mel"), chats=CHATS) as people:
            who, skill, memory = of_chat(TEAM), "skill_000000000000", "mem_000000000000"
            if there:
                skill = await put(people.app.knowledge.skills, who, PUBLIC, "k")
                by = Learner(who, "mel", PUBLIC, PUBLIC, by_agent=True)
                memory = (await people.app.knowledge.keeper.learn(by, "x", "k")).id
            tool, given = asked(action, skill, memory)
            await people.say("mel", bang(tool, **given))
            (sid,) = {sid for sid, _ in await people.app.store.index.recent(limit=5)}
            state = await people.app.store.sessions.state(sid)
            assert state is not None
            assert state.taint == DIRTY


async def test_what_is_off_is_not_told_by_another_tool(tmp_path: Path) -> None:
    async with running(tmp_path, policy()) as owner:
        await owner.say("hi")
        await owner.say(VAULT)
        assert "seven" in await owner.say(bang("session", action="apply", task="vault code"))
        await owner.say("/memory mode off")
        for action in ({"action": "start"}, {"action": "apply", "task": "vault code"}):
            assert "seven" not in await owner.say(bang("session", **action))


async def test_a_rule_against_recalls_counts_for_briefings_under_each_name(tmp_path: Path) -> None:
    rule = {"hook": "PRE_TOOL_CALL", "when": 'arg_action == "recall"', "action": "BLOCK", "message": "no"}
    async with running(tmp_path, policy(rules=[{"id": "no", "tools": ["memory"], **rule}])) as owner:
        await owner.say(VAULT)
        for typed in (
            bang("session", action="apply", task="vault code"),
            bang("apply", task="vault code"),
            bang("session_start"),
        ):
            assert "seven" not in await owner.say(typed)
