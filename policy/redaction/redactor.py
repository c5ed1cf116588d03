r"""Named patterns in content: which occur, and the text with them replaced.

One `re2.Set` pass tells which looks occur at all; only those are searched for, and their matches are validated. The
search runs on the folded text (`policy.redaction.folding`), and for configured patterns also on the text as it is
written. The replacement is always made in the text itself. RE2 works on UTF-8 bytes, so offsets are byte offsets of the
text that is searched until a `_View` tells what they stand for; lone surrogates pass through unharmed. Everything takes
time linear in the text: RE2 never backtracks and validation has a budget. A configured pattern whose every match could
look at all of the text is searched for in windows. A candidate that cannot be settled within those bounds is redacted.
Redaction lowers no label; it only keeps the matches of its patterns from going on.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final, Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs] - it ships none; `_Library` types the part in use

from policy.redaction.checks import CHECKS, CheckBudget, Span
from policy.redaction.folding import folded, places
from policy.redaction.patterns import BUILT_IN, NAMES, Pattern

_LARGEST_PROGRAM = 2000
# Room for the automaton of a hundred configured patterns of the largest size. RE2 refuses a set that needs more when it
# is compiled, not when it runs.
_MEMORY = 32 << 20
_WINDOW = 4096
_ROUNDS = 4
_CONTINUATION = range(0x80, 0xC0)
_MARKER = "[redacted: "
# The ASCII characters that folding changes.
_ODD = r"[\x00-\x08\x0b-\x1f\x7f]"
_DIGIT: Final = re.compile(rb"[0-9]")
_TOKEN: Final = 1024
_PIECES: Final = 48
"""How long a broken token may be in bytes, and into how many pieces it may be broken, to be found."""


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
    """The part of google-re2 in use; that library has no types of its own."""

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
    """Return the fault of a configured pattern's RE2 text, `None` if there is none."""
    found = _usable(text)
    if isinstance(found, str):
        return found
    return "matches the empty text, and so everywhere" if found.search(b"") else None


def searcher(text: str) -> Callable[[str], bool]:
    """Return how to tell whether a text contains a pattern, in time linear in its length.

    Raises ValueError: it is not an RE2 pattern, or it is too large.
    """
    found = _usable(text)
    if isinstance(found, str):
        raise ValueError(found)  # noqa: TRY004 - the text is wrong, not its type
    return lambda value: found.search(value.encode("utf-8", "replace")) is not None


def _usable(text: str) -> _Regexp | str:
    """Return a configured pattern, or its fault."""
    try:
        compiled = _compile(text)
    except UnicodeEncodeError:
        return "holds characters that are not Unicode"
    except _RE2.error as error:
        return f"is not an RE2 pattern: {error.args[0].decode('utf-8', 'replace')}"
    if compiled.programsize > _LARGEST_PROGRAM:
        return f"is too large to run on every answer ({compiled.programsize} steps, at most {_LARGEST_PROGRAM})"
    return compiled


@dataclass(frozen=True, slots=True)
class _Look:
    """One compiled look of a named pattern; `pattern` is None for a configured one, which is taken as found.

    `whole` matches the unbroken form of a broken token. `group` is the group that is the candidate.
    """

    name: str
    regexp: _Regexp
    pattern: Pattern | None = None
    whole: _Regexp | None = None
    group: int = 0


@dataclass(frozen=True, slots=True)
class _View:
    """A text as it is searched: folded, or with `raw` as it is written, which is for configured patterns alone."""

    source: str
    text: str
    data: bytes
    raw: bool = False

    @staticmethod
    def of(source: str, text: str, *, raw: bool = False) -> "_View":
        """Return the view of a text in one of its forms."""
        return _View(source, text, text.encode("utf-8", "surrogatepass"), raw)

    def origins(self, spans: list[Span]) -> list[Span]:
        """Return the spans of the source that ascending spans of bytes stand for."""
        if not spans:
            return []
        if not self.text.isascii():
            ends = list(accumulate(len(char.encode("utf-8", "surrogatepass")) for char in self.text))
            spans = [(bisect_right(ends, start), bisect_left(ends, stop) + 1) for start, stop in spans]
        if self.raw or self.text == self.source:
            return spans
        origin = list(places(self.source))
        return [(origin[start], origin[stop - 1] + 1) for start, stop in spans]


class Redactor:
    """The built-in patterns and the configured ones, ready to run. It never changes.

    Raises re2.error: for a configured pattern that `fault` would have refused.
    """

    __slots__ = ("_configured", "_looks", "_markers", "_set", "names")

    def __init__(self, configured: Mapping[str, str] | None = None) -> None:
        own = configured or {}
        self.names = frozenset({*NAMES, *own})
        self._configured = bool(own)
        self._looks = (
            *map(_look, BUILT_IN),
            *(_Look(name, _compile(text)) for name, text in own.items()),
        )
        self._set = _RE2.Set.SearchSet(_options())
        for text in (*(pattern.text for pattern in BUILT_IN), *own.values(), _ODD):
            self._set.Add(text)
        self._set.Compile()
        inside = "|".join(re.escape(name) for name in sorted(self.names))
        self._markers = re.compile(rf"\[redacted: (?:{inside})\]".encode())

    def scan(self, text: str, names: Collection[str] | None = None) -> frozenset[str]:
        """Return which of the named patterns occur in the text (all of them by default), validated.

        Markers left by an earlier redaction do not count.
        """
        found: set[str] = set()
        for view, fired in self._fired(text, self.names if names is None else names):
            kept = self._kept(view)
            budget = CheckBudget(len(view.data))
            for look in fired:
                if look.name not in found and any(_outside(span, kept) for span in _spans(look, view.data, budget)):
                    found.add(look.name)
        return frozenset(found)

    def redact(self, text: str, names: Collection[str]) -> str:
        """Return the text with every occurrence of the named patterns replaced by `[redacted: name]`.

        Doing so again changes nothing. An unknown name redacts the whole text.
        """
        if not self.names.issuperset(names):
            return self.marker(min(set(names) - self.names))
        pieces = self._pieces(text, names)
        # Replacing one thing can bring another to light, as when digits lose their neighbours.
        rounds = 0
        while pieces and rounds < _ROUNDS:
            text = _replaced(text, pieces)
            pieces = self._pieces(text, names)
            rounds += 1
        return self.marker(pieces[0][2]) if pieces else text

    @staticmethod
    def marker(name: str) -> str:
        """Return the marker that replaces a match of a pattern."""
        return f"{_MARKER}{name}]"

    def _fired(self, text: str, names: Collection[str]) -> Iterator[tuple[_View, list[_Look]]]:
        """Yield the forms of a text in which some of the named patterns occur, with their looks."""
        ascii_only = text.isascii()
        whole = _View.of(text, text if ascii_only else folded(text))
        numbers = self._set.Match(whole.data) or ()
        if ascii_only and len(self._looks) in numbers:
            whole = _View.of(text, folded(text))
            numbers = self._set.Match(whole.data) or ()
        looks = [self._looks[number] for number in numbers if number < len(self._looks)]
        if looks := [look for look in looks if look.name in names]:
            yield whole, looks
        if self._configured and whole.text != text:
            written = _View.of(text, text, raw=True)
            numbers = self._set.Match(written.data) or ()
            own = [self._looks[number] for number in numbers if number < len(self._looks)]
            if own := [look for look in own if look.pattern is None and look.name in names]:
                yield written, own

    def _kept(self, view: _View) -> list[Span]:
        # Most texts hold no bracket, and one character is found ten times as fast as a word.
        marked = _MARKER[0] in view.text and _MARKER in view.text
        return [match.span() for match in self._markers.finditer(view.data)] if marked else []

    def _pieces(self, text: str, names: Collection[str]) -> list[tuple[int, int, str]]:
        """Return the pieces to replace, ascending and disjoint, none of them inside a marker."""
        pieces: list[tuple[int, int, str]] = []
        for view, fired in self._fired(text, names):
            kept = self._kept(view)
            budget = CheckBudget(len(view.data))
            for look in fired:
                parts = [part for span in _spans(look, view.data, budget) for part in _outside(span, kept)]
                pieces += ((*origin, look.name) for origin in view.origins(parts))
        return _merged(sorted(pieces))


@lru_cache(maxsize=4)
def compiled(*configured: tuple[str, str]) -> Redactor:
    """Return the redactor of these configured patterns, names with their texts.

    Compiling the patterns takes 30 ms, and a policy that is reloaded has mostly the ones that it had before.
    """
    return Redactor(dict(configured))


def _spans(look: _Look, data: bytes, budget: CheckBudget) -> Iterator[Span]:
    """Yield where a look that occurs does so, ascending.

    A configured pattern that occurs, but nowhere within a window, may be anywhere: all of the text.
    """
    if look.whole is not None and look.pattern is not None:
        yield from _broken(look.regexp, look.whole, look.pattern.cut, data=data, budget=budget)
        return
    if look.pattern is not None:
        yield from _built_in(look, look.pattern, data, budget)
        return
    none = True
    for span in _configured(look.regexp, data, budget):
        none = False
        yield span
    if none:
        yield 0, len(data)


def _look(pattern: Pattern) -> _Look:
    regexp = _compile(pattern.text)
    whole = _compile(pattern.whole) if pattern.whole else None
    return _Look(pattern.name, regexp, pattern, whole, min(regexp.groups, 1))


def _built_in(look: _Look, pattern: Pattern, data: bytes, budget: CheckBudget) -> Iterator[Span]:
    at = 0
    while match := look.regexp.search(data, at):
        start, stop = match.span(look.group)
        at = stop
        if pattern.check is None:
            yield start, stop
            continue
        candidate = data[start:stop].decode("utf-8", "surrogatepass")
        spans = _in_bytes(CHECKS[pattern.check](candidate, budget), candidate)
        parts = [(start + first, start + last) for first, last in spans]
        yield from parts
        # A run of digits has been judged from end to end; anything else may overlap with the next candidate.
        if pattern.check != "card":
            at = parts[-1][1] if parts else start + 1


def _broken(regexp: _Regexp, whole: _Regexp, cut: str, *, data: bytes, budget: CheckBudget) -> Iterator[Span]:
    """Yield the part of each candidate that is a token once its pieces are joined.

    A complete token is found without this. Of a candidate that is longer than a window the beginning is looked at.
    """
    piece = re.compile(rf"(?:(?!{cut}).)+".encode(), re.DOTALL)
    at = 0
    while at < len(data):
        edge = min(at + _TOKEN, len(data))
        match = regexp.search(data, at, edge)
        if match is None:
            at = edge if edge == len(data) else edge - _TOKEN // 2
            continue
        start, stop = match.span()
        if stop == edge < len(data) and start > at:
            at = start
            continue
        if not budget.pays(8):
            yield start, len(data)
            return
        pieces = list(piece.finditer(data, start, stop))[:_PIECES]
        last = _last(whole, [found.group() for found in pieces])
        if last:
            yield start, pieces[last].end()
        at = pieces[last].end()


def _last(whole: _Regexp, pieces: list[bytes]) -> int:
    """Return the number of the last piece with which a token is whole, 0 if none is, or the first one by itself."""
    if whole.search(pieces[0]):
        return 0
    for last in range(len(pieces) - 1, 0, -1):
        joined = b"".join(pieces[: last + 1])
        # Words alone are not a token, even side by side.
        if _DIGIT.search(joined) and whole.search(joined):
            return last
    return 0


def _in_bytes(spans: list[Span], text: str) -> list[Span]:
    """Turn ascending offsets in a text into offsets in its UTF-8 bytes, in one pass."""
    if text.isascii():
        return spans
    places = [0, *(place for span in spans for place in span)]
    steps = (len(text[here:there].encode("utf-8", "surrogatepass")) for here, there in pairwise(places))
    offsets = list(accumulate(steps))
    return list(zip(offsets[::2], offsets[1::2], strict=True))


def _configured(regexp: _Regexp, data: bytes, budget: CheckBudget) -> Iterator[Span]:
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


def _replaced(text: str, pieces: list[tuple[int, int, str]]) -> str:
    out: list[str] = []
    at = 0
    for start, stop, name in pieces:
        out += (text[at:start], _MARKER, name, "]")
        at = stop
    return "".join([*out, text[at:]])
