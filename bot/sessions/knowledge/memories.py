"""Memories: what sessions of a principal learned, each with the label that it was learned with.

A memory is never changed. One that corrects another names it, and one that was forgotten keeps all but its words, so
that what came of what can still be told. Times are milliseconds since the epoch on the store's clock.
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
"""Characters of a memory."""

LONGEST_DOMAIN: Final = 64
"""Characters of the name of a domain."""

MOST_CORRECTIONS: Final = 100
"""How often what was learned is corrected: forgetting it erases the words of all of them in one step."""


class MemoryUse(StrEnum):
    """What a session does with memories: nothing, what its agent calls for, or beside that a recall in each turn."""

    OFF = "off"
    TOOL = "tool"
    AUTO = "auto"

    def wider_than(self, other: "MemoryUse") -> bool:
        """Say whether it lets a session do more than another one."""
        return _WIDTHS[self] > _WIDTHS[other]

    def narrowed(self, chosen: "MemoryUse | None") -> "MemoryUse":
        """Return what counts in a conversation where people chose; what is off for an agent stays so."""
        return self if chosen is None or self is MemoryUse.OFF else chosen


_WIDTHS: Final = MappingProxyType({MemoryUse.OFF: 0, MemoryUse.TOOL: 1, MemoryUse.AUTO: 2})


class MemoryState(StrEnum):
    """Whether a memory counts: one that was corrected or forgotten is found no more."""

    KEPT = "kept"
    CORRECTED = "corrected"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Memory:
    """Something that was learned.

    `principal` is whose it is, `asker` the person whose turn or command taught it, and `by_agent` tells that an agent
    did. `domain` is what it is about, empty for anything; it and `text` are empty once it is forgotten. `sid` is the
    session that learned it, empty for a person's command or an operator. `authors` are the people besides the asker
    whose words it derives from. `corrects` is the id of the memory in whose place it is, and `corrected_by` of the
    one in its place; a memory that was corrected from above knows nothing of that. `corrections` is how many
    corrections it is from what was learned first. `ended_at` is when it was corrected or forgotten. `refs` are what it
    came from.
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
    """What changed among a principal's memories of one label: those that did, and the version that they lead to.

    `more` tells that there are more changes behind that version.
    """

    version: int
    changed: tuple[Memory, ...]
    more: bool = False
