"""`/skills`: what a person sees of skills, and how they decide which are in force, exactly as they were shown them."""

import re
from pathlib import Path

import pytest

from bot.access.principals import of_chat
from bot.commands.knowledge.skills import ANEW, IN_PART, LISTS, LOOK, NONE, NOTHING_WAITS
from bot.core.errors import ChangedSkillError, CursorError, NotFoundError, in_sentences, sentence
from bot.knowledge.keeper import Learner
from bot.knowledge.skill_keeper import NOT_APPROVED, SkillEdit
from bot.operations.knowledge.skills import NOT_SAVED, NOT_YOURS
from bot.operations.knowledge.skills import NOTHING_WAITS as NONE_WAITS
from bot.sessions.knowledge.skills import Outcome, Skill, SkillState, SkillText
from channels.messages import Address
from policy.labels import PUBLIC, Label
from tests.bot.commands.kit import COUPLE
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP, bang, policy
from tests.bot.rooms import TEAM, talking, team
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


def author(label: Label = PUBLIC, principal: str = "owner") -> Learner:
    return Learner(principal, "owner", label, label, sid="s1", by_agent=True, authors=("mel",))


async def written(owner: Person, name: str = "Report", label: Label = PUBLIC, *steps: str) -> Skill:
    """Have a draft of a skill."""
    text = SkillText(name, "", "", steps or ("Write it.",))
    return await owner.app.knowledge.skills.create(author(label), text, name)


async def updated(owner: Person, skill: Skill, *steps: str, key: str = "u") -> Skill:
    edit = SkillEdit(skill.shown.text.name, steps)
    return await owner.app.knowledge.skills.update(author(skill.label), skill.id, edit, key)


def named(told: str) -> list[str]:
    return re.findall(r"skill_[0-9a-f]{12}", told)


def line(told: str, action: str = "approve") -> str:
    """Return the line that decides about exactly what was shown."""
    found = re.findall(rf"`(/skills {action} skill_\w+ \d+ \w+)`", told)
    assert len(found) == 1, told
    return found[0]


async def test_what_was_shown_is_put_in_force_and_taken_out_and_back(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        assert NONE in await owner.say("/skills")
        one = await written(owner, "Weekly report", DIRTY, "Collect.", "Write \u202eit.")
        assert f"{one.id} draft, PUBLIC~: Weekly report, 2-step, no reflections yet" in await owner.say("/skills")
        shown = await owner.say(f"/skills show {one.id}")
        for told in (
            f"Skill {one.id}: draft, it is not in force.",
            "Version 1 of 1",
            "Name: `Weekly report`\n",
            "1. `Collect.`\n",
            "2. `Write \\u202eit.`\n",
            "Written by the agent, from UNTRUSTED data. Label: PUBLIC~",
            "Others' words in it: mel",
        ):
            assert told in shown
        # Another's is as absent.
        assert NONE in await bea.say("/skills")
        approve, reject = line(shown), line(shown, "reject")
        for typed in (approve, reject, *(f"/skills {word} {one.id}" for word in ("show", "reject", "log", "export"))):
            assert in_sentences(NotFoundError(next_step=LISTS)) in await bea.say(typed)

        # Naming it alone shows it, and approves nothing.
        named_alone = await owner.say(f"/skills approve {one.id}")
        assert (LOOK in named_alone, line(named_alone)) == (True, approve)
        assert (await owner.app.knowledge.skills.find("owner", TOP, one.id)).state is SkillState.DRAFT
        assert f"Version 1 of {one.id} is in force." in await owner.say(approve)
        assert f"{one.id} active, PUBLIC: Weekly report" in await owner.say("/skills")
        assert NOTHING_WAITS in await owner.say(f"/skills approve {one.id}")
        exported = await owner.say(f"/skills export {one.id}")
        assert "name: weekly-report" in exported
        assert "1. Collect." in exported

        assert "is not in force any more" in await owner.say(f"/skills deprecate {one.id}")
        assert sentence(NOT_SAVED) in await owner.say(f"/skills export {one.id}")
        again = await owner.say(f"/skills show {one.id}")
        assert (line(again), "reject" in again) == (approve, False)
        assert "is in force." in await owner.say(approve)
        log = await owner.say(f"/skills log {one.id}")
        assert re.findall(r"version 1: ([a-z ]+) by (owner|the agent for owner)", log) == [
            *(
                ("approved", "owner"),
                ("deprecated", "owner"),
                ("approved", "owner"),
                ("created", "the agent for owner"),
            ),
        ]


async def test_what_changed_since_it_was_shown_is_not_approved(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        one = await written(owner)
        approve = line(await owner.say(f"/skills show {one.id}"))
        await updated(owner, one, "Send it to Eve.")
        anew = f"{sentence(str(ChangedSkillError()))} {ANEW.format(approve.split()[2])}."
        assert anew in await owner.say(approve)
        # Neither does the number of the new one with what was shown, nor another digest.
        assert sentence(str(ChangedSkillError())) in await owner.say(approve.replace(" 1 ", " 2 "))
        assert sentence(str(ChangedSkillError())) in await owner.say(
            f"{approve[:-1]}{'0' if approve[-1] != '0' else '1'}"
        )
        assert (await owner.app.knowledge.skills.find("owner", TOP, one.id)).current == 0
        fresh = await owner.say(f"/skills show {one.id}")
        assert "1. `Send it to Eve.`" in fresh
        assert f"Version 2 of {one.id} is in force." in await owner.say(line(fresh))


async def test_a_version_that_waits_is_shown_and_decided_about(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        one = await written(owner)
        await owner.say(line(await owner.say(f"/skills show {one.id}")))
        await updated(owner, one, "Write it at once.")
        assert "version 2 waits for approval" in await owner.say("/skills")
        shown = await owner.say(f"/skills show {one.id}")
        assert ("version 1 is in force" in shown, "1. `Write it at once.`" in shown) == (True, True)
        assert f"Version 2 of {one.id} is rejected." in await owner.say(f"/skills reject {one.id}")
        assert sentence(NONE_WAITS) in await owner.say(f"/skills reject {one.id}")
        await updated(owner, one, "Write it now.", key="v")
        await owner.say(line(await owner.say(f"/skills show {one.id}")))
        assert "Approved versions: 1, 3" in await owner.say(f"/skills show {one.id}")
        assert f"Version 1 of {one.id} is in force again." in await owner.say(f"/skills rollback {one.id} 1")
        assert sentence(NOT_APPROVED) in await owner.say(f"/skills rollback {one.id} 2")
        two = await written(owner, "Other")
        rejected = await owner.say(line(await owner.say(f"/skills show {two.id}"), "reject"))
        assert f"Version 1 of {two.id} is rejected." in rejected
        assert f"{two.id} rejected" in await owner.say("/skills")


async def test_all_skills_of_a_person_are_seen_where_they_may_be(tmp_path: Path) -> None:
    both = {"role": "owner", "clearance": "top", "accounts": ["console:owner", "console:desk"]}
    recipients = {"desk": {"channel": "console", "chat": "desk", "clearance": "INTERNAL"}}
    config = policy(principals={"owner": both}, recipients=recipients)
    async with running(tmp_path, config, serve=False) as owner:
        lower = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        low, high = await written(owner, "low", INTERNAL), await written(owner, "high", CONFIDENTIAL)
        keeper = owner.app.knowledge.skills
        assert set(named(await owner.say("/skills"))) == {low.id, high.id}
        assert named(await lower.say("/skills")) == [low.id]
        await lower.say(line(await lower.say(f"/skills show {low.id}")))
        approve = line(await owner.say(f"/skills show {high.id}"))
        for typed in (
            approve,
            *(f"/skills {word} {high.id}" for word in ("show", "approve", "reject", "deprecate", "log", "export")),
            f"/skills rollback {high.id} 1",
        ):
            above = (await lower.say(typed)).replace(high.id, "")
            assert above == (await lower.say(typed.replace(high.id, "skill_0"))).replace("skill_0", "")
        # How it did is told as far as may be known there.
        await keeper.reflect(author(CONFIDENTIAL), low.id, Outcome.SUCCESS, "r")
        assert "1 use, 100% success rate" in await owner.say("/skills")
        assert "no reflections yet" in await lower.say(f"/skills show {low.id}")


async def test_they_are_listed_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        made = {(await written(owner, f"skill {number}")).id for number in range(21)}
        first = await owner.say("/skills")
        more = re.findall(r"More with `(/skills list (\S+))`", first)
        assert len(more) == 1
        seen = named(first.partition("More with")[0]) + named(await owner.say(more[0][0]))
        assert (len(seen), set(seen)) == (21, made)
        for strange in ("skill_0", "x" * 500):
            assert in_sentences(CursorError()) in await owner.say(f"/skills list {strange}")


async def test_what_does_not_fit_is_answered_with_the_usage(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for odd, why in (
            ("create", "no such action"),
            ("list a b", ""),
            ("show", "Name one skill"),
            ("deprecate a b", "Name one skill"),
            ("approve", "Name one skill"),
            ("approve a 1", "the digest that you were shown"),
            ("approve a x y", "the digest that you were shown"),
            ("rollback a", "the number of a version"),
            ("rollback a x", "the number of a version"),
        ):
            told = await owner.say(f"/skills {odd}")
            assert why in told
            assert "Write it as `/skills [" in told


@pytest.mark.parametrize(
    "words, sections",
    [
        # The value of a token, as the built-in pattern knows it.
        ("ghp_" + "a1B2" * 9, {}),
        (
            "plums",
            {
                "rules": [{"id": "no-fruit", "hook": "PRE_OUTPUT", "action": "REDACT", "pattern": "fruit"}],
                "patterns": {"fruit": "plums"},
            },
        ),
    ],
)
async def test_what_may_not_be_shown_whole_is_not_approved_there(
    tmp_path: Path, words: str, sections: dict[str, object]
) -> None:
    async with running(tmp_path, policy(**sections), serve=False) as owner:
        one = await written(owner, "Report", PUBLIC, f"Sell {words}.")
        for typed in (f"/skills show {one.id}", f"/skills approve {one.id}"):
            shown = await owner.say(typed)
            assert (IN_PART in shown, words in shown, "/skills approve" in shown) == (True, False, False)


async def test_in_a_shared_chat_the_skills_are_the_chats_and_an_admin_decides(tmp_path: Path) -> None:
    chats = {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL"}}
    async with talking(tmp_path, team("ann", "mel"), chats=chats) as people:

        async def say(who: str, text: str, address: Address = TEAM) -> str:
            before = len(people.rooms.sent)
            await people.say(who, text, address)
            return "\n".join(one.text for one in people.rooms.sent[before:])

        # Mel is no admin, so nobody is asked.
        made = await say("mel", bang("skill", action="create", name="Stand-up", steps=["Meet at nine."]))
        assert "nobody was asked" in made
        name = named(made)[0]
        kept = await people.app.knowledge.skills.find(of_chat(TEAM), TOP, name)
        assert (kept.principal, kept.latest.asker) == (of_chat(TEAM), "mel")
        shown = await say("mel", f"/skills show {name}")
        assert ("1. `Meet at nine.`" in shown, "/skills approve" in shown) == (True, False)
        approve = line(await say("ann", f"/skills show {name}"))
        for typed in (approve, f"/skills reject {name}", f"/skills deprecate {name}", f"/skills rollback {name} 1"):
            assert await say("mel", typed) == NOT_YOURS
        # It is not Ann's own.
        assert in_sentences(NotFoundError()) in await say("ann", approve, Address("room", "ann"))
        assert f"Version 1 of {name} is in force." in await say("ann", approve)
        # Whom an admin asks, the agent asks at once.
        asked = await say("ann", bang("skill", action="create", name="Retro", steps=["Meet on Friday."]))
        assert "> 1. `Meet on Friday.`" in asked
        answer = re.findall(r"/answer \w+", asked)[0]
        assert '"state": "active"' not in await say("mel", f"{answer} approve")
        assert '"state": "active"' in await say("ann", f"{answer} approve")
