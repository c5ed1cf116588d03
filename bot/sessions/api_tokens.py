"""Tokens of programs, as they are stored: who a token is, what it may, and until when. Never its secret."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from policy.labels import Label


class Scope(StrEnum):
    """What a token may do; each one includes those before it."""

    READ = "read"
    STEER = "steer"
    ADMIN = "admin"

    def covers(self, other: "Scope") -> bool:
        """Say whether a token of this scope may do what needs the other."""
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER: Final = tuple(Scope)


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token: `digest` is keyed, of its secret; `expires_at` is in milliseconds since 1970, 0 for never.

    `per_minute` is how many requests it may make in a minute, 0 for as many as the configuration says.
    """

    name: str
    id: str
    scope: Scope
    clearance: Label
    digest: str
    created_at: int
    expires_at: int
    created_by: str
    per_minute: int
