"""The ports for knowledge of principals' sessions: memories and skills.

All knowledge of a principal shares one slot of a Cluster. The records of each label are kept apart, so that those of
one label neither count, order nor delay those of another (law `no_read_up`). Every method that changes something is one
atomic, idempotent script (law `lost_reply_never_duplicates`). A store that does not answer raises StoreGoneError, one
that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.memories import Memory, MemoryChanges
from bot.sessions.knowledge.skills import Reflection, Skill, SkillChanges, SkillEvent, SuccessRate
from policy.labels import Label


class MemoryStore(Protocol):
    """Keeps memories."""

    async def learn(self, memory: Memory, most: int, audit: tuple[AuditRow, ...]) -> Memory:
        """Keep a memory, once for its id, and return it as kept: the first memory that came under that id.

        A memory that it `corrects` becomes CORRECTED in the same step if it is kept and has the same label; one of
        another label stays as it is.

        Raises:
            FullError: The principal has `most` kept memories of its label.
            NotFoundError: The memory of its own label that it corrects is not kept any more.
        """
        ...

    async def forget(self, memory: Memory, audit: tuple[AuditRow, ...]) -> bool:
        """Erase the words of a memory, and of all memories of its label that it corrects, down to the first.

        Returns whether the memory was kept until now.
        """
        ...

    async def versions(self, principal: str) -> Mapping[Label, int]:
        """Return each label of which a principal has or had memories, with the version of their last change.

        A label without memories whose sessions recalled some is included, with version 0.
        """
        ...

    async def changes(self, principal: str, label: Label, since: int, most: int) -> MemoryChanges:
        """Return up to `most` memories of a label that changed after a version, each as it is now, in that order."""
        ...

    async def memories(self, principal: str, ids: Mapping[Label, Collection[str]]) -> tuple[Memory, ...]:
        """Return memories by label and id in one round trip, as they are now; unknown ids are left out."""
        ...

    async def page(self, principal: str, label: Label, before: int, most: int) -> MemoryChanges:
        """Return up to `most` memories of a label with a version below `before`, the newest change first.

        `before` is 0 for the newest. The `version` of the result is that of its last memory.
        """
        ...

    async def count_use(self, principal: str, reader: Label, ids: Collection[str], op: str) -> None:
        """Count that a session with the taint `reader` recalled memories, once for `op`."""
        ...

    async def uses(self, principal: str, readers: Collection[Label], ids: Collection[str]) -> Mapping[str, int]:
        """Return how often sessions of these labels recalled each memory; memories never recalled are left out."""
        ...


class SkillStore(Protocol):
    """Keeps skills."""

    async def create(self, skill: Skill, event: SkillEvent, most: int, audit: tuple[AuditRow, ...]) -> Skill:
        """Keep a new skill, once for its id, with the first line of its log; return the first skill under that id.

        Raises FullError: the principal has `most` skills at its label, rejected ones not counted.
        """
        ...

    async def change(self, skill: Skill, event: SkillEvent, audit: tuple[AuditRow, ...]) -> bool:
        """Keep a changed skill, with the log line of the change.

        Its `revision` is one more than that of the skill before the change. Returns False where another change came
        first; then nothing changes.
        """
        ...

    async def versions(self, principal: str) -> Mapping[Label, int]:
        """Return each label of which a principal has skills, with the version of their last change.

        A label without skills whose sessions reflected on some is included, with version 0.
        """
        ...

    async def changes(self, principal: str, label: Label, since: int, most: int) -> SkillChanges:
        """Return up to `most` skills of a label that changed after a version, each as it is now, in that order."""
        ...

    async def skills(self, principal: str, ids: Mapping[Label, Collection[str]]) -> tuple[Skill, ...]:
        """Return skills by label and id in one round trip, as they are now; unknown ids are left out."""
        ...

    async def history(self, skill: Skill) -> tuple[SkillEvent, ...]:
        """Return the log of a skill, the newest event first."""
        ...

    async def reflect(self, principal: str, name: str, reflection: Reflection, op: str) -> None:
        """Count the outcome of an applied skill, by the label of the session that reports it, once for `op`."""
        ...

    async def rates(
        self, principal: str, readers: Collection[Label], ids: Collection[str]
    ) -> Mapping[str, SuccessRate]:
        """Return the success rates of skills, as reported by sessions of these labels, without unused skills."""
        ...

    async def notes(self, principal: str, readers: Collection[Label], name: str) -> tuple[Reflection, ...]:
        """Return the notes of sessions of these labels about a skill, the newest first."""
        ...
