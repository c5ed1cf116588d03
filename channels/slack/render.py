"""A model's text, as messages for Slack: `rich_text` blocks, each message with a plain text beside them. Pure.

Slack's `markdown` block would take the model's text as it is, and with it Slack's own marks for mentions and its
guessing of links. In `rich_text` a mention or a link is an element of its own kind, and everything else is plain text.
So a model can write no element that these functions do not make. A table is preformatted text, as Slack's table block
is one to a message and has limits of its own. The plain text is for notifications, screen readers, and for another try
where Slack refuses the blocks. Callers send it with `QUIET`, so that Slack neither fetches addresses nor makes mentions
of names. `compose` makes the messages of an outbound text, or a file under a first line, and buttons.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from channels.messages import FROM_OUTSIDE, OUTSIDE_FILE, Button, Outbound, OutboundKind
from channels.rich_text import Leaf, Shape, Span, clean, is_visible, linked, parsed, unlinked, utf16_units

LONGEST_TEXT: Final = 4_000
"""Of `text`, escaped, in UTF-16 units: the limit of `chat.update`; `chat.postMessage` takes 40,000 and advises this."""

LONGEST_BLOCKS: Final = 12_000
"""Of all blocks of a message as JSON, in UTF-16 units: `msg_blocks_too_long` comes a little above that."""

LONGEST_ACTIONS: Final = 2_000
"""Of the blocks with buttons, as JSON in UTF-16 units: the blocks above leave them this much of `LONGEST_BLOCKS`."""

LONGEST_LABEL: Final = 75
"""Of a button's label, in characters."""

MOST_BLOCKS: Final = 50
"""Of blocks in one message."""

LONGEST_LINK: Final = 3_000
"""Of one address that is a link, in characters."""

MOST_PARTS: Final = 10
"""Of messages that an answer may be shown as; a longer one is easier to read as a file."""

DEEPEST_INDENT: Final = 8
"""Of levels that a list may be indented by."""


QUIET: Final[Mapping[str, Any]] = MappingProxyType(
    {"unfurl_links": False, "unfurl_media": False, "link_names": False, "parse": "none"}
)
"""The parameters of every text of a model's: no mentions from names, and no fetching of addresses."""

_Json = dict[str, Any]
_FENCE: Final = "```"
_TICKS: Final = "`\u200b`"
_SLICE: Final = 600
_RULE: Final = "———"
_FRAME: Final = 100
_AT: Final = "@\u2060"  # a word joiner, so that no name follows the sign
_STYLES: Final = ("bold", "italic", "strike", "code")


@dataclass(frozen=True, slots=True)
class SlackPart:
    """One message: its blocks, and the text that stands for them."""

    blocks: tuple[_Json, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """The messages in order, none if nothing is visible; `as_file` tells that they are too many to read as such."""

    parts: tuple[SlackPart, ...]
    as_file: bool


def render(markdown: str, *, links: bool, verbatim: bool = False, mark: str = "") -> Rendered:
    """Return the messages that show a text, or with `verbatim` show it as it is written.

    Without `links` every address is shown as code and the plain text is preformatted: nothing can be clicked. A `mark`
    stands above each message, outside of the text.
    """
    made = [_Message(links=links, mark=mark)]
    for leaf in (Leaf(Shape.TEXT, (Span(clean(markdown)),)),) if verbatim else parsed(markdown):
        shown = replace(leaf, spans=tuple(linked(leaf.spans) if links else unlinked(leaf.spans)))
        for piece in _pieces(_drawn(shown), links=links, mark=mark):
            if not made[-1].takes(piece):
                made.append(_Message(links=links, mark=mark))
            made[-1].add(piece)
    parts = tuple(message.part() for message in made if is_visible(message.text))
    return Rendered(parts, as_file=len(parts) > MOST_PARTS)


def escaped(text: str) -> str:
    """Return a text that Slack shows as it is written, without mentions."""
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
    mark: str = ""
    elements: list[_Json] = field(default_factory=list[_Json])
    text: str = ""
    last: Leaf | None = None
    used: int = _FRAME
    length: int = 2 * (len(_FENCE) + 1)

    def takes(self, piece: _Piece) -> bool:
        """Return whether a piece has room; an empty message takes any."""
        if not self.text:
            return True
        taken = _FRAME + utf16_units(self.mark) if self.mark else 0
        return (
            self.used + _weight(piece.leaf) <= LONGEST_BLOCKS - LONGEST_ACTIONS - taken
            and self.length + self._measured(self._added(piece)) <= LONGEST_TEXT - taken
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

    def part(self) -> SlackPart:
        """Return it as it is sent."""
        text = self.text.strip("\n")
        block: _Json = {"type": "rich_text", "elements": self.elements}
        shown = text if self.links else preformatted(text)
        if not self.mark:
            return SlackPart((block,), shown)
        said: _Json = {"type": "plain_text", "text": self.mark, "emoji": False}
        return SlackPart(({"type": "context", "elements": [said]}, block), f"{escaped(self.mark)}\n{shown}")

    def _open(self, piece: _Piece) -> tuple[list[_Json] | None, str]:
        """Return the elements that a piece continues, if any, and the text between them."""
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
        indent = min(leaf.depth - 1, DEEPEST_INDENT)
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
        """Return the plain text that a piece adds."""
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
        return utf16_units(added) if self.links else utf16_units(_unclosing(added)) + 1


def _drawn(leaf: Leaf) -> Leaf:
    """Return a leaf that Slack has no element for, drawn with existing elements."""
    if leaf.shape is Shape.RULE:
        return replace(leaf, shape=Shape.TEXT, spans=(Span(_RULE),))
    if leaf.shape is Shape.HEADING:
        return replace(leaf, spans=tuple(replace(span, bold=True) for span in leaf.spans))
    return leaf


def _pieces(leaf: Leaf, *, links: bool, mark: str) -> Iterator[_Piece]:
    """Yield a leaf whole if some message can hold it, otherwise slices of it that do."""
    if _Message(links=links, mark=mark, text=" ").takes(_Piece(leaf)):
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
            cost = _FRAME // 4 + utf16_units(left.link) // 4
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
    if span.link and utf16_units(span.link) <= LONGEST_LINK:
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
    return frame + sum(2 + utf16_units(json.dumps(_element(span), ensure_ascii=False)) for span in leaf.spans)


REPEATED: Final = "(may have been shown before)"
EMPTY: Final = "(nothing to show)"
FILE: Final = "answer.md"
LEFT_OUT: Final = f"(the rest is left out: this workspace does not take the file {FILE})"
"""The end of a text that was to be a file and is longer than a message can show instead."""

ACTION: Final = "lockgate.command"
"""The beginning of the `action_id` of every button of ours; its value is the command that it stands for."""

_TOLD: Final = frozenset({OutboundKind.NOTICE, OutboundKind.OFFER})
"""The kinds that hold only the program's own words."""
_LONGEST: Final = MOST_PARTS * LONGEST_TEXT
"""Of the characters that can be shown as messages at all."""
_MOST: Final = 2 * MOST_PARTS
"""As how many messages a text is shown, at most, whose file is refused."""
_LEAD: Final = 200
_COMMAND: Final = re.compile(r"(?<![\w/.~-])/(\w+)(?![\w/-]|\.\w)")


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """One message: its blocks, the text that stands for them, and the text to send instead if Slack refuses them."""

    blocks: tuple[dict[str, Any], ...]
    text: str
    plain: str


@dataclass(frozen=True, slots=True)
class SlackMessages:
    """Messages in order, buttons below the last; with `file`, the single message stands above it."""

    sheets: tuple[SlackMessage, ...]
    file: bytes = b""
    name: str = FILE


def compose(outbound: Outbound, commands: Collection[str] = ()) -> SlackMessages:
    """Return the messages; rendering a long text takes a while.

    In the program's own texts, `commands` are written as they are typed on Slack, which takes a text that begins with a
    slash for a command of its own. Its questions are shown unchanged: they may hold words of others.
    """
    text, repeated, said, fitting = _whole(outbound, commands)
    shown = partial(render, links=outbound.links, verbatim=outbound.kind.verbatim, mark=_mark(outbound))
    rendered = shown(text) if len(text) <= _LONGEST else None
    if rendered is None or rendered.as_file:
        lead = shown(f"{repeated}{_first_line(said)}").parts
        name = OUTSIDE_FILE if outbound.untrusted else FILE
        return SlackMessages(_sheets(lead[:1], fitting), clean(text).encode(), name)
    return SlackMessages(_sheets(rendered.parts, fitting))


def spelled(outbound: Outbound, commands: Collection[str] = ()) -> SlackMessages:
    """Return the messages of a text whose file is refused: all of it, or its beginning and that the rest is left out.

    Rendering it takes a while.
    """
    text, _, _, fitting = _whole(outbound, commands)
    begun = text[: (_MOST + 1) * LONGEST_TEXT]
    verbatim = outbound.kind.verbatim or len(begun) > _LONGEST
    parts = render(begun, links=outbound.links, verbatim=verbatim, mark=_mark(outbound)).parts
    if len(parts) > _MOST or begun != text:
        parts = (*parts[:_MOST], *render(LEFT_OUT, links=True).parts)
    return SlackMessages(_sheets(parts, fitting))


def _whole(outbound: Outbound, commands: Collection[str]) -> tuple[str, str, str, list[Button]]:
    """Return the whole text with its additions, its mark, the text alone, and the buttons that can be pressed."""
    fitting, others = _sorted(outbound.buttons)
    mark = f"{REPEATED}\n\n" if outbound.repeated else ""
    said = _spelled(outbound.text, commands) if outbound.kind in _TOLD else outbound.text
    return f"{mark}{said}{_typed(others)}", mark, said, fitting


def _mark(outbound: Outbound) -> str:
    return FROM_OUTSIDE if outbound.untrusted else ""


def _sheets(parts: tuple[SlackPart, ...], buttons: list[Button]) -> tuple[SlackMessage, ...]:
    *before, last = parts or render(EMPTY, links=True).parts
    ended = SlackMessage(last.blocks + _actions(buttons), last.text, last.text + escaped(_typed(buttons)))
    return (*(SlackMessage(part.blocks, part.text, part.text) for part in before), ended)


def _first_line(text: str) -> str:
    line = next((line for line in text[:_LONGEST].splitlines() if is_visible(clean(line))), "")
    return line if len(line) <= _LEAD else f"{line[:_LEAD]}…"


def _sorted(buttons: tuple[Button, ...]) -> tuple[list[Button], list[Button]]:
    """Return the buttons that can be pressed, and those that have no room and are written below the text."""
    fitting, others = list[Button](), list[Button]()
    for button in buttons:
        whole = clean(button.command) == button.command and is_visible(clean(button.label))
        room = utf16_units(json.dumps(_actions([*fitting, button]), ensure_ascii=False)) <= LONGEST_ACTIONS
        (fitting if whole and room else others).append(button)
    return fitting, others


def _actions(buttons: list[Button]) -> tuple[dict[str, Any], ...]:
    keys = [
        {
            "type": "button",
            "action_id": f"{ACTION}.{number}",
            "text": {"type": "plain_text", "text": clean(button.label)[:LONGEST_LABEL], "emoji": False},
            "value": button.command,
        }
        for number, button in enumerate(buttons)
    ]
    return ({"type": "actions", "elements": keys},) if keys else ()


def _typed(buttons: list[Button]) -> str:
    commands = [(button.label, re.sub(r"^/", "!", button.command)) for button in buttons]
    return "".join(f"\n\n{label}: `{command}`" for label, command in commands)


def _spelled(text: str, commands: Collection[str]) -> str:
    return _COMMAND.sub(lambda found: f"!{found[1]}" if found[1] in commands else found[0], text)


CUT: Final = _sheets(render("(too long to be shown here)", links=True).parts, [])[0]
"""The note below a text of which only the beginning can be shown here."""
