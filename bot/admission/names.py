"""Safe names of received files: one line that stays in its folder, regardless of the name its sender gave.

Pure. A name is UNTRUSTED text that people and models read, so no part of it may look like more than a name.
"""

import unicodedata
from typing import Final

NAMELESS: Final = "file"

_LONGEST: Final = 100
_ENDING: Final = 12
_BYTES: Final = 180
"""A file system takes 255 bytes; the prefix of the name needs some."""

_OUT: Final = frozenset('`"<>|*?[]')


def safe_name(name: str) -> str:
    """Return a file's name without folders, control and direction characters, and marks that mean something; short.

    Its ending stays, as that tells people the type.
    """
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    plain = "".join(" " if char.isspace() else char for char in unicodedata.normalize("NFC", last))
    kept = "".join(char for char in plain if char.isprintable() and char not in _OUT)
    words = " ".join(kept.split()).strip(". ")
    stem, dot, ending = words.rpartition(".")
    if not stem or len(ending) > _ENDING or " " in ending:
        stem, dot, ending = words, "", ""
    stem = stem[: _LONGEST - len(ending)]
    while len(f"{stem}{dot}{ending}".encode()) > _BYTES:
        stem = stem[:-1]
    return f"{stem.rstrip()}{dot}{ending}" if stem.strip() else NAMELESS
