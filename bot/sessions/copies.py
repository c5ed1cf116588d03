"""Copies of what people are asked to decide: each place where it stands and can still be edited, until it was."""

from dataclasses import dataclass
from typing import Protocol

from bot.sessions.approvals import Approval
from bot.sessions.deliveries import Delivery


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy: the session, the id the question has, and the key of the delivery that asked it there.

    A notice that something is held has the item's id, and the session `holder` that holds it; a question has none.
    """

    sid: str
    asked: str
    key: str
    holder: str = ""


class CopyStore(Protocol):
    """Which copies there are. A hint, written along with the delivery's receipt; one that is lost stays as it is."""

    async def copies(self, sid: str = "") -> tuple[Copy, ...]:
        """Return the copies of what is not to be decided any more, of all sessions or of one."""
        ...

    async def copied(self, copy: Copy) -> tuple[Delivery | None, tuple[Approval, ...]]:
        """Return what was said there, None if that is forgotten, and what became of each call that was asked about."""
        ...

    async def uncopied(self, copy: Copy) -> None:
        """Note that a copy needs nothing any more."""
        ...
