"""Counting what anybody may do, so that it can be answered or recorded less often than it is done."""

from typing import Protocol


class CountStore(Protocol):
    """Counts by name, for all processes, each for a time in milliseconds."""

    async def count(self, name: str, life: int) -> int:
        """Count one more; return how many there were, this one included, since the first. `life` is from the first on.

        Raises StoreError.
        """
        ...

    async def keep(self, name: str, life: int) -> None:
        """Let a count go on for so long from now; 0 forgets it. Raises StoreError."""
        ...
