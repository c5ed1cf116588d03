"""Which plugins config.yaml names: modules that add tools, commands, channels and rules. No other module is loaded."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, JsonValue

from bot.core.errors import ConfigError
from policy.errors import Problem, nearest
from policy.rules import CodeRules, Rule

PLUGINS: Final = "plugins"

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_FILE: Final = re.compile(r"([^\x00]*/)?[A-Za-z_]\w*\.py", re.ASCII)


def _plugin(name: str) -> str:
    if not (_FILE if name.endswith(".py") else _MODULE).fullmatch(name):
        raise ValueError("a plugin is an installed module such as `acme_lockgate`, or a file such as `./my_tool.py`")
    return name


PluginName = Annotated[str, AfterValidator(_plugin)]
"""A module that is installed, or a file that ends in `.py`, relative to config.yaml."""


ToolsSettings = dict[str, dict[str, JsonValue]]
"""Settings of the tools of plugins, by the name of the tool; each tool reads its own."""


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """The facts about a plugin that the policy needs.

    `tools` are its tools with their arguments and the type of each, `channels` the names of its channels. `digest`
    names the code of its `rules`.
    """

    tools: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    channels: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = ()
    digest: str = ""


FindPlugin = Callable[[str, Path], PluginFacts]
"""Load a plugin, whose file is relative to a folder. Raises ConfigError: it cannot be used."""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The plugins of a configuration, and their problems."""

    found: tuple[PluginFacts, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def tools(self) -> dict[str, Mapping[str, str]]:
        """All their tools, with their arguments and the type of each."""
        return {name: arguments for one in self.found for name, arguments in one.tools.items()}

    @property
    def channels(self) -> frozenset[str]:
        """The names of all their channels."""
        return frozenset[str]().union(*(one.channels for one in self.found))

    @property
    def code(self) -> CodeRules | None:
        """All their rules, None if there are none."""
        rules = tuple(rule for one in self.found for rule in one.rules)
        digests = sorted(one.digest for one in self.found if one.rules)
        return CodeRules(rules, sha256("".join(digests).encode()).hexdigest()) if rules else None


def plugin_set(named: JsonValue, folder: Path, find: FindPlugin, taken: frozenset[str]) -> PluginSet:
    """Load the plugins that a file names; names of tools in `taken` are those of other tools."""
    found, problems, tools, channels = list[PluginFacts](), list[Problem](), set(taken), set[str]()
    for place, name in _names(named):
        try:
            facts = find(name, folder)
        except ConfigError as error:
            problems.append(Problem((PLUGINS, place), str(error)))
            continue
        twice = sorted(tools.intersection(facts.tools)) + sorted(channels & facts.channels)
        problems += [Problem((PLUGINS, place), f"`{one}` of this plugin is there already, rename it") for one in twice]
        tools.update(facts.tools)
        channels.update(facts.channels)
        found.append(facts)
    return PluginSet(tuple(found), tuple(problems))


def unknown_tools(settings: ToolsSettings, plugins: PluginSet) -> Iterator[Problem]:
    """Yield a problem for each entry of `tools` that is not the name of a plugin's tool."""
    for name in settings:
        if name not in plugins.tools:
            yield Problem(("tools", name), f"no plugin has a tool `{name}`{nearest(name, plugins.tools)}")


def _names(named: JsonValue) -> Iterator[tuple[int, str]]:
    """Yield the names that are well written; the others are told of their field."""
    for place, name in enumerate(named if isinstance(named, list) else ()):
        if isinstance(name, str) and (_FILE if name.endswith(".py") else _MODULE).fullmatch(name):
            yield place, name
