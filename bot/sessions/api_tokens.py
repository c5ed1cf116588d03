"""Tokens of programs: each makes its program a principal, with a scope, a clearance and an expiry time.

The text of a token is shown once, when it is made. The store keeps a keyed digest of it, so neither the store nor its
backup lets anyone in. A revoked token keeps its name, since sessions belong to that.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from policy.labels import Label


class Scope(StrEnum):
    """The operations a program may request; each scope includes those before it."""

    READ = "read"
    STEER = "steer"
    ADMIN = "admin"

    def covers(self, needed: "Scope") -> bool:
        """Say whether this scope includes another."""
        order = tuple(Scope)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token as it is kept. Times are milliseconds since the epoch on the store's clock.

    Args:
        name: Its name.
        id: The id of the secret in force; a rotation changes it.
        scope: Its scope.
        clearance: The clearance of its program.
        digest: The keyed digest of its text, empty for a revoked token.
        created_at: The time of its creation.
        expires_at: The time from which it is invalid, 0 for never.
        created_by: The principal that made it.
        per_minute: How many requests a minute it allows, 0 for the configured number.
        revoked_at: When it was revoked, 0 for never.
    """

    name: str
    id: str
    scope: Scope
    clearance: Label
    digest: str = field(repr=False)
    created_at: int
    expires_at: int
    created_by: str
    per_minute: int = 0
    revoked_at: int = 0

    @property
    def revoked(self) -> bool:
        """Whether it was revoked, which cannot be undone."""
        return bool(self.revoked_at)

    def expired(self, now: int) -> bool:
        """Say whether it has expired at `now`, in milliseconds on the store's clock."""
        return 0 < self.expires_at <= now

    def live(self, now: int) -> bool:
        """Say whether it is valid at `now`, in milliseconds on the store's clock."""
        return not self.revoked and not self.expired(now)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to be kept: its program and its rights; the store adds the times.

    Args:
        name: Its name.
        id: The id of its secret.
        scope: Its scope.
        clearance: The clearance of its program.
        digest: The keyed digest of its text.
        created_by: The principal that makes it.
        life: For how many milliseconds it is valid, 0 for ever.
        per_minute: How many requests a minute it allows, 0 for the configured number.
    """

    name: str
    id: str
    scope: Scope
    clearance: Label
    digest: str = field(repr=False)
    created_by: str
    life: int
    per_minute: int = 0


@dataclass(frozen=True, slots=True)
class NewSecret:
    """The new secret of a rotated token; `life` is for how many milliseconds it is valid, 0 for ever."""

    id: str
    digest: str = field(repr=False)
    life: int
