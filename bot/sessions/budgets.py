"""Daily limits on the use of models: budgets, spenders, and the tokens spent.

The day is that of the store's clock, UTC. Everything is counted in tokens.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from policy.labels import Label

DAY_MS: Final = 24 * 60 * 60 * 1000


class Whose(StrEnum):
    """The owner of a budget: a person, a shared chat, all together, or a session."""

    PERSON = "person"
    CHAT = "chat"
    ALL = "all"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most tokens of a day; None for no limit.

    Args:
        person: The limit of a person, counted apart for each level and compartments, so that use above a reader stays
            hidden from them (ADR 0015).
        chat: The limit of a shared chat, counted in the same way.
        all: One limit for everything together.
    """

    person: int | None = None
    chat: int | None = None
    all: int | None = None

    @property
    def kept(self) -> bool:
        """Whether any limit is configured, so that tokens must be counted."""
        return (self.person, self.chat, self.all) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Spender:
    """The user of tokens.

    Args:
        person: The person who set the work going.
        chat: The shared chat it is for, empty for none.
        label: The clearance a reader needs to learn of the session; without its integrity, the pool that is charged.
    """

    person: str
    chat: str
    label: Label


class Lack(StrEnum):
    """Why a budget does not suffice.

    NEVER: its daily limit is too small. USED: the rest of it is too small. HELD: the rest would suffice, but tokens are
    set aside and not yet used, and may come back in a moment.
    """

    NEVER = "never"
    USED = "used"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A budget that does not suffice, and why. One that is used up is reported before one that is only set aside."""

    whose: Whose
    lack: Lack


@dataclass(frozen=True, slots=True)
class Spent:
    """The tokens a person or chat used today in one pool; `complete` is false if more was used than known."""

    whose: Whose
    name: str
    label: Label
    tokens: int
    complete: bool
