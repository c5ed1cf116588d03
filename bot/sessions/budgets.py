"""What models may be used for in a day: budgets, who uses one, and what was spent of it.

The day is that of the store's clock, UTC. Everything is counted in tokens.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from policy.labels import Label

DAY_MS: Final = 24 * 60 * 60 * 1000


class Whose(StrEnum):
    """Whose budget something is: a person's, a shared chat's, that of all together, or a session's own."""

    PERSON = "person"
    CHAT = "chat"
    ALL = "all"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most tokens of a day; None for no limit.

    A person and a shared chat have that many for each level and compartments, so that nothing used above tells below
    (ADR 0015). That of `all` is one for everything together.
    """

    person: int | None = None
    chat: int | None = None
    all: int | None = None

    @property
    def kept(self) -> bool:
        """Whether there is any, so that it must be counted."""
        return (self.person, self.chat, self.all) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Spender:
    """Who uses tokens: the person who set it going, and the shared chat it is for, empty for none.

    `label` is what a reader must be cleared for to learn of the session that uses them, its pool but for the integrity.
    """

    person: str
    chat: str
    label: Label


class Lack(StrEnum):
    """Why a budget does not suffice.

    The whole of it would not, or what is left of it does not. Or what is left would, but for what is set aside and not
    used yet, which may come back in a moment.
    """

    NEVER = "never"
    USED = "used"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A budget that does not suffice, and why. One that is used up is told before one that is only set aside."""

    whose: Whose
    lack: Lack


@dataclass(frozen=True, slots=True)
class Spent:
    """What a person or a chat used today in sessions of one pool; `complete` is false if more was used than known."""

    whose: Whose
    name: str
    label: Label
    tokens: int
    complete: bool
