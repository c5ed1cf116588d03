"""The port for what changes: a hint that a session's record was written, for all who wait for news of it.

A hint may come twice, and may be lost with a connection; then everything may have changed. So who waits looks at the
store after each hint, and by itself from time to time: the look is the truth.
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
        """Say whether a session is to be looked at."""
        return self.everything or sid in self.sids


class ChangeFeed(Protocol):
    """What changes, for one who waits."""

    async def next(self) -> Changed:
        """Wait for what changes, and return all that did since the last call.

        The first answer comes at once and says that everything may have changed; so does the first after the connection
        was lost and made anew.
        It goes on by itself where the store is away, raises nothing, and may be cancelled at any time without a loss.
        """
        ...


class Changes(Protocol):
    """Tells what changes. One process has one connection for it, however many wait."""

    def watching(self, sid: str = "") -> AbstractAsyncContextManager[ChangeFeed]:
        """Return a feed of one session, or of all of them without `sid`."""
        ...
