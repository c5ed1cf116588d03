"""Recall: the memories of a principal's sessions that fit a query, as far as the reader may know of them.

There is one index for each label (`bot.knowledge.index`). A recall reads the versions of the labels, updates the
indexes that it may use, and asks those alone. A memory above the reader is neither looked up nor followed, so it
changes neither the results nor their order (law `no_read_up`). Results are read again from the store, so that a memory
forgotten a moment ago is not told. A recall whose indexes are up to date takes two round trips. Indexes are built when
they are first asked and left when others need their room.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from bot.knowledge.index import Hit, LabelIndex, phrases
from bot.knowledge.ranking import Candidate, fused, overlap_with
from bot.sessions.knowledge.memories import Memory, MemoryState
from bot.sessions.ports.knowledge import MemoryStore
from policy.labels import Label

MOST_WEIGHT: Final = 100_000_000
"""The most weight of the indexes of a process together, in characters of text: about 200 MB."""

_PAGE: Final = 500
"""Changes that are read and taken at once."""

_THREADS: Final = 2
"""Threads in which a process searches."""

_MUCH: Final = 2_000
"""Characters of a query that are looked through beside the loop."""

_MUCH_FOUND: Final = 5_000
"""The characters of the results that are read."""

_T = TypeVar("_T")

_COUNTS: Final = 256
"""How many counts of memories are remembered."""

_LEAST_FOUND: Final = 20
"""How many of each index are ranked at least."""


@dataclass(eq=False, slots=True)
class _Shelf:
    """One index in its place.

    Who brings it up to date holds `following`. `readers` are the recalls that use it, `weight` its weight when that was
    last measured.
    """

    index: LabelIndex = field(default_factory=LabelIndex)
    following: asyncio.Lock = field(default_factory=asyncio.Lock)
    readers: int = 0
    weight: int = 0


class KnowledgeSearch:
    """The indexes of a process, and recall from them. `close` frees them."""

    def __init__(self, memories: MemoryStore, *, most: int = MOST_WEIGHT) -> None:
        """Begin without any index.

        Args:
            memories: where they are kept.
            most: the most weight of the indexes together, in characters of text; those in use may weigh more.
        """
        self._memories = memories
        self._most = most
        self._shelves = OrderedDict[tuple[str, Label], _Shelf]()
        self._left = list[LabelIndex]()
        self._counts = OrderedDict[tuple[str, frozenset[tuple[Label, int]]], int]()
        self._weight = 0
        # Others' work beside the loop does not wait for a search, nor a principal's for another one's.
        self._pool: ThreadPoolExecutor | None = None
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    @property
    def weight(self) -> int:
        """The weight of the indexes together, in characters of text."""
        return self._weight

    async def recall(
        self, principal: str, reader: Label, query: str, *, limit: int, domain: str = ""
    ) -> tuple[Memory, ...]:
        """Return the memories that fit a query best, the best first; none for a query without a word.

        Args:
            principal: whose memories.
            reader: the reader's label; memories are found whose label is within it.
            query: text in which any word counts.
            limit: how many are returned at most.
            domain: their subject; memories without a subject are found too. Empty for all.

        Raises:
            StoreGoneError: the store does not answer.
            StoreRefusedError: it refuses.
            SchemaError: it holds records of a newer version.
        """
        asked = phrases(query) if len(query) <= _MUCH else await self._looked(principal, lambda: phrases(query))
        if limit < 1 or not asked:
            return ()
        visible = await self.versions(principal, reader)
        most = max(_LEAST_FOUND, 2 * limit)
        async with self._indexes(principal, visible) as indexes:
            found = await self._looked(principal, lambda: _search(indexes, asked, most, domain))
        candidates = tuple(_candidates(found))
        chosen = frozenset(fused(candidates)[:most] if len(candidates) > most else (one.id for one in candidates))
        named = {label: [hit.id for hit in hits if hit.id in chosen] for label, hits in found.items()}
        memories, uses = await self._read(principal, {*visible, reader}, named)
        self._compare(principal, named, memories)
        await self._free()
        kept = {memory.id: memory for memory in memories if memory.state is MemoryState.KEPT}
        if sum(len(memory.text) for memory in kept.values()) > _MUCH_FOUND:
            ranked = await self._looked(principal, lambda: _ranked(asked, candidates, kept, uses))
        else:
            ranked = _ranked(asked, candidates, kept, uses)
        return tuple(kept[name] for name in ranked[:limit])

    async def versions(self, principal: str, reader: Label) -> Mapping[Label, int]:
        """Return the labels that a reader may know of, with the version of the last change of their memories.

        Raises StoreError.
        """
        versions = await self._memories.versions(principal)
        return {label: version for label, version in versions.items() if label.within(reader)}

    async def newest(self, principal: str, reader: Label, *, limit: int, domain: str = "") -> tuple[Memory, ...]:
        """Return the memories learned last, the newest first, without those that others of them correct.

        The parameters are those of `recall`. Raises StoreError.
        """
        if limit < 1:
            return ()
        visible = await self.versions(principal, reader)
        async with self._indexes(principal, visible) as indexes:
            found = await self._looked(principal, lambda: _newest(indexes, limit, domain))
        named = {label: [hit.id for hit in hits] for label, hits in found.items()}
        memories = await self._memories.memories(principal, named)
        self._compare(principal, named, memories)
        await self._free()
        kept = [memory for memory in memories if memory.state is MemoryState.KEPT]
        return tuple(sorted(kept, key=lambda memory: (-memory.learned_at, memory.id))[:limit])

    async def named(self, principal: str, reader: Label, ids: Collection[str]) -> tuple[Memory, ...]:
        """Return the memories of these ids in their order, as far as they are kept. Raises StoreError."""
        visible = [label for label, version in (await self.versions(principal, reader)).items() if version]
        found = await self._memories.memories(principal, dict.fromkeys(visible, ids))
        kept = {memory.id: memory for memory in found if memory.state is MemoryState.KEPT}
        return tuple(kept[name] for name in ids if name in kept)

    async def counted(self, principal: str, reader: Label) -> int:
        """Return the number of memories that a reader may know of, without those that others of them correct.

        Raises StoreError.
        """
        visible = await self.versions(principal, reader)
        place = (principal, frozenset(visible.items()))
        if place not in self._counts:
            async with self._indexes(principal, visible) as indexes:
                self._counts[place] = await self._looked(principal, lambda: _counted(tuple(indexes.values())))
            await self._free()
            if len(self._counts) > _COUNTS:
                self._counts.popitem(last=False)
        self._counts.move_to_end(place)
        return self._counts[place]

    async def close(self) -> None:
        """Free the memory of all indexes; no recall may be under way."""
        for place in list(self._shelves):
            self._leave(place)
        await self._free()
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    async def _beside(self, work: Callable[[], _T]) -> _T:
        """Do something beside the loop, in one of the threads for that."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, "knowledge")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def _looked(self, principal: str, work: Callable[[], _T]) -> _T:
        """Do something for a principal beside the loop, once nothing else is done for them."""
        turn = self._turns.setdefault(principal, asyncio.Lock())
        async with turn:
            return await self._beside(work)

    async def _follow(self, principal: str, label: Label, shelf: _Shelf, version: int) -> None:
        """Bring an index up to a version at least; recalls that wait for the same find it done."""
        if shelf.index.version == version:
            return
        async with shelf.following:
            if shelf.index.version > version:
                # Another recall read a later one, unless the store has forgotten: begin anew in that case.
                version = (await self._memories.versions(principal)).get(label, 0)
                if shelf.index.version > version:
                    self._left.append(shelf.index)
                    shelf.index = LabelIndex()
            more = shelf.index.version < version
            while more:
                since = shelf.index.version
                changes = await self._memories.changes(principal, label, since, _PAGE)
                await self._beside(partial(shelf.index.follow, since, changes))
                more = changes.more

    async def _read(
        self, principal: str, readers: Collection[Label], named: Mapping[Label, Collection[str]]
    ) -> tuple[tuple[Memory, ...], Mapping[str, int]]:
        """Return the records of the results, and the number of recalls of each, at the same time."""
        names = [name for of_label in named.values() for name in of_label]
        if not names:
            return (), {}
        try:
            async with asyncio.TaskGroup() as together:
                memories = together.create_task(self._memories.memories(principal, named))
                uses = together.create_task(self._memories.uses(principal, readers, names))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return memories.result(), uses.result()

    def _compare(self, principal: str, named: Mapping[Label, Collection[str]], memories: Iterable[Memory]) -> None:
        """Leave the index that found a memory which the store no longer has: the store lost an acknowledged write."""
        known = {memory.id for memory in memories}
        for label, names in named.items():
            if not known.issuperset(names) and (principal, label) in self._shelves:
                self._leave((principal, label))

    @asynccontextmanager
    async def _indexes(
        self, principal: str, visible: Mapping[Label, int]
    ) -> AsyncGenerator[Mapping[Label, LabelIndex]]:
        """Hold the indexes of labels, brought up to their versions."""
        with self._used(principal, (label for label, version in visible.items() if version)) as shelves:
            for label, shelf in shelves.items():
                await self._follow(principal, label, shelf, visible[label])
            yield {label: shelf.index for label, shelf in shelves.items()}

    @contextmanager
    def _used(self, principal: str, labels: Iterable[Label]) -> Generator[Mapping[Label, _Shelf]]:
        """Hold the indexes of labels as long as a recall uses them, then make room where there are too many."""
        shelves = {label: self._shelf(principal, label) for label in labels}
        for shelf in shelves.values():
            shelf.readers += 1
        try:
            yield shelves
        finally:
            for label, shelf in shelves.items():
                shelf.readers -= 1
                if self._shelves.get((principal, label)) is shelf:
                    self._weight += shelf.index.weight - shelf.weight
                    shelf.weight = shelf.index.weight
                elif not shelf.readers:
                    self._left.append(shelf.index)
            self._make_room()

    def _shelf(self, principal: str, label: Label) -> _Shelf:
        place = (principal, label)
        if place not in self._shelves:
            self._shelves[place] = _Shelf()
        self._shelves.move_to_end(place)
        return self._shelves[place]

    def _make_room(self) -> None:
        """Leave the indexes that were not asked for longest, but for those in use and the last one."""
        if self._weight <= self._most:
            return
        for place in list(self._shelves)[:-1]:
            if not self._shelves[place].readers:
                self._leave(place)
            if self._weight <= self._most:
                return

    def _leave(self, place: tuple[str, Label]) -> None:
        """Leave an index; the last recall that uses it frees its memory."""
        shelf = self._shelves.pop(place)
        self._weight -= shelf.weight
        if not shelf.readers:
            self._left.append(shelf.index)

    async def _free(self) -> None:
        """Free the memory of the indexes that were left, beside the loop."""
        if self._left:
            left = tuple(self._left)
            await self._beside(partial(_close, left))
            self._left = [index for index in self._left if index not in left]


def _search(
    indexes: Mapping[Label, LabelIndex], asked: tuple[str, ...], most: int, domain: str
) -> Mapping[Label, tuple[Hit, ...]]:
    """Return the results of each index, without memories that another one of them corrects."""
    return _shown(indexes, most, lambda index, looked: index.search(asked, most=looked, domain=domain))


def _newest(indexes: Mapping[Label, LabelIndex], most: int, domain: str) -> Mapping[Label, tuple[Hit, ...]]:
    """Return the newest of each index, without memories that another one of them corrects."""
    return _shown(indexes, most, lambda index, looked: index.newest(most=looked, domain=domain))


def _shown(
    indexes: Mapping[Label, LabelIndex], most: int, look: Callable[[LabelIndex, int], tuple[Hit, ...]]
) -> Mapping[Label, tuple[Hit, ...]]:
    """Return up to `most` results of `look` for each index, without memories that another one of them corrects."""
    shown, looked, wanted = dict[Label, tuple[Hit, ...]](), most, dict(indexes)
    while wanted:
        found = {label: look(index, looked) for label, index in wanted.items()}
        names = frozenset(hit.id for hits in found.values() for hit in hits)
        corrected = frozenset[str]().union(*(index.corrected(names) for index in indexes.values()))
        for label, hits in found.items():
            shown[label] = tuple(hit for hit in hits if hit.id not in corrected)[:most]
            if len(shown[label]) == most or len(hits) < looked:
                del wanted[label]
        looked *= 4
    return {label: shown[label] for label in indexes}


def _counted(indexes: Sequence[LabelIndex]) -> int:
    """Return the number of memories of the indexes together, without memories that another one of them corrects."""
    corrected = frozenset[str]().union(*(index.corrections() for index in indexes))
    return sum(index.documents - len(index.held(corrected)) for index in indexes)


def _ranked(
    asked: tuple[str, ...], candidates: Iterable[Candidate], kept: Mapping[str, Memory], uses: Mapping[str, int]
) -> tuple[str, ...]:
    """Return the ids of the candidates that are kept, the best first."""
    overlap = overlap_with(asked)
    return fused(
        Candidate(one.id, one.place, one.learned_at, overlap(kept[one.id].text), uses.get(one.id, 0))
        for one in candidates
        if one.id in kept
    )


def _close(indexes: Iterable[LabelIndex]) -> None:
    for index in indexes:
        index.close()


def _candidates(found: Mapping[Label, tuple[Hit, ...]]) -> Iterator[Candidate]:
    for hits in found.values():
        for place, hit in enumerate(hits, 1):
            yield Candidate(hit.id, place, hit.learned_at)
