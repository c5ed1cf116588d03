"""Walks over a map of lineage, the nearest first, and the edges between the nodes of a page.

All bounds count nodes, so items that a reader may not know of move no page (law `no_read_up`).
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bot.lineage.graph import EventSpan, Fact, LineageMap, LineageNode


class Direction(StrEnum):
    """Back to the sources, or forward to the items made from a source."""

    BACK = "back"
    FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class ReachedNode:
    """A node, the steps over which it was reached, and the node before; empty for one where the walk began."""

    node: LineageNode
    depth: int
    via: str = ""


@dataclass(frozen=True, slots=True)
class LineageEdge:
    """`target` came from `source`."""

    source: str
    target: str


class BackwardWalk:
    """The sources of facts; an event that a span gave is not given again."""

    def __init__(self, known: LineageMap) -> None:
        self._map = known
        self._read = dict[tuple[str, bool], tuple[int, int]]()

    def steps(self, fact: Fact) -> Iterator[Fact]:
        """Yield the sources of a fact."""
        for source in fact.sources:
            if isinstance(source, str):
                found = self._map.find(source)
                if found is not None:
                    yield found
                continue
            gone = self._map.buried(source.sid)
            if gone is not None:
                yield gone
            for part in self._unread(source):
                for name in self._map.within(part):
                    found = self._map.find(name)
                    if found is not None and found.id != fact.id:
                        yield found

    def _unread(self, span: EventSpan) -> list[EventSpan]:
        """Return the parts of a span that no span before had, as far as one stretch can record that."""
        key = (span.sid, span.every)
        first, last = self._read.get(key, (0, -1))
        if last < first or span.last < first - 1 or last + 1 < span.first:
            self._read[key] = (span.first, span.last)
            return [span]
        self._read[key] = (min(first, span.first), max(last, span.last))
        behind = EventSpan(span.sid, last + 1, span.last, span.every)
        before = EventSpan(span.sid, span.first, first - 1, span.every)
        return [part for part in (behind, before) if part.first <= part.last]


class ForwardWalk:
    """The items made from facts; an item that read a span is not given again."""

    def __init__(self, known: LineageMap) -> None:
        self._map = known
        self._given = dict[tuple[str, int, bool], int]()

    def steps(self, fact: Fact) -> Iterator[Fact]:
        """Yield the items made from a fact."""
        for name in self._map.names_of(fact):
            for follower in self._map.named_by(name):
                found = self._map.find(follower)
                if found is not None:
                    yield found
        for name in self._that_read(fact):
            found = self._map.find(name)
            if found is not None and found.id != fact.id:
                yield found

    def _that_read(self, fact: Fact) -> Iterator[str]:
        if self._map.buried(fact.id) is not None:
            yield from (name for readers in self._map.readers(fact.id).values() for _, name in readers)
        if not fact.seq:
            return
        for (first, every), readers in self._map.readers(fact.sid).items():
            if first > fact.seq or not (fact.enters or (every and fact.node is not None)):
                continue
            key = (fact.sid, first, every)
            begin, end = bisect_left(readers, (fact.seq, "")), self._given.get(key, len(readers))
            yield from (name for _, name in readers[begin:end])
            self._given[key] = min(begin, end)


class LineageFrontier:
    """A walk from some facts, step by step: the facts that wait, and those that were met."""

    def __init__(self, known: LineageMap, seeds: Iterable[Fact], direction: Direction, depth: int) -> None:
        self._walk = BackwardWalk(known) if direction is Direction.BACK else ForwardWalk(known)
        self._depth = depth
        self._met = set[str]()
        self._waiting = deque[tuple[Fact, int, str]]()
        for seed in seeds:
            self._meet(seed, 0, "")

    def next(self) -> tuple[Fact, int, str] | None:
        """Return the nearest waiting fact, its depth, and the node before; None at the end."""
        return self._waiting.popleft() if self._waiting else None

    def expand(self, fact: Fact, depth: int, via: str) -> None:
        """Add all facts one step away from a fact; a fact without a node takes no step."""
        shown = fact.node is not None
        if shown and depth >= self._depth:
            return
        for found in self._walk.steps(fact):
            self._meet(found, depth + shown, fact.node.id if fact.node is not None else via)

    def _meet(self, fact: Fact, depth: int, via: str) -> None:
        if fact.id in self._met:
            return
        self._met.add(fact.id)
        place = (fact, depth, via)
        # A fact that is walked through is no farther than the one it was met from.
        if fact.node is None:
            self._waiting.appendleft(place)
        else:
            self._waiting.append(place)


def edges(known: LineageMap, shown: Collection[str]) -> tuple[LineageEdge, ...]:
    """Return the edges between some nodes.

    Everything in a context is a source of all that was made in it. Of these edges those are left out that have a longer
    way beside them; a source that an item names itself always stays.
    """
    between = _Between(known, shown)
    sources = {name: between.sources(name) for name in shown}
    return tuple(LineageEdge(source, target) for target, found in _reduced(sources).items() for source in found)


_Sources: TypeAlias = dict[str, bool]
"""The sources of a node, and whether it names each, or they were in its context alone."""


class _Between:
    """Finds the sources of nodes among a few others, also through facts without a node."""

    def __init__(self, known: LineageMap, shown: Collection[str]) -> None:
        self._map = known
        self._shown = frozenset(shown)
        events = dict[str, list[tuple[int, str]]]()
        for name in shown:
            fact = known.find(name)
            if fact is not None and fact.seq:
                events.setdefault(fact.sid, []).append((fact.seq, name))
        self._events = {sid: sorted(some) for sid, some in events.items()}

    def sources(self, name: str) -> _Sources:
        """Return the sources of a node, each of them once."""
        found, waiting, met = _Sources(), [name], {name}
        while waiting:
            fact = self._map.find(waiting.pop())
            if fact is None:
                continue
            for source, named in self._of(fact):
                if source in self._shown:
                    if source != name:
                        found[source] = found.get(source, False) or named
                elif source not in met and _passes(self._map, source):
                    met.add(source)
                    waiting.append(source)
        return found

    def _of(self, fact: Fact) -> Iterator[tuple[str, bool]]:
        for source in fact.sources:
            if isinstance(source, str):
                found = self._map.find(source)
                if found is not None:
                    yield found.id, True
            else:
                yield from ((name, False) for name in self._within(source))

    def _within(self, span: EventSpan) -> Iterator[str]:
        gone = self._map.buried(span.sid)
        if gone is not None:
            yield gone.id
        some = self._events.get(span.sid, [])
        for seq, name in some[bisect_left(some, (span.first, "")) :]:
            if seq > span.last:
                break
            one = self._map.find(name)
            if one is not None and (one.enters or span.every):
                yield name


def _passes(known: LineageMap, name: str) -> bool:
    fact = known.find(name)
    return fact is not None and fact.node is None


def _reduced(sources: dict[str, _Sources]) -> dict[str, list[str]]:
    """Return the sources of each node without those of its context that are reached over another one."""
    bits = {name: 1 << place for place, name in enumerate(sources)}
    reach = _reach(sources, bits)
    kept = dict[str, list[str]]()
    for target, found in sources.items():
        farther = 0
        for one in found:
            # Nodes of a cycle stay.
            if not reach[one] & bits[target]:
                farther |= reach[one] & ~bits[one]
        kept[target] = [one for one, named in found.items() if named or not farther & bits[one]]
    return kept


def _reach(sources: dict[str, _Sources], bits: dict[str, int]) -> dict[str, int]:
    """Return all nodes that each came from, over any number of steps, as a set of bits."""
    reach, order, changed = dict.fromkeys(sources, 0), list(sources), True
    while changed:
        changed = False
        for name in order:
            before = reach[name]
            for one in sources[name]:
                reach[name] |= bits[one] | reach[one]
            changed = changed or reach[name] != before
        # Most edges lead one way through the order, so one of both directions needs few rounds.
        order.reverse()
    return reach
