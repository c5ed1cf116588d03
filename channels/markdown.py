"""A model's Markdown as a flat row of leaves, for every adapter to show in its platform's own way.

Parsed with markdown-it-py: pure Python with one small dependency, typed, without HTML, and it hands over tokens, so
that every link passes our hands before it is one. The ready-made converters to one platform were looked at and not
taken: they let a model's text mention people or make links, which is what an adapter must decide, and one of them took
twice as long over a table of 500 columns and 500 short rows. That table is the one hostile input of forty on which
markdown-it-py is not linear; it is not read as a table here.

Containers are flattened to what a chat can show: how deep in lists a leaf stands, its marker, which quotation it is in,
and whether it stands close to the leaf before. Nothing that is written may be lost on the way: HTML and reference
definitions are text, an image is its description and address, the title of a link is written out, and where letters
are missing in the end (a row with more cells than the head of its table, lists nested more deeply than the parser
follows) the source is shown as it was written. What is not visible and could change how the rest is read (controls,
direction overrides) is dropped.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from html import unescape
from typing import Final
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from channels.leaves import Leaf, Shape, Span, clean, labelled, told

LONGEST: Final = 60_000
"""Longer texts, in characters, are not parsed but are one plain leaf: they go as a file anyway."""

# Also multiplies what an unclosed bracket costs: at 40, 40,000 characters of `![` took six times as long.
_NESTING: Final = 20
_CELLS: Final = 8192
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9+#._-]{1,32}")
_NUMBERING: Final = re.compile(r"^[ \t>*+-]*\d{1,9}[.)]", re.MULTILINE)
_PADDED: Final = 2


_PLAIN: Final = Span("")


@lru_cache(maxsize=16)
def parsed(markdown: str) -> tuple[Leaf, ...]:
    """Return the leaves of a text in order; none has neither text nor a marker.

    The newest are remembered: an answer is decided on, decided on again and shown, one soon after the other.
    """
    text = clean(markdown)
    whole = (Leaf(Shape.TEXT, (Span(text),)),)
    if len(text) > LONGEST:
        return whole
    leaves = tuple(_Reader(text.split("\n")).read(_parser(tables=_table_is_small(text)).parse(text)))
    return whole if _loses(text, " ".join(_seen(leaves))) else leaves


@cache
def _parser(*, tables: bool) -> MarkdownIt:
    """Return a parser. Making one takes as long as reading a short text does; it keeps nothing of what it read."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING}).enable("strikethrough")
    # A definition would vanish from what is shown, and with it whatever a model wrote there.
    parser.disable("reference")
    return parser.enable("table") if tables else parser


def _table_is_small(source: str) -> bool:
    # Every row is filled up to the width of the head, so the work is their product. Counted from above, before the
    # parser does it.
    lines = source.split("\n")
    return len(lines) * (max(line.count("|") for line in lines) + 1) <= _CELLS


def _loses(written: str, seen: str) -> bool:
    """Tell whether letters, digits or other signs that Markdown does not use were written and are not seen."""
    before = Counter(clean(unescape(_NUMBERING.sub("", written))))
    after = Counter(seen + unquote(seen))
    return any(
        count > after[character] and (character.isalnum() or (not character.isascii() and character.isprintable()))
        for character, count in before.items()
    )


def _seen(leaves: Iterable[Leaf]) -> Iterator[str]:
    for leaf in leaves:
        yield leaf.language
        for link, _label, held in labelled(leaf.spans):
            yield from (span.text for span in held)
            yield link


@dataclass(slots=True)
class _List:
    """A list being read: the number of its item, unless it has bullets, and whether that has shown nothing yet."""

    number: int | None
    fresh: bool = False


@dataclass(slots=True)
class _Reader:
    """Where in the containers the reading is. `lines` are the source; `gap` line ends stand before the next leaf."""

    lines: Sequence[str]
    lists: list[_List] = field(default_factory=list[_List])
    quotes: int = 0
    quote: int = 0
    gap: int = 0
    heading: bool = False
    table: Token | None = None
    rows: list[list[str]] = field(default_factory=list[list[str]])

    def read(self, tokens: Iterable[Token]) -> Iterator[Leaf]:
        """Yield the leaves."""
        for token in tokens:
            if self.table is not None:
                yield from self._row(token, self.table)
            else:
                yield from self._container(token)
                yield from self._leaf(token)

    def _container(self, token: Token) -> Iterator[Leaf]:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                if self.lists and self.lists[-1].fresh:
                    yield self._placed(Shape.TEXT, ())
                self._apart(1 if self.lists else 2)
                first = int(token.attrs.get("start", 1)) - 1
                self.lists.append(_List(first if token.type == "ordered_list_open" else None))
            case "list_item_open":
                self._apart(1)
                inner = self.lists[-1]
                inner.fresh = True
                inner.number = None if inner.number is None else inner.number + 1
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
                self._apart(1 if self.lists else 2)
            case "blockquote_open" | "blockquote_close":
                self.quote += token.nesting > 0 and not self.quotes
                self.quotes += token.nesting
                self._apart(2)
            case "heading_open" | "heading_close":
                self.heading = token.nesting > 0
                self._apart(2)
            case "paragraph_open" | "paragraph_close":
                self._apart(1 if token.hidden else 2)
            case "table_open":
                self.table, self.rows = token, []
            case _:
                pass

    def _leaf(self, token: Token) -> Iterator[Leaf]:
        match token.type:
            case "inline":
                if spans := _trimmed(_spans(token.children or ())):
                    yield self._placed(Shape.HEADING if self.heading else Shape.TEXT, spans)
            case "fence" | "code_block":
                yield from self._code(clean(token.content).strip("\n"), clean(token.info).strip())
            case "hr":
                self._apart(2)
                yield self._placed(Shape.RULE, ())
                self._apart(2)
            case "list_item_close":
                if self.lists[-1].fresh:
                    yield self._placed(Shape.TEXT, ())
                self._apart(1)
            case _:
                pass

    def _code(self, content: str, info: str) -> Iterator[Leaf]:
        """Yield a piece of code, below what stands behind its ticks unless that names a language."""
        self._apart(2)
        language = info if content.strip() and _LANGUAGE.fullmatch(info) else ""
        if info and not language:
            yield self._placed(Shape.TEXT, (Span(info),))
            self._apart(1)
        if content.strip():
            yield self._placed(Shape.CODE, (Span(content),), language)
            self._apart(2)

    def _row(self, token: Token, table: Token) -> Iterator[Leaf]:
        match token.type:
            case "tr_open":
                self.rows.append([])
            case "inline":
                spans = (span for group in labelled(_spans(token.children or ())) for span in told(*group))
                self.rows[-1].append("".join(span.text for span in spans).replace("\n", " "))
            case "table_close":
                self.table = None
                begin, end = table.map or (0, 0)
                written, shown = "\n".join(self.lines[begin:end]), _table(self.rows)
                yield from self._code(written.strip("\n") if _loses(written, shown) else shown, "")
            case _:
                pass

    def _apart(self, lines: int) -> None:
        self.gap = max(self.gap, lines)

    def _placed(self, shape: Shape, spans: tuple[Span, ...], language: str = "") -> Leaf:
        inner = self.lists[-1] if self.lists else _List(None)
        opens, inner.fresh = inner.fresh, False
        number = inner.number if opens else None
        near, self.gap = self.gap <= 1, 0
        quote = self.quote if self.quotes else 0
        return Leaf(shape, spans, quote, len(self.lists), opens and number is None, number, language, near)


def _trimmed(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join neighbours that look the same, from the first that is not a line end; only white space is no text."""
    joined: list[Span] = []
    for span in spans:
        if joined and replace(joined[-1], text="") == replace(span, text=""):
            joined[-1] = replace(span, text=joined[-1].text + span.text)
        elif span.text and (joined or span.text != "\n"):
            joined.append(span)
    return tuple(joined) if any(span.text.strip() for span in joined) else ()


def _spans(tokens: Sequence[Token], look: Span = _PLAIN) -> Iterator[Span]:
    begun: list[Token] = []
    empty = False
    for token in tokens:
        on = token.nesting > 0
        match token.type:
            case "strong_open" | "strong_close":
                look = replace(look, bold=on)
            case "em_open" | "em_close":
                look = replace(look, italic=on)
            case "s_open" | "s_close":
                look = replace(look, strike=on)
            case "link_open":
                begun.append(token)
                look, empty = replace(look, link=_address(token)), True
            case "link_close":
                if empty:
                    yield replace(look, text=look.link)
                look = replace(look, link="")
                yield from _title(begun.pop(), look)
            case "image":
                yield from _image(token, look)
                empty = False
            case _:
                text = "\n" if token.type in {"softbreak", "hardbreak"} else clean(token.content)
                empty = empty and not text.strip()
                yield replace(look, text=text, code=token.type == "code_inline")


def _image(token: Token, look: Span) -> Iterator[Span]:
    """Yield the description of an image, as a link to it; within another link its address is written out."""
    source = _address(token)
    label = _trimmed(_spans(token.children or (), replace(look, link=look.link or source)))
    yield from label or (replace(look, text=source, link=look.link or source),)
    plain = replace(look, link="")
    if look.link and label:
        yield replace(plain, text=" (")
        yield replace(plain, text=source, code=True)
        yield replace(plain, text=")")
    yield from _title(token, plain)


def _title(token: Token, look: Span) -> Iterator[Span]:
    if title := clean(str(token.attrs.get("title", ""))):
        yield replace(look, text=f" “{title}”")


def _address(token: Token) -> str:
    return clean(str(token.attrs.get("href", token.attrs.get("src", ""))))


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows with their columns aligned, unless that would make a small text a large one."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=False)]
    plain = [" | ".join(row).rstrip() for row in rows]
    if len(rows) * (sum(widths) + 3 * len(widths)) > _PADDED * sum(map(len, plain)) + 1_000:
        return "\n".join(plain)
    aligned = [
        " | ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    return "\n".join([aligned[0], "-+-".join("-" * width for width in widths), *aligned[1:]])


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
