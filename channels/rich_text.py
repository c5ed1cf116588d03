"""A model's Markdown, parsed into shapes that a chat can show: a flat row of leaves, of spans of one style each.

Every adapter shows the leaves in its platform's own way, and asks here which texts are links and whether they may be.
`views` returns the texts that people will see, for the rules that decide on a text before an adapter shows it. It uses
the same reader, so a rendering shows nothing that was not in a view.

Parsed with markdown-it-py: pure Python with one small dependency, typed, without HTML. It returns tokens, so that every
link passes this module before it is one. The ready-made converters to one platform were examined and rejected: they let
a model's text mention people or make links, which only an adapter may decide. One of them took twice as long over a
table of 500 columns and 500 short rows. That table is the one hostile input of forty on which markdown-it-py is not
linear; it is not read as a table here.

Containers are flattened to facts that a chat can show: a leaf's depth in lists, its marker, its quotation, and whether
it stands close to the leaf before. No written text may be lost on the way. HTML and reference definitions are text, an
image is its description and address, and the title of a link is written out. Where letters would be missing, the source
is shown unchanged: in a row with more cells than its table's head, and in lists nested too deeply for the parser.
Invisible characters that could change how the rest is read (controls, direction overrides) are dropped.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from html import unescape
from itertools import groupby
from typing import Final
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

UNASSIGNED: Final = "\u2065\ufff0-\ufff8\U000e0000\U000e0002-\U000e001f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
"""Unassigned code points that are to be shown as nothing (Unicode: Default_Ignorable_Code_Point), for a set of RE."""

_DROPPED: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff{UNASSIGNED}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ASTRAL: Final = 0x10000
_WORD: Final = re.compile(r"(\s+)")
_ADDRESS: Final = re.compile(
    r"://|\bwww\.|\b(?:mailto|tel|tg|slack|data|javascript):|[^\W_]@\w|[^\W_]\.[^\W\d_]{2}|\d\.\d+\.\d+\.\d|xn--",
    re.IGNORECASE,
)
_WEB: Final = re.compile(r"https?://[^\s<>\"`]+", re.IGNORECASE)
_SAFE: Final = re.compile(r"(?:https?://|mailto:)[\x21-\x7e]+\Z", re.IGNORECASE)
_TRAILING: Final = ".,;:!?'\")]}*_"


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
    """The form in which a leaf is shown; a table is CODE with its columns aligned."""

    TEXT = "text"
    HEADING = "heading"
    CODE = "code"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One paragraph, heading, piece of code, table or rule."""

    shape: Shape
    spans: tuple[Span, ...]
    quote: int = 0
    """The quotation that it is in, counted from 1: one within another is a part of that."""
    depth: int = 0
    """The number of lists that it stands in."""
    bullet: bool = False
    """It opens an item of the innermost list, which has bullets."""
    number: int | None = None
    """It opens the item of this number of the innermost list."""
    language: str = ""
    """The word that a fence has after its ticks."""
    near: bool = False
    """There is no empty line between it and the leaf before."""

    @property
    def quoted(self) -> bool:
        """Whether it is in a quotation."""
        return self.quote > 0

    @property
    def text(self) -> str:
        """The characters alone."""
        return "".join(span.text for span in self.spans)


def clean(text: str) -> str:
    """Return a text without controls, direction overrides and unassigned characters that show as nothing.

    Half a surrogate pair becomes a replacement mark.
    """
    return _SURROGATE.sub("\ufffd", _DROPPED.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def is_visible(text: str) -> bool:
    """Say whether a text has anything visible; a platform refuses a message without it."""
    return any(character.isprintable() and not character.isspace() for character in text)


def utf16_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units, in which both platforms count."""
    return len(text) + sum(ord(character) >= _ASTRAL for character in text)


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
    for link, label, held in labelled(spans):
        if link and not _SAFE.match(link):
            yield from told(link, label, held)
        elif link:
            yield from held
            if _ADDRESS.search(label) and not same(link, label):
                yield replace(held[-1], text=f" ({link})")
        else:
            for span in held:
                yield from (span,) if span.code else _bare(span)


def unlinked(spans: Iterable[Span]) -> Iterator[Span]:
    """Show every address, and where every link leads, as code: nothing for a client to make a link of."""
    for group in labelled(spans):
        for span in told(*group):
            if span.code:
                yield span
            else:
                yield from (replace(span, text=text, code=address) for text, address in words(span.text))


def labelled(spans: Iterable[Span]) -> Iterator[tuple[str, str, list[Span]]]:
    """Yield the spans of each link, or of text outside links, with the link and the whole of its label."""
    for link, group in groupby(spans, key=lambda span: span.link):
        held = list(group)
        yield link, "".join(span.text for span in held).strip(), held


def same(link: str, label: str) -> bool:
    """Say whether the label of a link already shows its target."""
    return link in {label, f"mailto:{label}"}


def told(link: str, label: str, held: Sequence[Span]) -> Iterator[Span]:
    """Yield the spans of one link as text, followed by its address where the label is another."""
    known = bool(link) and same(link, label)
    yield from (replace(span, link="", code=span.code or known) for span in held)
    if link and not known:
        plain = replace(held[-1], link="", code=False)
        yield replace(plain, text=" (")
        yield replace(plain, text=link, code=True)
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


LONGEST: Final = 60_000
"""Longer texts, in characters, are not parsed but are one plain leaf: they go as a file anyway."""

# Also multiplies the cost of an unclosed bracket: at 40, 40,000 characters of `![` took six times as long.
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
    """Return a parser.

    Making one takes as long as reading a short text does; it keeps nothing of the texts that it read.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING}).enable("strikethrough")
    # A definition would vanish from the shown text, and with it any text that a model wrote there.
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
        """Yield a piece of code, below the words behind its ticks unless those name a language."""
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


# A text without any of these is shown as it is written: no signs, bullets, numbers of items, indents, nor gaps.
_MARKED: Final = re.compile(
    r"[\\`*_~<>\[\]!&#|=]|^[ \t]|[ \t]$|^(?:[-+]|\d+[.)])(?:[ \t]|$)|^-+$|[^\S\n]{3}|\n{3}", re.MULTILINE
)
# Text that vanishes where a chat reads its own formatting, or a program shows a file: signs, tags, comments, footnotes;
# and the layout of tables.
_VANISHING: Final = re.compile(
    r"<!--.{0,300}?-->|</?[A-Za-z][^<>]{0,300}>|\[\^[^\]\n]{0,60}\]|[*~`]+|(?<![^\W_])_+|_+(?![^\W_])|^[-+]{3,}\n",
    re.DOTALL | re.MULTILINE,
)
_WIDE: Final = re.compile(r"[^\S\n]{2,}")


def views(markdown: str) -> tuple[str, ...]:
    """Return the further views that people may see of a text beside its written form, nothing if there are none.

    First the text with the labels of links alone, then with their addresses, then without formatting that other readers
    may know.
    """
    if not _MARKED.search(clean(markdown)):
        return ()
    leaves = parsed(markdown)
    plain = "\n".join((_text(leaves), *(leaf.language for leaf in leaves if leaf.language)))
    made = [plain]
    if links := list(dict.fromkeys(span.link for leaf in leaves for span in leaf.spans if span.link)):
        decoded = [unquote(link) for link in links if unquote(link) != link]
        made.append("\n".join((_text(leaves, links=True), *decoded)))
    made.append(_WIDE.sub(" ", _VANISHING.sub("", plain)))
    return tuple(view for view in dict.fromkeys(made) if view != markdown)


def _text(leaves: Iterable[Leaf], *, links: bool = False) -> str:
    return "\n".join(
        "".join(span.text for span in (_told(leaf.spans) if links else leaf.spans)) for leaf in leaves if leaf.spans
    )


def _told(spans: Iterable[Span]) -> Iterator[Span]:
    for group in labelled(spans):
        yield from told(*group)
