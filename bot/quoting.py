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
from typing import Final

from bot.authors import authors
from bot.sessions.events import Event, EventType, NewEvent
from policy.labels import Label

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


def addresses(events: Iterable[Event | NewEvent], taint: Label, asker: str = "") -> frozenset[str]:
    """Return the addresses that stand whole in events which count; `taint` is what had been read before them.

    For an `asker` the words of somebody else are as UNTRUSTED ones (law `others_cannot_command`). What anybody typed
    whole counts all the same: they could have the bot fetch it in a turn of their own.
    """
    found, untrusted = set[str](), taint.untrusted
    for event in events:
        if not event.admitted:
            continue
        untrusted = untrusted or event.label.untrusted or bool(asker and authors((event,)) - {asker})
        found |= set(_brought(event))
        if _counts(event, untrusted=untrusted):
            found |= set(_in(_meant(event)))
    return frozenset(found)


def typed(events: Iterable[Event | NewEvent], asker: str) -> tuple[str, ...]:
    """Return the newest web addresses that a person typed, and those that a task brought along as typed by them.

    They are read from messages that this person typed themselves, never from a task's text: that is a model's.
    """
    return newest(
        address
        for event in events
        if event.type is EventType.USER_MESSAGE and event.admitted and event.actor == asker
        for address in _typed(event)
    )


def newest(found: Iterable[str]) -> tuple[str, ...]:
    """Return the last of these addresses, each once, as many as a task takes along."""
    return tuple(dict.fromkeys(found))[-MOST:]


def _typed(event: Event | NewEvent) -> Iterable[str]:
    if event.body.get("origin") is not None:
        return _brought(event)
    return () if event.label.untrusted else (one for one in _in(_meant(event)) if len(one) <= LONGEST)


def _brought(event: Event | NewEvent) -> Iterable[str]:
    """Return the addresses that a task brought along: the program read them from what its asker typed."""
    origin = event.body.get("origin")
    found = origin.get("typed") if isinstance(origin, dict) else None
    return map(str, found) if isinstance(found, list) else ()


def _meant(event: Event | NewEvent) -> str:
    """Return an event's text, of a person's words with the scheme that they left out as well."""
    text = str(event.body.get("text", ""))
    theirs = event.type is EventType.USER_MESSAGE and event.body.get("origin") is None
    whole = _BARE.sub(r"https://\g<0>", text) if theirs else text
    return text if whole == text else f"{text}\n{whole}"


def _counts(event: Event | NewEvent, *, untrusted: bool) -> bool:
    if event.type is EventType.USER_MESSAGE:
        # Another session's words are a model's: their integrity may have been endorsed, their wording was not.
        return not event.label.untrusted and (event.body.get("origin") is None or not untrusted)
    if event.type is EventType.TOOL_RESULT:
        return not untrusted or (event.body["tool"] == PAGES and event.body["outcome"] == "ok")
    return False


def _in(text: str) -> Iterator[str]:
    """Yield every address in a text, as it stands and without what a sentence puts behind it."""
    if "://" in text:
        for pattern in (_LONG, _SHORT):
            for whole in pattern.findall(text):
                yield whole
                yield whole.rstrip(_BEHIND)
