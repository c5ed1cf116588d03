"""The port that finds the losses of a store, by the knowledge of this process."""

from collections.abc import Sequence
from typing import Protocol

from bot.sessions.background.delegation import Parcel
from bot.sessions.inbox import NewItem
from bot.sessions.installation.losses import Loss


class LossStore(Protocol):
    """Compares the store with the newest state of each session that this process knows."""

    async def took_over(self) -> bool:
        """Say whether a server serves now that did not at the last call: after a failover, or a restart.

        The first call only learns the servers. Raises StoreError.
        """
        ...

    async def look(self) -> None:
        """Compare the store with all that this process knows, and note each loss where it was.

        A session's loss is written into its log and its audit chain, and its taint rises again. Raises StoreError.
        """
        ...

    def taken(self) -> tuple[Loss, ...]:
        """Return the losses that were found since the last call, also those found in the middle of work."""
        ...

    async def witness(self, chain: str, *, seq: int = 0, audit: tuple[int, str] = (0, "")) -> None:
        """Compare the store with a record elsewhere of a session, or of the chain `audit`.

        That is the number of an event of its log, or the head of its audit chain. Raises StoreError.
        """
        ...

    def recent(self) -> Sequence[tuple[NewItem, bool]]:
        """Return the inputs that this process had accepted within the last minute, oldest first.

        Each is with whether it was accepted only because its sender had no open question.
        """
        ...

    def parcels(self) -> Sequence[Parcel]:
        """Return the messages of sessions that this process had taken within the last minute, oldest first."""
        ...
