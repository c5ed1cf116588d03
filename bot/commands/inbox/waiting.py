"""One item that waits for a person: its lines, its age and its label."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.commands.command import CommandRequest
from policy.labels import Label


@dataclass(frozen=True, slots=True)
class WaitingEntry:
    """An item that waits for the caller of a command, and that they may know of where the answer goes.

    Args:
        at: When it began to wait, in milliseconds on the store's clock, 0 if unknown.
        text: Its lines, with the command that answers it.
        label: The label of `text`.
    """

    at: int
    text: str
    label: Label


Waits = Callable[[CommandRequest], Awaitable[tuple[WaitingEntry, ...]]]
"""Return the items of one kind that wait for a caller, in any session. Raises StoreError."""
