"""The part of the store about runs: their places and slots, how far they came, and what people tell them to do."""

from typing import Final

from bot.core.errors import NotFoundError, StoreRefusedError
from bot.sessions.audit import AuditRow
from bot.sessions.models import Claim
from bot.sessions.runs import NewNote, Note, Progress, ProgressChange, RunSlot
from bot.store.session_index import Filing
from bot.store.shared import Shared
from policy.labels import Label

NOT_YET: Final = "this store keeps no runs yet"


class RedisRuns:
    """Implements the port `RunStore`."""

    def __init__(self, shared: Shared, filing: Filing) -> None:
        self._shared = shared
        self._filing = filing

    async def reserve(self, principal: str, slot: RunSlot, most: int) -> RunSlot:
        """Take a place for a run that is to be made."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def lock(self, principal: str, run: str, slot: str) -> RunSlot:
        """Lock a slot for a run, or return the place of the run that has it."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def slots(self, principal: str) -> tuple[RunSlot, ...]:
        """Return the places of a principal's runs."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def free(self, principal: str, run: str) -> None:
        """Give a run's place back."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def progress(self, sid: str) -> Progress | None:
        """Return how far a run came."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def change(self, claim: Claim, change: ProgressChange) -> Progress:
        """Change how far a run came."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def steer(self, sid: str, note: NewNote, audit: tuple[AuditRow, ...]) -> None:
        """Give a run a steering note."""
        raise NotFoundError

    async def notes(self, sid: str) -> tuple[Note, ...]:
        """Return a run's steering notes, oldest first."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def wake(self, sid: str, op: str, text: str, label: Label, *, probe: bool = False) -> bool:
        """Put a continuation into a run's inbox."""
        raise StoreRefusedError(NOT_YET, next_step="wait")
