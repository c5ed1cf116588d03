"""Text with styles, as it runs down a page before it is cut into messages.

Each run of text has the styles that hold for it. Nothing here knows Markdown, or what a message may be: `render` reads
the one into it and makes the other of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_DEEPEST: Final = 6
_INDENT: Final = "  "


@dataclass(frozen=True, slots=True)
class Style:
    """One way a text is shown: the type of a Telegram entity, and the address or language that some have."""

    kind: str
    url: str = ""
    language: str = ""


CODE: Final = Style("code")
QUOTE: Final = Style("blockquote")


@dataclass(frozen=True, slots=True)
class Run:
    """A text, and the styles of all of it."""

    text: str
    styles: tuple[Style, ...] = ()


@dataclass(slots=True)
class Page:
    """Where blocks are written one after the other; it keeps their distance, indents and markers of lists.

    `open` are the styles that hold now, innermost last. A gap or a marker is written when the next text is, so that
    nothing stands at the end that belongs to nothing.
    """

    runs: list[Run] = field(default_factory=list[Run])
    open: list[Style] = field(default_factory=list[Style])
    _gap: int = 0
    _lists: list[int | None] = field(default_factory=list[int | None])
    _marker: str = ""
    _quotes: int = 0
    _quote: int = 0
    _quote_written: int = 0

    def put(self, text: str, *styles: Style) -> None:
        """Write a text in the open styles and in these."""
        if text:
            preformatted = any(style.kind == "pre" for style in styles)
            self._write(self._lead(preformatted=preformatted), ())
            self._write(text, (*self.open, *styles))

    def _write(self, text: str, styles: tuple[Style, ...]) -> None:
        inside = self._quotes > 0
        if self.runs and self._gap:
            same = inside and self._quote == self._quote_written
            self.runs.append(Run("\n" * self._gap, (QUOTE,) if same else ()))
        self._gap, self._marker, self._quote_written = 0, "", self._quote
        if text:
            self.runs.append(Run(text, (*((QUOTE,) if inside else ()), *styles)))

    def _lead(self, *, preformatted: bool) -> str:
        depth = min(len(self._lists), _DEEPEST)
        if self._marker:
            return _INDENT * (depth - 1) + self._marker
        return _INDENT * depth if self._gap and not preformatted else ""

    def gap(self, lines: int) -> None:
        """Keep the next text this many line ends away from what is written."""
        self._gap = max(self._gap, lines)

    def line(self) -> None:
        """End a line within a block, unless it has none yet."""
        if not self._marker and not self._gap:
            around = (QUOTE,) if self._quotes else ()
            self.runs.append(Run("\n" + _INDENT * min(len(self._lists), _DEEPEST), (*around, *self.open)))

    def enter_list(self, first: int | None) -> None:
        """Begin a list, numbered from `first` or, with None, with bullets."""
        self._show_marker()
        self.gap(1 if self._lists else 2)
        self._lists.append(first)

    def leave_list(self) -> None:
        """End the innermost list."""
        self._lists.pop()
        self.gap(1 if self._lists else 2)

    def enter_item(self) -> None:
        """Begin an item of the innermost list."""
        self.gap(1)
        number = self._lists[-1]
        self._marker = "• " if number is None else f"{number}. "
        self._lists[-1] = None if number is None else number + 1

    def leave_item(self) -> None:
        """End an item; an empty one shows its marker."""
        self._show_marker()
        self.gap(1)

    def _show_marker(self) -> None:
        if self._marker:
            depth, marker = min(len(self._lists), _DEEPEST), self._marker.rstrip()
            self._marker = ""
            self._write(_INDENT * (depth - 1) + marker, ())

    def enter_quote(self) -> None:
        """Begin a quotation; one within another is shown as part of it, since Telegram knows no other."""
        self.gap(2)
        self._quote += 0 if self._quotes else 1
        self._quotes += 1

    def leave_quote(self) -> None:
        """End the innermost quotation."""
        self._quotes -= 1
        self.gap(2)


def split_at(runs: list[Run], spans: Iterator[tuple[int, int]], style: Style) -> Iterator[Run]:
    """Yield the same text with these spans of characters, sorted and apart, in one more style."""
    begin, end = next(spans, (-1, -1))
    place = 0
    for run in runs:
        last = place + len(run.text)
        while place < last:
            while begin >= 0 and end <= place:
                begin, end = next(spans, (-1, -1))
            if begin <= place < end:
                stop, styles = min(end, last), (*run.styles, style)
            else:
                stop, styles = min(begin, last) if begin > place else last, run.styles
            yield Run(run.text[len(run.text) - (last - place) : len(run.text) - (last - stop)], styles)
            place = stop
