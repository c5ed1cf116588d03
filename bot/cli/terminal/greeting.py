"""The first lines of `lockgate chat` at a terminal, and its prompt; they import nothing that takes long."""

from pathlib import Path
from typing import Final

GREETING: Final = "Lockgate. /help lists the commands, /quit leaves."
SET_UP: Final = "There is no config.yaml here: `lockgate init` sets up a model, Telegram or Slack."
"""The line that a terminal shows below the greeting until there is a configuration."""


def greeting(file: Path | None) -> str:
    """Return the first lines at a terminal; `file` is the configuration's, None for the defaults."""
    return GREETING if file is not None else f"{GREETING}\n{SET_UP}"


def prompt(taint: str | None) -> str:
    """Return the prompt of a conversation; one that is not open yet has no taint to tell."""
    return "lockgate> " if taint is None else f"lockgate [{taint}]> "
