"""The content scan: all built-in patterns over an answer of 4 KB as written and as shown, and over slow texts.

The reference is `re2.Set` alone over the same texts. Telling what is shown takes reading the Markdown, which the
adapter does not do again; the second row compares that with the reading.

An ordinary answer has dates, amounts and addresses of pages, but nothing to find;
one with a mailbox and a telephone number needs, beside the set, what the telephone library takes to judge the
number. The last row compares 1 MB with sixteen times 64 KB of the same text, and reports the worst of several texts.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import phonenumbers
import re2  # pyright: ignore[reportMissingTypeStubs] - it ships none

from channels.rich_text import parsed, views
from policy.redaction.patterns import BUILT_IN
from policy.redaction.redactor import Redactor
from tests.bench.measure import Row, by_turns, ratio_at_most

_ANSWER_BYTES: Final = 4096
_SMALL: Final = 64 * 1024
_LARGE: Final = 16 * _SMALL
_LONG: Final = 0.1
"""Seconds."""

_PARAGRAPH: Final = """\
## What I found

The weekly meeting is on Tuesday at 9:30 in the big room; the notes of 2025-03-14 are in the shared folder. There are
three open points, in the order in which they were raised:

1. **Gate controls**, two chambers: the offer of 1,240,000 is with the customer (reference 2024/8831-B).
2. The sensor refit needs `timeout = 30` in `config.yaml`; see https://docs.example.org/guide#limits for the others.
3. Questions go to the office, Monday to Friday, 8:30 to 17:00.

I would begin with the second, because it blocks the release and costs half a day at most.

"""

_PHONE: Final = "+31 20 794 0800"
_CONTACTS: Final = f"Write to office@harbourlock.example or call {_PHONE}.\n"

_SLOW: Final = (
    "api_key" + " " * 57,
    "password: " + "a" * 15 + "\n",
    "1" * 64,
    "4111 1111 1111 1112 ",
    "eyJ" + "a" * 61 + ".",
    "a@a.",
    "NL91 ABNA 0417 1643 01 ",
    "+1 202 555 01 ",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "://a:b",
)


def rows() -> Iterator[Row]:
    redactor, bare = Redactor(), _bare()
    answer = (_PARAGRAPH * 10)[:_ANSWER_BYTES]
    both = (answer, *views(answer))
    value, reference = by_turns(
        lambda: [redactor.scan(text) for text in both],
        lambda: [bare(text.encode()) for text in both],
        rounds=300,
        repeats=5,
    )
    yield Row("scan_4_kb", value * 1e6, "µs", reference * 1e6, ratio_at_most(2))

    fresh = parsed.__wrapped__
    value, reference = by_turns(lambda: (fresh(answer), views(answer)), lambda: fresh(answer), rounds=100)
    yield Row("shown_4_kb", value * 1e6, "µs", reference * 1e6, ratio_at_most(1.5))

    contacts = (_CONTACTS + answer)[:_ANSWER_BYTES]

    def judged() -> None:
        bare(contacts.encode())
        phonenumbers.is_possible_number(phonenumbers.parse(_PHONE, "US"))

    value, reference = by_turns(lambda: redactor.scan(contacts), judged, rounds=300, repeats=5)
    yield Row("scan_4_kb_with_contacts", value * 1e6, "µs", reference * 1e6, ratio_at_most(2))

    _, large, small = max(_slow(redactor, text) for text in _SLOW)
    yield Row("scan_1_mb_worst_text", large * 1e3, "ms", small * 1e3, ratio_at_most(1.5))


def _bare() -> Callable[[bytes], object]:
    """Return the set of all built-in patterns, with the memory the redactor gives it."""
    library = cast("Any", re2)
    options = library.Options()
    options.log_errors, options.max_mem = False, 16 << 20
    patterns = library.Set.SearchSet(options)
    for pattern in BUILT_IN:
        patterns.Add(pattern.text)
    patterns.Compile()
    return cast("Callable[[bytes], object]", patterns.Match)


def _slow(redactor: Redactor, text: str) -> tuple[float, float, float]:
    """Return how much longer 1 MB takes than sixteen times 64 KB, and both in seconds."""
    large, small = (text * (_LARGE // len(text) + 1))[:_LARGE], (text * (_SMALL // len(text) + 1))[:_SMALL]

    def sixteen() -> None:
        for _ in range(16):
            redactor.scan(small)

    (once,) = by_turns(lambda: redactor.scan(large), rounds=1)
    # A scan of a few milliseconds doubles when another process gets the processor, so it is repeated more often.
    one, many = by_turns(lambda: redactor.scan(large), sixteen, rounds=5 if once > _LONG else 60, longest=2)
    return one / many, one, many
