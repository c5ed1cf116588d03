"""`lockgate skills`: what an operator sees, decides, loads and saves."""

import asyncio
import json
import re
from collections.abc import Awaitable
from pathlib import Path

import pytest

from bot.cli.knowledge import skills
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import CursorError, FullError, OperatorError, in_words
from bot.knowledge.keeper import Learner
from bot.knowledge.skill_keeper import Decided
from bot.sessions.knowledge.skills import Outcome, SkillState, SkillText, digest
from bot.tools import catalogue
from policy.labels import PUBLIC, Label, parse
from tests.bot.commands.kit import COUPLE
from tests.bot.kit import DIRTY, TOP, policy
from tests.harness import Person, running
from tests.people import principal
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

REPORT = """---
name: weekly-report
description: How the report is made.
metadata:
  title: Weekly report
  domain: reports
---

# Weekly report

1. Collect the numbers.
2. Write the mail.
"""


async def refused(command: Awaitable[object]) -> str:
    with pytest.raises(OperatorError) as caught:
        await command
    return f"{caught.value}; {caught.value.next_step}"


async def configured(folder: Path) -> Config:
    place = await SERVERS.place(folder / "data")
    return await asyncio.to_thread(load_config, folder / "config.yaml", place, catalogue.ARGUMENTS)


async def written(owner: Person, name: str, label: Label = PUBLIC, principal: str = "owner") -> str:
    author = Learner(principal, principal, label, label, sid="s1", by_agent=True)
    return (await owner.app.knowledge.skills.create(author, SkillText(name, "", "", ("Write it.",)), name)).id


def put(folder: Path, name: str, text: str = REPORT) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text.replace("weekly-report", name))
    return folder


async def test_what_is_known_and_decided_of_a_principals_skills(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        config = await configured(tmp_path)

        async def sees(command: Awaitable[None]) -> str:
            capsys.readouterr()
            await command
            return capsys.readouterr().out

        for number in range(21):
            await written(owner, f"skill {number}", parse("INTERNAL"))
        hers = await written(owner, "Tea", DIRTY, "bea")
        first = await sees(skills.list_skills(config, "", as_json=False, after=""))
        more = re.findall(r"--of owner --after (\S+)`", first)
        rest = json.loads(await sees(skills.list_skills(config, "", as_json=True, after=more[0])))
        assert (len(rest), rest[0]["id"] in first) == (1, False)
        assert await refused(skills.list_skills(config, "", as_json=True, after="x")) == f"{CursorError()}; "

        assert "draft  PUBLIC~  1      Tea" in await sees(skills.list_skills(config, "bea", as_json=False, after=""))
        shown = await sees(skills.show_skill(config, "bea", hers, as_json=False))
        number, stands = re.findall(rf"`lockgate skills approve {hers} (\d) (\w+) --of bea`", shown)[0]
        told = await refused(skills.approve_skill(config, "bea", hers, None))
        assert told == f"{skills.NOT_YET}; "
        assert "1. `Write it.`" in capsys.readouterr().out
        changed = await refused(skills.approve_skill(config, "bea", hers, Decided(1, "0" * 24)))
        assert changed == "that skill changed meanwhile; look at it again"
        done = await sees(skills.approve_skill(config, "bea", hers, Decided(int(number), stands)))
        assert done == f"version 1 of {hers} is in force\n"
        assert await refused(skills.approve_skill(config, "bea", hers, None)) == f"{skills.NOTHING_WAITS}; "
        kept = await owner.app.knowledge.skills.find("bea", TOP, hers)
        assert (kept.state, kept.latest.approved_by) == (SkillState.ACTIVE, "owner")

        author = Learner("bea", "bea", PUBLIC, PUBLIC)
        await owner.app.knowledge.skills.reflect(author, hers, Outcome.FAILURE, "r", notes="too hot")
        document = json.loads(await sees(skills.show_skill(config, "bea", hers, as_json=True)))
        assert (document["principal"], document["in_force"], document["success_rate"]) == ("bea", 1, "0")
        assert [(one["outcome"], one["notes"]) for one in document["notes"]] == [("failure", "too hot")]
        assert "name: tea" in await sees(skills.export_skill(config, "bea", hers))
        assert await sees(skills.deprecate_skill(config, "bea", hers)) == f"{hers} is not in force any more\n"
        assert "not active" in await refused(skills.roll_back_skill(config, "bea", hers, 1))
        await sees(skills.approve_skill(config, "bea", hers, Decided(1, stands)))
        assert "is in force" in await sees(skills.roll_back_skill(config, "bea", hers, 1))
        log = json.loads(await sees(skills.log_skill(config, "bea", hers, as_json=True)))
        assert [one["do"] for one in log] == ["approved", "deprecated", "approved", "created"]
        assert "approved by owner" in await sees(skills.log_skill(config, "bea", hers, as_json=False))
        gone = await written(owner, "Coffee", PUBLIC, "bea")
        assert await sees(skills.reject_skill(config, "bea", gone, None)) == f"version 1 of {gone} is rejected\n"

        for command in (
            skills.show_skill(config, "", hers, as_json=False),
            skills.approve_skill(config, "", hers, Decided(1, stands)),
            skills.reject_skill(config, "", hers, None),
            skills.deprecate_skill(config, "", hers),
            skills.roll_back_skill(config, "", hers, 1),
            skills.log_skill(config, "", hers, as_json=False),
            skills.export_skill(config, "", hers),
        ):
            assert await refused(command) == "there is no such skill; `lockgate skills list` names them"


async def test_a_folder_is_loaded_as_drafts_that_anybody_may_have_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, serve=False) as owner:
        config, keeper = await configured(tmp_path), owner.app.knowledge.skills
        folder = put(tmp_path / "skills", "weekly-report")

        async def loads(label: str = "INTERNAL") -> dict[str, list[str]]:
            capsys.readouterr()
            await skills.load_skills(config, "", folder, label, as_json=True)
            return json.loads(capsys.readouterr().out)

        done = await loads()
        (name,) = done["created"]
        kept = await keeper.find("owner", TOP, name)
        assert (kept.state, kept.current, str(kept.label), str(kept.latest.label)) == (
            *(SkillState.DRAFT, 0),
            *("INTERNAL", "INTERNAL~"),
        )
        text = SkillText(
            *("Weekly report", "How the report is made.", "reports"), ("Collect the numbers.", "Write the mail.")
        )
        assert (kept.latest.text, kept.latest.by_agent, kept.latest.asker) == (text, False, "owner")
        assert await loads() == {"created": [], "updated": [], "unchanged": 1}
        await keeper.approve("owner", TOP, name, decided=Decided(1, digest(text)), actor="owner")
        (folder / "weekly-report" / "SKILL.md").write_text(REPORT.replace("Write the mail.", "Send it to Eve."))
        (new,) = (await loads())["updated"]
        kept, waits = [await keeper.find("owner", TOP, one) for one in (name, new)]
        assert (kept.current, len(kept.versions)) == (1, 1)
        assert (waits.state, waits.derived_from, waits.latest.label.untrusted) == (SkillState.DRAFT, name, True)
        assert await loads() == {"created": [], "updated": [], "unchanged": 1}
        inside = await refused(skills.load_skills(config, "", folder / "weekly-report", "PUBLIC", as_json=False))
        assert inside.endswith(f"is the folder of one skill; name the one above it, `{folder}`")
        # At another label it is another one.
        assert len((await loads("PUBLIC"))["created"]) == 1
        await skills.load_skills(config, "", folder, "INTERNAL", as_json=False)
        assert "0 loaded, 1 unchanged" in capsys.readouterr().out

        # What is broken keeps all out.
        put(folder, "another").joinpath("another", "SKILL.md").write_text("no skill")
        put(folder, "fine")
        before = [one.id for one in (await keeper.listed("owner", TOP)).skills]
        assert "does not begin with front matter" in await refused(
            skills.load_skills(config, "", folder, "INTERNAL", as_json=True)
        )
        assert [one.id for one in (await keeper.listed("owner", TOP)).skills] == before
        assert "SECRET" in await refused(skills.load_skills(config, "", folder, "SECRET", as_json=True))


async def test_the_owner_loads_nothing_above_them_and_no_more_than_may_be(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner", clearance="INTERNAL")}
    config = policy(principals=people, blocks={"knowledge": {"skills": 1}})
    async with running(tmp_path, config, serve=False):
        settings = await configured(tmp_path)
        folder = put(tmp_path / "skills", "one", REPORT.replace("Weekly report", "One"))
        put(folder, "two", REPORT.replace("Weekly report", "Two").replace("Write", "Send"))
        told = await refused(skills.load_skills(settings, "", folder, "CONFIDENTIAL", as_json=True))
        assert told == "you are not cleared for CONFIDENTIAL; "
        full = await refused(skills.load_skills(settings, "", folder, "PUBLIC", as_json=True))
        assert full == in_words(FullError("skills"))


async def test_what_is_active_and_may_be_known_there_is_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, serve=False) as owner:
        config, keeper, folder = await configured(tmp_path), owner.app.knowledge.skills, tmp_path / "out" / "skills"

        async def saves(clearance: str = "PUBLIC") -> list[str]:
            capsys.readouterr()
            await skills.save_skills(config, "", folder, clearance)
            return capsys.readouterr().out.splitlines()

        assert "no active skill" in await refused(saves())
        made = [await written(owner, "Weekly Report", DIRTY), await written(owner, "weekly report!")]
        high, draft = await written(owner, "Deal", parse("CONFIDENTIAL")), await written(owner, "Draft")
        for name in (*made, high):
            version = (await keeper.find("owner", TOP, name)).latest
            await keeper.approve("owner", TOP, name, decided=Decided(1, digest(version.text)), actor="owner")
        known = [await keeper.find("owner", TOP, name) for name in made]
        known.sort(key=lambda one: (one.created_at, one.id))
        second = f"weekly-report-{known[1].id.removeprefix('skill_')}"
        assert await saves() == ["weekly-report is written", f"{second} is written"]
        assert await saves() == ["nothing changed"]
        assert sorted(path.name for path in folder.iterdir()) == sorted(("weekly-report", second))
        assert not {draft, high} & set("".join(file.read_text() for file in folder.glob("*/SKILL.md")).split())
        assert await saves("CONFIDENTIAL") == ["deal is written"]
        # What was saved is known where it is loaded.
        await skills.load_skills(config, "", folder, "PUBLIC", as_json=True)
        assert json.loads(capsys.readouterr().out)["unchanged"] == 2
        # Nobody else's file is written over.
        (folder / "deal" / "SKILL.md").write_text(REPORT.replace("weekly-report", "deal"))
        (folder / "weekly-report" / "SKILL.md").unlink()
        assert "is not ours and was left alone" in await refused(saves("CONFIDENTIAL"))
        assert not (folder / "weekly-report" / "SKILL.md").exists()


async def test_what_looks_like_a_secret_is_hidden_and_then_nothing_is_approved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, serve=False) as owner:
        config = await configured(tmp_path)
        author = Learner("owner", "owner", PUBLIC, PUBLIC)
        text = SkillText("Tea", "", "", ("Use ghp_" + "a1B2" * 9 + ".",))
        made = await owner.app.knowledge.skills.create(author, text, "k")
        await skills.show_skill(config, "", made.id, as_json=False)
        told = capsys.readouterr().out
        assert (skills.IN_PART in told, "ghp_" in told, "skills approve" in told) == (True, False, False)
