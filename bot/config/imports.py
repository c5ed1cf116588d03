"""The section on imports in config.yaml: the installations whose exports keep their labels, besides this one."""

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from bot.config.fields import Block

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"`{name}` is not a name, use lower-case letters, digits, `_` and `-`")
    return name


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError("this is not a public key, `lockgate export key` prints one of 43 characters")
    return key


class ImportsSettings(Block):
    """Whose exports count: `keys` maps a name of your choice to another installation's public key.

    The labels in their signed exports are accepted, so each is trusted as much as this installation is.
    """

    keys: Mapping[Annotated[str, AfterValidator(_name)], Annotated[str, AfterValidator(_key)]] = Field(
        default_factory=dict, max_length=100
    )
