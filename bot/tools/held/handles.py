"""Handles: names of ours for identifiers of a server that a session was not shown.

A handle such as `mail-3-k7qd` names an identifier behind a result of its kind. The gate puts the identifier in its
place where an argument of the same server takes that kind. Its letters name the session and generation, so a handle of
another session, or from before a reset, names nothing. Every identifier gets a new handle, so that equal identifiers
reveal nothing.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from pydantic import JsonValue

from bot.sessions.log.events import DeferredResult

REFERENCE: Final = "$ref"
"""The name in `{"$ref": "<id>"}`, which stands for a held text."""

LONGEST_ID: Final = 500
"""Characters of the longest identifier that gets a handle, as JSON."""

KIND: Final = r"[a-z][a-z0-9]{0,15}"
"""The pattern of the name of a kind."""

_MARK: Final = 4


def pattern(kind: str) -> str:
    """Return the pattern of all handles of a kind."""
    return rf"^{kind}-[1-9][0-9]{{0,8}}-[a-z2-7]{{{_MARK}}}$"


def named(sid: str, generation: int, kind: str, number: int) -> str:
    """Return the handle of this number in a generation of a session."""
    digest = hashlib.sha256(json.dumps(["handle", sid, generation]).encode()).digest()
    return f"{kind}-{number}-{base64.b32encode(digest).decode()[:_MARK].lower()}"


@dataclass(frozen=True, slots=True)
class TakenKind:
    """The kind of handles that an argument takes, and whether it is a list of them."""

    kind: str
    several: bool = False


@runtime_checkable
class TakesHandles(Protocol):
    """A tool some of whose arguments take handles."""

    @property
    def takes(self) -> Mapping[str, TakenKind]:
        """These arguments, by name."""
        ...


def is_handle(kind: str, value: JsonValue) -> bool:
    """Say whether a value looks like a handle of a kind."""
    return isinstance(value, str) and re.match(pattern(kind), value) is not None


def identifier(held: DeferredResult) -> JsonValue:
    """Return the identifier behind a handle."""
    return json.loads(held.text)
