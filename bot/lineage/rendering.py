"""A trace in words and as JSON, the same for the command line, `/audit trace` and the HTTP API."""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from bot.core.clock import moment
from bot.core.invisible import one_line
from bot.lineage.graph import HIDDEN, LineageNode
from bot.lineage.tracer import NOT_SHOWN, LineageTrace
from bot.lineage.walk import Direction, ReachedNode

HEADS: Final = MappingProxyType({Direction.BACK: "Sources of {}", Direction.FORWARD: "Where {} went"})
NOTHING: Final = MappingProxyType(
    {Direction.BACK: "It came from nothing else.", Direction.FORWARD: "Nothing came of it."}
)
SEEN: Final = "Who has seen it, as far as this page shows:"
UNSEEN: Final = "Nothing that this page shows has left."
MORE: Final = "More with `{command} {cursor}`."
NOT_ALL: Final = "These may not be all: old changes were not looked at, or a record cannot be read."


def title(lineage: LineageTrace) -> str:
    """Return the title of a trace, in a line."""
    return HEADS[lineage.direction].format(", ".join(lineage.start))


def lines(lineage: LineageTrace, command: str) -> Iterator[str]:
    """Yield a trace for people; `command` is the typed command, which continues with the cursor of the next page.

    Each node has a line with its id, followed by its sources, or on the way forward by the nodes it was made from. A
    file's name that a model chose begins no line of its own.
    """
    return map(one_line, _lines(lineage, command))


def document(lineage: LineageTrace) -> dict[str, JsonValue]:
    """Return a trace as one JSON document."""
    depths = {one.node.id: one.depth for one in lineage.nodes}
    return {
        "start": list(lineage.start),
        "direction": lineage.direction.value,
        "nodes": [_node(node, depths.get(node.id)) for node in lineage.shown],
        "edges": [{"source": edge.source, "target": edge.target} for edge in lineage.edges],
        "cursor": lineage.cursor or None,
        "complete": lineage.complete,
    }


def when(node: LineageNode) -> str:
    """Return the time at which a node was made, empty if unknown."""
    return f"{moment(node.at)} UTC" if node.at else ""


def _lines(lineage: LineageTrace, command: str) -> Iterator[str]:
    yield f"{title(lineage)}, the nearest first:"
    came = dict[str, list[str]]()
    for edge in lineage.edges:
        came.setdefault(edge.target, []).append(edge.source)
    for one in lineage.nodes:
        yield _line(one, came.get(one.node.id, []))
    if not any(one.depth for one in lineage.nodes) and not lineage.cursor:
        yield NOTHING[lineage.direction]
    if lineage.direction is Direction.FORWARD:
        told = [one.node for one in lineage.nodes if one.node.kind.tells]
        yield SEEN if told else UNSEEN
        yield from (_told(node) for node in told)
    if lineage.bounded:
        yield f"{HIDDEN}: {NOT_SHOWN}"
    if not lineage.complete:
        yield NOT_ALL
    if lineage.cursor:
        yield MORE.format(command=command, cursor=lineage.cursor)


def _line(one: ReachedNode, came: list[str]) -> str:
    node = one.node
    facts = ", ".join(filter(None, (node.title, str(node.label), when(node), _where(node))))
    behind = f" ← {', '.join(came)}" if came else ""
    return f"{one.depth} {node.kind.value} {node.id}: {facts}{behind}"


def _where(node: LineageNode) -> str:
    """Return where a node is, unless its id says so."""
    return "" if not node.where or node.where in node.id else node.where


def _told(node: LineageNode) -> str:
    return ", ".join(
        filter(None, (f"- {node.where.rstrip(':') or node.title}: {node.title}", str(node.label), when(node)))
    )


def _node(node: LineageNode, depth: int | None) -> dict[str, JsonValue]:
    if node.id == HIDDEN:
        return {"id": HIDDEN, "kind": node.kind.value, "title": node.title}
    return {
        "id": node.id,
        "kind": node.kind.value,
        "title": node.title,
        "label": str(node.label),
        "at": node.at or None,
        "where": node.where,
        "depth": depth,
    }
