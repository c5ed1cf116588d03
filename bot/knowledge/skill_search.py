"""Skills in force that fit a task, and the step of each that fits best, as far as a reader may know of them.

Each process follows the changes of a label's skills since its last look, as its indexes follow memories. Skills above a
reader are not looked at. A skill is compared with the task by its own words alone, so that no other skill changes
whether it fits, nor how well (law `no_read_up`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from bot.knowledge.skill_keeper import about
from bot.knowledge.words import significant
from bot.sessions.knowledge.skills import Skill, SkillState, SkillVersion
from bot.sessions.ports.knowledge import SkillStore
from policy.labels import Label

MOST_WEIGHT: Final = 20_000_000
"""The most weight of the skills of a process together, in characters of text."""

_PAGE: Final = 100
"""Changes that are read at once."""

_LONGEST_TASK: Final = 10_000
"""Characters of a task that are looked at."""

_NAMED: Final = 3
"""How much more a word counts that is in the name of a skill, than one of its description or of a step."""


@dataclass(frozen=True, slots=True)
class FittingSkill:
    """A skill in force: `version` is the one that a person approved, `step` the number of the step that fits best.

    `step` is None where none fits, or without a task.
    """

    skill: Skill
    version: SkillVersion
    step: int | None = None


@dataclass(frozen=True, slots=True)
class _KnownSkill:
    """A skill, and the stems of the version in force: of its name, of its description, and of each step."""

    skill: Skill
    version: SkillVersion
    name: frozenset[str]
    description: frozenset[str]
    steps: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class _SkillShelf:
    """The skills of a label as of a version, and their weight."""

    version: int = 0
    skills: Mapping[str, _KnownSkill] = field(default_factory=dict[str, _KnownSkill])
    weight: int = 0


class SkillSearch:
    """The skills of principals as this process knows them, kept true by the versions that the store tells."""

    def __init__(self, skills: SkillStore, *, most: int = MOST_WEIGHT) -> None:
        """Begin without any.

        Args:
            skills: where they are kept.
            most: the most weight of them together, in characters of text; those of one label may weigh more.
        """
        self._skills = skills
        self._most = most
        self._shelves = OrderedDict[tuple[str, Label], _SkillShelf]()

    @property
    def weight(self) -> int:
        """The weight of the skills together, in characters of text."""
        return sum(shelf.weight for shelf in self._shelves.values())

    async def versions(self, principal: str, reader: Label) -> Mapping[Label, int]:
        """Return the labels that a reader may know of, with the version of the last change of their skills.

        Raises StoreError.
        """
        versions = await self._skills.versions(principal)
        return {label: version for label, version in versions.items() if version and label.flows_to(reader)}

    async def known(self, principal: str, reader: Label) -> tuple[Skill, ...]:
        """Return all skills that a reader may know of, those that changed last first. Raises StoreError."""
        found = [one.skill for one in await self._known(principal, reader)]
        return tuple(sorted(found, key=_changed_last))

    async def active(self, principal: str, reader: Label, *, domain: str = "", limit: int) -> tuple[FittingSkill, ...]:
        """Return skills in force, about a domain or about anything, those that changed last first.

        Raises StoreError.
        """
        found = [FittingSkill(one.skill, one.version) for one in await self._in_force(principal, reader, domain)]
        return tuple(sorted(found, key=lambda one: _changed_last(one.skill))[:limit])

    async def fitting(
        self, principal: str, reader: Label, task: str, *, domain: str = "", limit: int
    ) -> tuple[FittingSkill, ...]:
        """Return skills in force that fit a task, the best first, with the step of each that fits it best.

        Raises StoreError.
        """
        asked = significant(task[:_LONGEST_TASK]).keys()
        fits = [(_fit(one, asked), one) for one in await self._in_force(principal, reader, domain)]
        fits = sorted(
            ((fit, one) for fit, one in fits if fit), key=lambda found: (-found[0], _changed_last(found[1].skill))
        )
        return tuple(FittingSkill(one.skill, one.version, _best_step(one, asked)) for _, one in fits[:limit])

    async def _in_force(self, principal: str, reader: Label, domain: str) -> Iterator[_KnownSkill]:
        known = await self._known(principal, reader)
        return (one for one in known if one.skill.state is SkillState.ACTIVE and about(one.version.text, domain))

    async def _known(self, principal: str, reader: Label) -> list[_KnownSkill]:
        found = list[_KnownSkill]()
        for label, version in (await self.versions(principal, reader)).items():
            for one in (await self._shelf(principal, label, version)).skills.values():
                seen = one.skill.known_to(reader)
                if seen is not None:
                    # The approved version names it, so that its search words stay the same.
                    found.append(one if seen is one.skill else replace(one, skill=seen))
        return found

    async def _shelf(self, principal: str, label: Label, version: int) -> _SkillShelf:
        """Return the skills of a label as of a version at least."""
        place = (principal, label)
        shelf = self._shelves.get(place, _SkillShelf())
        if shelf.version > version:
            # Another call read a later one, unless the store has forgotten: begin anew in that case.
            version = (await self._skills.versions(principal)).get(label, 0)
            shelf = shelf if shelf.version <= version else _SkillShelf()
        more = shelf.version < version
        while more:
            changes = await self._skills.changes(principal, label, shelf.version, _PAGE)
            prepared = await asyncio.to_thread(_all_prepared, changes.changed)
            skills = {**shelf.skills, **prepared}
            shelf = _SkillShelf(changes.version, skills, sum(map(_weight, skills.values())))
            more = changes.more
        self._shelves[place] = shelf
        self._shelves.move_to_end(place)
        while self.weight > self._most and len(self._shelves) > 1:
            self._shelves.popitem(last=False)
        return shelf


def _all_prepared(skills: Iterable[Skill]) -> Mapping[str, _KnownSkill]:
    return {skill.id: _prepared(skill) for skill in skills}


def _prepared(skill: Skill) -> _KnownSkill:
    version = skill.shown
    said = version.text
    parts = [frozenset(significant(part)) for part in (said.name, said.description, *said.steps)]
    return _KnownSkill(skill, version, parts[0], parts[1], tuple(parts[2:]))


def _weight(known: _KnownSkill) -> int:
    return sum(
        len(one.text.name) + len(one.text.description) + sum(map(len, one.text.steps)) for one in known.skill.versions
    )


def _changed_last(skill: Skill) -> tuple[int, str]:
    return -skill.changed_at, skill.id


def _fit(known: _KnownSkill, asked: Collection[str]) -> int:
    """Return how well a skill fits: how much of its words is asked for, 0 for none."""
    steps = max(_common(step, asked) for step in known.steps)
    return _NAMED * _common(known.name, asked) + _common(known.description, asked) + steps


def _best_step(known: _KnownSkill, asked: Collection[str]) -> int | None:
    """Return the number of the step that fits best, of equal ones the first; None if none does.

    Words of the skill's name say which skill, and hardly which step.
    """
    fits = [(_common(step - known.name, asked), _common(step, asked)) for step in known.steps]
    best = max(fits)
    return fits.index(best) + 1 if best[1] else None


def _common(words: Iterable[str], asked: Collection[str]) -> int:
    """Return how much of these words is asked for; long ones say more than short ones."""
    return sum(len(word) for word in words if word in asked)
