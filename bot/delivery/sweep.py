"""The sweep: finds which sessions have work or something to say of which no hint tells."""

from typing import Final

from bot.delivery.outbox import Outbox
from bot.delivery.question_updates import QuestionUpdates
from bot.quarantine import Quarantine
from bot.sessions.ports.sessions import Wake

SWEEP_SECONDS: Final = 2.0
"""Seconds between two sweeps of a process."""


class Sweep:
    """Looks through the store for what hints did not tell, and edits the questions that are out of date."""

    def __init__(self, wake: Wake, outbox: Outbox, question_updates: QuestionUpdates, quarantine: Quarantine) -> None:
        self._wake = wake
        self._outbox = outbox
        self._question_updates = question_updates
        self._quarantine = quarantine

    async def find(self) -> tuple[str, ...]:
        """Return the ids of sessions with work or something to say, each once. Raises StoreError."""
        await self._quarantine.refresh()
        # Before what a question held goes on, as it would stand until that is done.
        await self._question_updates.sweep()
        lost = await self._outbox.catch_up()
        return tuple(dict.fromkeys((*lost, *await self._wake.sweep(self._outbox.channels))))
