"""Whether a candidate is genuine: checksums, structure and numbering plans.

Each check takes the candidate's text and returns the parts of it that are real, so that a card number followed by a
date loses only the card number. The libraries behind (stdnum, phonenumbers) take 80 and 130 ms to import and are
therefore loaded at the first candidate. Each check is slow too: a `CheckBudget` bounds their work, and candidates
beyond it count as real.
"""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from policy.redaction.patterns import Check

Span = tuple[int, int]

# Length and leading digits of the card networks in use (ISO/IEC 7812 and the networks' own tables).
_CARD = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d|09|9\d)\d{11}(?:\d{2})?|35\d{14,17}|5[06-8]\d{11,17}|6\d{12,18}"
)
_PLACEHOLDER = re.compile(r"[*.xX_\-]+|<.*|\$?\{.*|\[redacted.*|%[(s].*")
_CARD_LENGTHS = range(19, 12, -1)
_GAP = re.compile(r"[ \t.\-]{1,3}")
_ODD_GAP = re.compile(r"[\n\\_|*~`]")
_IBAN_LENGTHS = range(34, 14, -1)
_LAST_DIGIT = 9
_PHONE_DIGITS = 7
_SHORTEST_VALUE = 6


_SAMPLES: Final[Mapping[Check, str]] = MappingProxyType(
    {"card": "4111111111111111", "iban": "DE89370400440532013000", "ssn": "536904399", "phone": "+12025550143"}
)


class CheckBudget:
    """The budget for checking one text, in units of about five microseconds: linear in its length."""

    __slots__ = ("_left",)

    def __init__(self, size: int) -> None:
        self._left = 4096 + size // 8

    def pays(self, units: int) -> bool:
        """Take the units; say whether they were still there."""
        self._left -= units
        return self._left >= 0


def _luhn(number: str) -> bool:
    from stdnum import luhn  # noqa: PLC0415 - 80 ms, only when a candidate turns up

    return luhn.is_valid(number)


def _ends(places: list[int], count: int) -> bool:
    """Say whether the first `count` characters end at a separator or at the end."""
    return count == len(places) or places[count] > places[count - 1] + 1


def _apart(text: str, places: list[int], at: int, stop: int) -> bool:
    """Say whether some of the digits of a candidate are apart from the digits before and behind them.

    Between blanks, dots and dashes they always are. Line ends, slashes and the like separate groups of any length only
    if no list continues with the same separators before or behind them.
    """
    within = {text[left + 1 : right] for left, right in pairwise(places[at:stop])} - {""}
    if all(map(_GAP.fullmatch, within)):
        return True
    before = text[places[at - 1] + 1 : places[at]] if at else ""
    behind = text[places[stop - 1] + 1 : places[stop]] if stop < len(places) else ""
    return before not in within and behind not in within


def _possible(digits: str, places: list[int]) -> list[tuple[int, int]]:
    """Return which digits have a card's length and network, the longest of one beginning first."""
    starts = [at for at, place in enumerate(places) if at == 0 or place > places[at - 1] + 1]
    return [
        (at, at + length)
        for at in starts
        for length in _CARD_LENGTHS
        if at + length <= len(digits) and _ends(places, at + length) and _CARD.fullmatch(digits[at : at + length])
    ]


def _card(text: str, budget: CheckBudget) -> list[Span]:
    """Return the cards in digits in groups.

    Of random digits three in a hundred pass for a card, so a long list holds some. Among line ends, slashes and the
    like one counts where it is apart, or where nothing else in the list could be one.
    """
    places = [place for place, char in enumerate(text) if char.isdecimal()]
    digits = "".join(text[place] for place in places)
    possible = _possible(digits, places)
    spans: list[Span] = []
    done = 0
    for at, stop in possible:
        if at < done:
            continue
        if not budget.pays(2):
            return [*spans, (places[at], len(text))]
        if _luhn(digits[at:stop]) and (len(possible) == 1 or _apart(text, places, at, stop)):
            spans.append((places[at], places[stop - 1] + 1))
            done = stop
    return spans


def _adding_up(number: str) -> list[int]:
    """Return the lengths, the longest first, at which a number has the check digits of an IBAN (ISO 13616).

    One pass does the library's check for every length.
    """
    head = int("".join(str(int(char, 36)) for char in number[:4]))
    lengths: list[int] = []
    rest = 0
    for length, char in enumerate(number[4 : _IBAN_LENGTHS.start], 5):
        value = int(char, 36)
        rest = (rest * (100 if value > _LAST_DIGIT else 10) + value) % 97
        if length > _IBAN_LENGTHS.stop and (rest * 1_000_000 + head) % 97 == 1:
            lengths.insert(0, length)
    return lengths


def _iban(text: str, budget: CheckBudget) -> list[Span]:
    from stdnum import iban  # noqa: PLC0415 - as above

    places = [place for place, char in enumerate(text) if char.isalnum()]
    compact = "".join(text[place] for place in places).upper()
    if not budget.pays(4):
        return [(0, len(text))]
    for length in _adding_up(compact):
        if _ends(places, length) and iban.is_valid(compact[:length], check_country=False):
            return [(0, places[length - 1] + 1)]
    return []


def _ssn(text: str, budget: CheckBudget) -> list[Span]:
    from stdnum.us import ssn  # noqa: PLC0415 - as above

    digits = "".join(char for char in text if char.isdecimal())
    return [(0, len(text))] if not budget.pays(3) or ssn.is_valid(digits) else []


def _callable(text: str) -> bool:
    """Say whether a numbering plan has room for this number; without a country code, North America's.

    After `00`, which begins many a number that is none, it has to be one that can be assigned.
    """
    import phonenumbers  # noqa: PLC0415 - 130 ms, only when a candidate turns up

    text = _ODD_GAP.sub(" ", text)
    try:
        if text.startswith("00"):
            return phonenumbers.is_valid_number(phonenumbers.parse(f"+{text[2:]}"))
        return phonenumbers.is_possible_number(phonenumbers.parse(text, "US"))
    except phonenumbers.NumberParseException:
        return False


def _phone(text: str, budget: CheckBudget) -> list[Span]:
    places = [place for place, char in enumerate(text) if char.isdecimal()]
    for count in range(len(places), _PHONE_DIGITS - 1, -1):
        if _ends(places, count):
            if not budget.pays(8):
                return [(0, len(text))]
            if _callable(text[: places[count - 1] + 1]):
                return [(0, places[count - 1] + 1)]
    return []


def _number(text: str, budget: CheckBudget) -> list[Span]:
    """Accept the assigned numbers of North America's numbering plan."""
    import phonenumbers  # noqa: PLC0415 - as above

    if not budget.pays(8):
        return [(0, len(text))]
    number = phonenumbers.parse("".join(char for char in text if char.isdecimal()), "US")
    return [(0, len(text))] if phonenumbers.is_valid_number(number) else []


def _assignment(text: str, _budget: CheckBudget) -> list[Span]:
    """Accept every value but a placeholder, and leave the quotes."""
    quotes = 1 if text[0] in "\"'" else 0
    inner = text[quotes : len(text) - quotes]
    telling = (quotes or len(inner) >= _SHORTEST_VALUE) and not _PLACEHOLDER.fullmatch(inner)
    return [(quotes, quotes + len(inner))] if telling else []


CHECKS: Final[Mapping[Check, Callable[[str, CheckBudget], list[Span]]]] = MappingProxyType(
    {"assignment": _assignment, "card": _card, "iban": _iban, "ssn": _ssn, "phone": _phone, "number": _number}
)


def load() -> None:
    """Load the libraries now: they read files, which the first candidate need not wait for."""
    budget = CheckBudget(0)
    for check, candidate in _SAMPLES.items():
        CHECKS[check](candidate, budget)
