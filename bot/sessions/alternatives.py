"""Alternatives: offers of another place for a question or answer that was refused in one place, as values.

An offer is made to one person, expires, and is taken once: the first way that the person takes counts.
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
    """The subject of an offer: to ask a question again elsewhere, or to see an existing answer."""

    QUESTION = "question"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Alternative:
    """An offer, its person, and the facts it is bound to.

    It is about one turn of one generation of a session: the question that began it, or its answer.

    Args:
        code: The code by which it is taken.
        wanted: Whether it is about the question or the answer.
        sid: The session.
        generation: The generation.
        turn: The turn.
        principal: The only person who may take it.
        binding: The digest of the refused call, or of the answer.
        label: The label that would have been read or said.
        told: The label of the offer's own content.
        private: The private chat where it can continue, as address text, empty for none.
        parent: The address of the session that a background session would report to, as text, empty for none.
        recipients: The aliases that may hear the result, each with its meaning (`bot.access.recipients.meaning`).
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
