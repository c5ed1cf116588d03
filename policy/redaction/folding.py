"""One form of a text for every pattern, independent of the characters that it is written with.

Invisible characters are left out: zero-width characters, soft hyphens, controls, and unassigned code points, which may
be shown as nothing. So are marks that go over, under, through or round the character before: it stays readable. Digits
of every script, letters and signs of other widths and shapes become ASCII where they mean that, and every blank, dash
and line end becomes one kind. Letters of other scripts that only look like Latin ones are not changed.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from types import MappingProxyType
from typing import Final

# Printable by their category, and still invisible: the fillers of Hangul, the blank of Braille, the object replacement
# character, and a note without a head.
_UNSEEN: Final = frozenset((0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, 0xFFFC, 0x1D159))
# Controls and formats; unassigned code points, of which Unicode keeps some as ignorable; marks that take no place.
_LEFT_OUT: Final = frozenset(("Cc", "Cf", "Cn", "Mn", "Me"))
_LINES: Final = frozenset("\t\n\v\f\r\x85\u2028\u2029")
_DOTS: Final = frozenset("\u00b7\u2027\u2219\u22c5\u30fb\uff65")
_SLASHES: Final = frozenset("\u2044\u2215\u29f8")
_BACKSLASHES: Final = frozenset("\u2216\u29f5\u29f9")


def folded(text: str) -> str:
    """Return the form of a text that patterns look at."""
    return text.translate(_Table())


def places(text: str) -> Iterator[int]:
    """Yield, for every character of the folded text, the place of the one in the text that it stands for."""
    for place, char in enumerate(text):
        for _ in _folded(ord(char)):
            yield place


class _Table:
    """The table in which `str.translate` looks characters up."""

    def __getitem__(self, code: int) -> str:
        return _folded(code)


@lru_cache(maxsize=8192)
def _folded(code: int) -> str:
    char = chr(code)
    if char in _LINES:
        return "\t" if char == "\t" else "\n"
    category = unicodedata.category(char)
    if code in _UNSEEN or category in _LEFT_OUT:
        return ""
    if char.isascii():
        return char
    return _SIGNS.get(category) or _plain(char)


def _plain(char: str) -> str:
    """Return the ASCII characters that another one means, or that one."""
    digit = unicodedata.digit(char, None)
    if digit is not None:
        return str(digit)
    if char in _DOTS:
        return "."
    if char in _SLASHES:
        return "/"
    if char in _BACKSLASHES:
        return "\\"
    if char == "\u2212":
        return "-"
    meant = unicodedata.normalize("NFKC", char)
    return meant if meant.isascii() else char


_SIGNS: Final = MappingProxyType({"Zs": " ", "Pd": "-", "Pc": "_"})
