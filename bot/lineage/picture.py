"""A trace as a picture, in SVG: arrows lead from sources to the items made from them.

The library for layered graphs gives each node a layer and a place in it, and routes each edge between the others. The
layers lead to the right, or down where that makes the picture less long. Boxes have one size and cut off longer texts,
so that no two titles meet; the full text shows under the pointer. The library is imported when the first picture is
drawn. All text is escaped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

from bot.core.invisible import one_line
from bot.lineage.graph import LineageNode, NodeKind
from bot.lineage.rendering import title, when
from bot.lineage.tracer import LineageTrace
from policy.labels import Level

_WIDTH: Final = 320
_HEIGHT: Final = 66
_ASIDE: Final = 18
"""Pixels between two boxes of a layer."""

_AHEAD: Final = 70
"""Pixels between two layers."""

_LEFT: Final = 24
_TOP: Final = 124
_BAND: Final = 8
_TITLE: Final = 36
_SMALL: Final = 46
_LEGEND: Final = 150
_LEAST: Final = 1_000
_WIDER: Final = 1.5
"""How much wider than high a screen is."""

_COLOURS: Final = MappingProxyType(
    {
        Level.PUBLIC: ("#e9f5ec", "#2e7d4f"),
        Level.INTERNAL: ("#e8f0fb", "#2b5fa8"),
        Level.CONFIDENTIAL: ("#fff3dc", "#b26a00"),
        Level.RESTRICTED: ("#fde8e8", "#b3261e"),
    }
)
"""The colours of a box and of its border and band, by the level of its item."""

_FONT: Final = 'font-family="DejaVu Sans, Verdana, sans-serif"'
_ARROW: Final = (
    '<defs><marker id="to" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L10 5L0 10z" fill="#555555"/></marker></defs>'
)

_GREY: Final = ("#f1f1f1", "#777777")

Place: TypeAlias = tuple[float, float]
"""A layer and a place in it, which may lie between two places."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The place of each node, and the places that each edge goes over; `down` tells whether the layers lead down."""

    places: dict[int, Place]
    ways: list[list[Place]]
    down: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """The width and height of the picture, in pixels."""
        corners = [self.corner(place) for place in (*self.places.values(), *(one for way in self.ways for one in way))]
        return max(x for x, _ in corners) + _WIDTH + _LEFT, max(y for _, y in corners) + _HEIGHT + _LEFT

    def corner(self, place: Place) -> tuple[float, float]:
        """Return the upper left corner of the box of a place."""
        layer, beside = place
        if self.down:
            return _LEFT + beside * (_WIDTH + _ASIDE), _TOP + layer * (_HEIGHT + _AHEAD)
        return _LEFT + layer * (_WIDTH + _AHEAD), _TOP + beside * (_HEIGHT + _ASIDE)

    def ends(self, place: Place) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the points where edges enter and leave a box."""
        x, y = self.corner(place)
        if self.down:
            return (x + _WIDTH / 2, y), (x + _WIDTH / 2, y + _HEIGHT)
        return (x, y + _HEIGHT / 2), (x + _WIDTH, y + _HEIGHT / 2)


def svg(lineage: LineageTrace) -> str:
    """Return the picture of a page of a trace."""
    nodes = lineage.shown
    numbers = {node.id: number for number, node in enumerate(nodes)}
    # Edges to pages before this one lead out of the picture.
    here = [one for one in lineage.edges if one.source in numbers and one.target in numbers]
    pairs = [(numbers[one.source], numbers[one.target]) for one in here]
    plan = _turned(_planned(len(nodes), [pair for pair in pairs if pair[0] != pair[1]]))
    wide, high = plan.size
    width, height = max(_LEAST, round(wide)), round(high)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {_FONT}>',
        f"<title>{_safe(title(lineage))}</title>",
        _ARROW,
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_legend(lineage, width),
        *(_edge(plan, way) for way in plan.ways),
        *(_box(node, plan.corner(plan.places[one]), node.id in lineage.start) for one, node in enumerate(nodes)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _planned(count: int, pairs: Sequence[tuple[int, int]]) -> _Plan:
    """Return the places of nodes, each connected part below the one before, and those without edges at the end."""
    places, ways, top = dict[int, Place](), list[list[Place]](), 0.0
    if pairs:
        from fast_sugiyama import from_edges

        # In the order of the nodes, the same picture for the same trace.
        parts = from_edges(sorted(pairs), vertex_spacing=1, dummy_vertices=True, dummy_size=0.4)
        for positions, _, _, steps in sorted(parts, key=lambda part: min(int(name) for name, _ in part[0])):
            last = max(layer for _, (_, layer) in positions)
            first = min(row for _, (row, _) in positions)
            here = {int(name): (last - layer, top + row - first) for name, (row, layer) in positions}
            ways += _ways(here, [(int(one), int(other)) for one, other in steps or ()], count)
            places |= {name: place for name, place in here.items() if name < count}
            top = max(row for _, row in here.values()) + 1
    for number in range(count):
        if number not in places:
            places[number] = (0, top)
            top += 1
    return _Plan(places, ways)


def _turned(plan: _Plan) -> _Plan:
    """Return a plan with its layers in the direction that fits a screen better."""
    down = replace(plan, down=True)
    return min((plan, down), key=lambda one: max(one.size[0] / _WIDER, one.size[1]))


def _ways(places: dict[int, Place], steps: Sequence[tuple[int, int]], count: int) -> list[list[Place]]:
    """Return the places that each edge goes over: `steps` lead over places that are not nodes, from `count` on."""
    behind = {one: other for one, other in steps if one >= count}
    ways = list[list[Place]]()
    for one, other in steps:
        if one < count:
            way = [one, other]
            while way[-1] >= count:
                way.append(behind[way[-1]])
            ways.append([places[name] for name in way])
    return sorted(ways)


def _edge(plan: _Plan, way: Sequence[Place]) -> str:
    """Return the arrow of an edge: bent between layers, straight through the layers between."""
    x, y = plan.ends(way[0])[1]
    drawn = [f"M{x:g} {y:g}"]
    for number, place in enumerate(way[1:], start=1):
        (to, high), out = plan.ends(place)
        one, other = (
            ((x, (y + high) / 2), (to, (y + high) / 2)) if plan.down else (((x + to) / 2, y), ((x + to) / 2, high))
        )
        drawn.append(f"C{one[0]:g} {one[1]:g} {other[0]:g} {other[1]:g} {to:g} {high:g}")
        if number < len(way) - 1:
            drawn.append(f"L{out[0]:g} {out[1]:g}")
            x, y = out
    return f'<path d="{" ".join(drawn)}" fill="none" stroke="#888888" stroke-width="1.6" marker-end="url(#to)"/>'


def _box(node: LineageNode, corner: Place, begins: bool) -> str:  # noqa: FBT001 - whether the trace begins at it
    fill, line = _colours(node)
    x, y = corner
    hidden = node.kind is NodeKind.HIDDEN
    dashes = ' stroke-dasharray="6 4"' if hidden or node.label.untrusted else ""
    head, stamp = _safe(_begun(_headed(node), _TITLE)), "  ".join(filter(None, (str(node.label), when(node))))
    texts = [f'<text x="18" y="21" font-size="12.5" font-weight="bold" fill="#1b1b1b">{head}</text>']
    for number, text in enumerate(() if hidden else (_cut(node.id, _SMALL), _cut(stamp, _SMALL))):
        texts.append(f'<text x="18" y="{39 + 17 * number}" font-size="10.5" fill="#444444">{_safe(text)}</text>')
    facts = (_headed(node), node.id, "" if hidden else str(node.label), when(node), node.where)
    whole = "\n".join(map(_safe, filter(None, facts)))
    return (
        f'<svg x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" overflow="hidden">'
        f"<title>{whole}</title>"
        f'<rect x="2" y="2" width="{_WIDTH - 4}" height="{_HEIGHT - 4}" rx="7" fill="{fill}" stroke="{line}" '
        f'stroke-width="{3.5 if begins else 1.4}"{dashes}/>'
        f'<rect x="2" y="9" width="{_BAND}" height="{_HEIGHT - 18}" fill="{line}"/>'
        f"{_seen(_WIDTH - 14, 15) if node.kind.tells else ''}" + "".join(texts) + "</svg>"
    )


def _legend(lineage: LineageTrace, width: int) -> Iterator[str]:
    """Yield the legend: the title, the levels of the colours, and the meaning of lines."""
    shown = _begun(title(lineage), width // 11)
    yield f'<text x="{_LEFT}" y="34" font-size="17" font-weight="bold" fill="#1b1b1b">{_safe(shown)}</text>'
    for number, (level, (fill, line)) in enumerate(_COLOURS.items()):
        x = _LEFT + number * _LEGEND
        yield f'<rect x="{x}" y="52" width="16" height="16" rx="3" fill="{fill}" stroke="{line}"/>'
        yield f'<text x="{x + 23}" y="65" font-size="12" fill="#1b1b1b">{level.name}</text>'
    x = _LEFT + len(_COLOURS) * _LEGEND
    yield (
        f'<rect x="{x}" y="52" width="16" height="16" rx="3" fill="#ffffff" stroke="#444444" stroke-dasharray="4 3"/>'
        f'<text x="{x + 23}" y="65" font-size="12" fill="#1b1b1b">UNTRUSTED: anybody may have written it</text>'
    )
    yield (
        f'<path d="M{_LEFT} 92L{_LEFT + 44} 92" stroke="#888888" stroke-width="1.6" marker-end="url(#to)"/>'
        f'<text x="{_LEFT + 54}" y="96" font-size="12" fill="#1b1b1b">went into; a thick border marks where the trace '
        "began</text>"
    )
    yield f'{_seen(_LEFT + 470, 92)}<text x="{_LEFT + 482}" y="96" font-size="12" fill="#1b1b1b">seen there</text>'


def _seen(x: int, y: int) -> str:
    """Return the mark of an item that someone outside Lockgate has seen."""
    return f'<circle cx="{x}" cy="{y}" r="5" fill="#1b1b1b"/>'


def _colours(node: LineageNode) -> tuple[str, str]:
    return _GREY if node.kind is NodeKind.HIDDEN else _COLOURS[node.label.level]


def _headed(node: LineageNode) -> str:
    """Return the heading of a box; for an item that was seen outside, that is the address."""
    return f"{node.where.strip(':')}: {node.title}" if node.kind.tells else node.title


def _begun(text: str, most: int) -> str:
    """Return a text cut to its room: as much of its beginning."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cut(text: str, most: int) -> str:
    """Return a text cut to its room: its beginning and its end."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[: most - 1 - half]}…{text[-half:]}"


def _safe(text: str) -> str:
    """Return a text for XML, in one line and without invisible characters."""
    return escape(one_line(text))
