"""Skills as folders with a SKILL.md: what is read of one and what is not, and that what is written is read the same."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bot.core.errors import OperatorError, RequestError
from bot.knowledge.skill_files import LARGEST, BrokenSkillError, SkillFile, folder_name, read, written
from bot.knowledge.skill_keeper import checked
from bot.knowledge.skill_wording import text_lines
from bot.operations.knowledge.skill_folders import MOST, read_skills, write_skills
from bot.sessions.knowledge.skills import Skill, SkillState, SkillText, SkillVersion
from policy.labels import PUBLIC, parse

TEXT = SkillText("Weekly report", "How it is made: fast.", "reports", ("Collect the numbers.", "Write the mail."))
FILE = """---
name: weekly-report
description: "How it is made: fast."
metadata:
  title: Weekly report
  domain: reports
  lockgate-id: "skill_0123456789ab"
  lockgate-version: "3"
  lockgate-label: "PUBLIC~"
---

# Weekly report

1. Collect the numbers.
2. Write the mail.
"""


def skill(text: SkillText = TEXT) -> Skill:
    version = SkillVersion(3, text, parse("PUBLIC~"), 1, "owner")
    return Skill("skill_0123456789ab", "owner", PUBLIC, SkillState.ACTIVE, (version,), 1, 1, version.label, current=3)


def test_what_is_written_is_what_other_agents_read() -> None:
    assert folder_name(skill()) == "weekly-report"
    assert written(skill(), skill().latest, "weekly-report") == FILE
    assert read(FILE.encode(), "weekly-report") == SkillFile(TEXT, "skill_0123456789ab")
    assert folder_name(skill(SkillText("Přílohy & Účty!", "", "", ("x",)))) == "prilohy-ucty"
    assert folder_name(skill(SkillText("日報", "", "", ("x",)))) == "skill-0123456789ab"


WORDS = some.text(some.characters(codec="utf-8"), min_size=1, max_size=60)
OR_NONE = some.one_of(some.just(""), WORDS)


@given(WORDS, OR_NONE, OR_NONE, some.lists(WORDS, min_size=1, max_size=5))
def test_whatever_a_skill_says_is_read_as_it_was_written(
    name: str, description: str, domain: str, steps: list[str]
) -> None:
    try:
        text = checked(SkillText(name, description, domain, tuple(steps)))
    except RequestError:
        return
    one = skill(text)
    folder = folder_name(one)
    found = read(written(one, one.latest, folder).encode(), folder).text
    description = "" if text.description == text.name else text.description
    assert found == SkillText(text.name, description, text.domain, text.steps)
    # Shown to a person, each part is on a line of its own.
    assert len("\n".join(text_lines(text)).splitlines()) == 3 + len(text.steps)


def test_a_file_from_elsewhere_is_read() -> None:
    source = (
        "\ufeff---\r\nname: tea\r\ndescription: Make tea\r\nlicense: MIT\r\nallowed-tools: Bash\r\n---\r\n"
        "1) Boil water,\r\n   fresh.\r\n2. Wait.\r\n"
    )
    assert read(source.encode(), "tea").text == SkillText("tea", "Make tea", "", ("Boil water, fresh.", "Wait."))


@pytest.mark.parametrize(
    "source, why",
    [
        ("x" * (LARGEST + 1), "more than 32768 bytes"),
        ("1. Do it.", "does not begin with front matter"),
        ("---\nname: a\n", "its front matter has no end"),
        ("---\nname: [\n---\n1. x", "its front matter is not valid YAML"),
        ("---\nname: a\nname: b\ndescription: c\n---\n1. x", "`name` is given twice"),
        ("---\nname: &a a\ndescription: *a\n---\n1. x", "aliases (`*name`) are not supported"),
        ("---\n- a\n---\n1. x", "its front matter has no fields"),
        ("---\nname: a\ndescription: b\nhooks: c\n---\n1. x", "an unknown field, `hooks`"),
        ("---\nname: a\n---\n1. x", "needs `description`, a text"),
        ("---\nname: 7\ndescription: b\n---\n1. x", "needs `name`, a text"),
        ("---\nname: b\ndescription: b\n---\n1. x", "its `name` is not that of its folder, `a`"),
        ("---\nname: ../a\ndescription: b\n---\n1. x", "its `name` is not that of its folder, `a`"),
        ("---\nname: a\ndescription: b\nmetadata: [c]\n---\n1. x", "no list of names with texts"),
        ("---\nname: a\ndescription: b\nmetadata: {c: 1}\n---\n1. x", "no list of names with texts"),
        ("---\nname: a\ndescription: b\n---\n", "no numbered steps"),
        (
            "---\nname: a\ndescription: b\n---\nDo as you like.\n1. x",
            "something else than a heading",
        ),
        ("---\nname: a\ndescription: b\n---\n1. x\n\n## Notes", "something else than a heading"),
        ("---\nname: a\ndescription: b\n---\n1. x\n3. y", "`3.` is no. 2"),
        (f"---\nname: a\ndescription: b\n---\n1. {'x' * 501}", "a step of a skill has at most 500 characters"),
    ],
)
def test_what_is_no_skill_is_told_why(source: str, why: str) -> None:
    with pytest.raises(BrokenSkillError) as broken:
        read(source.encode(), "a")
    assert why in str(broken.value)
    assert "\n" not in str(broken.value)


def test_bytes_are_no_skill() -> None:
    with pytest.raises(BrokenSkillError, match="it is not UTF-8"):
        read(b"---\n\xff", "a")


def put(folder: Path, name: str, text: str = FILE) -> Path:
    (folder / name).mkdir(parents=True)
    file = folder / name / "SKILL.md"
    file.write_text(text.replace("weekly-report", name).replace("Weekly report", name))
    return file


def refused(folder: Path) -> str:
    with pytest.raises(OperatorError) as caught:
        read_skills(folder)
    return str(caught.value)


def test_a_folder_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    assert "cannot be used: No such file or directory" in refused(folder)
    folder.mkdir()
    assert "holds no folder with a SKILL.md" in refused(folder)
    file = put(folder, "tea")
    put(folder, "coffee")
    (folder / ".git").mkdir()
    (folder / "empty").mkdir()
    assert set(read_skills(folder)) == {"tea", "coffee"}

    outside = put(tmp_path / "outside", "secret")
    (folder / "secret").symlink_to(outside.parent)
    assert f"`{folder}/secret`: it is no folder, and links are not followed" in refused(folder)
    (folder / "secret").unlink()
    file.unlink()
    file.symlink_to(outside)
    assert f"`{folder}/tea`: its SKILL.md is no file, and links are not followed" in refused(folder)
    file.unlink()
    os.mkfifo(file)
    assert "its SKILL.md is no file" in refused(folder)
    file.unlink()
    (folder / "README").write_text("x")
    assert f"`{folder}/README`: it is no folder" in refused(folder)
    (folder / "README").unlink()
    put(folder, "cocoa", FILE.replace("Weekly report", "coffee"))
    assert f"`{folder}/coffee`: its skill has the name of the one in `cocoa`" in refused(folder)
    for number in range(MOST):
        (folder / f"more-{number}").mkdir()
    assert f"has more than {MOST} entries" in refused(folder)


def test_a_file_is_there_whole_or_as_before_and_none_of_others_is_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    ours = {"tea": ("skill_0123456789ab", FILE.replace("weekly-report", "tea"))}
    assert write_skills(folder, ours) == ("tea",)
    assert write_skills(folder, ours) == ()
    # What a crash left is in nobody's way.
    (folder / "tea" / ".SKILL.md.new").write_text("half")
    newer = {"tea": ("skill_0123456789ab", ours["tea"][1].replace("Collect", "Count"))}
    assert write_skills(folder, newer) == ("tea",)
    assert [path.name for path in (folder / "tea").iterdir()] == ["SKILL.md"]

    def fails(texts: dict[str, tuple[str, str]]) -> str:
        with pytest.raises(OperatorError) as caught:
            write_skills(folder, texts)
        return str(caught.value)

    other = {"cocoa": ("skill_c", FILE.replace("weekly-report", "cocoa")), "tea": ("skill_1", "x")}
    assert f"`{folder}/tea/SKILL.md` is not ours and was left alone" in fails(other)
    # All is looked at before the first is written.
    assert not (folder / "cocoa").exists()
    (folder / "tea" / "SKILL.md").write_text("notes of mine")
    assert "is not ours and was left alone" in fails(newer)
    (tmp_path / "elsewhere").mkdir()
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    assert "links are not followed" in fails({"linked": ("skill_1", "x")})
    assert [*(tmp_path / "elsewhere").iterdir()] == []
    (folder / "file").write_text("x")
    assert "it is no folder" in fails({"file": ("skill_1", "x")})
    (tmp_path / "plain").write_text("x")
    folder = tmp_path / "plain" / "below"
    assert "cannot be used: Not a directory" in fails(ours)
