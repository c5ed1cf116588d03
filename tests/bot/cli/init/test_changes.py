"""Answers become a configuration that says them, on every file they are given for, and change nothing twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.cli.init.answers import Answers, GroupAnswer, ModelAnswer, PlatformAnswer, PlatformKind, current_model
from bot.cli.init.changes import changes
from bot.cli.init.editing import edited
from bot.cli.init.file import template
from bot.config.file.yaml import parse_yaml
from bot.config.load import load_config
from bot.config.model import Config
from bot.tools.catalogue import ARGUMENTS

TELEGRAM = PlatformKind.TELEGRAM
ALL = Answers(
    ModelAnswer("openai-chat:sim", "http://sim.example/v1", "SIM_KEY", "INTERNAL"),
    PlatformAnswer(TELEGRAM, "BOT_TOKEN", "", "http://plays.example", "CONFIDENTIAL"),
    "telegram:4711",
    GroupAnswer(TELEGRAM, "-100123"),
)
BARE = "# mine\nlimits: {model_steps: 7}\n"
SECTIONS = """\
policy:
  principals:
    ann: {role: owner, clearance: top, accounts: ["console:owner"]}
  channels:
    console: {classification: top, overshoot: allow}
    telegram: {classification: PUBLIC, overshoot: allow}
  chats: {team: {channel: telegram, chat: "-100123", classification: INTERNAL}}
model: {name: openai-chat:old, providers: {openai-chat:old: {base_url: "http://old.example/v1"}}, fallback: [offline]}
channels:
  telegram:
    token: OLD_TOKEN
    bots: ["telegram:7"]
"""


def loaded(text: str, folder: Path) -> Config:
    path = folder / "config.yaml"
    path.write_text(text, "utf-8")
    return load_config(path, {}, ARGUMENTS)


def applied(text: str, answers: Answers, folder: Path) -> str:
    return edited(text, changes(answers, loaded(text, folder), parse_yaml(text).value))


@pytest.mark.parametrize("text", ["", BARE, SECTIONS, template()], ids=["empty", "bare", "sections", "shipped"])
def test_a_file_says_the_answers_and_keeps_the_rest(text: str, tmp_path: Path) -> None:
    before = loaded(text, tmp_path)
    made = applied(text, ALL, tmp_path)
    config = loaded(made, tmp_path)
    assert current_model(config) == ALL.model
    telegram = config.channels.telegram
    assert telegram is not None
    assert (telegram.token, telegram.base_url) == ("BOT_TOKEN", "http://plays.example")
    assert str(config.policy.channels["telegram"].classification) == "CONFIDENTIAL"
    owner = config.policy.principal("telegram:4711")
    assert owner is not None
    assert "console:owner" in config.policy.principals[owner[0]].accounts
    chat = config.policy.chat("telegram", "", "-100123")
    assert chat is not None
    assert str(chat.classification) == "PUBLIC"
    assert not chat.members_vouched
    # All else is as before, the console and the shipped entries too.
    assert config.limits == before.limits
    assert config.policy.channels["console"] == before.policy.channels["console"]
    assert set(before.policy.principals) == set(config.policy.principals)
    assert set(before.policy.models) <= set(config.policy.models)
    kept = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    assert [line for line in made.splitlines() if line.lstrip().startswith("#")] == kept
    assert applied(made, ALL, tmp_path) == made


def test_a_model_with_settings_stays_one_to_choose(tmp_path: Path) -> None:
    made = applied(template(), ALL, tmp_path)
    away = applied(made, Answers(), tmp_path)
    config = loaded(away, tmp_path)
    assert (config.model.name, config.model.choices) == ("offline", ("openai-chat:sim",))
    assert loaded(applied(away, ALL, tmp_path), tmp_path).model.choices == ()


def test_settings_that_nobody_asks_for_stay(tmp_path: Path) -> None:
    config = loaded(applied(SECTIONS, ALL, tmp_path), tmp_path)
    assert config.channels.bots == {"telegram": ("telegram:7",)}
    assert config.policy.channels["telegram"].overshoot == "allow"
    assert config.model.choices == ("openai-chat:old",)


def test_an_answer_that_is_there_already_changes_nothing(tmp_path: Path) -> None:
    text = applied(template(), ALL, tmp_path)
    same = replace(ALL, owner="telegram:4711", group=None)
    assert changes(same, loaded(text, tmp_path), parse_yaml(text).value) == ()
