"""The briefing of a session at its beginning, or for a task: memories, skills, patterns and counts, as one text.

All of it is known to the reader (law `no_read_up`), and within their address's clearance. Texts are put on one line
each, so that none can pass for another part. No model is asked.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from bot.knowledge.index import LONGEST_QUERY
from bot.knowledge.patterns import MemoryPattern, Patterns
from bot.knowledge.recall import KnowledgeSearch
from bot.knowledge.skill_keeper import SkillKeeper
from bot.knowledge.skill_search import FittingSkill, SkillSearch
from bot.knowledge.words import asked_for
from bot.sessions.knowledge.memories import Memory
from bot.sessions.knowledge.skills import SkillState, SuccessRate
from policy.labels import Label

_SHORT: Final = 120
"""Characters of a memory in a compact briefing."""


class SkillDetail(StrEnum):
    """How much of a skill a briefing tells."""

    FULL = "full"
    SUMMARY = "summary"
    NAME_ONLY = "name_only"


@dataclass(frozen=True, slots=True)
class BriefingLayout:
    """How a briefing is written: `compact` on few lines, `summarize` as one paragraph."""

    compact: bool = False
    detail: SkillDetail = SkillDetail.SUMMARY
    summarize: bool = False


@dataclass(frozen=True, slots=True)
class BriefingReader:
    """The reader of a briefing: `principal` is whose knowledge it is, `label` the highest label of its items.

    `heard` returns the label with which an item of a label is told there, `permits` says whether that is allowed, and
    `mask` hides secrets in a text. `recalls` says whether it has memories at all.
    """

    principal: str
    label: Label
    heard: Callable[[Label], Label] = lambda label: label
    permits: Callable[[Label], bool] = lambda _label: True
    mask: Callable[[str], str] = str
    recalls: bool = True


@dataclass(frozen=True, slots=True)
class Briefing:
    """A text, with the label of all that it tells, and the ids of the memories and skills in it."""

    text: str
    label: Label
    memories: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


@dataclass(slots=True)
class _Told:
    """The text told to a reader: each permitted item joins the label, other items are left out."""

    reader: BriefingReader
    label: Label
    memories: list[Memory] = field(default_factory=list[Memory])
    skills: list[FittingSkill] = field(default_factory=list[FittingSkill])
    patterns: list[MemoryPattern] = field(default_factory=list[MemoryPattern])

    def take(
        self,
        memories: Iterable[Memory] = (),
        skills: Iterable[FittingSkill] = (),
        patterns: Iterable[MemoryPattern] = (),
    ) -> None:
        """Take the permitted items."""
        self.memories += [one for one in memories if self._may(one.label)]
        self.skills += [one for one in skills if self._may(one.version.told)]
        self.patterns += [one for one in patterns if self._may(one.label)]

    def line(self, text: str, *, most: int = 0) -> str:
        """Return a text for the briefing: masked, on one line, of `most` characters if that is not 0."""
        plain = " ".join(self.reader.mask(text).split())
        return plain if not most or len(plain) <= most else f"{plain[: most - 2]} …"

    def briefing(self, text: str) -> Briefing:
        """Return a text with the label of its content."""
        memories, skills = (one.id for one in self.memories), (one.skill.id for one in self.skills)
        return Briefing(text, self.label, tuple(memories), tuple(skills))

    def _may(self, label: Label) -> bool:
        joined = self.label.join(self.reader.heard(label))
        permitted = self.reader.permits(joined)
        if permitted:
            self.label = joined
        return permitted


class Briefings:
    """Writes briefings."""

    def __init__(
        self, *, search: KnowledgeSearch, skills: SkillSearch, keeper: SkillKeeper, patterns: Patterns
    ) -> None:
        self._search = search
        self._skills = skills
        self._keeper = keeper
        self._patterns = patterns

    async def start(
        self,
        reader: BriefingReader,
        *,
        domain: str = "",
        context: str = "",
        memory_limit: int = 10,
        skill_limit: int = 5,
        layout: BriefingLayout = BriefingLayout(),
    ) -> Briefing:
        """Return the knowledge for the beginning of a session.

        Args:
            reader: the reader of the briefing.
            domain: its subject, empty for any.
            context: words of the task: the best matches are included. Empty for the newest.
            memory_limit: the most memories that are included.
            skill_limit: the most skills that are included.
            layout: how it is written.

        Raises StoreError.
        """
        try:
            # None waits for another: most of the time goes to waiting for the store.
            async with asyncio.TaskGroup() as together:
                memories = together.create_task(self._memories(reader, context, memory_limit, domain))
                skills = together.create_task(self._in_force(reader, context, skill_limit, domain))
                patterns = together.create_task(self._detected(reader, domain))
                stats = together.create_task(self._stats(reader))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        told = _Told(reader, reader.label.secrecy)
        told.take(memories.result(), skills.result(), (one for one in patterns.result() if not one.skill))
        title = "Session started" + (f" for domain: {told.line(domain)}" if domain else "")
        return told.briefing(_start_text(told, title, stats.result(), layout))

    async def apply(
        self,
        reader: BriefingReader,
        task: str,
        *,
        domain: str = "",
        limit: int = 5,
        layout: BriefingLayout = BriefingLayout(),
    ) -> Briefing:
        """Return which skills, and which step of each, and which memories fit a task; at most `limit` of both.

        Raises StoreError.
        """
        who, label = reader.principal, reader.label
        skills = await self._skills.fitting(who, label, task, domain=domain, limit=limit)
        told = _Told(reader, label.secrecy)
        told.take(await self._recalled(reader, task, limit, domain), skills)
        return told.briefing(_apply_text(told, layout))

    async def _memories(self, reader: BriefingReader, context: str, limit: int, domain: str) -> tuple[Memory, ...]:
        """Return the best matches of the context, then the newest, up to the limit."""
        found = await self._recalled(reader, context, limit, domain)
        if reader.recalls and len(found) < limit:
            named = {memory.id for memory in found}
            newest = await self._search.newest(reader.principal, reader.label, limit=limit, domain=domain)
            found = (*found, *(memory for memory in newest if memory.id not in named))[:limit]
        return found

    async def _in_force(
        self, reader: BriefingReader, context: str, limit: int, domain: str
    ) -> tuple[FittingSkill, ...]:
        """Return the skills that fit the context best, then those that changed last, up to as many as are wanted."""
        found = await self._skills.fitting(reader.principal, reader.label, context, domain=domain, limit=limit)
        if len(found) < limit:
            named = {one.skill.id for one in found}
            active = await self._skills.active(reader.principal, reader.label, domain=domain, limit=limit)
            found = (*found, *(one for one in active if one.skill.id not in named))[:limit]
        return found

    async def _recalled(self, reader: BriefingReader, words: str, limit: int, domain: str) -> tuple[Memory, ...]:
        if not reader.recalls:
            return ()
        asked = asked_for(words[:LONGEST_QUERY])
        return await self._search.recall(reader.principal, reader.label, asked, limit=limit, domain=domain)

    async def _detected(self, reader: BriefingReader, domain: str) -> tuple[MemoryPattern, ...]:
        return await self._patterns.known(reader.principal, reader.label, domain) if reader.recalls else ()

    async def _stats(self, reader: BriefingReader) -> str:
        """Return how much there is, as far as the reader may know."""
        memories = await self._search.counted(reader.principal, reader.label) if reader.recalls else 0
        known = await self._skills.known(reader.principal, reader.label)
        names = [skill.id for skill in known if skill.state is not SkillState.REJECTED]
        rates = (await self._keeper.rates(reader.principal, reader.label, names)).values()
        whole = SuccessRate(sum(one.uses for one in rates), sum(one.successes for one in rates))
        share = f"{whole.percent}% skill success rate" if whole.uses else "no reflections yet"
        return f"{_many(memories, 'memory', 'memories')}, {_many(len(names), 'skill', 'skills')}, {share}"


def _start_text(told: _Told, title: str, stats: str, layout: BriefingLayout) -> str:
    patterns = _patterns(told.patterns)
    if layout.summarize:
        counts = f"{_count_memories(told)} and {_many(len(told.skills), 'active skill', 'active skills')}"
        return f"{title}: {counts} to go by. {_best(told)} Patterns detected: {patterns}. In all: {stats}."
    memories = _section(f"Relevant memories ({len(told.memories)})", _memory_lines(told, layout), layout)
    skills = [_skill_line(told, one, layout) for one in told.skills]
    parts = (title, memories, _section(f"Active skills ({len(skills)})", skills, layout))
    return _joined((*parts, f"Patterns detected: {patterns}", f"Stats: {stats}"), layout)


def _apply_text(told: _Told, layout: BriefingLayout) -> str:
    if layout.summarize:
        counts = f"{_many(len(told.skills), 'skill fits', 'skills fit')} and {_count_memories(told)}"
        return f"Relevant context for task: {counts}. {_best(told)}"
    skills = [_applied_line(told, one, layout) for one in told.skills]
    memories = _section("Memories", _memory_lines(told, layout), layout)
    return _joined(("Relevant context for task:", _section("Skills", skills, layout), memories), layout)


def _joined(parts: Iterable[str], layout: BriefingLayout) -> str:
    return ("\n" if layout.compact else "\n\n").join(parts)


def _section(title: str, lines: Sequence[str], layout: BriefingLayout) -> str:
    if not lines:
        return f"{title}: none"
    if layout.compact:
        return f"{title}: {'; '.join(lines)}"
    return "\n".join((f"{title}:", *(f"- {line}" for line in lines)))


def _memory_lines(told: _Told, layout: BriefingLayout) -> list[str]:
    return [told.line(memory.text, most=_SHORT if layout.compact else 0) for memory in told.memories]


def _skill_line(told: _Told, one: FittingSkill, layout: BriefingLayout) -> str:
    said = one.version.text
    head = f"{told.line(said.name)} ({one.skill.id})"
    if layout.detail is SkillDetail.NAME_ONLY:
        return head
    about = told.line(said.description)
    if layout.detail is SkillDetail.SUMMARY:
        about = about.partition(". ")[0].removesuffix(".")
    head = f"{head} — {len(said.steps)}-step workflow{f': {about}' if about else ''}"
    return head + _steps(told, one, layout)


def _applied_line(told: _Told, one: FittingSkill, layout: BriefingLayout) -> str:
    said = one.version.text
    head = f"{told.line(said.name)} ({one.skill.id}, active)"
    if layout.detail is SkillDetail.NAME_ONLY:
        return head
    step = f"Step {one.step}: {said.steps[one.step - 1]}" if one.step else said.description
    return f"{head}{f' — {told.line(step)}' if step else ''}" + _steps(told, one, layout)


def _steps(told: _Told, one: FittingSkill, layout: BriefingLayout) -> str:
    """Return the steps below a skill, where all of it is to be told."""
    if layout.detail is not SkillDetail.FULL:
        return ""
    steps = [f"{number}. {told.line(step)}" for number, step in enumerate(one.version.text.steps, 1)]
    return f": {' '.join(steps)}" if layout.compact else "".join(f"\n  {step}" for step in steps)


def _best(told: _Told) -> str:
    """Return the first of the memories and of the skills in a sentence each."""
    told_first = list[str]()
    if told.skills:
        one = told.skills[0]
        step = f", step {one.step}" if one.step else ""
        told_first.append(f"First skill: {told.line(one.version.text.name)} ({one.skill.id}){step}.")
    if told.memories:
        told_first.append(f"First memory: {told.line(told.memories[0].text, most=_SHORT)}.")
    return " ".join(told_first) or "Nothing is known about it."


def _patterns(patterns: Iterable[MemoryPattern]) -> str:
    """Return which patterns are detected, and which emerge: `1 detected (report), 1 emerging (notes → 2/3 …)`."""
    known = tuple(patterns)
    detected = [one.name for one in known if one.detected]
    emerging = [f"{one.name} → {one.observations} observations" for one in known if not one.detected]
    counted = (("detected", detected, ", "), ("emerging", emerging, "; "))
    return ", ".join(f"{len(some)} {how} ({sign.join(some)})" for how, some, sign in counted if some) or "none"


def _count_memories(told: _Told) -> str:
    return _many(len(told.memories), "memory", "memories")


def _many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
