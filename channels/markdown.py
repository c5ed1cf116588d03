"""A model's Markdown as a flat row of leaves, for every adapter to show in its platform's own way.

Parsed with markdown-it-py: no dependency but one table of entities, typed, without HTML, and bounded on hostile
input (its nesting is capped; a test counts the steps). The ready-made converters to one platform were looked at
and not taken: they let a model's text mention people or make links, which is what an adapter must decide.
Containers are flattened to what a chat can show: how deep in lists a leaf stands, its marker, whether it is
quoted. Nothing is hidden: HTML and reference definitions are text, an image is its description and address.
What is not visible and could change how the rest is read (controls, direction overrides) is dropped.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

LONGEST: Final = 60_000
"""Longer texts, in characters, are not parsed but are one plain leaf: they go as a file anyway."""

_DROPPED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORD: Final = re.compile(r"(\s+)")
_ADDRESS: Final = re.compile(
    r"://|\bwww\.|\b(?:mailto|tel|tg|slack|data|javascript):|[^\W_]@\w|[^\W_]\.[^\W\d_]{2}|\d\.\d+\.\d+\.\d|xn--",
    re.IGNORECASE,
)
_WEB: Final = re.compile(r"https?://[^\s<>\"`]+", re.IGNORECASE)
_SAFE: Final = re.compile(r"(?:https?://|mailto:)[\x21-\x7e]+\Z", re.IGNORECASE)
_TRAILING: Final = ".,;:!?'\")]}*_"
_PADDED: Final = 2


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text with one look; `link` is the address that a Markdown link gives it, as written."""

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    link: str = ""


class Shape(StrEnum):
    """What a leaf is shown as; a table is CODE with its columns aligned."""

    TEXT = "text"
    HEADING = "heading"
    CODE = "code"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One paragraph, heading, piece of code, table or rule.

    `depth` is how many lists it stands in. `number` and `bullet` tell that it opens an item of the innermost.
    `language` is what a fence says after its ticks.
    """

    shape: Shape
    spans: tuple[Span, ...]
    quoted: bool = False
    depth: int = 0
    bullet: bool = False
    number: int | None = None
    language: str = ""

    @property
    def text(self) -> str:
        """The characters alone."""
        return "".join(span.text for span in self.spans)


def parsed(markdown: str) -> tuple[Leaf, ...]:
    """Return the leaves of a text in order; none has neither text nor a marker."""
    text = clean(markdown)
    if len(text) > LONGEST:
        return (Leaf(Shape.TEXT, (Span(text),)),)
    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # A definition would vanish from what is shown, and with it whatever a model wrote there.
    return tuple(_Reader().read(reader.disable("reference").parse(text)))


def clean(text: str) -> str:
    """Return a text without controls and direction overrides; half a surrogate pair becomes a replacement mark."""
    return _SURROGATE.sub("\ufffd", _DROPPED.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def words(text: str) -> Iterator[tuple[str, bool]]:
    """Split a text, telling of each piece whether some client might make a link of it."""
    kept: list[str] = []
    for word in _WORD.split(text):
        if _ADDRESS.search(word):
            if before := "".join(kept):
                yield before, False
            kept.clear()
            yield word, True
        else:
            kept.append(word)
    if rest := "".join(kept):
        yield rest, False


def linked(spans: Iterable[Span]) -> Iterator[Span]:
    """Make links of bare web addresses, keep those that Markdown made if they are safe, and show where they lead.

    A link whose label is itself an address, and another one, is shown with its target beside it.
    """
    for span in spans:
        if span.link and not _SAFE.match(span.link):
            yield from _told(span)
        elif span.link:
            yield span
            if _ADDRESS.search(span.text) and span.text != span.link:
                yield replace(span, text=f" ({span.link})")
        elif span.code:
            yield span
        else:
            yield from _bare(span)


def unlinked(spans: Iterable[Span]) -> Iterator[Span]:
    """Show every address, and where every link leads, as code: nothing for a client to make a link of."""
    for told in spans:
        for span in _told(told):
            if span.code:
                yield span
            else:
                yield from (replace(span, text=text, code=address) for text, address in words(span.text))


def _told(span: Span) -> Iterator[Span]:
    yield replace(span, link="", code=span.code or span.text == span.link)
    if span.link and span.text != span.link:
        plain = replace(span, link="", code=False)
        yield replace(plain, text=" (")
        yield replace(plain, text=span.link, code=True)
        yield replace(plain, text=")")


def _bare(span: Span) -> Iterator[Span]:
    at = 0
    for found in _WEB.finditer(span.text):
        address = found.group().rstrip(_TRAILING)
        if not _SAFE.match(address):
            continue
        if at < found.start():
            yield replace(span, text=span.text[at : found.start()])
        yield replace(span, text=address, link=address)
        at = found.start() + len(address)
    if at < len(span.text):
        yield replace(span, text=span.text[at:])


@dataclass(slots=True)
class _List:
    """A list being read: the number of its item, unless it has bullets, and whether that has shown nothing yet."""

    number: int | None
    fresh: bool = False


@dataclass(slots=True)
class _Reader:
    """Where in the containers the reading is."""

    lists: list[_List] = field(default_factory=list[_List])
    quotes: int = 0
    heading: bool = False
    table: bool = False
    rows: list[list[str]] = field(default_factory=list[list[str]])

    def read(self, tokens: Iterable[Token]) -> Iterator[Leaf]:
        """Yield the leaves."""
        for token in tokens:
            if self.table:
                yield from self._row(token)
            else:
                self._container(token)
                yield from self._leaf(token)

    def _container(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open":
                self.lists.append(_List(None))
            case "ordered_list_open":
                self.lists.append(_List(int(token.attrs.get("start", 1)) - 1))
            case "list_item_open":
                inner = self.lists[-1]
                inner.fresh = True
                inner.number = None if inner.number is None else inner.number + 1
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
            case "blockquote_open" | "blockquote_close":
                self.quotes += token.nesting
            case "heading_open" | "heading_close":
                self.heading = token.nesting > 0
            case "table_open":
                self.table, self.rows = True, []
            case _:
                pass

    def _leaf(self, token: Token) -> Iterator[Leaf]:
        match token.type:
            case "inline":
                if spans := _trimmed(_spans(token.children or ())):
                    yield self._placed(Shape.HEADING if self.heading else Shape.TEXT, spans)
            case "fence" | "code_block":
                # A fence with nothing in it says what stands behind its ticks.
                content = token.content if token.content.strip() else token.info
                if content.strip():
                    code = clean(content).strip("\n")
                    yield self._placed(Shape.CODE, (Span(code),), clean(token.info).strip())
            case "hr":
                yield self._placed(Shape.RULE, ())
            case "list_item_close" if self.lists[-1].fresh:
                yield self._placed(Shape.TEXT, ())
            case _:
                pass

    def _row(self, token: Token) -> Iterator[Leaf]:
        match token.type:
            case "tr_open":
                self.rows.append([])
            case "inline":
                self.rows[-1].append("".join(span.text for span in _shown(token)).replace("\n", " "))
            case "table_close":
                self.table = False
                yield self._placed(Shape.CODE, (Span(_table(self.rows)),))
            case _:
                pass

    def _placed(self, shape: Shape, spans: tuple[Span, ...], language: str = "") -> Leaf:
        inner = self.lists[-1] if self.lists else _List(None)
        opens, inner.fresh = inner.fresh, False
        number = inner.number if opens else None
        bullet = opens and number is None
        return Leaf(shape, spans, self.quotes > 0, len(self.lists), bullet, number, language)


def _shown(token: Token) -> Iterator[Span]:
    for span in _spans(token.children or ()):
        yield from _told(span)


def _trimmed(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join neighbours that look the same; nothing but white space is no text."""
    joined: list[Span] = []
    for span in spans:
        if joined and replace(joined[-1], text="") == replace(span, text=""):
            joined[-1] = replace(span, text=joined[-1].text + span.text)
        elif span.text:
            joined.append(span)
    return tuple(joined) if any(span.text.strip() for span in joined) else ()


def _spans(tokens: Sequence[Token]) -> Iterator[Span]:
    look = Span("")
    for token in tokens:
        on = token.nesting > 0
        match token.type:
            case "strong_open" | "strong_close":
                look = replace(look, bold=on)
            case "em_open" | "em_close":
                look = replace(look, italic=on)
            case "s_open" | "s_close":
                look = replace(look, strike=on)
            case "link_open" | "link_close":
                look = replace(look, link=clean(str(token.attrs.get("href", ""))) if on else "")
            case "softbreak" | "hardbreak":
                yield replace(look, text="\n")
            case "code_inline":
                yield replace(look, text=token.content, code=True)
            case "image":
                source = clean(str(token.attrs.get("src", "")))
                yield replace(look, text=clean(token.content) or source, link=look.link or source)
            case _:
                yield replace(look, text=clean(token.content))


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
