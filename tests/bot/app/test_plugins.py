"""Plugins: what config.yaml names is added, goes the way of Lockgate's own, and nothing else is loaded."""

import asyncio
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.app.adapters import menu, platforms
from bot.app.opening import open_app
from bot.app.plugins import Plugins, find_plugin, load_plugins
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import ConfigError
from bot.sessions.models import Status
from bot.tools import catalogue
from channels.console import Console
from channels.messages import Address
from tests.bot.app.test_adapters import Nobody
from tests.bot.kit import document
from tests.channels.contract import Kept
from tests.harness import running
from tests.people import principal
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

TOOL = """
from bot.app.plugins import Plugin, ToolSetup
from bot.tools.base import Arguments, CallFacts, Result
from policy.labels import parse, PUBLIC
from policy.request import Effect

class Nothing(Arguments):
    pass

class Secret:
    name, description, effect, label = "NAME", "Tell it.", Effect.READ, parse("CONFIDENTIAL")
    repeatable, server, arguments = True, "", Nothing

    def __init__(self, setup: ToolSetup) -> None:
        self.sessions = setup.sessions

    def declare(self, arguments, context):
        return CallFacts(result=PUBLIC)

    async def run(self, arguments, context, services):
        return Result("it is nine")

PLUGIN = Plugin(tools=(Secret,))
"""
COMMAND = """
from bot.app.plugins import Plugin
from bot.commands.command import Reply
from bot.commands.table import Command
from policy.request import Role

async def pong(request, argument):
    return Reply(f"pong {argument}")

PLUGIN = Plugin(commands=(Command("NAME", "/NAME", "Answer.", lambda made: pong, Role.ADMIN),))
"""
RULE = """
from bot.app.plugins import Plugin
from policy.decision import Verdict
from policy.request import Hook
from policy.rules import Rule

def loud(facts, now):
    return "HELLO" in facts.request.content

PLUGIN = Plugin(rules=(Rule("no-shouting", Hook.PRE_CONTEXT_INJECTION, Verdict.BLOCK, "do not shout", test=loud),))
"""
SETTINGS = TOOL.replace(
    "self.sessions = setup.sessions",
    "self.said = setup.settings.get('said')\n        if not isinstance(self.said, str):\n"
    "            raise ValueError('`said` must be\\na text')",
).replace('"it is nine"', "self.said")
OWNERS = RULE.replace("PRE_CONTEXT_INJECTION", "PRE_OUTPUT").replace(
    '"HELLO" in facts.request.content', 'facts.request.asker != "owner" and "HELLO" in facts.request.content'
)
KEEPING = """
from bot.app.plugins import Plugin
from bot.commands.command import Reply
from bot.commands.table import Command

def keeping(vault):
    async def keep(request, argument):
        before = await vault.get("plug-keep")
        await vault.put("plug-keep", argument.encode())
        return Reply(f"before: {before}")
    return keep

PLUGIN = Plugin(commands=(Command("keep", "/keep TEXT", "Keep it.", lambda made: keeping(made.services.vault)),))
"""
CHANNEL = """
from bot.app.plugins import Plugin, PluginChannel
from channels.port import ChannelError

class Silent:
    name, marks_repeats, marks_untrusted, previews = "NAME", False, False, False

    async def close(self):
        pass

    async def troubles(self):
        return ()

def make(setup):
    if not setup.environment.get("SILENT_TOKEN"):
        raise ValueError("there is no token")
    assert setup.now_ms() > 0
    assert ("help", "List the commands, or explain one.") in setup.commands
    return Silent()

PLUGIN = Plugin(channels=(PluginChannel("silent", make),))
"""
TOKEN = {"SILENT_TOKEN": "x"}
LISTENING = """
plugins: [./{file}]
channels:
  others:
    silent: {{}}
policy:
  channels:
    console: {{classification: top}}
    silent: {{classification: PUBLIC}}
"""


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    """No test finds a plugin that another loaded."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("plug_"):
            del sys.modules[name]


def written(folder: Path, name: str, text: str, called: str = "") -> str:
    """Write a plugin and return the configuration that names it."""
    (folder / f"plug_{name}.py").write_text(text.replace("NAME", called), "utf-8")
    return f"plugins: [./plug_{name}.py]\n"


def loaded(folder: Path, config: str) -> None:
    path = folder / "config.yaml"
    path.write_text(config, "utf-8")
    settings = load_config(path, {}, catalogue.ARGUMENTS, find_plugin)
    load_plugins(settings.plugins, settings.folder, settings.policy.code.rules)


def refused(folder: Path, config: str) -> str:
    with pytest.raises(ConfigError) as raised:
        loaded(folder, config)
    return str(raised.value)


def made_of(settings: Config, plugins: Plugins, **environment: str) -> list[str]:
    """Return the names of the adapters that are made."""
    adapters = platforms(settings.channels, environment, lease=Nobody(), vault=Kept, in_force=document, plugins=plugins)
    return [adapter.name for adapter in adapters]


async def test_a_tool_is_gated_like_any_other(tmp_path: Path) -> None:
    async with running(tmp_path, written(tmp_path, "tool", TOOL, "tell")) as owner:
        assert "tell: it is nine" in await owner.say("!tell {}")
        assert str((await owner.state()).taint) == "CONFIDENTIAL"
        shown = await owner.say('!message {"channel": "console", "recipient": "guest", "text": "nine"}')
        assert "no_write_down" in shown


async def test_a_policy_may_name_it(tmp_path: Path) -> None:
    rule = "{id: never, hook: PRE_TOOL_CALL, tools: [tell], action: BLOCK, message: never}"
    config = f"{written(tmp_path, 'tool', TOOL, 'tell')}policy: {{rules: [{rule}]}}\n"
    async with running(tmp_path, config) as owner:
        assert "Rule `never`" in await owner.say("!tell {}")
        assert "is in force" in await owner.say("/policy reload")
        assert "Rule `never`" in await owner.say("!tell {}")
    assert "did you mean `tell`" in await asyncio.to_thread(refused, tmp_path, config.replace("[tell]", "[tel]"))


async def test_a_tool_has_its_settings(tmp_path: Path) -> None:
    config = f"{written(tmp_path, 'tool', SETTINGS, 'tell')}tools:\n  tell: {{said: it is ten}}\n"
    async with running(tmp_path, config) as owner:
        assert "tell: it is ten" in await owner.say("!tell {}")
    for unfit in ("tools: {}", "tools: {tell: {said: 3}}"):
        with pytest.raises(ConfigError, match=r"`tools\.tell` cannot be used, `said` must be a text"):
            async with running(tmp_path, f"plugins: [./plug_tool.py]\n{unfit}\n"):
                pass
    told = await asyncio.to_thread(refused, tmp_path, config.replace("  tell:", "  tel:"))
    assert "config.yaml:3: no plugin has a tool `tel`, did you mean `tell`?" in told


async def test_a_command_keeps_values(tmp_path: Path) -> None:
    async with running(tmp_path, written(tmp_path, "command", KEEPING), serve=False) as owner:
        assert "before: None" in await owner.say("/keep one")
        assert "before: b'one'" in await owner.say("/keep two")


async def test_a_command_is_authorized_like_any_other(tmp_path: Path) -> None:
    people = "policy: {principals: {owner: {role: member, clearance: top, accounts: ['console:owner']}}}\n"
    config = written(tmp_path, "command", COMMAND, "ping")
    async with running(tmp_path, config, serve=False) as owner:
        assert "pong now" in await owner.say("/ping now")
        assert "/ping: Answer." in await owner.say("/help")
        assert "Did you mean `/ping`" in await owner.say("/pin")
    async with running(tmp_path, config + people, serve=False) as member:
        assert "pong" not in await member.say("/ping now")
        assert "/ping" not in await member.say("/help")


async def test_the_role_that_a_word_of_a_command_needs_is_authorized_too(tmp_path: Path) -> None:
    people = "policy: {principals: {owner: {role: member, clearance: top, accounts: ['console:owner']}}}\n"
    some = COMMAND.replace("Role.ADMIN", "for_admins=frozenset({'all'})")
    config = written(tmp_path, "command", some, "ping")
    async with running(tmp_path, config + people, serve=False) as member:
        assert "pong now" in await member.say("/ping now")
        assert "pong" not in await member.say("/ping all")
    async with running(tmp_path, config, serve=False) as owner:
        assert "pong all" in await owner.say("/ping all")


async def test_a_command_is_in_the_menus_of_platforms(tmp_path: Path) -> None:
    async with running(tmp_path, written(tmp_path, "command", COMMAND, "ping"), serve=False) as owner:
        assert "ping" in {name for name, _ in menu(owner.app.plugins.commands).all}
        assert "ping" not in {name for name, _ in menu(owner.app.plugins.commands).everybody}


async def test_a_rule_is_in_force_and_stays_so_over_a_reload(tmp_path: Path) -> None:
    async with running(tmp_path, written(tmp_path, "rule", RULE)) as owner:
        assert "You said: hello" in await owner.say("hello")
        assert "Rule `no-shouting`: do not shout" in await owner.say("HELLO")
        assert "- no-shouting at PRE_CONTEXT_INJECTION says BLOCK: do not shout" in await owner.say("/policy")
        assert "is in force" in await owner.say("/policy reload")
        assert "Rule `no-shouting`: do not shout" in await owner.say("HELLO")


async def test_a_reload_takes_no_rule_of_a_plugin_that_runs_out_of_force(tmp_path: Path) -> None:
    """The plugin's tools and commands stay until the next start, so its rules do."""
    async with running(tmp_path, written(tmp_path, "rule", RULE)) as owner:
        (tmp_path / "config.yaml").write_text("{}\n", "utf-8")
        told = await owner.say("/policy reload")
        assert "rule `no-shouting` of a plugin was removed, restart to put that in force" in told
        assert "Rule `no-shouting`: do not shout" in await owner.say("HELLO")


async def test_a_rule_of_outputs_does_not_know_who_asks(tmp_path: Path) -> None:
    """Otherwise a text that was allowed would be withheld without a word when it is sent, as no person asks then."""
    async with running(tmp_path, written(tmp_path, "rule", OWNERS)) as owner:
        assert "Rule `no-shouting`" in await owner.say("HELLO")


async def test_people_are_asked_for_a_rule_that_asks(tmp_path: Path) -> None:
    asking = RULE.replace("Verdict.BLOCK", "Verdict.REQUIRE_APPROVAL").replace("PRE_CONTEXT_INJECTION", "PRE_TOOL_CALL")
    people = {"owner": principal("console:owner"), "ann": principal("console:ann", role="approver")}
    config = f"{written(tmp_path, 'rule', asking)}policy: {{principals: {json.dumps(people)}}}\n"
    async with running(tmp_path, config) as owner:
        await owner.say('!write_file {"path": "public/A.MD", "text": "HELLO"}')
        assert (await owner.state()).status is Status.AWAITING_INPUT
        ann = replace(owner, address=Address("console", "ann"), account="console:ann")
        ((_, asked),) = await owner.app.store.approvals.waiting()
        await ann.say(f"/approve {asked.id}", wait=False)
        await owner.settled()
        assert "write_file: " in owner.shown


async def test_a_tool_is_made_under_the_name_that_its_class_has(tmp_path: Path) -> None:
    """Another name, or other arguments, would take the place of a tool that was checked."""
    for name, change in (("name", "self.name = 'read_file'"), ("arguments", "self.arguments = Arguments")):
        text = written(tmp_path, name, TOOL.replace("self.sessions = setup.sessions", change), f"tell_{name}")
        with pytest.raises(ConfigError, match=f"`tell_{name}` made a tool with another name or other arguments than"):
            async with running(tmp_path, text):
                pass


async def test_an_application_whose_policy_lacks_the_rules_of_its_plugins_does_not_open(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(written(tmp_path, "rule", RULE), "utf-8")
    place = await SERVERS.place(tmp_path / "data", embedded=False)
    without = await asyncio.to_thread(load_config, path, place, catalogue.ARGUMENTS)
    with pytest.raises(ConfigError, match="are not in force"):
        async with open_app(without, [Console(io.StringIO())], {}):
            pass


def test_its_file_names_the_policy_by_its_code(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(written(tmp_path, "rule", RULE), "utf-8")
    first = load_config(path, {}, catalogue.ARGUMENTS, find_plugin).policy.digest
    written(tmp_path, "rule", f"{RULE}\n# changed")
    # The code that is loaded decides until the next start.
    assert load_config(path, {}, catalogue.ARGUMENTS, find_plugin).policy.digest == first
    del sys.modules["plug_rule"]
    assert load_config(path, {}, catalogue.ARGUMENTS, find_plugin).policy.digest != first


def test_a_channel_is_made_where_it_is_configured_and_nowhere_else(tmp_path: Path) -> None:
    written(tmp_path, "channel", CHANNEL, "silent")
    path = tmp_path / "config.yaml"
    for config, made in ((LISTENING.format(file="plug_channel.py"), ["silent"]), ("plugins: [./plug_channel.py]", [])):
        path.write_text(config, "utf-8")
        settings = load_config(path, {}, catalogue.ARGUMENTS, find_plugin)
        plugins = load_plugins(settings.plugins, settings.folder, ())
        assert made_of(settings, plugins, **TOKEN) == made
        assert list(settings.channels.listened) == made
        if made:
            with pytest.raises(ConfigError, match=r"`channels\.others\.silent` cannot be used, there is no token"):
                made_of(settings, plugins)


def test_a_channel_has_to_be_known_classified_and_called_as_it_says(tmp_path: Path) -> None:
    written(tmp_path, "channel", CHANNEL, "silent")
    config = LISTENING.format(file="plug_channel.py")
    told = refused(tmp_path, config.replace("    silent: {classification: PUBLIC}\n", ""))
    assert "config.yaml:5: `policy.channels` does not say what may be said there" in told
    told = refused(tmp_path, config.replace("silent:", "silence:"))
    assert "config.yaml:5: no plugin has a channel `silence`, did you mean `silent`?" in told
    for name in ("slack", "api", "console", "session"):
        assert f"`{name}` is a channel of Lockgate's own" in refused(tmp_path, config.replace("silent:", f"{name}:"))
    assert "a channel's name has" in refused(tmp_path, config.replace("    silent: {}", "    Silent: {}"))
    written(tmp_path, "other", CHANNEL, "loud")
    settings = LISTENING.format(file="plug_other.py")
    path = tmp_path / "config.yaml"
    path.write_text(settings, "utf-8")
    made = load_config(path, {}, catalogue.ARGUMENTS, find_plugin)
    plugins = load_plugins(made.plugins, made.folder, ())
    with pytest.raises(ConfigError, match="made a channel `loud`"):
        made_of(made, plugins, **TOKEN)


@pytest.mark.parametrize(
    "text, told",
    [
        ("PLUGIN = 3", "has no `PLUGIN = Plugin(...)`"),
        ("", "has no `PLUGIN = Plugin(...)`"),
        ("from bot.app.plugins import Plugin\nPLUGIN = Plugin(tools=(print,))", "is given by its class"),
        ("import no_such_module", "cannot be loaded, ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = (", "cannot be loaded, SyntaxError"),
        ("raise OSError", "cannot be loaded, OSError"),
        (TOOL.replace("NAME", "read_file"), "`read_file` of this plugin is there already"),
        (COMMAND.replace("NAME", "help"), "there is a command `/help` already"),
        (COMMAND.replace("NAME", "Help!"), "is no name of a command"),
        (COMMAND.replace('"/NAME"', '"/other"').replace("NAME", "ping"), "begins with another name"),
    ],
)
def test_one_that_cannot_be_used_is_told_by_its_line(tmp_path: Path, text: str, told: str) -> None:
    problem = refused(tmp_path, f"model: {{name: offline}}\n{written(tmp_path, 'bad', text)}")
    assert "config.yaml:2: " in problem
    assert told in problem
    assert "plug_bad" not in sys.modules or told.startswith(("has no", "is given", "`", "there", "is no", "begins"))


@pytest.mark.parametrize(
    "named, told",
    [
        ("./plug_none.py", "there is no such file beside the configuration"),
        ("./decimal.py", "there is no such file beside the configuration"),
        ("plug_none", "is not installed, install it or name its file, as in `./plug_none.py`"),
        ("./json.py", "has the name of another module, rename the file"),
        ("./wave.py", "has the name of another module, rename the file"),
        ("-x", "a plugin is an installed module"),
        ("./a-b.py", "a plugin is an installed module"),
        ("3", "`plugins` must be"),
    ],
)
def test_a_name_that_leads_nowhere_is_told(tmp_path: Path, named: str, told: str) -> None:
    for name in ("json", "wave"):
        (tmp_path / f"{name}.py").write_text("PLUGIN = 1", "utf-8")
    assert told in refused(tmp_path, f"plugins: [{named}]\n").replace("`0`", "`plugins`")


def test_two_plugins_add_nothing_of_one_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        written(tmp_path, name, COMMAND, "ping")
    both = "plugins: [./plug_one.py, ./plug_two.py]\n"
    assert "there is a command `/ping` already" in refused(tmp_path, both)
    for name in ("one", "two"):
        del sys.modules[f"plug_{name}"]
        written(tmp_path, name, TOOL, "tell")
    assert "config.yaml:1: `tell` of this plugin is there already" in refused(tmp_path, both)


def test_nothing_is_loaded_that_is_not_named(tmp_path: Path) -> None:
    written(tmp_path, "tool", TOOL, "tell")
    loaded(tmp_path, "{}\n")
    assert "plug_tool" not in sys.modules
