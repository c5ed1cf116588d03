"""The picture of a trace: boxes that do not meet, edges between them, and nothing that breaks out of its text."""

import asyncio
from itertools import combinations
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from bot.lineage.graph import LineageNode, NodeKind
from bot.lineage.loading import LineageViewer
from bot.lineage.picture import svg
from bot.lineage.tracer import LineageQuery, LineageTrace
from bot.lineage.walk import Direction, LineageEdge, ReachedNode
from policy.labels import parse
from tests.bot.kit import bang
from tests.harness import running

NAMESPACE: Final = "{http://www.w3.org/2000/svg}"
EVIL: Final = '</text><script>alert("1")</script>&<!--]]> \u202e \x00 \U000e0041 "\''


def lineage(count: int, *pairs: tuple[int, int], title: str = "answer", bounded: bool = False) -> LineageTrace:
    labels = ("PUBLIC", "INTERNAL", "CONFIDENTIAL{hr}~", "RESTRICTED")
    nodes = tuple(
        ReachedNode(LineageNode(f"n{one}", NodeKind.ANSWER, title, parse(labels[one % 4]), 1_795_000_000_000), one)
        for one in range(count)
    )
    edges = tuple(LineageEdge(f"n{one}", f"n{other}") for one, other in pairs)
    return LineageTrace(("n0",), Direction.BACK, nodes, edges, bounded=bounded)


def boxes(text: str) -> list[tuple[float, float, float, float]]:
    """Return where each box begins and ends."""
    found = list[tuple[float, float, float, float]]()
    for one in ET.fromstring(text).iter(f"{NAMESPACE}svg"):  # noqa: S314 - our own
        if "x" in one.attrib:
            x, y, width, height = (float(one.attrib[name]) for name in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
            assert one.attrib["overflow"] == "hidden"
    return found


WIDE: Final = lineage(40, *((one, 0) for one in range(1, 40)))
LONG: Final = lineage(40, *((one + 1, one) for one in range(39)), *((one + 5, one) for one in range(0, 35, 3)))
LADDER: Final = lineage(40, *((one + 2, one) for one in range(38)), *((one + 3, one) for one in range(0, 36, 2)))
APART: Final = lineage(6, (1, 0), (3, 2), bounded=True)


@pytest.mark.parametrize("drawn", [WIDE, LONG, LADDER, APART, lineage(1), lineage(2, (1, 0), (0, 1))])
def test_no_two_boxes_meet_and_all_are_within_the_picture(drawn: LineageTrace) -> None:
    text = svg(drawn)
    found = boxes(text)
    assert len(found) == len(drawn.shown)
    root = ET.fromstring(text)  # noqa: S314 - our own
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(x >= 0 and y >= 0 and to <= width and down <= height for x, y, to, down in found)
    for one, other in combinations(found, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_each_edge_is_an_arrow_and_the_same_trace_is_the_same_picture() -> None:
    assert svg(LONG) == svg(LONG)
    assert svg(LONG).count("marker-end") == len(LONG.edges) + 1, "and one in the legend"


def test_edges_lead_the_way_of_the_layers() -> None:
    (one, other) = boxes(svg(lineage(2, (1, 0))))
    # The source, which is drawn second, stands before what came of it.
    assert other[2] <= one[0] or other[3] <= one[1]


def test_titles_are_escaped_and_cut_and_shown_whole_under_the_pointer() -> None:
    text = svg(lineage(2, (1, 0), title=EVIL * 20))
    root = ET.fromstring(text)  # noqa: S314 - our own
    assert not list(root.iter(f"{NAMESPACE}script"))
    texts = [one.text or "" for one in root.iter(f"{NAMESPACE}text")]
    assert max(map(len, texts)) < 120
    whole = [one.text or "" for one in root.iter(f"{NAMESPACE}title")]
    assert any(one.count("<script>") == 20 for one in whole)
    assert "\u202e" not in text
    assert "\U000e0041" not in text


def test_levels_have_colours_that_the_legend_names_and_what_anybody_may_have_written_is_dashed() -> None:
    text = svg(lineage(4, (1, 0), (2, 0), (3, 0), bounded=True))
    for level in ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"):
        assert f">{level}</text>" in text
    drawn = text.split("overflow")[1:]
    assert ["stroke-dasharray" in one for one in drawn] == [False, False, True, False, True]
    assert len({one.split('fill="')[1][:7] for one in drawn}) == 5
    assert ['stroke-width="3.5"' in one for one in drawn] == [True, False, False, False, False]


def test_what_was_seen_outside_is_marked_as_the_legend_says() -> None:
    there = ReachedNode(LineageNode("n9", NodeKind.DELIVERY, "answer sent", parse("PUBLIC"), where="console:ann"), 1)
    made = lineage(2, (1, 0))
    text = svg(LineageTrace(made.start, made.direction, (*made.nodes, there), made.edges))
    assert ">seen there</text>" in text
    assert ["<circle" in one for one in text.split("overflow")[1:]] == [False, False, True]


@pytest.mark.anyio
async def test_a_real_trace_is_drawn(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        found = await owner.app.lineage.trace(LineageQuery(owner.sid), LineageViewer())
        text = await asyncio.to_thread(svg, found)
        assert "public/welcome.md" in text
        assert len(boxes(text)) == len(found.nodes)
