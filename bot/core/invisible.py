"""Texts that people decide on: they must see all of one, and nothing else.

Invisible characters change a text without showing. Markdown leaves out characters that it reads as marks: a channel
shows `*.md` and `*` as `.md`, and `&#64;` as `@`. A piece of code shows each character.
"""

import re
from typing import Final

# Printable by their category, and blank or without any width on a screen (Unicode's Default_Ignorable_Code_Point).
_RANGES: Final = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_SINGLE: Final = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0xFFFC, 0x1D159)
_BLANK: Final = frozenset(map(chr, (*_SINGLE, *(code for codes in _RANGES for code in codes))))

_TICKS: Final = re.compile("`+")
_SHORTEST_FENCE: Final = 3


def unseen(char: str) -> bool:
    """Say whether a character does not show; the blank does, between others."""
    return not char.isprintable() or char in _BLANK


def spelled(text: str) -> str:
    """Return a text with its invisible characters written as escapes."""
    return "".join(ascii(char)[1:-1] if unseen(char) and char != "\n" else char for char in text)


def one_line(text: str) -> str:
    """Return a text that stays one line everywhere: with its line ends written as escapes, too."""
    return spelled(text).replace("\n", "\\n")


def in_code(text: str) -> str:
    """Return a text as one line of Markdown code, with its invisible characters and line ends written as escapes."""
    shown = one_line(text)
    ticks, gap = _longer_ticks(shown, 1), " " if "`" in {shown[:1], shown[-1:]} else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}"


def fenced(text: str) -> str:
    """Return a text of several lines as a piece of Markdown code, with its invisible characters written as escapes."""
    ticks = _longer_ticks(text, _SHORTEST_FENCE)
    return f"{ticks}\n{spelled(text)}\n{ticks}"


def _longer_ticks(text: str, least: int) -> str:
    """Return more backticks than stand in a row in a text, so that nothing in it ends the code."""
    return "`" * max(least, 1 + max(map(len, _TICKS.findall(text)), default=0))
