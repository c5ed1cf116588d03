"""Grants: a person's answer to a question that counts for further calls of the same scope.

A grant is part of the approval that it was given with. Times are milliseconds on the store's clock. This module has the
values; `bot.gate.grants` makes a scope and decides whether it covers a call.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from policy.labels import Label

GRANTED_USES: Final = 10
"""How many calls a grant covers."""

LONGEST_GRANT_MS: Final = 7 * 86_400_000
"""The longest time, in milliseconds, for which a person may give a grant with an end."""


class GrantEnd(StrEnum):
    """Why a grant covers nothing any more, beside a reset, which ends all of them."""

    REVOKED = "revoked"
    USED_UP = "used_up"
    EXPIRED = "expired"
    CHANGED = "changed"
    """The tool's declaration, or the meaning of an address, is not the one that was shown."""
    LOST = "lost"
    """The store lost events, so that it is not known how often it was used."""


@dataclass(frozen=True, slots=True)
class GrantScope:
    """The calls that a grant covers, as people were shown them before they gave it. It is never changed.

    Args:
        declaration: The digest of the tool's declaration.
        reach: The digest of the resolved places, addresses, secrets and accounts of the call.
        shape: The digest of its arguments: exact values, with marks in place of content, ranges and folders.
        most: The greatest amount of each argument that has a range from 0, by its place.
        label: The highest label of a call's session and references.
        rules: The rules that it lifts.
        uses: How many calls it covers.
        worst: The worst call, in words.
    """

    declaration: str
    reach: str
    shape: str
    most: tuple[tuple[str, int | float], ...]
    label: Label
    rules: tuple[str, ...]
    uses: int
    worst: str


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """How long a grant that a person gives counts: until a time in milliseconds, `FOR_EVER` for the conversation."""

    until: int


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as it stands: until when it counts, the uses that are left, the calls that spent one, and its end.

    `end` is None while it counts, apart from its time.
    """

    until: int
    left: int
    spent: tuple[str, ...] = ()
    end: GrantEnd | None = None

    def counts(self, call: str, now: int) -> bool:
        """Say whether it may cover a call: a call that spent a use is covered again without another one."""
        return self.end is None and now < self.until and (call in self.spent or self.left > 0)

    def used_by(self, call: str) -> "Grant":
        """Return the grant after a call that it covers; the same call spends one use only."""
        if call in self.spent:
            return self
        return Grant(self.until, self.left - 1, (*self.spent, call), self.end)

    def ended_at(self, now: int) -> GrantEnd | None:
        """Return why it covers no further call, None if it does."""
        if self.end is not None:
            return self.end
        if now >= self.until:
            return GrantEnd.EXPIRED
        return None if self.left > 0 else GrantEnd.USED_UP


@dataclass(frozen=True, slots=True)
class GrantUse:
    """A call that spends a use of a grant: the ids of the approval and of the call."""

    grant: str
    call: str


@dataclass(frozen=True, slots=True)
class EndedGrant:
    """A grant that a write ends, with the reason."""

    grant: str
    end: GrantEnd
