"""The Bot API's sizes, and where a text may be cut.

Telegram counts in UTF-16 code units, after formatting is taken out of the text. This module measures so and finds
places to cut at; it knows nothing of Markdown, and sends nothing.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from channels.leaves import UNASSIGNED

TEXT: Final = 4096
"""The longest text of a message, in UTF-16 code units after entities are parsed."""
ENTITIES: Final = 100
"""The most entities of one message."""
PARTS: Final = 10
"""The most messages one answer is split into before it is better sent as a file."""

_ASTRAL: Final = 0x10000
_LOOK_BACK: Final = 64
_JOINER: Final = "\u200d"
_FLAGS: Final = range(0x1F1E6, 0x1F200)
_EXTENDS: Final = (
    range(0xFE00, 0xFE10),  # variation selectors
    range(0x1F3FB, 0x1F400),  # skin tones
    range(0xE0020, 0xE0080),  # tags, as in the flags of regions
)
# Lone surrogates cannot be encoded, and Telegram takes the other characters out itself: counting them would be wrong,
# and the ones that turn the direction of writing would let an answer show something other than what it says.
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_REMOVED: Final = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2028-\u202e\u2066-\u2069{UNASSIGNED}]")


def units(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text) + sum(ord(character) >= _ASTRAL for character in text)


def offsets(text: str) -> Sequence[int]:
    """Return the place of every character in UTF-16 code units, and the length of the whole as the last."""
    return tuple(accumulate((2 if ord(character) >= _ASTRAL else 1 for character in text), initial=0))


def clean(text: str) -> str:
    """Return the text without the characters that Telegram takes out, and with line ends of one kind.

    Those that are not assigned and show as nothing go, too.
    """
    ended = text.replace("\r\n", "\n").replace("\r", "\n")
    return _REMOVED.sub("", _SURROGATES.sub("\ufffd", ended))


def visible(text: str) -> bool:
    """Tell whether there is anything to see; Telegram refuses a message where there is not."""
    return any(character.isprintable() and not character.isspace() for character in text)


def cut(text: str, start: int, end: int) -> int:
    """Return where to end a part that begins at `start` and may reach `end`, both as places of characters.

    A paragraph's end is better than a line's, that than a word's, and any of them than the middle of a word; each
    only in the second half, so that a text never needs more than twice the parts. A character of several code points
    (a flag, an emoji with a skin tone, a letter with accents) stays whole, unless it is longer than any real one.
    The result is greater than `start`.
    """
    if end >= len(text):
        return len(text)
    half = start + (end - start + 1) // 2
    for gap in ("\n\n", "\n", " "):
        found = text.rfind(gap, half, end + 1)
        if found > start:
            return found
    for place in range(end, max(start, end - _LOOK_BACK), -1):
        if not _within_character(text, place):
            return place
    return end


def _within_character(text: str, place: int) -> bool:
    after, before = text[place], text[place - 1]
    if _JOINER in {before, after} or unicodedata.category(after).startswith("M"):
        return True
    if ord(after) in _FLAGS and ord(before) in _FLAGS:
        first = place
        while first > max(0, place - _LOOK_BACK) and ord(text[first - 1]) in _FLAGS:
            first -= 1
        return (place - first) % 2 == 1
    return any(ord(after) in extends for extends in _EXTENDS)
