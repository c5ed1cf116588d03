"""The Markdown of an answer, as messages for Telegram.

`render` makes parts that fit into one message each: a text and the entities that format it, by offsets in UTF-16 code
units. Entities are cut with the text, so a code block or a quotation goes on in the next part. What Telegram would make
clickable by itself is shown as code where it should not be: addresses with odd schemes and calls to everybody always,
and whatever can be clicked when the answer may hold no links. Pure functions; who reads the messages, and how they are
sent, is not known here.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from channels.markdown import parsed
from channels.telegram import limits
from channels.telegram.markup import CODE, Run, Style, page, split_at

LONGEST_SOURCE: Final = limits.PARTS * limits.TEXT
"""The longest source, in characters, that is read as Markdown; what is longer is better a file and is shown as it is.

It bounds the time a hostile source can take: 35 µs of CPU a character were measured for the worst of them (`![`), so a
caller that shares its thread with others renders what is longer than a few thousand characters in another one.
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
class Part:
    """One message: its text, the entities in order, and the text to send instead if Telegram refuses them.

    `plain` names the addresses of links where there is room; it fits into one message, and holds nothing that can be
    clicked where the part does not either.
    """

    text: str
    entities: tuple[Entity, ...]
    plain: str


@dataclass(frozen=True, slots=True)
class Rendering:
    """The parts, none where there is nothing to see, and whether there are so many that a file is better."""

    parts: tuple[Part, ...]
    as_file: bool


@dataclass(frozen=True, slots=True)
class _Span:
    """A style and the characters it holds for."""

    begin: int
    end: int
    style: Style


def render(source: str, *, links: bool, verbatim: bool = False) -> Rendering:
    """Return the messages that show a Markdown source, or with `verbatim` a text as it is written.

    `links` tells whether anything in them may be clicked; without it, addresses are shown as code.
    """
    text = limits.clean(source)
    read_runs = [Run(text)] if verbatim or len(text) > LONGEST_SOURCE else page(parsed(text), links=links)
    # `&#8238;` becomes a character only when it is read
    runs = [Run(limits.clean(run.text), run.styles) for run in read_runs]
    shown = "".join(run.text for run in runs)
    dead = list(_dead(shown, links=links))
    spans = _spans(split_at(runs, iter(dead), CODE))
    parts = tuple(_parts(shown, spans, links=links))
    return Rendering(parts, as_file=len(parts) > limits.PARTS or len(text) > LONGEST_SOURCE)


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


def _parts(text: str, spans: list[_Span], *, links: bool) -> Iterator[Part]:
    units = limits.offsets(text)
    begins = [span.begin for span in spans]
    carried: list[_Span] = []
    start = 0
    while (start := _skipped(text, start)) < len(text):
        carried = [span for span in carried if span.end > start]
        first = bisect_left(begins, start)
        end = bisect_right(units, units[start] + limits.TEXT) - 1
        last = first + limits.ENTITIES - len(carried)
        if last < len(spans):
            end = min(end, spans[last].begin)
        stop = limits.cut(text, start, end)
        within = carried + spans[first : bisect_left(begins, stop)]
        stop = _before_code(within, start, stop, units)
        made = _part(text[start:stop], start, [span for span in within if span.begin < stop], links=links)
        if limits.visible(made.text):
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


def _before_code(within: list[_Span], start: int, stop: int, units: Sequence[int]) -> int:
    """Return a place to cut that leaves a code block whole, if that fits into the next part."""
    for span in within:
        broken = span.style.kind == "pre" and span.begin < stop < span.end
        if broken and span.begin - start > (stop - start) // 4 and units[span.end] - units[span.begin] <= limits.TEXT:
            return span.begin
    return stop


def _part(text: str, start: int, within: list[_Span], *, links: bool) -> Part:
    shown = text.rstrip()
    units = limits.offsets(shown)
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
    return Part(shown, entities, _plain(shown, spans, links=links))


def _plain(text: str, spans: list[_Span], *, links: bool) -> str:
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
    return addressed if limits.units(addressed) <= limits.TEXT else dead
