"""The map of items and their sources, as values and without I/O.

A fact is one item with its sources: other facts by their ids, or spans of a session's events. An item that only passes
on its sources, such as a model's response, has no node: it is walked through and not shown. The map holds only facts
that its reader may know of, so all results depend on these alone.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from bot.lineage.names import session_in
from policy.labels import Label


class NodeKind(StrEnum):
    """The kind of item that a node stands for."""

    MESSAGE = "message"
    OBSERVED = "observed"
    ANSWER = "answer"
    CALL = "call"
    RESULT = "result"
    RECALL = "recall"
    HELD = "held"
    RECAP = "recap"
    APPROVAL = "approval"
    RELEASE = "release"
    EVENT = "event"
    SESSION = "session"
    SCHEDULE = "schedule"
    MEMORY = "memory"
    SKILL = "skill"
    FILE = "file"
    WORKFLOW = "workflow"
    DELIVERY = "delivery"
    WEBHOOK = "webhook"
    HIDDEN = "hidden"

    @property
    def tells(self) -> bool:
        """Whether the item left Lockgate here, so that someone outside has seen it."""
        return self in {NodeKind.DELIVERY, NodeKind.WEBHOOK, NodeKind.RELEASE, NodeKind.APPROVAL}


@dataclass(frozen=True, slots=True)
class LineageNode:
    """One item.

    Args:
        id: Its id, as people type it.
        kind: Its kind.
        title: Its title.
        label: The label of its content.
        at: When it was made, in ms on the store's clock, 0 if unknown.
        where: The session, address or principal where it is.
    """

    id: str
    kind: NodeKind
    title: str
    label: Label
    at: int = 0
    where: str = ""


@dataclass(frozen=True, slots=True)
class EventSpan:
    """Events of a session, from the seq `first` to `last`: those of its own context, or `every` one that has a node."""

    sid: str
    first: int
    last: int
    every: bool = False


Origin: TypeAlias = str | EventSpan
"""A source: the id or another name of a fact, or a span of events."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One item and its sources.

    Args:
        id: Its id.
        node: Its node; without one it is walked through.
        sources: Its sources.
        sid: The session of an event.
        seq: The seq of an event.
        enters: Whether an event is read in its session's context.
        names: Other names by which references find it.
    """

    id: str
    node: LineageNode | None
    sources: tuple[Origin, ...] = ()
    sid: str = ""
    seq: int = 0
    enters: bool = False
    names: tuple[str, ...] = ()


HIDDEN: Final = "hidden"
"""The id of the one node that stands for everything a reader may not know of, also if there is nothing."""


class LineageMap:
    """Facts by their ids, and the links between them."""

    def __init__(self) -> None:
        self._facts = dict[str, Fact]()
        self._names = dict[str, str]()
        self._events = dict[str, list[tuple[int, str]]]()
        self._followers = dict[str, list[str]]()
        # Of each session: for each beginning of a span, its end and the facts that read it, in order.
        self._readers = dict[str, dict[tuple[int, bool], list[tuple[int, str]]]]()
        self._buried = dict[str, Fact]()
        self._begun = dict[str, list[str]]()

    def add(self, fact: Fact) -> None:
        """Add a fact; a known fact gets the sources that it did not have, and keeps its node."""
        known = self._facts.get(fact.id)
        if known is not None:
            new = tuple(one for one in fact.sources if one not in known.sources)
            fact = replace(known, sources=(*known.sources, *new), node=known.node or fact.node)
        elif fact.seq:
            insort(self._events.setdefault(fact.sid, []), (fact.seq, fact.id))
        self._facts[fact.id] = fact
        for name in fact.names:
            self._names.setdefault(name, fact.id)
        for source in fact.sources[0 if known is None else len(known.sources) :]:
            if isinstance(source, str):
                self._followers.setdefault(source, []).append(fact.id)
            else:
                beginnings = self._readers.setdefault(source.sid, {})
                insort(beginnings.setdefault((source.first, source.every), []), (source.last, fact.id))

    def bury(self, fact: Fact) -> None:
        """Add the fact of a deleted session: it stands for everything in that session."""
        self._buried[fact.id] = fact
        self.add(fact)

    def find(self, name: str) -> Fact | None:
        """Return a fact by its id or another name, None if there is none."""
        found = self._facts.get(name) or self._facts.get(self._names.get(name, ""))
        return found or (self._buried.get(session_in(name)) if self._buried else None)

    def buried(self, sid: str) -> Fact | None:
        """Return the fact of a deleted session, None for any other."""
        return self._buried.get(sid)

    def named(self, beginning: str) -> list[str]:
        """Return the ids with a beginning, sorted."""
        return sorted(name for name in self._facts if name.startswith(beginning))

    def begin(self, sid: str, name: str) -> None:
        """Add the first event with a node of a generation of a session."""
        self._begun.setdefault(sid, []).append(name)

    def begun(self, sid: str) -> Iterable[str]:
        """Return the ids of the events with which the generations of a session began."""
        return self._begun.get(sid, ())

    def newest(self, sid: str) -> str | None:
        """Return the id of a session's newest answer, or of its newest event that has a node; None without any."""
        shown = [name for _, name in self._events.get(sid, ()) if self._facts[name].node is not None]
        return next((name for name in reversed(shown) if self._is_answer(name)), shown[-1] if shown else None)

    def within(self, span: EventSpan) -> Iterator[str]:
        """Yield the events of a span that can be sources, the newest first."""
        events = self._events.get(span.sid, [])
        begin, end = bisect_left(events, (span.first, "")), bisect_right(events, (span.last, "\U0010ffff"))
        for _, name in reversed(events[begin:end]):
            fact = self._facts[name]
            if fact.enters or (span.every and fact.node is not None):
                yield name

    def names_of(self, fact: Fact) -> tuple[str, ...]:
        """Return all names by which other facts name a fact as their source."""
        if fact.id in self._buried:
            return tuple(name for name in self._followers if session_in(name) == fact.id)
        return (fact.id, *fact.names)

    def named_by(self, name: str) -> Iterable[str]:
        """Return the ids of the facts that name this one as their source."""
        return self._followers.get(name, ())

    def readers(self, sid: str) -> dict[tuple[int, bool], list[tuple[int, str]]]:
        """Return the facts that read spans of a session: by a span's first seq and whether it is of every event."""
        return self._readers.get(sid, {})

    def _is_answer(self, name: str) -> bool:
        node = self._facts[name].node
        return node is not None and node.kind is NodeKind.ANSWER
