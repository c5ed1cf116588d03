"""Memories: facts that sessions of a principal learned, each with the label it was learned with.

A memory is never changed. One that corrects another names it, and a forgotten memory keeps everything but its words, so
that its effects can still be traced. Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.sessions.refs import Ref
from policy.labels import Label

MEMORY: Final = "memory"
"""The tool by which memories are learned, recalled, corrected and forgotten."""

LONGEST_TEXT: Final = 4_000
"""The most characters of a memory."""

LONGEST_DOMAIN: Final = 64
"""The most characters of the name of a domain."""

MOST_CORRECTIONS: Final = 100
"""The most corrections of a first memory: forgetting erases the words of all of them in one step."""


class MemoryUse(StrEnum):
    """How a session uses memories: OFF not at all, TOOL by calls of its agent, AUTO also with a recall in each turn."""

    OFF = "off"
    TOOL = "tool"
    AUTO = "auto"

    def wider_than(self, other: "MemoryUse") -> bool:
        """Say whether it lets a session do more than another one."""
        return _WIDTHS[self] > _WIDTHS[other]

    def narrowed(self, chosen: "MemoryUse | None") -> "MemoryUse":
        """Return the use in a conversation where people chose one; OFF for an agent stays OFF."""
        return self if chosen is None or self is MemoryUse.OFF else chosen


_WIDTHS: Final = MappingProxyType({MemoryUse.OFF: 0, MemoryUse.TOOL: 1, MemoryUse.AUTO: 2})


class MemoryState(StrEnum):
    """Whether a memory is found: one that was corrected or forgotten is not."""

    KEPT = "kept"
    CORRECTED = "corrected"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Memory:
    """A learned fact.

    Args:
        id: Its id.
        principal: Its principal.
        label: Its label.
        text: Its words, empty once it is forgotten.
        learned_at: When it was learned.
        asker: The person whose turn or command taught it.
        domain: Its domain, empty for any; empty once it is forgotten.
        by_agent: Whether an agent learned it.
        sid: The session that learned it, empty for a person's command or an operator.
        authors: The people besides the asker whose words it derives from.
        state: Its state.
        corrects: The id of the memory that it replaces.
        corrected_by: The id of the memory that replaces it. A correction from above is not recorded here.
        corrections: The number of corrections since the first memory.
        ended_at: When it was corrected or forgotten.
        refs: The sources that it came from.
    """

    id: str
    principal: str
    label: Label
    text: str
    learned_at: int
    asker: str
    domain: str = ""
    by_agent: bool = False
    sid: str = ""
    authors: tuple[str, ...] = ()
    state: MemoryState = MemoryState.KEPT
    corrects: str = ""
    corrected_by: str = ""
    corrections: int = 0
    ended_at: int = 0
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryChanges:
    """The changes among a principal's memories of one label after a version.

    Args:
        version: The version that they lead to.
        changed: The changed memories.
        more: Whether there are more changes after that version.
    """

    version: int
    changed: tuple[Memory, ...]
    more: bool = False
