"""What people say in a shared chat and not to the bot, kept for a while beside the chat's session.

It is in no context, and nothing but the next message to the bot in its session lets it in. Times are milliseconds
since the epoch on the store's clock.
"""

from dataclasses import dataclass
from typing import Protocol

from policy.labels import Label


@dataclass(frozen=True, slots=True)
class NewObserved:
    """A text to keep: who said it, as the platform's account, its inbound label, and the platform's identity of it.

    `opens` is the thread that it may be the beginning of, empty for none.
    """

    dedupe: str
    account: str
    label: Label
    text: str
    opens: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """A text that is kept. Ids grow within a session, also when nothing of before is kept any more."""

    id: str
    account: str
    label: Label
    text: str
    opens: str


class ObservedStore(Protocol):
    """Keeps what is observed."""

    async def observe(self, sid: str, new: NewObserved, most: int) -> None:
        """Keep a text beside a session, whether or not that has begun, and at most `most` of them, the newest.

        The same `dedupe` again changes nothing. Raises StoreError.
        """
        ...

    async def observed(self, sid: str, *, after: str, until: int, now: int, most: int) -> tuple[Observed, ...]:
        """Return what was kept after the id `after`, empty for all, and until a time; at most `most`, oldest first.

        Nothing of it is older than a day at the time `now`. Raises StoreError.
        """
        ...
