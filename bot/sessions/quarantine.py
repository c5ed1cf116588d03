"""Sessions in quarantine: those that could not be worked, or took nothing in, and are tried less and less often."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bot.sessions.records import AuditRow


class Doing(StrEnum):
    """What could not be done with a session: running its turns, or taking in what is said to it."""

    WORK = "work"
    INTAKE = "intake"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A session in quarantine, since when and how often it failed, and with what.

    `since` is in milliseconds on the store's clock. It is left alone for `rest` more milliseconds. `error` is the kind
    of the last error, `where` the place in the program. `schema` is the version of the records that the program knew.
    """

    sid: str
    doing: Doing
    since: int
    tries: int
    error: str
    where: str
    schema: int
    rest: int


class QuarantineStore(Protocol):
    """Keeps sessions in quarantine, for all processes. Every method raises StoreError."""

    async def quarantine(
        self, sid: str, doing: Doing, error: str, where: str, audit: tuple[AuditRow, ...]
    ) -> tuple[Quarantined, bool]:
        """Put a session in quarantine, or keep it there; the first time the audit rows are appended in the same step.

        Returns the record, and whether it is new. Within the pause of the last time nothing changes.
        """
        ...

    async def quarantined(self) -> tuple[Quarantined, ...]:
        """Return all that are in quarantine, the oldest first."""
        ...

    async def unquarantine(self, sid: str, doing: Doing, audit: tuple[AuditRow, ...]) -> bool:
        """Let a session out, with its audit rows; return whether it was in."""
        ...
