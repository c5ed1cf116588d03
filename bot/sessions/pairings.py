"""Strangers who ask to be let in: what the store keeps of them until somebody answers. A code is kept as its hash."""

from dataclasses import dataclass
from typing import Final

LIFE_MS: Final = 3_600_000
"""How long a code counts, and how long wrong ones are remembered."""

MOST_WAITING: Final = 3
"""How many may wait for an answer at a time in one workspace of a channel."""

MOST_WRONG: Final = 5
"""How many wrong codes a person may type within an hour; then no code of theirs is looked at until it has passed."""

DENIED_MS: Final = 86_400_000
"""How long somebody who was refused is not given another code."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A stranger who waits for an answer; times in milliseconds on the store's clock."""

    account: str
    channel: str
    workspace: str
    asked_at: int
    expires_at: int
    digest: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A pairing that a change answers. It must still wait then; `keep` is how long that account may not ask again."""

    account: str
    digest: str
    keep: int = 0
