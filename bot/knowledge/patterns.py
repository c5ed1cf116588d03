"""Patterns: similar memories, from which a draft of a skill may be generated.

Two memories are similar that are about the same domain, or both about none, and have half of their words in common
(Dice's measure of their stems, `bot.knowledge.words`). The newest memories that the reader may know of are compared. So
neither a pattern, nor the progress of the search, nor its name tells of memories above them (law `no_read_up`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bot.core.errors import NotFoundError, RequestError
from bot.knowledge.keeper import Learner
from bot.knowledge.recall import KnowledgeSearch
from bot.knowledge.skill_keeper import SkillKeeper
from bot.knowledge.skill_search import SkillSearch
from bot.knowledge.words import significant
from bot.sessions.knowledge.memories import Memory
from bot.sessions.knowledge.skills import LONGEST_SKILL, LONGEST_STEP, MOST_STEPS, Skill, SkillDeed, SkillText
from policy.labels import Label, join_all

DETECTED: Final = 3
"""Similar memories from which on a pattern is detected."""

LOOKED_AT: Final = 100
"""Memories among which patterns are looked for, the newest."""

EMERGING: Final = (
    "the pattern `{name}` is emerging: {observations} observations; a skill is generated from the third on"
)

_LONGEST_WORD: Final = 24
"""Characters of a word in a pattern's name."""

_WORDS: Final = 3
"""Words of a pattern's name at most; two are enough where the third is in fewer memories."""

_ROOM: Final = LONGEST_SKILL - 300
"""Characters of the steps of a draft; the rest is for its name, description and domain."""

_DESCRIBED: Final = "Drafted from {} memories that say alike."

_REMEMBERED: Final = 256
"""How many answers are remembered."""


@dataclass(frozen=True, slots=True)
class MemoryPattern:
    """Similar memories, as far as a reader may know of them.

    `label` is the join of those of its sources, integrity too. `sources` are ids, the oldest first. `skill` is the id
    of a skill that was generated from some of them, empty for none.
    """

    name: str
    domain: str
    sources: tuple[str, ...]
    label: Label
    skill: str = ""

    @property
    def detected(self) -> bool:
        """Whether there are enough of them."""
        return len(self.sources) >= DETECTED

    @property
    def observations(self) -> str:
        """How far an emerging one came: `2/3`."""
        return f"{min(len(self.sources), DETECTED)}/{DETECTED}"


@dataclass(frozen=True, slots=True)
class _Said:
    """A memory, and its stems with their words."""

    memory: Memory
    words: Mapping[str, str]


def patterns(memories: Iterable[Memory]) -> tuple[MemoryPattern, ...]:
    """Return the patterns among memories: those of most memories first, and of those the one with the newest.

    A memory that no other is like counts as a pattern that emerges only while it is the newest of its domain.
    """
    newest_first = sorted(memories, key=lambda memory: (-memory.learned_at, memory.id))
    domains = dict[str, list[Memory]]()
    for memory in reversed(newest_first):
        domains.setdefault(memory.domain, []).append(memory)
    groups = [group for of_domain in domains.values() for group in _grouped(of_domain)]
    groups.sort(key=lambda group: (-min(len(group), DETECTED), -group[-1].memory.learned_at, group[-1].memory.id))
    taken, found = dict[str, int](), list[MemoryPattern]()
    for group in groups:
        name = _name(group)
        if name:
            taken[name] = taken.get(name, 0) + 1
            name = name if taken[name] == 1 else f"{name}-{taken[name]}"
            sources = tuple(one.memory.id for one in group)
            label = join_all(one.memory.label for one in group)
            found.append(MemoryPattern(name, group[0].memory.domain, sources, label))
    return tuple(found)


class Patterns:
    """Patterns among the newest memories of principals, remembered until one of them or a skill changes."""

    def __init__(self, search: KnowledgeSearch, skills: SkillSearch, keeper: SkillKeeper) -> None:
        self._search = search
        self._skills = skills
        self._keeper = keeper
        self._known = OrderedDict[object, tuple[MemoryPattern, ...]]()

    async def known(self, principal: str, reader: Label, domain: str = "") -> tuple[MemoryPattern, ...]:
        """Return the patterns of a domain and those of none, all for an empty one, as far as a reader may know.

        Raises StoreError.
        """
        versions = await self._search.versions(principal, reader), await self._skills.versions(principal, reader)
        place = (principal, domain, *(frozenset(some.items()) for some in versions))
        if place not in self._known:
            memories = await self._search.newest(principal, reader, limit=LOOKED_AT, domain=domain)
            made = _made_of(await self._skills.known(principal, reader))
            found = await asyncio.to_thread(patterns, memories)
            self._known[place] = tuple(_with_skill(one, made) for one in found)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(place)
        return self._known[place]

    async def named(self, principal: str, reader: Label, name: str, domain: str = "") -> MemoryPattern:
        """Return a pattern by its name.

        Raises:
            NotFoundError: there is none that they may know of.
            StoreError: the store cannot be used.
        """
        found = next((one for one in await self.known(principal, reader, domain) if one.name == name), None)
        if found is None:
            raise NotFoundError
        return found

    async def generate(self, author: Learner, pattern: MemoryPattern, key: str) -> Skill:
        """Keep a draft that a detected pattern makes: its memories' texts are the steps, in their order.

        Its label is that of the author and of the sources, integrity too. The same `key` again is the same skill.

        Raises:
            RequestError: the pattern is only emerging.
            NotFoundError: its sources changed meanwhile.
            FullError: as many skills are kept as may.
            StoreError: it cannot be kept.
        """
        if not pattern.detected:
            raise RequestError(EMERGING.format(name=pattern.name, observations=pattern.observations))
        memories = await self._search.named(author.principal, author.reader, pattern.sources)
        if len(memories) < len(pattern.sources):
            raise NotFoundError
        label = join_all((memory.label for memory in memories), author.label)
        text = SkillText(pattern.name, _DESCRIBED.format(len(memories)), pattern.domain, _steps(memories))
        authors = sorted({*author.authors, *(name for memory in memories for name in memory.authors)})
        by, sources = replace(author, label=label, authors=tuple(authors)), pattern.sources
        return await self._keeper.create(by, text, key, deed=SkillDeed.GENERATED, sources=sources)


def _grouped(memories: Iterable[Memory]) -> list[list[_Said]]:
    """Return groups of similar memories of one domain, given the oldest first.

    Two are similar that have half of their stems in common, and two of them at least. Each comes to the group of which
    it is similar to most, and to half at least; of equal ones to the oldest.
    """
    places, groups, before, last = dict[str, int](), list[list[_Said]](), list[tuple[int, int, int]](), None
    for memory in memories:
        last = _Said(memory, significant(memory.text))
        bits, size, near = _bits(last.words, places), len(last.words), dict[int, int]()
        for other, others, place in before:
            common = (bits & other).bit_count()
            if common > 1 and 4 * common >= size + others:
                near[place] = near.get(place, 0) + 1
        fits = [(-count, place) for place, count in near.items() if 2 * count >= len(groups[place])]
        _, place = min(fits, default=(0, len(groups)))
        if place == len(groups):
            groups.append([])
        groups[place].append(last)
        before.append((bits, size, place))
    return [group for group in groups if len(group) > 1 or group[0] is last]


def _bits(stems: Iterable[str], places: dict[str, int]) -> int:
    """Return stems as bits, each at its place."""
    bits = 0
    for stem in stems:
        bits |= 1 << places.setdefault(stem, len(places))
    return bits


def _name(group: Sequence[_Said]) -> str:
    """Return the name of a pattern: the words that most of its memories have, as the oldest of them says them."""
    counts, words = dict[str, int](), dict[str, str]()
    for one in group:
        for stem, word in one.words.items():
            counts[stem] = counts.get(stem, 0) + 1
            words.setdefault(stem, word)
    places = {stem: place for place, stem in enumerate(words)}
    best = sorted(counts, key=lambda stem: (-counts[stem], places[stem]))[:_WORDS]
    if len(best) == _WORDS and counts[best[-1]] < counts[best[-2]]:
        best.pop()
    return "-".join(words[stem][:_LONGEST_WORD] for stem in sorted(best, key=places.__getitem__))


def _made_of(skills: Iterable[Skill]) -> Mapping[str, str]:
    """Return the memories that skills were generated from, each with the id of a skill."""
    return {source: skill.id for skill in skills for version in skill.versions for source in version.sources}


def _with_skill(pattern: MemoryPattern, made: Mapping[str, str]) -> MemoryPattern:
    skill = next((made[source] for source in pattern.sources if source in made), "")
    return replace(pattern, skill=skill) if skill else pattern


def _steps(memories: Iterable[Memory]) -> tuple[str, ...]:
    """Return the texts of memories as steps, as many as a skill has room for."""
    steps, room = list[str](), _ROOM
    for memory in memories:
        step = " ".join(memory.text.split())
        step = step if len(step) <= LONGEST_STEP else f"{step[: LONGEST_STEP - 2]} …"
        room -= len(step)
        if room < 0 or len(steps) == MOST_STEPS:
            break
        steps.append(step)
    return tuple(steps)
