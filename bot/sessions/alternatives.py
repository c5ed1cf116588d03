"""Alternatives: what could not be read or said in one place, and where its asker may have it instead, as a value.

One is made to one person, counts for a while and is taken once: the first way that they take is the one it goes.
"""

from dataclasses import dataclass
from enum import StrEnum

from policy.labels import Label


class Way(StrEnum):
    """How an offer is taken: in a private chat, by a background session, or not at all."""

    PRIVATE = "private"
    BACKGROUND = "background"
    NONE = "none"


class Wanted(StrEnum):
    """What is offered: to have a question asked anew elsewhere, or to be told an answer that there is."""

    QUESTION = "question"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Alternative:
    """What was offered, to whom, and what it is bound to.

    It is about one turn of one generation of the session `sid`: the question that set it going, or its answer.
    `binding` is the digest of the call that was refused, or of the answer. `label` is what it would have been read or
    said with, `told` that of what the offer tells. `principal` alone may take it. `private` is the private chat where
    it can go on, and `parent` the one whose session a background session would report to, both an address' text;
    `recipients` are the aliases that may be told what that finds, each with what
    it means (`bot.access.recipients.meaning`). An empty one means that there is no such way.
    """

    code: str
    wanted: Wanted
    sid: str
    generation: int
    turn: str
    principal: str
    binding: str
    label: Label
    told: Label
    private: str = ""
    parent: str = ""
    recipients: tuple[tuple[str, str], ...] = ()
