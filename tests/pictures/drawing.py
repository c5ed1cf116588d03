"""A picture as SVG: real text, a title and a description for screen readers, colours for light and dark.

The same text gives the same SVG on every machine. No font is measured: a line that may be too wide for its box in a
common font is an error.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final
from xml.etree import ElementTree as ET

from tests.pictures.source import Arrow, Box, Picture

LINE: Final = 18
"""Pixels from one line of text to the next."""

WIDE: Final = {"head": 8.4, "text": 7.2, "code": 7.8}
"""How wide a character of each kind of text may be, in pixels."""

ROUND: Final = 12
"""The radius of an arrow's corners, in pixels."""

STYLE: Final = """
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #24292f }
.head { font-weight: 650; font-size: 14px }
.title { font-weight: 700; font-size: 19px }
.code { font: 12px ui-monospace, "DejaVu Sans Mono", monospace }
.halo { paint-order: stroke; stroke: #ffffff; stroke-width: 6px; stroke-linejoin: round }
.ground { fill: #ffffff; stroke: #d0d7de }
.box { stroke-width: 1.5; fill: #f6f8fa; stroke: #8c959f }
.gate { fill: #ddf4ff; stroke: #0969da; stroke-width: 2.5 }
.person { fill: #fbefff; stroke: #8250df }
.public { fill: #e9f5ec; stroke: #2e7d4f }
.internal { fill: #e8f0fb; stroke: #2b5fa8 }
.confidential { fill: #fff3dc; stroke: #b26a00 }
.restricted { fill: #fde8e8; stroke: #b3261e }
.quiet { fill: none; stroke: #8c959f; stroke-width: 2 }
.dashed { stroke-dasharray: 7 5 }
.way { fill: none; stroke: #57606a; stroke-width: 1.8 }
.tip { fill: #57606a }
.cross { stroke: #cf222e; stroke-width: 3; stroke-linecap: round }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .halo { stroke: #161b22 }
  .ground { fill: #161b22; stroke: #30363d }
  .box { fill: #21262d; stroke: #8b949e }
  .gate { fill: #0c2d4a; stroke: #58a6ff }
  .person { fill: #2b1d40; stroke: #bc8cff }
  .public { fill: #12301c; stroke: #56b378 }
  .internal { fill: #14263f; stroke: #6ea1e6 }
  .confidential { fill: #3a2a0c; stroke: #e0a030 }
  .restricted { fill: #421a18; stroke: #f47067 }
  .quiet { fill: none; stroke: #8b949e }
  .way { stroke: #b1bac4 }
  .tip { fill: #b1bac4 }
  .cross { stroke: #ff7b72 }
}
"""

Point = tuple[float, float]


class PictureError(Exception):
    """A picture's text asks for something that cannot be drawn."""


def svg(picture: Picture) -> str:
    """Return the picture as the text of an SVG file.

    Raises:
        PictureError: a line is too wide, text too high for its box, an arrow names no box, or something is outside.
    """
    width, height = picture.size
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": str(width),
            "height": str(height),
            "viewBox": f"0 0 {width} {height}",
            "role": "img",
            "aria-labelledby": "title desc",
        },
    )
    ET.SubElement(root, "title", {"id": "title"}).text = picture.title
    ET.SubElement(root, "desc", {"id": "desc"}).text = picture.description
    ET.SubElement(root, "style").text = STYLE
    ground = {"x": "0.5", "y": "0.5", "width": str(width - 1), "height": str(height - 1), "rx": "12"}
    ET.SubElement(root, "rect", {**ground, "class": "ground"})
    _line(root, (28, 42), picture.title, "title")
    for box in picture.box:
        _box(root, box, picture.size)
    boxes = {box.name: box for box in picture.box}
    for arrow in picture.arrow:
        _arrow(root, arrow, boxes)
    for note in picture.note:
        for number, line in enumerate(note.lines):
            _line(root, (note.at[0], note.at[1] + number * LINE), line, "", note.align)
    # one element a line; inside of a text a line's end would be seen as a space
    for element in root:
        element.tail = "\n"
    root.text = "\n"
    return ET.tostring(root, "unicode") + "\n"


def _box(root: ET.Element, box: Box, size: tuple[int, int]) -> None:
    x, y, width, height = box.at
    if x < 0 or y < 0 or x + width > size[0] or y + height > size[1]:
        message = f"the box `{box.name}` is not within the picture"
        raise PictureError(message)
    kind = f"box {box.kind}" + (" dashed" if box.dashed else "")
    corner = {"x": str(x), "y": str(y), "width": str(width), "height": str(height), "rx": "9"}
    ET.SubElement(root, "rect", {**corner, "class": kind})
    _fits(box)
    high = len(box.lines) * LINE
    middle = box.align == "middle"
    left = x + width / 2 if middle else x + 14
    top = y + (height - high) / 2 + 13 if middle else y + 24
    for number, line in enumerate(box.lines):
        _line(root, (left, top + number * LINE), line, "", box.align)


def _fits(box: Box) -> None:
    _, _, width, height = box.at
    if len(box.lines) * LINE > height - 8:
        message = f"the box `{box.name}` is too low for its {len(box.lines)} lines"
        raise PictureError(message)
    for line in box.lines:
        needed = sum(len(words) * WIDE[kind] for kind, words in _spans(line))
        if needed > width - 16:
            message = f"the box `{box.name}` is too narrow for `{line}`: {needed:.0f} pixels"
            raise PictureError(message)


def _spans(line: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line, each with its kind of text."""
    plain = "head" if line.startswith("# ") else "text"
    for number, words in enumerate(line.removeprefix("# ").split("`")):
        if words:
            yield ("code" if number % 2 else plain), words


def _line(root: ET.Element, at: Point, line: str, kind: str, align: str = "start") -> None:
    text = ET.SubElement(root, "text", {"x": f"{at[0]:g}", "y": f"{at[1]:g}", "text-anchor": align})
    if kind:
        text.set("class", kind)
    for part, words in _spans(line):
        span = ET.SubElement(text, "tspan", {} if part == "text" else {"class": part})
        span.text = words


def _side(end: str, boxes: dict[str, Box]) -> Point:
    """Return the point on a box's side that an arrow's end names."""
    found = re.fullmatch(r"(\w+)\.(\w+?)([+-]\d+)?", end)
    box = boxes.get(found[1]) if found else None
    if found is None or box is None:
        message = f"there is no box for the arrow's end `{end}`"
        raise PictureError(message)
    x, y, width, height = box.at
    aside = int(found[3] or 0)
    return {
        "left": (x, y + height / 2 + aside),
        "right": (x + width, y + height / 2 + aside),
        "top": (x + width / 2 + aside, y),
        "bottom": (x + width / 2 + aside, y + height),
    }[found[2]]


def _arrow(root: ET.Element, arrow: Arrow, boxes: dict[str, Box]) -> None:
    points: list[Point] = [_side(arrow.start, boxes), *arrow.via, _side(arrow.end, boxes)]
    if any(one[0] != other[0] and one[1] != other[1] for one, other in pairwise(points)):
        message = f"the arrow from `{arrow.start}` to `{arrow.end}` is not straight between its corners"
        raise PictureError(message)
    (x, y), (before_x, before_y) = points[-1], points[-2]
    ahead = ((x > before_x) - (x < before_x), (y > before_y) - (y < before_y))
    stop = 26 if arrow.refused else 9
    ending = (x - stop * ahead[0], y - stop * ahead[1])
    dashed = " dashed" if arrow.dashed else ""
    ET.SubElement(root, "path", {"d": _way([*points[:-1], ending]), "class": f"way{dashed}"})
    if arrow.refused:
        across = f"M{ending[0] - 7:g} {ending[1] - 7:g}l14 14m0 -14l-14 14"
        ET.SubElement(root, "path", {"d": across, "class": "cross"})
    else:
        # the tip: its point on the side, its base as wide as it is long
        base = (x - 11 * ahead[0], y - 11 * ahead[1])
        one = f"{base[0] + 5.5 * ahead[1]:g} {base[1] + 5.5 * ahead[0]:g}"
        other = f"{base[0] - 5.5 * ahead[1]:g} {base[1] - 5.5 * ahead[0]:g}"
        ET.SubElement(root, "path", {"d": f"M{x:g} {y:g}L{one}L{other}z", "class": "tip"})
    if arrow.text:
        _label(root, arrow, points)


def _label(root: ET.Element, arrow: Arrow, points: Sequence[Point]) -> None:
    """Write an arrow's text at the middle of its longest part: above a level one, across an upright one."""
    parts = list(pairwise(points))
    one, other = max(parts, key=lambda part: abs(part[0][0] - part[1][0]) + abs(part[0][1] - part[1][1]))
    level = one[1] == other[1]
    x = (one[0] + other[0]) / 2 + arrow.shift[0]
    y = (one[1] + other[1]) / 2 + (-8 if level else 4) + arrow.shift[1]
    _line(root, (x, y), arrow.text, "halo", "middle")


def _way(points: Sequence[Point]) -> str:
    """Return an arrow's path, with round corners."""
    drawn = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _toward(corner, before), _toward(corner, after)
        drawn.append(f"L{start[0]:g} {start[1]:g}Q{corner[0]:g} {corner[1]:g} {end[0]:g} {end[1]:g}")
    return "".join([*drawn, f"L{points[-1][0]:g} {points[-1][1]:g}"])


def _toward(corner: Point, other: Point) -> Point:
    """Return the point where the round of a corner begins or ends."""
    x, y = other[0] - corner[0], other[1] - corner[1]
    share = min(1.0, ROUND / max(abs(x), abs(y), 1))
    return corner[0] + x * share, corner[1] + y * share
