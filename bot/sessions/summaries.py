"""What a recap of a conversation is, between the model that writes it and the log that keeps it."""

from dataclasses import dataclass
from typing import Final

from bot.sessions.values import Usage

MOMENT: Final = "what this conversation is about at the moment"
"""The topic of a recap where none was named."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A recap of the first `upto` events of a generation.

    One with a `topic` leaves out what is not about it. `messages` is how many messages and answers it stands for.
    It has no label of its own: it is labelled with the session's taint when it is written.
    """

    text: str
    upto: int
    topic: str = ""
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Recapped:
    """What asking for a recap gave: the summary, or else `why` there is none; `usage` in either case."""

    summary: Summary | None
    usage: Usage
    why: str = ""
