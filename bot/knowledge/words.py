"""Words as texts are compared by them: without those that any text has, and without their endings.

Two texts are compared by their own words alone, so that the same two are always as similar (law `no_read_up`).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from bot.knowledge.index import words_of

_SHORTEST: Final = 3
"""Letters of a word that says something; two characters of a script without spaces do."""

_STEMS: Final = 8_192
"""Words whose stems are remembered."""

_STOP_WORDS: Final = """
a an as at be by do go he i if in is it me my no of on or so to up us we
about after again all also always and any are because been before being both but can could did does doing
done down each ever every for from get had has have her here hers him his how into its itself just let like
made make many may might more most much must never new nor not now off once one only onto other our ours out
over own please put same shall she should since some such than that the their theirs them then there these
they this those through too two under until upon use used using very via was way well were what when where
which while who whom whose why will with within without would yet you your yours
"""
_STOP: Final = frozenset(_STOP_WORDS.split())

_ENDINGS: Final = (
    *(("ings", ""), ("ing", ""), ("ies", "y"), ("ied", "y"), ("edly", ""), ("ed", "")),
    *(("ly", ""), ("sses", "ss"), ("es", ""), ("ss", "ss"), ("s", ""), ("e", "")),
)
"""Endings of words: the first that fits is taken off, if at least three letters remain."""


def significant(text: str) -> Mapping[str, str]:
    """Return the stems of a text's words that say something, in their order, each with the word that it comes from.

    Numbers say nothing, as they differ where texts are alike.
    """
    found = dict[str, str]()
    for word in words_of(text.lower()):
        if " " in word:
            found.setdefault(word, word.replace(" ", ""))
        elif len(word) >= _SHORTEST and word not in _STOP and not word.isdecimal():
            found.setdefault(stem(word), word)
    return found


def asked_for(text: str) -> str:
    """Return the words of a text without common words, as a query for texts about the others."""
    words = (word.replace(" ", "") for word in words_of(text))
    return " ".join(word for word in words if word.lower() not in _STOP)


@lru_cache(_STEMS)
def stem(word: str) -> str:
    """Return a word in lower case without its ending, so that its forms are alike: `meetings` and `meet`."""
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            short = word[: len(word) - len(ending)] + instead
            doubled = ending in ("ing", "ings", "ed") and short[-1] == short[-2] and short[-1] not in "lsz"
            return short[:-1] if doubled else short
    return word
