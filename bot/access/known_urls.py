"""The web addresses that stand verbatim in a session's context, written by someone other than its model.

An address may carry data away: a page that was admitted can make the model put a person's words into one. An address
that stood there whole before carries no such data. So only texts that the model cannot have written count. These are
words that a person typed, here or in the conversation that the session was spawned from, and pages that `web_fetch`
returned. Other inputs count until something UNTRUSTED was read or a bounded answer was heard. From then on a model may
have written the file that it reads, or the values of an answer. It may also see its own words repeated in a refusal.
These never count.

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
"""The most typed addresses that a task takes along."""

LONGEST: Final = 2000
"""The most characters of an address that a task takes along."""

# The end of an address in prose: with parentheses as some addresses have them, and without as Markdown adds them.
_LONG: Final = re.compile(r"https?://[^\s<>\"\\^`{|}]+", re.IGNORECASE)
_SHORT: Final = re.compile(r"https?://[^\s<>\"\\^`{|}()\[\]]+", re.IGNORECASE)
# A name as people type it: at the beginning of a word, so that it is not part of another address.
_BARE: Final = re.compile(r"(?<![^\s<(\[{\"'*_`])www\.[^\s<>\"\\^`{|}]+", re.IGNORECASE)
_BEHIND: Final = ".,;:!?'*_)]"


def given(event: Event | NewEvent) -> Iterator[str]:
    """Yield the addresses that stand whole in an admitted event and count regardless of earlier reads.

    An address that a person typed whole counts for everyone: that person could have the bot fetch it in a turn of their
    own.
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
    """Yield the addresses that count only if nothing UNTRUSTED had been read or chosen, this event included.

    For an asker, words of other people count as UNTRUSTED (law `others_cannot_command`).
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

    They come from words that this person typed, never from a task's text: a model wrote that.
    """
    if not isinstance(event.body, UserMessage):
        return ()
    if event.body.origin is not None:
        return _brought(event.body)
    return () if event.label.untrusted else (one for one in _in(_meant(event.body)) if len(one) <= LONGEST)


def newest(found: Iterable[str]) -> tuple[str, ...]:
    """Return the last of these addresses, each once, as many as a task takes along."""
    return tuple(reversed(list(islice(dict.fromkeys(reversed(list(found))), MOST))))


def _is_page(result: ToolResult) -> bool:
    return result.tool == PAGES and result.outcome is ToolOutcome.OK


def _brought(message: UserMessage) -> tuple[str, ...]:
    """Return the addresses that a task brought along: the program took them from its asker's typed words."""
    return () if message.origin is None else message.origin.typed


def _meant(message: UserMessage) -> str:
    """Return a person's words, also with the scheme that they left out."""
    whole = _BARE.sub(r"https://\g<0>", message.text)
    return message.text if whole == message.text else f"{message.text}\n{whole}"


def _in(text: str) -> Iterator[str]:
    """Yield every address in a text, as it stands and without punctuation of the sentence after it."""
    if "://" in text:
        for pattern in (_LONG, _SHORT):
            for whole in pattern.findall(text):
                yield whole
                yield whole.rstrip(_BEHIND)
