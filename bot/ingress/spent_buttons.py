"""Buttons that are spent: once one of a set was used, those that decide the same thing lead nowhere. Pure.

The copies of questions and of notices about held items are not treated here: `bot.delivery.question_updates` edits
them, with their outcome.
"""

from collections.abc import Sequence
from typing import Final

_SHOWS: Final = frozenset({"log", "show"})
"""Words of commands that only show something, so that their buttons stay."""


def left(pressed: str, shown: Sequence[str]) -> tuple[str, ...]:
    """Return the commands of a message's buttons that are of use after one of them was used."""
    subject = _subject(pressed)
    if subject is None or any(_is_of_a_copy(command) for command in (pressed, *shown)):
        return tuple(shown)
    return tuple(command for command in shown if _subject(command) != subject)


def _is_of_a_copy(command: str) -> bool:
    return command.startswith(("/answer ", "/approve ", "/held show "))


def _subject(command: str) -> tuple[str, ...] | None:  # noqa: PLR0911 - one for each kind of subject
    """Return the subject that a button's command decides about, None for one that decides nothing."""
    match command.split():
        case ["/background" | "/continue" | "/deny", code, *_]:
            return ("offer", code)
        case ["/classify", chat, _] | ["/block", "chat", chat]:
            return ("chat", chat)
        case ["/delete", name, "confirm"]:
            return ("session", name)
        case ["/held", "accept" | "drop", item]:
            return ("held", item)
        case ["/runs" | "/schedule" as kind, word, name] if word not in _SHOWS:
            return (kind, name)
        case ["/skills", "approve" | "reject", *which]:
            return ("skill", *which)
        case ["/workflow", "later" | "resume", project, *_]:
            return ("workflow", project)
        case _:
            return None
