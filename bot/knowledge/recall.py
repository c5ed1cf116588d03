"""Recall: what a principal's sessions learned that fits a query, as far as the reader may know of it.

There is one index for each label (`bot.knowledge.index`). A recall reads how often the memories of each label changed,
brings the indexes up to that which it may use, and asks those alone: what is above the reader is neither looked up nor
followed, so that it changes neither what is found nor in which order (law `no_read_up`). What was found is read again
from the store, so that what was forgotten a moment ago is not told. A recall whose indexes are up to date takes two
round trips. Indexes are built when they are first asked and left when others need their room.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from bot.knowledge.index import Hit, LabelIndex, phrases
from bot.knowledge.ranking import Candidate, fused, overlap
from bot.sessions.knowledge.memories import Memory, MemoryState
from bot.sessions.ports.knowledge import MemoryStore
from policy.labels import Label

MOST_WEIGHT: Final = 100_000_000
"""What the indexes of a process weigh together at most, in characters of text: about 200 MB."""

_PAGE: Final = 500
"""Changes that are read and taken at once."""

_LEAST_FOUND: Final = 20
"""How many of each index are ranked at least."""


@dataclass(eq=False, slots=True)
class _Shelf:
    """One index in its place.

    Who brings it up to date holds `following`. `readers` are the recalls that use it, `weight` what it weighed when
    that was last looked at.
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
            most: what the indexes may weigh together, in characters of text; those in use may weigh more.
        """
        self._memories = memories
        self._most = most
        self._shelves = OrderedDict[tuple[str, Label], _Shelf]()
        self._left = list[LabelIndex]()
        self._weight = 0

    @property
    def weight(self) -> int:
        """What the indexes weigh together, in characters of text."""
        return self._weight

    async def recall(
        self, principal: str, reader: Label, query: str, *, limit: int, domain: str = ""
    ) -> tuple[Memory, ...]:
        """Return the memories that fit a query best, the best first; none for a query without a word.

        Args:
            principal: whose memories.
            reader: the label of who reads; memories are found whose label flows to it.
            query: text in which any word counts.
            limit: how many are returned at most.
            domain: what they are to be about; those that are about anything are found too. Empty for all.

        Raises:
            StoreGoneError: the store does not answer.
            StoreRefusedError: it refuses.
            SchemaError: it holds records of a newer version.
        """
        asked = phrases(query)
        if limit < 1 or not asked:
            return ()
        versions = await self._memories.versions(principal)
        visible = {label: version for label, version in versions.items() if label.flows_to(reader)}
        most = max(_LEAST_FOUND, 2 * limit)
        with self._used(principal, (label for label, version in visible.items() if version)) as shelves:
            for label, shelf in shelves.items():
                await self._follow(principal, label, shelf, visible[label])
            indexes = {label: shelf.index for label, shelf in shelves.items()}
            found = await asyncio.to_thread(_search, indexes, asked, most, domain)
        candidates = tuple(_candidates(found))
        chosen = frozenset(fused(candidates)[:most])
        named = {label: [hit.id for hit in hits if hit.id in chosen] for label, hits in found.items()}
        memories, uses = await self._read(principal, {*visible, reader}, named)
        self._compare(principal, named, memories)
        await self._free()
        kept = {memory.id: memory for memory in memories if memory.state is MemoryState.KEPT}
        ranked = fused(
            replace(one, overlap=overlap(asked, kept[one.id].text), uses=uses.get(one.id, 0))
            for one in candidates
            if one.id in kept
        )
        return tuple(kept[name] for name in ranked[:limit])

    async def close(self) -> None:
        """Free the memory of all indexes; no recall may be under way."""
        for place in list(self._shelves):
            self._leave(place)
        await self._free()

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
                await asyncio.to_thread(shelf.index.follow, since, changes)
                more = changes.more

    async def _read(
        self, principal: str, readers: Collection[Label], named: Mapping[Label, Collection[str]]
    ) -> tuple[tuple[Memory, ...], Mapping[str, int]]:
        """Return the records of what was found, and how often each was recalled, at the same time."""
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
        """Leave the index that found what the store never had: the store lost what it had acknowledged."""
        known = {memory.id for memory in memories}
        for label, names in named.items():
            if not known.issuperset(names) and (principal, label) in self._shelves:
                self._leave((principal, label))

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
            await asyncio.to_thread(_close, left)
            self._left = [index for index in self._left if index not in left]


def _search(
    indexes: Mapping[Label, LabelIndex], asked: tuple[str, ...], most: int, domain: str
) -> Mapping[Label, tuple[Hit, ...]]:
    """Return what each index finds, without what a memory in one of them corrects."""

    def hits(index: LabelIndex) -> tuple[Hit, ...]:
        looked = most
        while True:
            found = index.search(asked, most=looked, domain=domain)
            names = [hit.id for hit in found]
            corrected = frozenset[str]().union(*(one.corrected(names) for one in indexes.values()))
            shown = tuple(hit for hit in found if hit.id not in corrected)
            if len(shown) >= most or len(found) < looked:
                return shown[:most]
            looked *= 4

    return {label: hits(index) for label, index in indexes.items()}


def _close(indexes: Iterable[LabelIndex]) -> None:
    for index in indexes:
        index.close()


def _candidates(found: Mapping[Label, tuple[Hit, ...]]) -> Iterator[Candidate]:
    for hits in found.values():
        for place, hit in enumerate(hits, 1):
            yield Candidate(hit.id, place, hit.learned_at)
