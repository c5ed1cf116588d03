"""A store's part for skills whose calls are noted, and which can be made to be forestalled or to tell old versions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.skills import Reflection, Skill, SkillChanges, SkillEvent, SuccessRate
from bot.sessions.ports.knowledge import SkillStore
from policy.labels import Label


@dataclass
class WatchedSkills:
    """What is behind it, and how often somebody else is to change a skill just before it is changed."""

    behind: SkillStore
    forestalled: int = 0
    calls: list[str] = field(default_factory=list[str])
    old: Mapping[Label, int] | None = None

    async def create(self, skill: Skill, event: SkillEvent, most: int, audit: tuple[AuditRow, ...]) -> Skill:
        return await self.behind.create(skill, event, most, audit)

    async def change(self, skill: Skill, event: SkillEvent, audit: tuple[AuditRow, ...]) -> bool:
        if self.forestalled:
            self.forestalled -= 1
            (now,) = await self.behind.skills(skill.principal, {skill.label: (skill.id,)})
            assert await self.behind.change(replace(now, revision=now.revision + 1), event, ())
        return await self.behind.change(skill, event, audit)

    async def versions(self, principal: str) -> Mapping[Label, int]:
        """Return old versions once, if there are any to be told."""
        self.calls.append("versions")
        told, self.old = self.old, None
        return await self.behind.versions(principal) if told is None else told

    async def changes(self, principal: str, label: Label, since: int, most: int) -> SkillChanges:
        self.calls.append(f"changes {label}")
        return await self.behind.changes(principal, label, since, most)

    async def skills(self, principal: str, ids: Mapping[Label, Collection[str]]) -> tuple[Skill, ...]:
        return await self.behind.skills(principal, ids)

    async def history(self, skill: Skill) -> tuple[SkillEvent, ...]:
        return await self.behind.history(skill)

    async def reflect(self, principal: str, name: str, reflection: Reflection, op: str) -> None:
        await self.behind.reflect(principal, name, reflection, op)

    async def rates(
        self, principal: str, readers: Collection[Label], ids: Collection[str]
    ) -> Mapping[str, SuccessRate]:
        return await self.behind.rates(principal, readers, ids)

    async def notes(self, principal: str, readers: Collection[Label], name: str) -> tuple[Reflection, ...]:
        return await self.behind.notes(principal, readers, name)
