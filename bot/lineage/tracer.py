"""Traces an item back to its sources, or forward to everything made from it, page by page.

Back, sessions are read as they are met. Forward, references to an item are found by reading the sessions that may be
known of, those that changed last first: no extra write is made for an event. The amount read is bounded by the items
that the viewer may know of, so that no bound reveals others (law `no_read_up`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Final

from bot.core.errors import CursorError, NotFoundError
from bot.files.port import LabelledFiles
from bot.lineage import names
from bot.lineage.graph import HIDDEN, EventSpan, Fact, LineageNode, NodeKind
from bot.lineage.loading import LineageLoader, LineageViewer
from bot.lineage.names import LineageNameError
from bot.lineage.walk import Direction, LineageEdge, LineageFrontier, ReachedNode, edges
from bot.sessions.ports.store import Store
from bot.sessions.visibility import LONGEST_ID
from policy.document.model import Document
from policy.labels import PUBLIC, Label, join_all

DEEPEST: Final = 100
"""The most steps of a trace."""

LISTED: Final = 50
MOST_LISTED: Final = 200
"""The usual and the largest number of nodes of a page."""

MOST_NODES: Final = 20_000
"""The most nodes that all pages of one trace show together."""

MOST_SESSIONS: Final = 1_000
MOST_EVENTS: Final = 200_000
"""The most sessions and events that are read to trace forward, those of the sessions that changed last."""

NOT_SHOWN: Final = "parts above your clearance are not shown, if there are any"
"""The title of the constant node, whether or not it stands for anything."""

_CHANGING: Final = frozenset({NodeKind.SESSION, NodeKind.SKILL, NodeKind.WORKFLOW, NodeKind.WEBHOOK})

_KNOWN: Final = frozenset({NodeKind.MEMORY, NodeKind.SKILL})

_LONGEST: Final = 5_000
"""The most characters of an id, with the path of a file."""


@dataclass(frozen=True, slots=True)
class LineageQuery:
    """A request for a trace.

    Args:
        name: The id of an item.
        direction: The direction.
        depth: The most steps.
        cursor: The cursor that the page before gave, empty for the first page.
        limit: The most nodes of the page.
    """

    name: str
    direction: Direction = Direction.BACK
    depth: int = DEEPEST
    cursor: str = ""
    limit: int = LISTED


@dataclass(frozen=True, slots=True)
class LineageTrace:
    """A page of a trace.

    Args:
        start: The ids of the nodes where it began.
        direction: The direction.
        nodes: The nodes, the nearest first.
        edges: The edges between them.
        cursor: The cursor of the next page, empty at the end.
        complete: Whether all items were found. Otherwise there may be more, in sessions that changed before all that
            were read.
        bounded: Whether its viewer may not know of everything; the page then has one constant node for the rest.
        label: The label of the page, which depends by its start and place also on the pages before it.
    """

    start: tuple[str, ...]
    direction: Direction
    nodes: tuple[ReachedNode, ...]
    edges: tuple[LineageEdge, ...]
    cursor: str = ""
    complete: bool = True
    bounded: bool = False
    label: Label = PUBLIC

    @property
    def shown(self) -> tuple[LineageNode, ...]:
        """All nodes of the page, the constant one last."""
        hidden = LineageNode(HIDDEN, NodeKind.HIDDEN, NOT_SHOWN, PUBLIC)
        return (*(one.node for one in self.nodes), *((hidden,) if self.bounded else ()))


class LineageTracer:
    """Traces items for viewers; `masked` removes the values of secrets from a text."""

    def __init__(
        self, store: Store, files: LabelledFiles, document: Callable[[], Document], masked: Callable[[str], str]
    ) -> None:
        self._store = store
        self._files = files
        self._document = document
        self._masked = masked

    async def trace(self, query: LineageQuery, viewer: LineageViewer) -> LineageTrace:
        """Return a page of the sources of an item, or of the items made from it.

        Raises:
            LineageNameError: The id has no known form.
            NotFoundError: The viewer may know of no item with that id.
            CursorError: No page gave the cursor.
            StoreError: The store cannot be read.
        """
        skip = _skipped(query.cursor)
        trace = _Trace(self._store, LineageLoader(self._store, self._files, self._document, viewer), viewer)
        seeds = await trace.seeds(query, self._document().principals)
        if not seeds:
            raise NotFoundError
        trace.label = join_all(seed.node.label for seed in seeds if seed.node is not None)
        frontier = LineageFrontier(trace.loader.known, seeds, query.direction, min(query.depth, DEEPEST))
        page, more = await trace.page(frontier, skip, query)
        between = list(edges(trace.loader.known, [one.node.id for one in page]))
        between += _from_before(page, query.direction)
        return LineageTrace(
            start=tuple(self._masked(seed.id) for seed in seeds),
            direction=query.direction,
            nodes=tuple(self._shown(one) for one in page),
            edges=tuple(LineageEdge(self._masked(one.source), self._masked(one.target)) for one in between),
            cursor=str(skip + len(page)) if more else "",
            complete=trace.complete and trace.loader.complete,
            bounded=viewer.reader is not None,
            label=trace.label,
        )

    def _shown(self, one: ReachedNode) -> ReachedNode:
        node, masked = one.node, self._masked
        node = replace(node, id=masked(node.id), title=masked(node.title), where=masked(node.where))
        return replace(one, node=node, via=masked(one.via))


class _Trace:
    """One trace; `complete` becomes false once an item was left out that a viewer may know of.

    `label` is that of all nodes that were met so far, before the page and right after it, too: it depends on these.
    """

    def __init__(self, store: Store, loader: LineageLoader, viewer: LineageViewer) -> None:
        self.loader = loader
        self.complete = True
        self.label = PUBLIC
        self._store = store
        self._viewer = viewer

    async def seeds(self, query: LineageQuery, principals: Iterable[str]) -> list[Fact]:
        """Return the facts where a trace begins, after reading the records it needs."""
        name = query.name
        if not name or len(name) > _LONGEST:
            raise LineageNameError
        found = await self._begun(name, query.direction, principals)
        forward = query.direction is Direction.FORWARD
        if forward or not found:
            # Items written elsewhere about it are found by searching all.
            await self._everything(min(map(_since, found), default=0))
            for fact in found:
                if fact.node is not None and fact.node.kind in _KNOWN:
                    await self.loader.every_known(fact.node.where)
            found = await self._begun(name, query.direction, principals)
        return found

    async def page(self, frontier: LineageFrontier, skip: int, query: LineageQuery) -> tuple[list[ReachedNode], bool]:
        """Return the nodes of a page, and whether there are more."""
        most, count, shown = max(1, min(query.limit, MOST_LISTED)), 0, list[ReachedNode]()
        while (place := frontier.next()) is not None:
            fact, depth, via = place
            if fact.node is not None:
                self.label = self.label.join(fact.node.label)
                if len(shown) == most or count == MOST_NODES:
                    self.complete = self.complete and count < MOST_NODES
                    return shown, count < MOST_NODES
                count += 1
                if count > skip:
                    shown.append(ReachedNode(fact.node, depth, via))
            if query.direction is Direction.BACK:
                await self._sources(fact)
            frontier.expand(fact, depth, via)
        return shown, False

    async def _sources(self, fact: Fact) -> None:
        """Read the sessions that the sources of a fact are in."""
        for source in fact.sources:
            sid = source.sid if isinstance(source, EventSpan) else names.session_in(source)
            if sid:
                await self.loader.session(sid)

    async def _begun(self, name: str, direction: Direction, principals: Iterable[str]) -> list[Fact]:
        """Return the facts of a name, as far as they are found where the name says."""
        if file := names.file_named(name):
            return await self._files(*file)
        if names.knowledge_named(name):
            return await self._known(name, principals)
        if workflow := names.workflow_named(name):
            return await self._workflows(*workflow, principals)
        if sid := names.session_named(name):
            return await self._session(sid, direction)
        if run := names.run_named(name):
            return await self._run(run, direction)
        if schedule := names.schedule_named(name):
            await self.loader.schedules((schedule,))
        elif sid := names.session_in(name):
            await self.loader.session(sid)
        elif not names.is_found_anywhere(name):
            raise LineageNameError
        found = self.loader.known.find(name)
        return [] if found is None or found.node is None else [found]

    async def _session(self, sid: str, direction: Direction) -> list[Fact]:
        """Return the newest answer of a session, or where it and its generations began."""
        await self.loader.session(sid)
        known = self.loader.known
        newest = known.find(known.newest(sid) or "")
        if direction is Direction.BACK and newest is not None:
            return [newest]
        begun = () if direction is Direction.BACK else known.begun(sid)
        return [fact for fact in map(known.find, (sid, *begun)) if fact is not None]

    async def _run(self, run: str, direction: Direction) -> list[Fact]:
        async for sid, state in self._store.sessions.walk():
            if state is not None and state.background is not None and state.background.run == run:
                return await self._session(sid, direction)
        return []

    async def _workflows(self, project: str, principal: str, principals: Iterable[str]) -> list[Fact]:
        """Return the workflows of a project, of one principal or of all who have one."""
        owners = [principal] if principal else await self._owners(principals)
        for owner in owners:
            await self.loader.workflows(owner, (project,))
        found = [self.loader.known.find(names.workflow_id(project, owner)) for owner in owners]
        return [fact for fact in found if fact is not None]

    async def _owners(self, principals: Iterable[str]) -> list[str]:
        """Return the principals whose items may be shown: the viewer's principal, or all."""
        if self._viewer.principal:
            return [self._viewer.principal]
        owners = dict.fromkeys(principals)
        async for _, state in self._store.sessions.walk():
            if state is not None:
                owners[state.principal] = None
        return list(owners)

    async def _known(self, name: str, principals: Iterable[str]) -> list[Fact]:
        """Return the memory or skill with an id, of any principal."""
        if len(name) > LONGEST_ID:
            return []
        if self.loader.known.find(name) is None:
            for owner in await self._owners(principals):
                await (self.loader.memory if name.startswith("mem_") else self.loader.skill)(owner, (name,))
        found = self.loader.known.find(name)
        return [] if found is None else [found]

    async def _files(self, path: str, sid: str, version: str) -> list[Fact]:
        """Return the versions of a file: as it is now under each label, and those that were read."""
        if sid:
            state = await self.loader.session(sid)
            if state is None:
                return []
            await self.loader.file(path, sid, state.generation)
        else:
            await self.loader.file(path)
        known, whole = self.loader.known, names.file_id(path, sid, version)
        found = [known.find(name) for name in ([whole] if version else known.named(f"{whole}#"))]
        return [fact for fact in found if fact is not None]

    async def _everything(self, since: int) -> None:
        """Read all sessions that may be known of and that changed since a moment, up to the bounds."""
        there = dict[str, tuple[int, int]]()
        unreadable = False
        async for sid, state in self._store.sessions.walk():
            if state is None:
                # Its label is unknown, so the operator alone is told that it exists.
                unreadable = self._viewer.reader is None
            elif state.updated_at >= since and self._viewer.may_know(state):
                there[sid] = (state.updated_at, state.seq - max(state.generation_seq - 1, 0))
        newest, left = nlargest(MOST_SESSIONS, there, key=lambda sid: (there[sid][0], sid)), MOST_EVENTS
        self.complete = len(newest) == len(there) and not unreadable
        for sid in newest:
            left -= there[sid][1]
            if left < 0:
                self.complete = False
                return
            state = await self.loader.session(sid)
            if state is not None:
                await self.loader.every_workflow(state.principal)
                await self.loader.every_known(state.principal)


def _since(fact: Fact) -> int:
    """Return a moment before which nothing was made from a fact, 0 if unknown.

    For an item that changes, `at` is its newest change, and others may have been made from it before.
    """
    return 0 if fact.node is None or fact.node.kind in _CHANGING else fact.node.at


def _skipped(cursor: str) -> int:
    """Return how many nodes stand before a page. Raises CursorError: no page gave this cursor."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > len(str(MOST_NODES)):
        raise CursorError
    return int(cursor)


def _from_before(page: Iterable[ReachedNode], direction: Direction) -> list[LineageEdge]:
    """Return the edges by which nodes of a page were reached from pages before it."""
    here = {one.node.id for one in page}
    found = list[LineageEdge]()
    for one in page:
        if one.via and one.via not in here:
            back = direction is Direction.BACK
            found.append(LineageEdge(one.node.id, one.via) if back else LineageEdge(one.via, one.node.id))
    return found
