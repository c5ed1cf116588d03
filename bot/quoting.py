"""Which web addresses stand verbatim in a session's context, written by somebody else than its model.

An address may carry data away: a page that was taken in makes the model put a person's words into one. One that
stood there whole before carries nothing of the kind. So what counts is what the model cannot have written: what a
person typed, what came in while nothing UNTRUSTED had been read, and pages that `web_fetch` brought. The model's own
words never count, nor does what other tools return once something UNTRUSTED was read: a model may have written the
file it reads, or see its own words repeated in a refusal.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from bot.sessions.events import Event, EventType, NewEvent
from policy.labels import Label

PAGES: Final = "web_fetch"
"""The tool whose results are written by others."""

# What ends an address in prose: with parentheses as some addresses have them, and without as Markdown puts them round.
_LONG: Final = re.compile(r"https?://[^\s<>\"\\^`{|}]+", re.IGNORECASE)
_SHORT: Final = re.compile(r"https?://[^\s<>\"\\^`{|}()\[\]]+", re.IGNORECASE)
_BEHIND: Final = ".,;:!?'*_)]"


def addresses(events: Iterable[Event | NewEvent], taint: Label) -> frozenset[str]:
    """Return the addresses that stand whole in events which count; `taint` is what had been read before them."""
    found, untrusted = set[str](), taint.untrusted
    for event in events:
        if not event.admitted:
            continue
        untrusted = untrusted or event.label.untrusted
        if _counts(event, untrusted=untrusted):
            found |= set(_in(str(event.body.get("text", ""))))
    return frozenset(found)


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
