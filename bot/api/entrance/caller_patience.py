"""The times that callers may take to send and to read, in seconds."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CallerPatience:
    """How long is waited for a caller.

    `headers` of a request may take so long, and its `body`; a connection is kept `idle` for so long between two. A
    caller who was refused may send the `rest` of their body for a while, so that they read the answer. While an answer
    waits for its `reading`, none of it needs to be read for so long. When the process is asked to end, requests may
    still take `ending` seconds.
    """

    headers: float = 10
    body: float = 30
    idle: int = 60
    rest: float = 2
    reading: float = 30
    ending: int = 5


PATIENCE: Final = CallerPatience()
