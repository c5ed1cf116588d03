"""A call that a person may release: the sink that it goes to, and the one form in which people are shown it.

The form is canonical and complete: JSON in ASCII with its names in order. Other characters, backticks and rows of
blanks are written as escapes. So no part of it is hidden, looks like another letter, or ends the piece of code around
it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from policy.labels import Label

LONGEST: Final = 2_000
"""The most characters of a form that people are shown: a longer one would go on over several messages."""

_ROW: Final = re.compile(r"(?<=\S) {2,}|[`\x7f]")


@dataclass(frozen=True, slots=True)
class CallRelease:
    """The sink that a call would be released to.

    Args:
        sink: Its name, in words of its tool's and of nobody else.
        clearance: Its clearance.
    """

    sink: str
    clearance: Label


def canonical(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Return a call in the form in which people are shown it; different calls have different forms."""
    written = json.dumps({"tool": tool, "arguments": dict(arguments)}, indent=2, sort_keys=True)
    return _ROW.sub(lambda row: "".join(f"\\u{ord(char):04x}" for char in row[0]), written)


def fits(tool: str, arguments: Mapping[str, JsonValue]) -> bool:
    """Say whether people can be shown a call whole."""
    return len(canonical(tool, arguments)) <= LONGEST
