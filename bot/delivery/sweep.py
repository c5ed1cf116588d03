"""The sweep: finds sessions that have work or waiting deliveries without a hint.

Processes of one role and schema that serve the same channels take turns: one of them sweeps at a time, for all.
"""

from dataclasses import dataclass
from typing import Final

from bot.delivery.outbox import Outbox
from bot.delivery.question_updates import QuestionUpdates
from bot.quarantine import Quarantine
from bot.sessions.models import SCHEMA
from bot.sessions.ports.sessions import Wake

SWEEP_SECONDS: Final = 2.0
"""Seconds between two sweeps of the processes that take turns."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep: the ids of sessions with work or waiting deliveries, each once.

    Args:
        own: Those that no other process knows of.
        found: All that were found, which are marked ready.
        wait: In how many seconds to sweep again.
    """

    own: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    wait: float = SWEEP_SECONDS


class Sweep:
    """Searches the store for sessions without hints, and edits the questions that are out of date.

    Processes of one schema with the same `role` and channels take turns.
    """

    def __init__(
        self, wake: Wake, outbox: Outbox, question_updates: QuestionUpdates, quarantine: Quarantine, *, role: str
    ) -> None:
        self._wake = wake
        self._outbox = outbox
        self._question_updates = question_updates
        self._quarantine = quarantine
        # A program of an older schema passes over the sessions of a newer one.
        self._name = f"{SCHEMA}/{role}/{','.join(sorted(outbox.channels))}"

    async def find(self) -> Swept:
        """Sweep, if it is this process's turn. Raises StoreError."""
        await self._quarantine.refresh()
        # Before a turn that waited for a question continues, or the question's copies would stand until its end.
        await self._question_updates.sweep()
        own = await self._outbox.catch_up()
        wait = await self._wake.sweep_turn(self._name, SWEEP_SECONDS)
        if wait:
            return Swept(own, wait=wait)
        return Swept(own, await self._wake.sweep(self._outbox.channels, name=self._name))
