"""Options that several commands have, and how a command is carried out."""

import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from bot.config.model import Config
    from bot.config.plugins import PluginFacts

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one document.")]
Id = Annotated[str, typer.Argument(help="Its id.")]
After = Annotated[str, typer.Option(help="Where the page before ended.")]


def config_of(context: typer.Context) -> "Config":
    """Load the configuration that a command was given. Raises OperatorError: it cannot be used."""
    return config_at(context.obj)


def config_at(path: "Path | None") -> "Config":
    """Load a configuration, by its file or as `load_config` finds it. Raises OperatorError: it cannot be used."""
    from bot.config.load import load_config
    from bot.tools.catalogue import ARGUMENTS

    return load_config(path, os.environ, ARGUMENTS, _find_plugin)


def _find_plugin(name: str, folder: "Path") -> "PluginFacts":
    # Loaded only where a plugin is configured: it imports all commands.
    from bot.app.plugins import find_plugin

    return find_plugin(name, folder)


def carry_out(work: Coroutine[Any, Any, int | None]) -> int:
    """Do the work of a command; return its exit code."""
    import anyio

    # Begun by AnyIO, its loop is known to it, and not found anew for every scope and event.
    return anyio.run(lambda: work) or 0
