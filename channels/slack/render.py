"""What a model wrote, as messages for Slack: `rich_text` blocks, each message with a plain text beside them.

Slack's `markdown` block would take the model's text as it is, and with it Slack's own marks for mentions and its
guessing of links. In `rich_text` a mention or a link is an element of its own kind, and everything else is text that
nothing is read into: what these functions do not make, a model cannot write. A table is preformatted text, as
Slack's table block is one to a message and has limits of its own. The plain text is for notifications, screen
readers, and for another try where Slack refuses the blocks. Callers send it with `QUIET`, so that Slack neither
fetches addresses nor makes mentions of names. How Markdown is read is `channels.markdown`'s matter.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from channels.leaves import Leaf, Shape, Span, clean, linked, unlinked
from channels.markdown import parsed
from channels.slack.limits import ACTIONS, BLOCKS, INDENT, LINK, PARTS, TEXT, size, visible

QUIET: Final[Mapping[str, Any]] = MappingProxyType(
    {"unfurl_links": False, "unfurl_media": False, "link_names": False, "parse": "none"}
)
"""What goes with every text of a model's: no mentions from names, and no fetching of addresses."""

_Json = dict[str, Any]
_FENCE: Final = "```"
_TICKS: Final = "`\u200b`"
_SLICE: Final = 600
_RULE: Final = "———"
_FRAME: Final = 100
_AT: Final = "@\u2060"  # a word joiner, so that no name follows the sign
_STYLES: Final = ("bold", "italic", "strike", "code")


@dataclass(frozen=True, slots=True)
class Part:
    """One message: its blocks, and the text that stands for them."""

    blocks: tuple[_Json, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """The messages in order, none if nothing is visible; `as_file` tells that they are too many to read as such."""

    parts: tuple[Part, ...]
    as_file: bool


def render(markdown: str, *, links: bool, verbatim: bool = False) -> Rendered:
    """Return the messages that show a text, or with `verbatim` show it as it is written.

    Without `links` every address is shown as code and the plain text is preformatted: nothing can be clicked.
    """
    made = [_Message(links=links)]
    for leaf in (Leaf(Shape.TEXT, (Span(clean(markdown)),)),) if verbatim else parsed(markdown):
        shown = replace(leaf, spans=tuple(linked(leaf.spans) if links else unlinked(leaf.spans)))
        for piece in _pieces(_drawn(shown), links=links):
            if not made[-1].takes(piece):
                made.append(_Message(links=links))
            made[-1].add(piece)
    parts = tuple(message.part() for message in made if visible(message.text))
    return Rendered(parts, as_file=len(parts) > PARTS)


def escaped(text: str) -> str:
    """Return a text that Slack shows as it is written, mentioning nobody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", _AT)


def preformatted(text: str) -> str:
    """Return a text as one fence that nothing in it can close, escaped: no client makes links there."""
    return f"{_FENCE}\n{_unclosing(text)}\n{_FENCE}"


def _unclosing(text: str) -> str:
    return escaped(text.replace("``", _TICKS))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A leaf, or a part of one that is too long for a message: `rest` tells that its beginning stands before it."""

    leaf: Leaf
    rest: bool = False


@dataclass(slots=True)
class _Message:
    """A message being filled."""

    links: bool
    elements: list[_Json] = field(default_factory=list[_Json])
    text: str = ""
    last: Leaf | None = None
    used: int = _FRAME
    length: int = 2 * (len(_FENCE) + 1)

    def takes(self, piece: _Piece) -> bool:
        """Return whether a piece has room; an empty message takes any."""
        if not self.text:
            return True
        return (
            self.used + _weight(piece.leaf) <= BLOCKS - ACTIONS
            and self.length + self._measured(self._added(piece)) <= TEXT
        )

    def add(self, piece: _Piece) -> None:
        """Put a piece at the end."""
        leaf = piece.leaf
        added = self._added(piece)
        self.text += added
        self.length += self._measured(added)
        self.used += _weight(leaf)
        elements = [_element(span) for span in leaf.spans]
        target, gap = self._open(piece)
        self.last = leaf
        if leaf.shape is Shape.CODE:
            self.elements.append(_framed("rich_text_preformatted", elements, leaf))
        elif target is not None:
            target += [_element(Span(gap)), *elements] if gap else elements
        elif leaf.bullet or leaf.number is not None:
            self._item(leaf, elements or [_element(Span(" "))])
        else:
            self.elements.append(_framed(_kind(leaf), elements, leaf))

    def part(self) -> Part:
        """Return it as it is sent."""
        text = self.text.strip("\n")
        block: _Json = {"type": "rich_text", "elements": self.elements}
        return Part((block,), text if self.links else preformatted(text))

    def _open(self, piece: _Piece) -> tuple[list[_Json] | None, str]:
        """Return the elements that a piece goes on with, if it does, and what stands between."""
        leaf, last = piece.leaf, self.last
        if last is None or leaf.bullet or leaf.number is not None or last.shape is Shape.CODE:
            return None, ""
        before = self.elements[-1]
        if piece.rest:
            in_item = before["type"] == "rich_text_list"
            return (before["elements"][-1] if in_item else before)["elements"], ""
        if before["type"] == "rich_text_list" and leaf.depth == last.depth and leaf.quoted == last.quoted:
            return before["elements"][-1]["elements"], "\n"
        # Sections of their own would stand as close as lines do.
        return (before["elements"], "\n\n") if before["type"] == _kind(leaf) else (None, "")

    def _item(self, leaf: Leaf, elements: list[_Json]) -> None:
        style = "bullet" if leaf.number is None else "ordered"
        indent = min(leaf.depth - 1, INDENT)
        section = {"type": "rich_text_section", "elements": elements}
        last = self.elements[-1] if self.elements else {}
        like = (last.get("type"), last.get("style"), last.get("indent"), bool(last.get("border")))
        if like == ("rich_text_list", style, indent, leaf.quoted):
            last["elements"].append(section)
            return
        opened = _framed("rich_text_list", [section], leaf) | {"style": style, "indent": indent}
        # A list that goes on after code, a deeper list or another message keeps its numbers.
        self.elements.append(opened | ({"offset": leaf.number - 1} if leaf.number and leaf.number > 1 else {}))

    def _added(self, piece: _Piece) -> str:
        """Return what a piece adds to the plain text."""
        leaf = piece.leaf
        if leaf.shape is Shape.CODE:
            told = preformatted(leaf.text) if self.links else leaf.text
        else:
            told = escaped(leaf.text) if self.links else leaf.text
        if piece.rest and self.last is not None and leaf.shape is not Shape.CODE:
            return told
        mark = "• " if leaf.bullet else "" if leaf.number is None else f"{leaf.number}. "
        told = f"{'    ' * max(leaf.depth - 1, 0)}{mark}{told}"
        if leaf.quoted and leaf.shape is not Shape.CODE:
            quote = "&gt; " if self.links else "> "
            told = "\n".join(f"{quote}{line}" for line in told.split("\n"))
        if self.last is None:
            return told
        return ("\n" if mark and self.last.depth else "\n\n") + told

    def _measured(self, added: str) -> int:
        # Two ticks may also meet where this is joined to the rest.
        return size(added) if self.links else size(_unclosing(added)) + 1


def _drawn(leaf: Leaf) -> Leaf:
    """Return a leaf with what Slack has no element for, drawn with what it has."""
    if leaf.shape is Shape.RULE:
        return replace(leaf, shape=Shape.TEXT, spans=(Span(_RULE),))
    if leaf.shape is Shape.HEADING:
        return replace(leaf, spans=tuple(replace(span, bold=True) for span in leaf.spans))
    return leaf


def _pieces(leaf: Leaf, *, links: bool) -> Iterator[_Piece]:
    """Yield a leaf whole if some message can hold it, otherwise slices of it that do."""
    if _Message(links=links, text=" ").takes(_Piece(leaf)):
        yield _Piece(leaf)
        return
    rest = False
    for spans in _slices(leaf.spans):
        opened = leaf if not rest else replace(leaf, bullet=False, number=None)
        yield _Piece(replace(opened, spans=spans), rest=rest)
        rest = True


def _slices(spans: tuple[Span, ...]) -> Iterator[tuple[Span, ...]]:
    """Yield runs of spans that no escaping makes too long, cut behind a line, else a word, else a character."""
    held: list[Span] = []
    room = _SLICE
    for span in spans:
        left = span
        while left.text:
            cost = _FRAME // 4 + size(left.link) // 4
            if held and room < cost + min(len(left.text), _FRAME):
                yield tuple(held)
                held, room = [], _SLICE
            at = _cut(left.text, max(room - cost, _FRAME))
            held.append(replace(left, text=left.text[:at]))
            room -= at + cost
            # Only the beginning of a label that is cut stays a link, so that a long address is not repeated.
            left = replace(left, text=left.text[at:], link="")
    yield tuple(held)


def _cut(text: str, most: int) -> int:
    """Return how many characters, at most so many, end at the best place to cut."""
    if len(text) <= most:
        return len(text)
    for mark in ("\n", " "):
        if (at := text.rfind(mark, most // 2, most)) >= 0:
            return at + 1
    return most


def _element(span: Span) -> _Json:
    style = {name: True for name in _STYLES if getattr(span, name)}
    made: _Json = {"type": "text", "text": span.text}
    if span.link and size(span.link) <= LINK:
        made = {"type": "link", "url": span.link, "text": span.text}
    return made | ({"style": style} if style else {})


def _kind(leaf: Leaf) -> str:
    return "rich_text_quote" if leaf.quoted else "rich_text_section"


def _framed(kind: str, elements: list[_Json], leaf: Leaf) -> _Json:
    """Return an element of a block; a bar beside it stands for the quote it cannot be in."""
    border = {"border": 1} if leaf.quoted and kind in {"rich_text_list", "rich_text_preformatted"} else {}
    return {"type": kind, "elements": elements} | border


def _weight(leaf: Leaf) -> int:
    """Return the most that a leaf adds to the blocks; one that opens an item may open a list, too."""
    frame = 2 * _FRAME if leaf.bullet or leaf.number is not None else _FRAME
    return frame + sum(2 + size(json.dumps(_element(span), ensure_ascii=False)) for span in leaf.spans)
