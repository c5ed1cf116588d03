"""The ports for what principals' sessions have learned: memories and skills.

All of a principal's share one slot of a Cluster; those of each label are kept apart, so that what is of one
label neither counts, orders nor delays what is of another (law `no_read_up`). Every method that changes something is
one atomic, idempotent script (law `lost_reply_never_duplicates`). A store that does not answer raises StoreGoneError,
one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.memories import Memory, MemoryChanges
from bot.sessions.knowledge.skills import Reflection, Skill, SkillChanges, SkillEvent, SuccessRate
from policy.labels import Label


class MemoryStore(Protocol):
    """What memories ask of the store."""

    async def learn(self, memory: Memory, most: int, audit: tuple[AuditRow, ...]) -> Memory:
        """Keep a memory, once for its id, and return it as it is kept: the first that came under that id.

        Where it `corrects` one of its own label that is kept, that one is CORRECTED by it in the same step; one of
        another label stays as it is. Raises FullError: the principal has `most` that are kept, of its label.
        NotFoundError: the one of its own label that it corrects is not kept any more.
        """
        ...

    async def forget(self, memory: Memory, audit: tuple[AuditRow, ...]) -> bool:
        """Erase the words of a memory for good, and those of all that it corrects of its label, down to the first.

        Returns whether it was kept until now.
        """
        ...

    async def versions(self, principal: str) -> Mapping[Label, int]:
        """Return each label of which a principal has or had memories, with the version of their last change.

        Labels of which there never were any, but whose sessions recalled some, are among them, with 0.
        """
        ...

    async def changes(self, principal: str, label: Label, since: int, most: int) -> MemoryChanges:
        """Return up to `most` memories of a label that changed behind a version, each as it is now, in that order."""
        ...

    async def memories(self, principal: str, ids: Mapping[Label, Collection[str]]) -> tuple[Memory, ...]:
        """Return memories by label and id in one round trip, as they are now; those that never were are left out."""
        ...

    async def page(self, principal: str, label: Label, before: int, most: int) -> MemoryChanges:
        """Return up to `most` memories of a label, the newest change first, of those whose version is below `before`.

        `before` is 0 for the newest. `version` of what is returned is that of the last one.
        """
        ...

    async def count_use(self, principal: str, reader: Label, ids: Collection[str], op: str) -> None:
        """Count that memories were recalled by a session that has read `reader`, once for `op`."""
        ...

    async def uses(self, principal: str, readers: Collection[Label], ids: Collection[str]) -> Mapping[str, int]:
        """Return how often memories were recalled, as far as sessions of these labels did; 0 is left out."""
        ...


class SkillStore(Protocol):
    """What skills ask of the store."""

    async def create(self, skill: Skill, event: SkillEvent, most: int, audit: tuple[AuditRow, ...]) -> Skill:
        """Keep a new skill, once for its id, with the first line of its log; return the first that came under that id.

        Raises FullError: the principal has `most` at its label, those that were rejected apart.
        """
        ...

    async def change(self, skill: Skill, event: SkillEvent, audit: tuple[AuditRow, ...]) -> bool:
        """Keep a skill as it is after a change, with the line that its log has of that.

        Its `revision` is one more than that of what the change began with. Returns False where another change came
        first: it is as it was left then.
        """
        ...

    async def versions(self, principal: str) -> Mapping[Label, int]:
        """Return each label of which a principal has skills, with the version of their last change.

        Labels of which there are none, but whose sessions reflected on some, are among them, with 0.
        """
        ...

    async def changes(self, principal: str, label: Label, since: int, most: int) -> SkillChanges:
        """Return up to `most` skills of a label that changed behind a version, each as it is now, in that order."""
        ...

    async def skills(self, principal: str, ids: Mapping[Label, Collection[str]]) -> tuple[Skill, ...]:
        """Return skills by label and id in one round trip, as they are now; those that never were are left out."""
        ...

    async def history(self, skill: Skill) -> tuple[SkillEvent, ...]:
        """Return the log of a skill, the newest event first."""
        ...

    async def reflect(self, principal: str, name: str, reflection: Reflection, op: str) -> None:
        """Count how it went where a skill was applied, by the label of the session that tells it, once for `op`."""
        ...

    async def rates(
        self, principal: str, readers: Collection[Label], ids: Collection[str]
    ) -> Mapping[str, SuccessRate]:
        """Return how it went where skills were applied, as far as sessions of these labels told; no uses left out."""
        ...

    async def notes(self, principal: str, readers: Collection[Label], name: str) -> tuple[Reflection, ...]:
        """Return what sessions of these labels noted about a skill, the newest first."""
        ...
