"""The Markdown of an answer, as messages for Telegram: pure functions, which know neither readers nor how to send.

Telegram counts in UTF-16 code units, after formatting is taken out of the text. `page` makes a page of styled text, as
it runs down before it is cut into messages. `render` makes parts that fit into one message each: a text and the
entities that format it, by offsets. Entities are cut with the text, so a code block or a quotation goes on in the next
part. Text that Telegram would make clickable by itself is shown as code where it should not be: addresses with odd
schemes and mentions of all members always. If the answer may hold no links, this includes every clickable text.
`compose` makes the parts of an outbound text, or a file under a first line, and buttons.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from telegram import InlineKeyboardButton, InlineKeyboardMarkup

from channels.messages import FROM_OUTSIDE, OUTSIDE_FILE, Button, Outbound
from channels.rich_text import UNASSIGNED, Leaf, Shape, Span, is_visible, labelled, parsed, same, utf16_units

LONGEST_TEXT: Final = 4096
"""The longest text of a message, in UTF-16 code units after entities are parsed."""
MOST_ENTITIES: Final = 100
"""The most entities of one message."""
MOST_PARTS: Final = 10
"""The most messages one answer is split into before it is better sent as a file."""

_ASTRAL: Final = 0x10000
_LOOK_BACK: Final = 64
_JOINER: Final = "\u200d"
_FLAGS: Final = range(0x1F1E6, 0x1F200)
_EXTENDS: Final = (
    range(0xFE00, 0xFE10),  # variation selectors
    range(0x1F3FB, 0x1F400),  # skin tones
    range(0xE0020, 0xE0080),  # tags, as in the flags of regions
)
# Lone surrogates cannot be encoded. Telegram takes the other characters out itself, so counting them would be wrong.
# The ones that turn the direction of writing would let an answer show a text other than its own.
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_REMOVED: Final = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2028-\u202e\u2066-\u2069{UNASSIGNED}]")


def offsets(text: str) -> Sequence[int]:
    """Return the place of every character in UTF-16 code units, and the length of the whole as the last."""
    return tuple(accumulate((2 if ord(character) >= _ASTRAL else 1 for character in text), initial=0))


def clean(text: str) -> str:
    """Return the text without the characters that Telegram takes out, and with line ends of one kind.

    Those that are not assigned and show as nothing go, too.
    """
    ended = text.replace("\r\n", "\n").replace("\r", "\n")
    return _REMOVED.sub("", _SURROGATES.sub("\ufffd", ended))


def cut(text: str, start: int, end: int) -> int:
    """Return where to end a part that begins at `start` and may reach `end`, both as places of characters.

    A paragraph's end is better than a line's, that than a word's, and any of them than the middle of a word. Each
    counts only in the second half, so that a text never needs more than twice the parts. A character of several code
    points (a flag, an emoji with a skin tone, a letter with accents) stays whole, unless it is longer than any real
    one. The result is greater than `start`.
    """
    if end >= len(text):
        return len(text)
    half = start + (end - start + 1) // 2
    for gap in ("\n\n", "\n", " "):
        found = text.rfind(gap, half, end + 1)
        if found > start:
            return found
    for place in range(end, max(start, end - _LOOK_BACK), -1):
        if not _within_character(text, place):
            return place
    return end


def _within_character(text: str, place: int) -> bool:
    after, before = text[place], text[place - 1]
    if _JOINER in {before, after} or unicodedata.category(after).startswith("M"):
        return True
    if ord(after) in _FLAGS and ord(before) in _FLAGS:
        first = place
        while first > max(0, place - _LOOK_BACK) and ord(text[first - 1]) in _FLAGS:
            first -= 1
        return (place - first) % 2 == 1
    return any(ord(after) in extends for extends in _EXTENDS)


_DEEPEST: Final = 6
_INDENT: Final = "  "
_RULE: Final = "———"
# The addresses that Telegram accepts for a link; it refuses the whole message for any other.
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
    """Return the text before a leaf on its line: its indent, and the marker of an item."""
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
            # Telegram has no code within a link; the link cannot be seen otherwise.
            under = Style("text_link", url=link)
            yield from (Run(span.text, (*_looks(span, "code"), under)) for span in held)
        else:
            yield from (Run(span.text, _looks(span)) for span in held)
            if link and not same(link, label):
                yield from (Run(" ("), Run(link, (CODE,)), Run(")"))


def _looks(span: Span, but: str = "") -> tuple[Style, ...]:
    return tuple(style for name, style in _LOOKS.items() if name != but and getattr(span, name))


LONGEST_SOURCE: Final = MOST_PARTS * LONGEST_TEXT
"""The longest source, in characters, that is read as Markdown; a longer one is better a file and is shown as it is.

It bounds the time of a hostile source: the worst of them (`![`) took 35 µs of CPU a character. So a caller that shares
its thread with others renders a source of more than a few thousand characters in another thread.
"""

_TOKEN: Final = re.compile(r"\S+")
_ODD_SCHEME: Final = re.compile(r"(?<!http)(?<!https)://", re.IGNORECASE)
_EVERYBODY: Final = re.compile(r"@(?:all|channel|everyone|here)\b", re.IGNORECASE)
_CLICKABLE: Final = re.compile(r"://|[@#$\uff03]\w|(?<!\w)/\w|[\w-]\.[^\W\d_]{2}|\d(?:\.\d+){3}")
# The same length in UTF-16, look alike, and are a part of no address, name, tag or command.
_LOOKALIKES: Final = str.maketrans(
    {".": "\u2024", "@": "\uff20", "#": "\u266f", "\uff03": "\u266f", "$": "\uff04", "/": "\u2215"}
)


@dataclass(frozen=True, slots=True)
class Entity:
    """How Telegram is to show a stretch of a text. `offset` and `length` count UTF-16 code units."""

    kind: str
    offset: int
    length: int
    url: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class TelegramPart:
    """One message: its text, the entities in order, and the text to send instead if Telegram refuses them.

    `plain` names the addresses of links where there is room; it fits into one message, and holds nothing that can be
    clicked where the part does not either.
    """

    text: str
    entities: tuple[Entity, ...]
    plain: str


@dataclass(frozen=True, slots=True)
class Rendering:
    """The parts, none for a text without anything visible, and whether their number makes a file better."""

    parts: tuple[TelegramPart, ...]
    as_file: bool


@dataclass(frozen=True, slots=True)
class _Span:
    """A style and the characters it holds for."""

    begin: int
    end: int
    style: Style


def render(source: str, *, links: bool, verbatim: bool = False, mark: str = "") -> Rendering:
    """Return the messages that show a Markdown source, or with `verbatim` a text as it is written.

    `links` tells whether anything in them may be clicked; without it, addresses are shown as code. A `mark` stands
    above each message, outside of the text.
    """
    text = clean(source)
    read_runs = [Run(text)] if verbatim or len(text) > LONGEST_SOURCE else page(parsed(text), links=links)
    # `&#8238;` becomes a character only when it is read
    runs = [Run(clean(run.text), run.styles) for run in read_runs]
    shown = "".join(run.text for run in runs)
    dead = list(_dead(shown, links=links))
    spans = _spans(split_at(runs, iter(dead), CODE))
    room = _Room(LONGEST_TEXT - utf16_units(mark) - len("\n"), MOST_ENTITIES - 1) if mark else _Room()
    parts = tuple(_marked(part, mark) for part in _parts(shown, spans, links=links, room=room))
    return Rendering(parts, as_file=len(parts) > MOST_PARTS or len(text) > LONGEST_SOURCE)


def _dead(text: str, *, links: bool) -> Iterator[tuple[int, int]]:
    """Yield the places of words that must not come alive in a message."""
    for word in _TOKEN.finditer(text):
        found = word.group()
        if _ODD_SCHEME.search(found) or _EVERYBODY.search(found) or (not links and _CLICKABLE.search(found)):
            yield word.span()


def _holding(styles: tuple[Style, ...]) -> frozenset[Style]:
    """Return the styles that Telegram can show at once: code goes with nothing but a quotation around it."""
    kinds = {style.kind for style in styles}
    if "pre" in kinds:
        return frozenset(style for style in styles if style.kind in {"pre", "blockquote"})
    if "code" in kinds:
        return frozenset(style for style in styles if style.kind in {"code", "blockquote"})
    return frozenset(styles)


def _spans(runs: Iterator[Run]) -> list[_Span]:
    """Return where each style holds, in order and nested.

    Telegram refuses entities that overlap without one holding the other, so a style that goes on where an outer one
    ends is ended with it and begun again.
    """
    spans: list[_Span] = []
    begun: dict[Style, int] = {}
    place = 0
    for run in runs:
        holding = _holding(run.styles)
        ended = next((number for number, style in enumerate(begun) if style not in holding), len(begun))
        spans.extend(_Span(begun.pop(style), place, style) for style in list(begun)[ended:])
        for style in sorted(holding, key=lambda style: (style.kind != "blockquote", style.kind, style.url)):
            begun.setdefault(style, place)
        place += len(run.text)
    spans.extend(_Span(begin, place, style) for style, begin in begun.items())
    return sorted(spans, key=lambda span: (span.begin, -span.end, span.style.kind != "blockquote"))


@dataclass(frozen=True, slots=True)
class _Room:
    """The room that a message has for a text: UTF-16 code units and entities."""

    units: int = LONGEST_TEXT
    entities: int = MOST_ENTITIES


def _marked(part: TelegramPart, mark: str) -> TelegramPart:
    if not mark:
        return part
    length = utf16_units(mark)
    moved = (replace(entity, offset=entity.offset + length + len("\n")) for entity in part.entities)
    entities = (Entity("bold", 0, length), *moved)
    return TelegramPart(f"{mark}\n{part.text}", entities, f"{mark}\n{part.plain}")


def _parts(text: str, spans: list[_Span], *, links: bool, room: _Room) -> Iterator[TelegramPart]:
    units = offsets(text)
    begins = [span.begin for span in spans]
    carried: list[_Span] = []
    start = 0
    while (start := _skipped(text, start)) < len(text):
        carried = [span for span in carried if span.end > start]
        first = bisect_left(begins, start)
        end = bisect_right(units, units[start] + room.units) - 1
        last = first + room.entities - len(carried)
        if last < len(spans):
            end = min(end, spans[last].begin)
        stop = cut(text, start, end)
        within = carried + spans[first : bisect_left(begins, stop)]
        stop = _before_code(within, start, stop, units=units, room=room.units)
        inside = [span for span in within if span.begin < stop]
        made = _part(text[start:stop], start, inside, links=links, room=room.units)
        if is_visible(made.text):
            yield made
        carried = [span for span in within if span.begin < stop < span.end]
        start = stop


def _skipped(text: str, start: int) -> int:
    """Return where the next part begins: not with the gap that the last one was cut at."""
    if start and text.startswith(" ", start):
        return start + 1
    while text.startswith("\n", start):
        start += 1
    return start


def _before_code(within: list[_Span], start: int, stop: int, *, units: Sequence[int], room: int) -> int:
    """Return a place to cut that leaves a code block whole, if that fits into the next part."""
    for span in within:
        broken = span.style.kind == "pre" and span.begin < stop < span.end
        if broken and span.begin - start > (stop - start) // 4 and units[span.end] - units[span.begin] <= room:
            return span.begin
    return stop


def _part(text: str, start: int, within: list[_Span], *, links: bool, room: int) -> TelegramPart:
    shown = text.rstrip()
    units = offsets(shown)
    spans: list[_Span] = []
    for span in within:
        begin, end = max(0, span.begin - start), min(len(shown), span.end - start)
        if begin < end and not shown[begin:end].isspace():
            spans.append(_Span(begin, end, span.style))
    entities = tuple(
        Entity(
            span.style.kind, units[span.begin], units[span.end] - units[span.begin], span.style.url, span.style.language
        )
        for span in spans
    )
    return TelegramPart(shown, entities, _plain(shown, spans, links=links, room=room))


def _plain(text: str, spans: list[_Span], *, links: bool, room: int) -> str:
    pieces: list[str] = []
    place = 0
    for begin, end in _dead(text, links=links):
        pieces += (text[place:begin], text[begin:end].translate(_LOOKALIKES))
        place = end
    dead = "".join((*pieces, text[place:]))
    pieces, place = [], 0
    for span in spans:
        if span.style.url and text[span.begin : span.end] != span.style.url:
            pieces += (dead[place : span.end], f" ({span.style.url})")
            place = span.end
    addressed = "".join((*pieces, dead[place:]))
    return addressed if utf16_units(addressed) <= room else dead


REPEATED: Final = "(may have been shown before)"
EMPTY: Final = "(nothing to show)"
FILE: Final = "answer.md"

LEFT_OUT: Final = f"(the rest is left out: this chat does not take the file {FILE})"
"""The end of a text that was to be a file and is longer than a message can show instead."""

_SPELLED: Final = 2 * MOST_PARTS
"""As how many messages a text is shown, at most, whose file is refused."""

_DATA: Final = 64
_LABEL: Final = 64
_BUTTONS: Final = 100
_ROW: Final = 2
_LEAD: Final = 200


@dataclass(frozen=True, slots=True)
class TelegramMessages:
    """Parts in order; with `file`, the single part stands above it. The keyboard is for the last."""

    parts: tuple[TelegramPart, ...]
    file: bytes = b""
    keyboard: InlineKeyboardMarkup | None = None
    name: str = FILE


def compose(outbound: Outbound) -> TelegramMessages:
    """Return the messages; rendering a long text takes a while."""
    text, repeated, keyboard = _whole(outbound)
    shown = partial(render, links=outbound.links, verbatim=outbound.kind.verbatim, mark=_mark(outbound))
    rendering = shown(text) if len(text) <= LONGEST_SOURCE else None
    if rendering is None or rendering.as_file:
        lead = shown(f"{repeated}{_first_line(outbound.text)}").parts
        name = OUTSIDE_FILE if outbound.untrusted else FILE
        return TelegramMessages(lead[:1] or _empty(), clean(text).encode(), keyboard, name)
    return TelegramMessages(rendering.parts or _empty(), keyboard=keyboard)


def spelled(outbound: Outbound) -> TelegramMessages:
    """Return the messages of a text whose file is refused: all of it, or its beginning and that the rest is left out.

    Rendering it takes a while.
    """
    text, _, keyboard = _whole(outbound)
    begun = text[: (_SPELLED + 1) * LONGEST_TEXT]
    parts = render(begun, links=outbound.links, verbatim=outbound.kind.verbatim, mark=_mark(outbound)).parts
    if len(parts) > _SPELLED or begun != text:
        parts = (*parts[:_SPELLED], TelegramPart(LEFT_OUT, (), LEFT_OUT))
    return TelegramMessages(parts, keyboard=keyboard)


def _whole(outbound: Outbound) -> tuple[str, str, InlineKeyboardMarkup | None]:
    """Return the whole text with its additions, its mark, and the buttons that can be pressed."""
    fitting = tuple(button for button in outbound.buttons if _fits(button))[:_BUTTONS]
    others = [button for button in outbound.buttons if button not in fitting]
    mark = f"{REPEATED}\n\n" if outbound.repeated else ""
    typed = "".join(f"\n\n{button.label}: `{button.command}`" for button in others)
    return f"{mark}{outbound.text}{typed}", mark, _keyboard(fitting) if fitting else None


def _mark(outbound: Outbound) -> str:
    return FROM_OUTSIDE if outbound.untrusted else ""


def _empty() -> tuple[TelegramPart, ...]:
    return (TelegramPart(EMPTY, (), EMPTY),)


def _first_line(text: str) -> str:
    line = next((line for line in text[:LONGEST_SOURCE].splitlines() if is_visible(line)), "")
    return line if len(line) <= _LEAD else f"{line[:_LEAD]}…"


def _fits(button: Button) -> bool:
    """Tell whether a button can carry its command; one that cannot is written below the text."""
    command = clean(button.command)
    return command == button.command and len(command.encode()) <= _DATA and is_visible(button.label)


def _keyboard(buttons: tuple[Button, ...]) -> InlineKeyboardMarkup:
    keys = [InlineKeyboardButton(clean(button.label)[:_LABEL], callback_data=button.command) for button in buttons]
    return InlineKeyboardMarkup([keys[place : place + _ROW] for place in range(0, len(keys), _ROW)])
