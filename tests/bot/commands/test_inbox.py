"""`/approvals`: one list of all that waits for a person, wherever it waits, and of nothing above the place."""

import re
from pathlib import Path

import pytest

from bot.commands.inbox.inbox import NOTHING
from bot.core.ids import code_digest
from bot.knowledge.keeper import Learner
from bot.sessions.knowledge.skills import SkillText
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bot.commands.kit import READ, WRITE
from tests.bot.kit import bang, eventually, policy
from tests.bot.rooms import TEAM, talking, team
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

PEOPLE = {
    "owner": principal("console:owner", "console:desk", "console:other", may_release=True),
    "bea": principal("console:bea", role="member", clearance="INTERNAL"),
}
CONFIG = policy(
    principals=PEOPLE,
    paired={"role": "member", "clearance": "INTERNAL"},
    blocks={"agents": {"default": {"memory": "auto"}}, "model": {"retries": 0}},
)
LOWER = {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL"}}
HEADINGS = [
    "Calls to approve:",
    "Questions of agents:",
    "Messages of other sessions to let in:",
    "Texts to release:",
    "Gates of workflows:",
    "Skills to approve:",
    "Memories to keep:",
    "People to let in:",
]


def at(owner: Person, chat: str) -> Person:
    return Person(owner.app, owner.output, Address("console", chat), f"console:{chat}")


async def told(person: Person, text: str = "/approvals") -> list[str]:
    shown = await person.say(text, wait=False)
    return [line.removeprefix("  ") for line in shown.splitlines()]


async def everything(owner: Person) -> None:
    """Have something of each kind wait for the owner, in this conversation or in another one."""
    app, desk = owner.app, at(owner, "desk")
    await desk.say("hello")
    await owner.say(bang("memory", action="learn", text="The ferry leaves at nine."))
    await owner.say("/release last to guest")
    await owner.say("/workflow start harbour note-review")
    await owner.say("/workflow skip harbour 1")
    await owner.say(bang("workflow", action="step", project="harbour", step="2", version=2))
    author = Learner("owner", "owner", PUBLIC, PUBLIC, sid="s1", by_agent=True)
    await app.knowledge.skills.create(author, SkillText("Report", "", "", ("Write it.",)), "report")
    assert await app.store.access.ask_pairing("console:zoe", "console", "", code_digest(b"k", "c"))
    other = at(owner, "other")
    await other.say(READ)
    await other.say(bang("sessions_send", session_id=desk.sid, content="the deal is on"))

    async def held() -> bool:
        return bool(await app.store.delegation.held(desk.sid))

    await eventually(held)
    await other.say(WRITE)
    asker = Person(app, owner.output, Address("console", "asker"), "console:owner")
    await asker.say(bang("ask_user", question="Which colour?"))


async def test_all_that_waits_anywhere_is_in_one_list(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG) as owner:
        assert await told(owner) == [NOTHING]
        await everything(owner)
        lines = await told(owner)
        assert [line for line in lines if line in HEADINGS] == HEADINGS
        ways = "\n".join(lines)
        for way in (
            r"- asked in session \w+ for owner by untrusted_cannot_command, just now",
            r"- label CONFIDENTIAL~, 10 min left",
            r"Answer with `/approve \w+` or `/deny \w+`\.",
            r"\w+ asked in session \w+, just now, 24 h left\n> Which colour\?",
            r"`/held accept \S+`.*\n- held just now",
            r"Message \d+ may go to `guest`, 10 min left: `/release confirm \w+`",
            r"Step 2 of workflow harbour has a gate, changed just now\. .* `/workflow pass harbour 3` lets it pass\.",
            r"Version 1 of skill skill_\w+ \(Report\), written just now: `/skills approve skill_\w+` shows it first\.",
            r"Memory mem_\w+, proposed just now: `/memory keep mem_\w+` keeps it\.",
            r"`console:zoe` asks to be let in, 60 min left: `/pair approve CODE` with their code\.",
        ):
            assert re.search(way, ways), way
        # Each way is the one that works.
        for done in (
            r"/deny \w+",
            r"/answer \w+ ",
            r"/held drop \w+",
            r"/release confirm \w+",
            r"/workflow pass harbour 3",
        ):
            found = re.findall(f"`({done})", ways)
            await owner.say(f"{found[-1]}blue" if "answer" in done else found[-1], wait=False)
        await owner.say(re.findall(r"/memory keep \w+", ways)[0])
        assert [line for line in await told(owner) if line in HEADINGS] == ["Skills to approve:", "People to let in:"]


async def test_what_is_above_the_place_or_anothers_is_not_in_it(tmp_path: Path) -> None:
    """They get the answer that people without waiting items get, so even the existence of items stays hidden."""
    low = {"console": {"classification": "PUBLIC", "overshoot": "allow"}}
    async with running(tmp_path, CONFIG) as owner:
        await everything(owner)
        assert await told(at(owner, "bea")) == [f"→ bea: {NOTHING}"]
    lowered = policy(principals=PEOPLE, channels=low, paired={"role": "member", "clearance": "INTERNAL"})
    async with running(tmp_path, lowered) as owner:
        shown = [line for line in await told(owner) if line in HEADINGS]
        assert "Calls to approve:" not in shown
        assert "Messages of other sessions to let in:" not in shown
        assert "People to let in:" in shown


async def test_a_long_list_has_pages(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG) as owner:
        author = Learner("owner", "owner", PUBLIC, PUBLIC, sid="s1", by_agent=True)
        for number in range(12):
            text = SkillText(f"Report {number}", "", "", ("Write it.",))
            await owner.app.knowledge.skills.create(author, text, f"r{number}")
        shown = await told(owner)
        assert shown[1] == "2 older ones: `/approvals older 10`."
        before = await told(owner, "/approvals older 10")
        found = [re.search(r"\(Report (\d+)\)", line) for line in (*before[1:], *shown[2:])]
        assert {one[1] for one in found if one} == set(map(str, range(12)))
        assert (len(before), len(shown)) == (3, 12)
        assert await told(owner, "/approvals older 12") == [NOTHING]
        for odd in ("older", "older x", "older 1 2", "one two"):
            assert "Write it as `/approvals [ID | older NUMBER]`" in "\n".join(await told(owner, f"/approvals {odd}"))


async def test_in_a_shared_chat_the_caller_alone_reads_it(tmp_path: Path) -> None:
    rule = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    async with talking(tmp_path, team("ann", "mel"), rules=[rule], chats=LOWER) as people:
        await people.say("mel", "hello")
        await people.say("mel", bang("current_time"))
        asked = len(people.rooms.heard(TEAM))
        await people.say("ann", "/approvals")
        assert len(people.rooms.heard(TEAM)) == asked
        assert people.rooms.alone("ann")[-1].startswith("Calls to approve:\n")
