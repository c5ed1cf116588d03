"""An agent's question to its asker: its words, its buttons, and the places where it is asked.

A model that was taken over may ask anything. So the question says that an agent asks, and which person. Each line of
the model stands behind a mark, and a button names its choice as an answer. None of it can be taken for an approval or
for words of ours.
"""

import re
from typing import Final

from pydantic import JsonValue

from bot.access import labelling, principals
from bot.access.decision_context import Call
from bot.core.invisible import spelled
from bot.delegation import structured_result
from bot.sessions.approvals import WORDS, AnswerValue, Approval
from bot.sessions.background.delegation import FieldKind
from bot.sessions.background.runs import Background, called
from bot.tools.asking import MOST_BUTTONS
from bot.tools.base import Inquiry
from channels.messages import Address, Button
from policy.document.model import Document

MARK: Final = "> "
"""The mark before each line of a model's words."""

_AGENT: Final = "The agent asks `{asker}`, question {id}:"
_ALONE: Final = "{name} asks `{asker}` alone, question {id}:"
_ANY: Final = "Reply here with your answer, or use `/answer {id} TEXT`."
_FIELD: Final = "Reply here with {what}, or use `/answer {id} TEXT`."
_MINUTE: Final = 60_000
_HOUR: Final = 60
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,40}")


def wording(question: Approval, asked_at: int, background: Background | None = None) -> str:
    """Return the question as the asker is shown it.

    `asked_at` is now, in milliseconds on the store's clock, and `background` the origin of a task or a run.
    """
    asker, name = question.principal, question.id
    first = _AGENT.format(asker=asker, id=name)
    if background is not None:
        first = _ALONE.format(name=called(background).capitalize(), asker=asker, id=name)
    return "\n".join((first, *quoted(question), *_how(question), _until(question, asked_at)))


def quoted(question: Approval) -> list[str]:
    """Return the model's words, each line behind a mark."""
    return _marked(question.words)


def facts(call: Call, inquiry: Inquiry) -> dict[str, JsonValue]:
    """Return the stored facts of a question: the arguments of the asking call, and the words."""
    return {**(call.arguments or {}), WORDS: inquiry.question}


def closing(inquiry: Inquiry) -> str:
    """Return a question that ends a turn, as the agent's answer of that turn."""
    wanted = inquiry.wanted
    return inquiry.question if wanted is None else f"{inquiry.question}\n({structured_result.described(wanted)})"


def buttons(question: Approval, readers: frozenset[str] | None) -> tuple[Button, ...]:
    """Return the buttons of answers, for readers that include the asker; None for unknown readers."""
    if readers is not None and question.principal not in readers:
        return ()
    return tuple(Button(f"Answer: {spelled(one)}", f"/answer {question.id} {one}") for one in _choices(question))


def places(document: Document, question: Approval, home: Address, background: Background | None) -> tuple[Address, ...]:
    """Return the places where the asker may be asked, the best first: home, and their private chats cleared for it.

    The home of a background session or a run has no readers. The console may have none either: it is asked only if the
    session lives there, was set going there, or the policy names that chat.
    """
    first = str(home) if background is None else background.asked_at
    chats = labelling.private_places(document, question.principal, question.label, first)
    if background is not None:
        return chats
    named = {(entry.channel, entry.workspace, entry.chat) for entry in document.places}
    others = (
        chat
        for chat in chats
        if chat.place != home.place
        and (chat.channel != principals.CONSOLE or (chat.channel, chat.workspace, chat.chat) in named)
    )
    return (home, *others)


def stands(question: Approval, address: Address, *, private: bool) -> bool:
    """Say whether a question was asked where a text was typed: at that address, or in all of a private chat."""
    asked = map(Address.parse, question.places)
    return any(one == address or (private and not one.thread and one == address.place) for one in asked)


def _choices(question: Approval) -> tuple[str, ...]:
    wanted = question.wanted
    if wanted is None:
        return ()
    match wanted.kind:
        case FieldKind.BOOLEAN:
            return ("yes", "no")
        case FieldKind.ENUM if len(wanted.members) <= MOST_BUTTONS:
            return wanted.members
        case _:
            return ()


def _how(question: Approval) -> list[str]:
    """Return how to answer; the choices are the model's words, so each stands behind the mark."""
    wanted, name = question.wanted, question.id
    if wanted is None:
        return [_ANY.format(id=name)]
    if wanted.kind is not FieldKind.ENUM:
        return [_FIELD.format(what=structured_result.described(wanted), id=name)]
    choices = [line for member in wanted.members for line in _marked(f"- {member}")]
    return [_FIELD.format(what="one of these", id=name), *choices]


def _until(question: Approval, asked_at: int) -> str:
    within = _time(max(1, (question.expires_at - asked_at) // _MINUTE))
    if question.default is None:
        return f"After {within} no answer counts."
    return f"Without an answer within {within}, {_default(question.default)} counts."


def _time(minutes: int) -> str:
    hours, rest = divmod(minutes, _HOUR)
    if rest:
        return f"{minutes} min"
    return "1 hour" if hours == 1 else f"{hours} hours"


def _default(value: AnswerValue) -> str:
    """Return the default answer; it is the model's, so it is shown only if it is a mere word."""
    word = ("no", "yes")[value] if isinstance(value, bool) else str(value)
    return f"`{word}`" if _WORD.fullmatch(word) else "a default"


def _marked(text: str) -> list[str]:
    # A channel may leave out invisible characters, and breaks lines at more than one character.
    return [f"{MARK}{spelled(line)}" for line in text.splitlines() or [""]]
