"""The order of results from several indexes: fused from ranks by relevance, overlap, recency and use.

Scores of two indexes cannot be compared, as each knows only its own texts. The ranking uses a result's place in its
index, and the share of the query in its text, which is the same in any index. So the best match of an index about other
subjects does not go first. How new something is and how often it was recalled move it by a few places. Nothing enters
here that the reader may not see, and the same is always in the same order.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bot.knowledge.index import words_of

_SMOOTHING: Final = 20
"""How much the first places count more than the later ones: the less, the more."""

_OVERLAP: Final = 1.0
"""The weight of having most of the query in its text, where the best match weighs 1."""

_RECENCY: Final = 0.25
"""The weight of being the newest, where the best match weighs 1."""

_USE: Final = 0.25
"""The weight of having been recalled most often, where the best match weighs 1."""

_ENDING: Final = 3
"""Letters at the end of a word that may differ: so few that no order tells how a long secret begins."""

_SHORTEST: Final = 4
"""Letters of a word that may not."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A result of an index."""

    id: str
    place: int
    """Its place among the results of its index, from 1 for the best match."""
    learned_at: int
    """Milliseconds since the epoch."""
    overlap: int = 0
    """The share of the query in its text."""
    uses: int = 0
    """The number of its recalls, as far as the reader may know."""


def overlap_with(asked: Iterable[str]) -> Callable[[str], int]:
    """Return the measure of how much of a query is in a text: long words say more than short ones, endings little.

    Args:
        asked: the phrases of the query, from `bot.knowledge.index.phrases`.
    """
    wanted = dict[str, list[tuple[int, str, int]]]()
    for phrase in asked:
        lower = phrase.lower()
        wanted.setdefault(lower[0], []).append((len(phrase) ** 2, lower, _stem(lower)))

    def overlap(text: str) -> int:
        found = dict[str, int]()
        for word in map(str.lower, words_of(text)):
            for worth, phrase, stem in wanted.get(word[0], ()):
                # Alike are words that share all letters but an ending of each.
                length = max(stem, _stem(word))
                if word[:length] == phrase[:length]:
                    found[phrase] = worth
        return sum(found.values())

    return overlap


def fused(candidates: Iterable[Candidate]) -> tuple[str, ...]:
    """Return the ids of the results, the best first; of equal ones the newest, or else the one with the lower id."""
    found = tuple(candidates)
    newest = _places(one.learned_at for one in found)
    used = _places(one.uses for one in found)
    overlaps = _places(one.overlap for one in found)

    def order(one: Candidate) -> tuple[float, int, str]:
        relevance = _worth(one.place) + _OVERLAP * _worth(overlaps[one.overlap])
        worth = relevance + _RECENCY * _worth(newest[one.learned_at]) + _USE * _worth(used[one.uses])
        return -worth, -one.learned_at, one.id

    return tuple(one.id for one in sorted(found, key=order))


def _stem(word: str) -> int:
    """Return how many letters of a word are left without its longest ending."""
    return max(len(word) - _ENDING, min(len(word), _SHORTEST))


def _worth(place: int) -> float:
    """Return the weight of a place: reciprocal rank."""
    return 1 / (_SMOOTHING + place)


def _places(values: Iterable[int]) -> dict[int, int]:
    """Return the place of each value: one more than there are higher ones."""
    places = dict[int, int]()
    for place, value in enumerate(sorted(values, reverse=True), 1):
        places.setdefault(value, place)
    return places
