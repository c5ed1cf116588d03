"""Invisible characters, which change a text without showing: a person must see all of the text they decide on."""

from typing import Final

# Printable by their category, and blank or without any width on a screen (Unicode's Default_Ignorable_Code_Point).
_RANGES: Final = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_SINGLE: Final = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0xFFFC, 0x1D159)
_BLANK: Final = frozenset(map(chr, (*_SINGLE, *(code for codes in _RANGES for code in codes))))


def unseen(char: str) -> bool:
    """Say whether a character does not show; the blank does, between others."""
    return not char.isprintable() or char in _BLANK


def spelled(text: str) -> str:
    """Return a text with its invisible characters written as escapes."""
    return "".join(ascii(char)[1:-1] if unseen(char) and char != "\n" else char for char in text)


def one_line(text: str) -> str:
    """Return a text that stays one line everywhere: with its line ends written as escapes, too."""
    return spelled(text).replace("\n", "\\n")
