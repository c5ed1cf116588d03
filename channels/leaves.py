"""What a text is read into: a flat row of leaves, of spans that have one look each, and the links among them.

What is a link, and whether it may be one, is decided here for adapters that ask; nothing here knows Markdown.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Final

UNASSIGNED: Final = "\u2065\ufff0-\ufff8\U000e0000\U000e0002-\U000e001f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
"""What Unicode has not assigned and has everybody show as nothing (Default_Ignorable_Code_Point), for a set of RE."""

_DROPPED: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff{UNASSIGNED}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
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
    """What a leaf is shown as; a table is CODE with its columns aligned."""

    TEXT = "text"
    HEADING = "heading"
    CODE = "code"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One paragraph, heading, piece of code, table or rule.

    `quote` is the quotation it is in, counted from 1: one within another is a part of that. `depth` is how many lists
    it stands in. `number` and `bullet` tell that it opens an item of the innermost. `language` is what a fence says
    after its ticks. `near` tells that there is no empty line between it and the leaf before.
    """

    shape: Shape
    spans: tuple[Span, ...]
    quote: int = 0
    depth: int = 0
    bullet: bool = False
    number: int | None = None
    language: str = ""
    near: bool = False

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
    """Yield the spans of one link after the other, or what is in none, with the link and the whole of its label."""
    for link, group in groupby(spans, key=lambda span: span.link):
        held = list(group)
        yield link, "".join(span.text for span in held).strip(), held


def same(link: str, label: str) -> bool:
    """Tell whether the label of a link tells already where it leads."""
    return link in {label, f"mailto:{label}"}


def told(link: str, label: str, held: Sequence[Span]) -> Iterator[Span]:
    """Yield what is in one link as text, with its address behind it where the label is another."""
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
