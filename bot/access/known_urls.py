"""Which web addresses stand verbatim in a session's context, written by somebody else than its model.

An address may carry data away: a page that was taken in makes the model put a person's words into one. One that
stood there whole before carries nothing of the kind. So what counts is what the model cannot have written: what a
person typed, here or in the conversation that this session was spawned from, what came in while nothing UNTRUSTED had
been read, and pages that `web_fetch` brought. The model's own words never count, nor does what other tools return once
something UNTRUSTED was read: a model may have written the file it reads, or see its own words repeated in a refusal.

People leave the scheme out: a name that begins with `www.` counts, in a person's words alone, as typed with `https://`.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from bot.sessions.log.event_types import ToolOutcome, ToolResult, UserMessage
from bot.sessions.log.events import Event, NewEvent

PAGES: Final = "web_fetch"
"""The tool whose results are written by others."""

MOST: Final = 64
"""How many addresses that a person typed a task takes along."""

LONGEST: Final = 2000
"""How many characters an address has at most that a task takes along."""

# What ends an address in prose: with parentheses as some addresses have them, and without as Markdown puts them round.
_LONG: Final = re.compile(r"https?://[^\s<>\"\\^`{|}]+", re.IGNORECASE)
_SHORT: Final = re.compile(r"https?://[^\s<>\"\\^`{|}()\[\]]+", re.IGNORECASE)
# A name as people type it: at the beginning of a word, so that it is no part of another address.
_BARE: Final = re.compile(r"(?<![^\s<(\[{\"'*_`])www\.[^\s<>\"\\^`{|}]+", re.IGNORECASE)
_BEHIND: Final = ".,;:!?'*_)]"


def given(event: Event | NewEvent) -> Iterator[str]:
    """Yield the addresses that stand whole in an event that was let in and count whatever had been read before.

    What anybody typed whole counts for everybody: they could have the bot fetch it in a turn of their own.
    """
    match event.body:
        case UserMessage(origin=None) if not event.label.untrusted:
            yield from _in(_meant(event.body))
        case UserMessage():
            yield from _brought(event.body)
        case ToolResult() if _is_page(event.body):
            yield from _in(event.body.text)
        case _:
            pass


def repeated(event: Event | NewEvent) -> Iterator[str]:
    """Yield those that count only if nothing UNTRUSTED had been read, this event included.

    For an asker the words of somebody else are as UNTRUSTED ones (law `others_cannot_command`).
    """
    match event.body:
        # Another session's words are a model's: their integrity may have been endorsed, their wording was not.
        case UserMessage(origin=origin) if origin is not None:
            yield from _in(event.body.text)
        case ToolResult() if not _is_page(event.body):
            yield from _in(event.body.text)
        case _:
            pass


def typed(event: Event | NewEvent) -> Iterable[str]:
    """Return the web addresses that a person typed in a message, or that a task brought along as typed by them.

    They are read from what this person typed themselves, never from a task's text: that is a model's.
    """
    if not isinstance(event.body, UserMessage):
        return ()
    if event.body.origin is not None:
        return _brought(event.body)
    return () if event.label.untrusted else (one for one in _in(_meant(event.body)) if len(one) <= LONGEST)


def newest(found: Iterable[str]) -> tuple[str, ...]:
    """Return those of these addresses that came last, each once, as many as a task takes along."""
    return tuple(reversed(list(islice(dict.fromkeys(reversed(list(found))), MOST))))


def _is_page(result: ToolResult) -> bool:
    return result.tool == PAGES and result.outcome is ToolOutcome.OK


def _brought(message: UserMessage) -> tuple[str, ...]:
    """Return the addresses that a task brought along: the program read them from what its asker typed."""
    return () if message.origin is None else message.origin.typed


def _meant(message: UserMessage) -> str:
    """Return a person's words, with the scheme that they left out as well."""
    whole = _BARE.sub(r"https://\g<0>", message.text)
    return message.text if whole == message.text else f"{message.text}\n{whole}"


def _in(text: str) -> Iterator[str]:
    """Yield every address in a text, as it stands and without what a sentence puts behind it."""
    if "://" in text:
        for pattern in (_LONG, _SHORT):
            for whole in pattern.findall(text):
                yield whole
                yield whole.rstrip(_BEHIND)
