"""config.yaml as a file: where it is, its text as YAML, and the store's place, which a start needs before all else.

It imports no schema: `bot.config.load` says what the fields mean, and reports all their problems.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.config.file.yaml import BrokenYamlError, Parsed, parse_yaml
from bot.core.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import JsonValue

DEFAULT_FILE: Final = "config.yaml"
CONFIG_VARIABLE: Final = "LOCKGATE_CONFIG"
DATA_VARIABLE: Final = "LOCKGATE_DATA_DIR"
STORE_VARIABLE: Final = "LOCKGATE_STORE_URL"

DEFAULT_DATA: Final = ".bot"
"""The data directory, unless another is named."""

_LIMIT: Final = 1_000_000


def find_config(named: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file to read, None if there is none and none was named.

    Raises ConfigError: the file that was named is not there.
    """
    variable = environment.get(CONFIG_VARIABLE)
    chosen = named or (Path(variable) if variable else None)
    if chosen is None:
        return Path(DEFAULT_FILE) if os.path.lexists(DEFAULT_FILE) else None
    if not os.path.lexists(chosen):
        step = "check its path" if named else f"check the path given by {CONFIG_VARIABLE}"
        raise ConfigError(f"{chosen}: there is no such file", next_step=step)
    return chosen


def parsed_file(path: Path) -> Parsed:
    """Return the content of a file. Raises ConfigError: it cannot be read, or is no YAML."""
    try:
        return parse_yaml(_text(path))
    except BrokenYamlError as error:
        place = f"{path}:{error.line}" if error.line else str(path)
        raise ConfigError(f"{place}: {error}") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LIMIT + 1)
    except IsADirectoryError:
        raise ConfigError(f"{path}: this is a directory, name the file in it") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read, {(error.strerror or 'unknown error').lower()}") from None
    if len(content) > _LIMIT:
        raise ConfigError(f"{path}: larger than 1 MB, that is no configuration")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8, save the file as UTF-8") from None


def folder_of(path: Path | None) -> Path:
    """Return the folder in which relative paths of the configuration begin."""
    return (Path() if path is None else path.parent).absolute()


def data_dir(written: str, path: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the data directory that a file names as `written`; the environment may name another one."""
    overridden = environment.get(DATA_VARIABLE)
    if overridden:
        return Path(overridden).absolute()
    return folder_of(path) / Path(written).expanduser()


@dataclass(frozen=True, slots=True)
class Place:
    """Where an installation keeps its things.

    Args:
        file: Its configuration, None for the defaults.
        data_dir: Its data directory.
        embedded: Whether its store runs there.
    """

    file: Path | None
    data_dir: Path
    embedded: bool


def place_of(named: Path | None, environment: Mapping[str, str]) -> Place:
    """Return where an installation keeps its things.

    `named` is as in `bot.config.load.load_config`, which reports all faults of the file: only two fields are read here.
    Raises ConfigError: the file cannot be read, or does not say it.
    """
    path = find_config(named, environment)
    value = None if path is None else parsed_file(path).value
    fields = value if isinstance(value, dict) else {}
    store, written = fields.get("store"), fields.get("data_dir", DEFAULT_DATA)
    url: JsonValue = environment.get(STORE_VARIABLE) or (store.get("url") if isinstance(store, dict) else None)
    if not isinstance(written, str):
        raise ConfigError(f"{path}: `data_dir` must be a text")
    return Place(path, data_dir(written, path, environment), embedded=not url)
