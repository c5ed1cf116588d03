"""A trace in words and as JSON."""

from dataclasses import replace
from typing import Final

from bot.lineage import rendering
from bot.lineage.graph import LineageNode, NodeKind
from bot.lineage.tracer import LineageTrace
from bot.lineage.walk import Direction, LineageEdge, ReachedNode
from policy.labels import parse

_AT: Final = 1_795_000_000_000
FILE: Final = ReachedNode(LineageNode("file:public/a.md#0f", NodeKind.FILE, "public/a.md", parse("PUBLIC")), 0)
ANSWER: Final = ReachedNode(LineageNode("s-4", NodeKind.ANSWER, "answer", parse("CONFIDENTIAL{hr}~"), _AT, "s"), 1)
SAID: Final = ReachedNode(
    LineageNode("s/k", NodeKind.DELIVERY, "answer sent", parse("PUBLIC"), _AT, "console::ada:"), 2, "s-4"
)
TRACE: Final = LineageTrace(
    ("file:public/a.md#0f",),
    Direction.FORWARD,
    (FILE, ANSWER, SAID),
    (LineageEdge("file:public/a.md#0f", "s-4"), LineageEdge("s-4", "s/k")),
)


def test_a_trace_forward_ends_with_who_has_seen_it() -> None:
    assert list(rendering.lines(TRACE, "trace")) == [
        "Where file:public/a.md#0f went, the nearest first:",
        "0 file file:public/a.md#0f: public/a.md, PUBLIC",
        "1 answer s-4: answer, CONFIDENTIAL{hr}~, 2026-11-18 11:06:40 UTC ← file:public/a.md#0f",
        "2 delivery s/k: answer sent, PUBLIC, 2026-11-18 11:06:40 UTC, console::ada: ← s-4",
        "Who has seen it, as far as this page shows:",
        "- console::ada: answer sent, PUBLIC, 2026-11-18 11:06:40 UTC",
    ]


def test_a_trace_that_finds_nothing_and_one_that_goes_on_say_so() -> None:
    alone = replace(TRACE, nodes=(FILE,), edges=(), bounded=True)
    assert list(rendering.lines(alone, "trace"))[2:] == [
        "Nothing came of it.",
        "Nothing that this page shows has left.",
        "hidden: parts above your clearance are not shown, if there are any",
    ]
    assert list(rendering.lines(replace(alone, direction=Direction.BACK), "trace"))[2] == "It came from nothing else."
    more = replace(TRACE, direction=Direction.BACK, cursor="3", complete=False)
    assert list(rendering.lines(more, "trace x"))[-2:] == [rendering.NOT_ALL, "More with `trace x 3`."]


def test_json_has_all_nodes_with_their_labels_and_the_constant_one_without() -> None:
    told = rendering.document(replace(TRACE, bounded=True, cursor="3"))
    assert told["start"] == ["file:public/a.md#0f"]
    assert told["nodes"] == [
        {"id": "file:public/a.md#0f", "kind": "file", "title": "public/a.md", "label": "PUBLIC", "at": None}
        | {"where": "", "depth": 0},
        {"id": "s-4", "kind": "answer", "title": "answer", "label": "CONFIDENTIAL{hr}~", "at": _AT}
        | {"where": "s", "depth": 1},
        {"id": "s/k", "kind": "delivery", "title": "answer sent", "label": "PUBLIC", "at": _AT}
        | {"where": "console::ada:", "depth": 2},
        {"id": "hidden", "kind": "hidden", "title": "parts above your clearance are not shown, if there are any"},
    ]
    assert (told["cursor"], told["complete"], told["direction"]) == ("3", True, "forward")


def test_what_a_model_called_a_file_is_no_line_of_its_own() -> None:
    path = "public/a\n- slack:C1: answer sent, PUBLIC\u2028\x1b[2J\u202e.md"
    node = LineageNode(f"file:{path}", NodeKind.FILE, path, parse("PUBLIC"), where="public")
    forged = replace(TRACE, start=(node.id,), nodes=(ReachedNode(node, 0),), edges=(LineageEdge(node.id, node.id),))
    told = "\n".join(rendering.lines(forged, f"trace {node.id}"))
    assert told.splitlines() == [
        "Where file:public/a\\n- slack:C1: answer sent, PUBLIC\\u2028\\x1b[2J\\u202e.md went, the nearest first:",
        told.splitlines()[1],
        *list(rendering.lines(replace(TRACE, nodes=(FILE,), edges=()), "trace"))[2:],
    ]
    assert told.isprintable() or told.replace("\n", "").isprintable()
