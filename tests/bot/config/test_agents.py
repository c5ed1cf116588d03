"""`agents:` in config.yaml: each mistake is one sentence with its line, and no name is guessed."""

import re
from pathlib import Path

import pytest

from bot.config.agents import agent_places, chosen_tools
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import ConfigError
from bot.tools.catalogue import NAMES

POLICY = """
policy:
  principals: {ann: {role: member, clearance: PUBLIC, accounts: ["console:ann"]}}
  channels: {console: {classification: top}, room: {classification: top}, slack: {classification: PUBLIC}}
  chats: {team: {channel: room, chat: team, classification: PUBLIC}}
secrets: {acme: {env: ACME_KEY}}
"""


def load(agents: str, folder: Path) -> Config:
    path = folder / "config.yaml"
    path.write_text(f"agents:\n  support: {agents}\n{POLICY}")
    return load_config(path, {}, NAMES)


@pytest.mark.parametrize(
    "agents,told",
    [
        ("{model: {name: offlin}}", "unknown model `offlin`, did you mean `offline`?; `model.choices` may name it"),
        (
            "{model: {name: offline, fallback: [openai:x]}}",
            "unknown model `openai:x`, known are `offline`; `model.choices` may name it",
        ),
        ("{tools: [read_fil]}", "unknown tool `read_fil`, did you mean `read_file`?"),
        ("{tools: ['read_filx*']}", "no tool is named like `read_filx*`, did you mean `read_file`?"),
        ("{credential: acm}", "unknown secret `acm`, did you mean `acme`?"),
        ("{people: [an]}", "unknown principal `an`, did you mean `ann`?"),
        ("{people: ['console:ann']}", "`console:ann` is an account of `ann`, write that"),
        ("{people: ['rom:x']}", "unknown channel `rom`, did you mean `room`?"),
        ("{chats: [tea]}", "unknown chat `tea`, did you mean `team`?"),
        ("{chats: ['rom:x']}", "unknown channel `rom`, did you mean `room`?"),
        ("{chats: ['slack:C1']}", "`slack:C1` names nothing there can be, write it as `slack:WORKSPACE:ID`"),
        ("{people: ['slack:U1']}", "`slack:U1` names nothing there can be, write it as `slack:WORKSPACE:ID`"),
        ("{chats: ['room:']}", "`room:` names nothing there can be, write it as `room:ID`"),
        ("{instruction: x}", "unknown field `instruction`, did you mean `instructions`?"),
        ("{limits: {tokens: 1}}", "`tokens` must be greater than or equal to 1000"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_nearest_name(agents: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(agents, tmp_path)
    assert str(caught.value) == f"{tmp_path}/config.yaml:2: {told}"


@pytest.mark.parametrize(
    "named,told",
    [
        ("people: [ann]", "`ann` has the agent `support` already, name one of them"),
        ("chats: ['room:team']", "`room:team` has the agent `support` already, name one of them"),
    ],
)
def test_a_person_or_a_chat_has_one_agent(named: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"agents:\n  support: {{people: [ann], chats: [team]}}\n  sales: {{{named}}}\n{POLICY}")
    with pytest.raises(ConfigError) as caught:
        load_config(path, {}, NAMES)
    assert str(caught.value) == f"{path}:3: {told}"


def test_a_key_is_sent_to_one_provider_alone(tmp_path: Path) -> None:
    told = "one key is for one provider, so all models of an agent with a `credential` are of one provider"
    path = tmp_path / "config.yaml"
    models = "model: {name: 'openai:a', choices: ['openai-chat:b', 'anthropic:c', 'openai:d']"
    here = ", providers: {'openai:d': {base_url: 'https://elsewhere.example'}}}"
    for chain, refused in (
        ("{name: 'openai:a', fallback: ['openai-chat:b']}", False),
        ("{name: 'openai:a', fallback: ['anthropic:c']}", True),
        ("{name: 'openai:a', fallback: ['openai:d']}", True),
    ):
        path.write_text(f"{models}{here}\nagents:\n  support: {{credential: acme, model: {chain}}}\n{POLICY}")
        if not refused:
            assert load_config(path, {}, NAMES).agents["support"].credential == "acme"
            continue
        with pytest.raises(ConfigError, match=told):
            load_config(path, {}, NAMES)


def test_tools_may_be_named_by_globs(tmp_path: Path) -> None:
    agent = load("{tools: ['sessions_*', read_file]}", tmp_path).agents["support"]
    chosen = chosen_tools(agent, NAMES)
    assert chosen == tuple(name for name in NAMES if name.startswith("sessions_") or name == "read_file")
    assert chosen_tools(load("{}", tmp_path).agents["support"], NAMES) == NAMES
    assert chosen_tools(load("{tools: []}", tmp_path).agents["support"], NAMES) == ()


def test_a_chat_is_named_as_the_policy_or_as_the_platform_names_it(tmp_path: Path) -> None:
    config = load("{chats: [team, 'room:other']}", tmp_path)
    assert agent_places(config.agents, config.policy) == {"room:team": "support", "room:other": "support"}


GROUPED = """
policy:
  principals: {{owner: {{role: owner, clearance: top, accounts: ["console:owner"]}}}}
  groups: {{one: {{members: [owner]}}, two: {{members: [one]}}}}
agents: {{a: {{people: [one]}}, b: {{people: [{more}]}}}}
"""


@pytest.mark.parametrize(
    "more, told",
    [
        ("two", "config.yaml:5: `owner` has the agent `a` by `one` and `b` by `two`, name them under one agent"),
        ("tow", "config.yaml:5: unknown principal `tow`, did you mean `two`?"),
        ("two, owner", ""),
    ],
)
def test_groups_give_a_person_one_agent_or_their_own_entry_decides(more: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(GROUPED.format(more=more))
    if told:
        with pytest.raises(ConfigError, match=re.escape(told)):
            load_config(path, {}, NAMES)
    else:
        assert load_config(path, {}, NAMES).agents["b"].people == ("two", "owner")
