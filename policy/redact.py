r"""Named patterns in content: which occur, and the text with them replaced.

One `re2.Set` pass tells which looks occur at all; only those are searched for, and what is found is
validated. RE2 works on UTF-8 bytes, so offsets here are byte offsets until the text is put together
again; lone surrogates pass through unharmed. Everything takes time linear in the text: RE2 never
backtracks, validation has a budget, and a configured pattern, each of whose matches could look at
all of the text, is searched for in windows. What cannot be told within those bounds is redacted.
Redaction lowers no label; it only keeps what it names from going on.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs] - it ships none; `_Library` types what is used

from policy.patterns import BUILT_IN, NAMES, Check
from policy.validate import CHECKS, Budget, Span

_LARGEST_PROGRAM = 2000
# Room for the automaton of a hundred configured patterns of the largest size; RE2 refuses a set for which it
# would not do when it is compiled, not when it runs.
_MEMORY = 32 << 20
_WINDOW = 4096
_ROUNDS = 4
_CONTINUATION = range(0x80, 0xC0)
_MARKER = b"[redacted: "


class _Match(Protocol):
    def span(self, group: int = 0) -> Span: ...


class _Regexp(Protocol):
    programsize: int
    groups: int

    def search(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> _Match | None: ...


class _Set(Protocol):
    def Add(self, pattern: str) -> int: ...  # noqa: N802 - the library's names
    def Compile(self) -> None: ...  # noqa: N802
    def Match(self, text: bytes) -> list[int] | None: ...  # noqa: N802


class _Sets(Protocol):
    def SearchSet(self, options: object) -> _Set: ...  # noqa: N802


class _Library(Protocol):
    """What is used of google-re2, which has no types of its own."""

    error: type[Exception]
    Set: _Sets

    def Options(self) -> "_Options": ...  # noqa: N802
    def compile(self, pattern: str, options: object) -> _Regexp: ...


class _Options(Protocol):
    log_errors: bool
    max_mem: int


_RE2 = cast("_Library", re2)


def _options() -> _Options:
    options = _RE2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


def _compile(text: str) -> _Regexp:
    return _RE2.compile(text, _options())


def fault(text: str) -> str | None:
    """Return what is wrong with a configured pattern's RE2 text, `None` if nothing is."""
    try:
        compiled = _compile(text)
    except UnicodeEncodeError:
        return "holds characters that are not Unicode"
    except _RE2.error as error:
        return f"is not an RE2 pattern: {error.args[0].decode('utf-8', 'replace')}"
    if compiled.programsize > _LARGEST_PROGRAM:
        return f"is too large to run on every answer ({compiled.programsize} steps, at most {_LARGEST_PROGRAM})"
    return "matches the empty text, and so everywhere" if compiled.search(b"") else None


@dataclass(frozen=True, slots=True)
class _Look:
    """One compiled look of a named pattern; `check` is None for those taken as found."""

    name: str
    regexp: _Regexp
    check: Check | None
    configured: bool


class Redactor:
    """The built-in patterns and the configured ones, ready to run. It never changes.

    Raises re2.error: for a configured pattern that `fault` would have refused.
    """

    __slots__ = ("_looks", "_markers", "_set", "names")

    def __init__(self, configured: Mapping[str, str] | None = None) -> None:
        own = configured or {}
        texts = [*(pattern.text for pattern in BUILT_IN), *own.values()]
        self.names = frozenset({*NAMES, *own})
        self._looks = (
            *(_Look(pattern.name, _compile(pattern.text), pattern.check, configured=False) for pattern in BUILT_IN),
            *(_Look(name, _compile(text), None, configured=True) for name, text in own.items()),
        )
        self._set = _RE2.Set.SearchSet(_options())
        for text in texts:
            self._set.Add(text)
        self._set.Compile()
        inside = b"|".join(re.escape(name.encode()) for name in sorted(self.names))
        self._markers = re.compile(rb"\[redacted: (?:" + inside + rb")\]")

    def scan(self, text: str, names: Collection[str] | None = None) -> frozenset[str]:
        """Return which of the named patterns occur in the text (all of them by default), validated.

        Markers left by an earlier redaction do not count.
        """
        data = text.encode("utf-8", "surrogatepass")
        fired = self._fired(data, self.names if names is None else names)
        if not fired:
            return frozenset()
        kept = self._kept(data)
        budget = Budget(len(data))
        found: set[str] = set()
        for look in fired:
            if look.name not in found and any(_outside(span, kept) for span in _spans(look, data, budget)):
                found.add(look.name)
        return frozenset(found)

    def redact(self, text: str, names: Collection[str]) -> str:
        """Return the text with every occurrence of the named patterns replaced by `[redacted: name]`.

        Doing so again changes nothing. A name nobody knows redacts the whole text.
        """
        unknown = sorted(set(names) - self.names)
        if unknown:
            return f"[redacted: {unknown[0]}]"
        data = text.encode("utf-8", "surrogatepass")
        pieces = self._pieces(data, names)
        # Replacing one thing can bring another to light, as when digits lose their neighbours.
        rounds = 0
        while pieces and rounds < _ROUNDS:
            data = _replaced(data, pieces)
            pieces = self._pieces(data, names)
            rounds += 1
        return f"[redacted: {pieces[0][2]}]" if pieces else data.decode("utf-8", "surrogatepass")

    def _fired(self, data: bytes, names: Collection[str]) -> list[_Look]:
        looks = (self._looks[number] for number in self._set.Match(data) or ())
        return [look for look in looks if look.name in names]

    def _kept(self, data: bytes) -> list[Span]:
        return [match.span() for match in self._markers.finditer(data)] if _MARKER in data else []

    def _pieces(self, data: bytes, names: Collection[str]) -> list[tuple[int, int, str]]:
        """Return what to replace, ascending and disjoint, none of it inside a marker."""
        kept = self._kept(data)
        budget = Budget(len(data))
        spans = sorted(
            (start, stop, look.name) for look in self._fired(data, names) for start, stop in _spans(look, data, budget)
        )
        return [(*part, name) for start, stop, name in _merged(spans) for part in _outside((start, stop), kept)]


def _spans(look: _Look, data: bytes, budget: Budget) -> Iterator[Span]:
    """Yield where a look that occurs does so, ascending.

    A configured pattern that occurs, but nowhere within a window, may be anywhere: all of the text.
    """
    if not look.configured:
        yield from _built_in(look, data, budget)
        return
    none = True
    for span in _configured(look.regexp, data, budget):
        none = False
        yield span
    if none:
        yield 0, len(data)


def _built_in(look: _Look, data: bytes, budget: Budget) -> Iterator[Span]:
    group = min(look.regexp.groups, 1)
    at = 0
    while match := look.regexp.search(data, at):
        start, stop = match.span(group)
        at = stop
        if look.check is None:
            yield start, stop
            continue
        candidate = data[start:stop].decode("utf-8", "surrogatepass")
        parts = [
            (start + first, start + last) for first, last in _in_bytes(CHECKS[look.check](candidate, budget), candidate)
        ]
        yield from parts
        # A run of digits has been judged from end to end; anything else may overlap with the next candidate.
        if look.check != "card":
            at = parts[-1][1] if parts else start + 1


def _in_bytes(spans: list[Span], text: str) -> list[Span]:
    """Turn ascending offsets in a text into offsets in its UTF-8 bytes, in one pass."""
    if text.isascii():
        return spans
    places = [0, *(place for span in spans for place in span)]
    steps = (len(text[here:there].encode("utf-8", "surrogatepass")) for here, there in pairwise(places))
    offsets = list(accumulate(steps))
    return list(zip(offsets[::2], offsets[1::2], strict=True))


def _configured(regexp: _Regexp, data: bytes, budget: Budget) -> Iterator[Span]:
    """Yield matches up to half a window long, longer ones in part; the rest of the text once the budget is spent."""
    at = 0
    while at < len(data):
        if not budget.pays(2):
            yield at, len(data)
            return
        edge = min(at + _WINDOW, len(data))
        match = regexp.search(data, at, edge)
        if match is None:
            at = edge if edge == len(data) else edge - _WINDOW // 2
            continue
        start, stop = match.span()
        if stop == edge < len(data) and start > at:
            at = start  # the window may have cut it: look again with it at the window's beginning
            continue
        if stop > start:
            yield _widened(start, stop, data)
        at = max(stop, start + 1)


def _widened(start: int, stop: int, data: bytes) -> Span:
    r"""Extend a span to whole characters, because `\C` matches single bytes."""
    while start > 0 and data[start] in _CONTINUATION:
        start -= 1
    while stop < len(data) and data[stop] in _CONTINUATION:
        stop += 1
    return start, stop


def _merged(spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Join ascending spans that overlap, or touch under one name, under the name of the first."""
    merged: list[tuple[int, int, str]] = []
    for start, stop, name in spans:
        if merged and (start < merged[-1][1] or (start == merged[-1][1] and name == merged[-1][2])):
            first, last, kept_name = merged[-1]
            merged[-1] = (first, max(last, stop), kept_name)
        else:
            merged.append((start, stop, name))
    return merged


def _outside(span: Span, kept: list[Span]) -> list[Span]:
    """Return the parts of a span that lie in none of the ascending, disjoint kept ones."""
    start, stop = span
    parts: list[Span] = []
    for number in range(bisect_right(kept, start, key=_stop), len(kept)):
        if kept[number][0] >= stop:
            break
        if start < kept[number][0]:
            parts.append((start, kept[number][0]))
        start = kept[number][1]
    if start < stop:
        parts.append((start, stop))
    return parts


def _stop(span: Span) -> int:
    return span[1]


def _replaced(data: bytes, pieces: list[tuple[int, int, str]]) -> bytes:
    out: list[bytes] = []
    at = 0
    for start, stop, name in pieces:
        out += (data[at:start], _MARKER, name.encode(), b"]")
        at = stop
    return b"".join([*out, data[at:]])
