"""Tokens of programs: each is a principal of its own, with a scope, a clearance and an end.

The text of a token is told once, when it is made. The store has a keyed digest of it, so that neither the store nor a
backup of it lets anybody in. A token that was revoked keeps its name: sessions belong to that.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from policy.labels import Label


class Scope(StrEnum):
    """What a program may ask for; each includes those before it."""

    READ = "read"
    STEER = "steer"
    ADMIN = "admin"

    def covers(self, needed: "Scope") -> bool:
        """Say whether this one includes another."""
        order = tuple(Scope)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token as it is kept. Times are milliseconds since the epoch on the store's clock.

    `id` names the secret that is in force, and another one after a rotation. `digest` is empty for one that was
    revoked. `expires_at` and `revoked_at` are 0 for never. `created_by` is the principal that made it. `per_minute` is
    how many requests are taken of it in a minute, 0 for as many as the configuration says.
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
        """Whether it was revoked, which nothing undoes."""
        return bool(self.revoked_at)

    def expired(self, now: int) -> bool:
        """Say whether its time is over."""
        return 0 < self.expires_at <= now

    def live(self, now: int) -> bool:
        """Say whether it lets its program in."""
        return not self.revoked and not self.expired(now)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to be kept: who it is for and what it may; its times are the store's.

    `life` is how many milliseconds it counts, 0 for ever.
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
    """The secret that takes the place of a token's last one, and how many milliseconds it counts, 0 for ever."""

    id: str
    digest: str = field(repr=False)
    life: int
