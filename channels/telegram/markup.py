"""Leaves as a page of styled text, as it runs down before it is cut into messages.

Each run of text has the styles that hold for it. How Markdown is read is `channels.markdown`'s matter, and what a
message may be is `render`'s.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from channels.leaves import Leaf, Shape, Span, labelled, same

_DEEPEST: Final = 6
_INDENT: Final = "  "
_RULE: Final = "———"
# What Telegram takes for the address of a link; it refuses the whole message for one that it does not.
_HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)+(?:[a-z]{2,}|xn--[a-z0-9-]+)|(?:\d{1,3}\.){3}\d{1,3}")
_LONGEST_ADDRESS: Final = 2048


@dataclass(frozen=True, slots=True)
class Style:
    """One way a text is shown: the type of a Telegram entity, and the address or language that some have."""

    kind: str
    url: str = ""
    language: str = ""


CODE: Final = Style("code")
_QUOTE: Final = Style("blockquote")
_BOLD: Final = Style("bold")
_LOOKS: Final[Mapping[str, Style]] = MappingProxyType(
    {"bold": _BOLD, "italic": Style("italic"), "strike": Style("strikethrough"), "code": CODE}
)


@dataclass(frozen=True, slots=True)
class Run:
    """A text, and the styles of all of it."""

    text: str
    styles: tuple[Style, ...] = ()


def page(leaves: Iterable[Leaf], *, links: bool) -> list[Run]:
    """Return the text of leaves, with its styles.

    Without `links`, an address is written out behind its label instead of being put under it.
    """
    runs = list[Run]()
    last: Leaf | None = None
    for leaf in leaves:
        around = (_QUOTE,) if leaf.quoted else ()
        if last is not None:
            runs.append(Run("\n" if leaf.near else "\n\n", around if leaf.quote == last.quote else ()))
        runs.append(Run(_lead(leaf), around))
        runs += (Run(run.text, (*around, *run.styles)) for run in _drawn(leaf, links=links))
        last = leaf
    return runs


def can_be_linked(url: str) -> bool:
    """Tell whether an address may be put under a text: of the web alone, and such as Telegram accepts."""
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return False
    plain = "@" not in parts.netloc and url.isascii() and len(url) <= _LONGEST_ADDRESS
    return parts.scheme in {"http", "https"} and bool(_HOST.fullmatch(parts.hostname or "")) and port_is_valid and plain


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


def _lead(leaf: Leaf) -> str:
    """Return what stands before a leaf on its line: its indent, and the marker of an item."""
    depth = min(leaf.depth, _DEEPEST)
    if leaf.bullet or leaf.number is not None:
        marker = "•" if leaf.bullet else f"{leaf.number}."
        return _INDENT * (depth - 1) + (f"{marker} " if leaf.spans else marker)
    return "" if leaf.shape is Shape.CODE else _INDENT * depth


def _drawn(leaf: Leaf, *, links: bool) -> Iterator[Run]:
    match leaf.shape:
        case Shape.RULE:
            yield Run(_RULE)
        case Shape.CODE:
            yield Run(leaf.text, (Style("pre", language=leaf.language),))
        case shape:
            styles = (_BOLD,) if shape is Shape.HEADING else ()
            line = "\n" + _INDENT * min(leaf.depth, _DEEPEST)
            for run in _inline(leaf.spans, links=links):
                yield Run(run.text.replace("\n", line), (*styles, *run.styles))


def _inline(spans: Iterable[Span], *, links: bool) -> Iterator[Run]:
    for link, label, held in labelled(spans):
        if link and links and can_be_linked(link):
            # Telegram has no code within a link; the link is what cannot be seen otherwise.
            under = Style("text_link", url=link)
            yield from (Run(span.text, (*_looks(span, "code"), under)) for span in held)
        else:
            yield from (Run(span.text, _looks(span)) for span in held)
            if link and not same(link, label):
                yield from (Run(" ("), Run(link, (CODE,)), Run(")"))


def _looks(span: Span, but: str = "") -> tuple[Style, ...]:
    return tuple(style for name, style in _LOOKS.items() if name != but and getattr(span, name))
