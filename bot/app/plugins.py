"""Plugins: modules of others that add tools, commands, channels and rules without a change of Lockgate.

A module says what it adds in one value, `PLUGIN`. It is imported only if config.yaml names it under `plugins`, and then
runs with all rights of this process: there is no sandbox (ADR 0052). Its tools still pass the gate, its commands
`authorize()`, its texts the outbox, and its rules can only tighten.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Final

from pydantic import JsonValue

from bot.commands.table import BUILT_IN, Command, Commands
from bot.config.plugins import PluginFacts
from bot.core.errors import ConfigError
from bot.files.port import LabelledFiles
from bot.sessions.ports.sessions import SessionStore
from bot.tools.arguments import types
from bot.tools.base import Arguments, Tool
from channels.port import ChannelError, ChannelSetup, Platform
from policy.rules import Rule

PLUGIN: Final = "PLUGIN"
"""The name under which a module keeps its `Plugin`."""

_DIGEST: Final = "__lockgate_digest__"
"""Under which a module keeps the digest of the code that was loaded, as its file may be another one later."""

_COMMAND: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, slots=True)
class ToolSetup:
    """The services and settings that a plugin's tool is made with.

    `files` are the labelled files. `settings` is the tool's block under `tools` in config.yaml, not validated. A tool
    that raises ValueError for them is told by the error's text.
    """

    files: LabelledFiles
    sessions: SessionStore
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


ToolMaker = Callable[[ToolSetup], Tool]
"""Makes a tool: its class, which has `name` and `arguments`, so that both are known before one is made."""


@dataclass(frozen=True, slots=True)
class PluginChannel:
    """A channel of a plugin. `make` raises ValueError: its settings do not fit, or a token is missing."""

    name: str
    make: Callable[[ChannelSetup], Platform]

    def made(self, setup: ChannelSetup) -> Platform:
        """Return the adapter. Raises ConfigError: it cannot be made."""
        try:
            adapter = self.make(setup)
        except (ChannelError, ValueError) as error:
            raise ConfigError(f"`channels.others.{self.name}` cannot be used, {' '.join(str(error).split())}") from None
        if adapter.name != self.name:
            raise ConfigError(f"`channels.others.{self.name}` made a channel `{adapter.name}`")
        return adapter


@dataclass(frozen=True, slots=True)
class Plugin:
    """The tools, commands, channels and rules that a module adds; each is used as those of Lockgate are."""

    tools: tuple[ToolMaker, ...] = ()
    commands: tuple[Command, ...] = ()
    channels: tuple[PluginChannel, ...] = ()
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins of an installation, and its commands with theirs."""

    loaded: tuple[Plugin, ...] = ()
    commands: Commands = BUILT_IN

    @property
    def channels(self) -> Mapping[str, PluginChannel]:
        """Their channels by name."""
        return {channel.name: channel for plugin in self.loaded for channel in plugin.channels}

    @property
    def tool_names(self) -> frozenset[str]:
        """The names of their tools."""
        return frozenset(_declared(tool)[0] for plugin in self.loaded for tool in plugin.tools)

    def tools(self, setup: ToolSetup, settings: Mapping[str, Mapping[str, JsonValue]]) -> tuple[Tool, ...]:
        """Return their tools, each made with its own of `settings`. Raises ConfigError: its settings do not fit."""
        return tuple(_made(tool, setup, settings) for plugin in self.loaded for tool in plugin.tools)


NO_PLUGINS: Final = Plugins()


def find_plugin(name: str, folder: Path) -> PluginFacts:
    """Load a plugin and return the facts that the policy needs. Raises ConfigError: it cannot be used."""
    plugin, digest = _loaded(name, folder)
    return PluginFacts(
        tools={name: types(arguments) for name, arguments in map(_declared, plugin.tools)},
        channels=frozenset(channel.name for channel in plugin.channels),
        rules=plugin.rules,
        digest=digest,
    )


def load_plugins(names: Sequence[str], folder: Path, in_force: Sequence[Rule]) -> Plugins:
    """Return the plugins of a configuration; those that are loaded stay as they are.

    Raises ConfigError: one of them cannot be used, or has rules that are not `in_force`.
    """
    loaded = tuple(_loaded(name, folder)[0] for name in names)
    for name, plugin in zip(names, loaded, strict=True):
        if not set(plugin.rules) <= set(in_force):
            raise ConfigError(f"the rules of plugin `{name}` are not in force, load the configuration with its plugins")
    return Plugins(loaded, _commands(loaded))


def _commands(plugins: Sequence[Plugin]) -> Commands:
    """Return the commands of an installation. Raises ConfigError: one of a plugin cannot be among them."""
    rows = list(BUILT_IN.rows)
    for command in (command for plugin in plugins for command in plugin.commands):
        if not _COMMAND.fullmatch(command.name):
            raise ConfigError(
                f"`/{command.name}` is no name of a command, write 1 to 32 of `a` to `z`, `0` to `9`, `_`"
            )
        if any(row.name == command.name for row in rows):
            raise ConfigError(f"there is a command `/{command.name}` already, rename that of the plugin")
        if command.usage.split()[:1] != [f"/{command.name}"]:
            raise ConfigError(f"the usage of `/{command.name}` begins with another name")
        rows.append(command)
    return Commands(tuple(rows))


def _made(maker: ToolMaker, setup: ToolSetup, settings: Mapping[str, Mapping[str, JsonValue]]) -> Tool:
    name, arguments = _declared(maker)
    try:
        made = maker(replace(setup, settings=settings.get(name, {})))
    except ValueError as error:
        raise ConfigError(f"`tools.{name}` cannot be used, {' '.join(str(error).split())}") from None
    if made.name != name or made.arguments is not arguments:
        raise ConfigError(f"`{name}` made a tool with another name or other arguments than its class has")
    return made


def _declared(tool: ToolMaker) -> tuple[str, type[Arguments]]:
    """Return name and arguments of a tool, as its class has them. Raises ConfigError: it has none."""
    name, arguments = getattr(tool, "name", None), getattr(tool, "arguments", None)
    if not isinstance(name, str) or not (isinstance(arguments, type) and issubclass(arguments, Arguments)):
        raise ConfigError("a tool of a plugin is given by its class, with `name` and `arguments` in it")
    return name, arguments


def _loaded(name: str, folder: Path) -> tuple[Plugin, str]:
    """Return the plugin of a module, and the digest of its code."""
    module = _module(name, folder)
    plugin = getattr(module, PLUGIN, None)
    if not isinstance(plugin, Plugin):
        raise ConfigError(f"plugin `{name}` has no `{PLUGIN} = Plugin(...)`")
    _commands((plugin,))
    return plugin, getattr(module, _DIGEST)


def _module(name: str, folder: Path) -> ModuleType:
    try:
        module = _from_file(name, folder / name) if name.endswith(".py") else importlib.import_module(name)
        if not hasattr(module, _DIGEST):
            code = b"" if module.__file__ is None else Path(module.__file__).read_bytes()
            setattr(module, _DIGEST, sha256(code).hexdigest())
    except ModuleNotFoundError as error:
        if error.name == name.partition(".")[0] or error.name == name:
            raise ConfigError(
                f"plugin `{name}` is not installed, install it or name its file, as in `./{name}.py`"
            ) from None
        raise ConfigError(f"plugin `{name}` cannot be loaded, {_told(error)}") from error
    except FileNotFoundError:
        raise ConfigError(f"plugin `{name}`: there is no such file beside the configuration") from None
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"plugin `{name}` cannot be loaded, {_told(error)}") from error
    return module


def _from_file(name: str, path: Path) -> ModuleType:
    """Load a file once, so that its classes have one identity in this process."""
    if not path.is_file():
        raise FileNotFoundError(path)
    stem = path.stem
    known = sys.modules.get(stem)
    taken = importlib.util.find_spec(stem) if known is None else known.__spec__
    if (known or taken) and (taken is None or taken.origin is None or Path(taken.origin).resolve() != path.resolve()):
        # An import of that other module would get this one.
        raise ConfigError(f"plugin `{name}` has the name of another module, rename the file")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = sys.modules[stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[stem]
        raise
    return module


def _told(error: Exception) -> str:
    """Return an error in one line."""
    line = " ".join(str(error).split())
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
