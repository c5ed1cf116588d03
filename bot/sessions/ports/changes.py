"""The port for changes: a hint that a session's record was written, for every part of the program that waits for it.

A hint may come twice, and may be lost with a connection; then everything may have changed. So a waiting caller reads
the store after each hint, and also from time to time by itself: the read is the truth.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Changed:
    """Sessions whose records were written since the last time; with `everything` any may have been."""

    sids: frozenset[str]
    everything: bool = False

    def touches(self, sid: str) -> bool:
        """Say whether a session must be read again."""
        return self.everything or sid in self.sids


class ChangeFeed(Protocol):
    """The changes, for one waiting caller."""

    async def next(self) -> Changed:
        """Wait for changes, and return all of them since the last call.

        The first answer comes at once and says that everything may have changed; so does the first answer after the
        connection was lost and made anew. It keeps trying while the store is away, raises nothing, and may be cancelled
        at any time without a loss.
        """
        ...


class Changes(Protocol):
    """Tells of changes. One process has one connection for this, however many callers wait."""

    def watching(self, sid: str = "") -> AbstractAsyncContextManager[ChangeFeed]:
        """Return a feed of one session, or of all of them without `sid`."""
        ...
