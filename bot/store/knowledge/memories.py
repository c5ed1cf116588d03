"""The part of the store for memories.

All memories of a principal are in one slot, those of each label under keys of their own. The last change of a label has
the highest version there, so indexes are updated with the changes after their version. The audit is in another slot:
its rows are written before a change, once for the memory.
"""

from collections.abc import Collection, Mapping
from typing import Final, cast

from bot.core.errors import FullError, NotFoundError
from bot.sessions import refs
from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.memories import Memory, MemoryChanges, MemoryState
from bot.store.calls import Arguments, ScriptAnswer, call
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.records.form import Values, stored, unpack
from bot.store.records.kinds import MEMORY
from bot.store.schema import MemoryKeys, audit_op, memory_keys
from bot.store.scripts.loader import Script
from bot.store.shared import Shared
from policy.labels import PUBLIC, Label

_PLAIN: Final = ("text", "domain", "asker", "by_agent", "corrects", "corrected_by", "corrections")
"""The parts of a memory that are written as they are."""


class RedisMemories:
    """Implements the port `MemoryStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def learn(self, memory: Memory, most: int, audit: tuple[AuditRow, ...]) -> Memory:
        """Keep a memory, once for its id, and return it as it is kept."""
        await self._tell("learn", memory, audit)
        args = {"memory": stored(_record(memory)), "most": most}
        got = await self._change(Script.LEARN, memory, args, op=f"learn/{memory.id}")
        if got.word == "full":
            raise FullError("memories")
        if got.word == "none":
            raise NotFoundError
        record = got.value("memory")
        if record is not None:
            return codec.reading(lambda: _memory(memory.principal, memory.label, memory.id, record))
        # It was kept at another label, when this was tried first.
        (first,) = await self.memories(memory.principal, {codec.label(got.text("label")): (memory.id,)})
        return first

    async def forget(self, memory: Memory, audit: tuple[AuditRow, ...]) -> bool:
        """Erase the words of a memory, and of all memories of its label that it corrects."""
        await self._tell("forget", memory, audit)
        return (await self._change(Script.FORGET, memory, {}, op=self._shared.ids.op())).flag("kept")

    async def versions(self, principal: str) -> Mapping[Label, int]:
        """Return each label of which a principal has or had memories, or that recalled some, with the last version."""
        (flat,) = await self._shared.connection.commands(("HGETALL", _keys(principal).versions))
        return codec.reading(
            lambda: {codec.label(text(label)): int(version) for label, version in codec.pairs(flat).items()}
        )

    async def changes(self, principal: str, label: Label, since: int, most: int) -> MemoryChanges:
        """Return up to `most` memories of a label that changed after a version."""
        stretch = (f"({since}", "+inf", "BYSCORE")
        return await self._changed(principal, label, stretch, at=since, most=most)

    async def memories(self, principal: str, ids: Mapping[Label, Collection[str]]) -> tuple[Memory, ...]:
        """Return memories by label and id in one round trip, as they are now."""
        wanted = [(label, list(names)) for label, names in ids.items() if names]
        asked = [("HMGET", _keys(principal, label).memories, *map(raw, names)) for label, names in wanted]
        replies = await self._shared.connection.commands(*asked)
        found = list[Memory]()
        for (label, names), records in zip(wanted, replies, strict=True):
            found += _read(principal, label, names, records)
        return tuple(found)

    async def page(self, principal: str, label: Label, before: int, most: int) -> MemoryChanges:
        """Return up to `most` memories of a label, the newest change first."""
        stretch = (f"({before}" if before else "+inf", "-inf", "BYSCORE", "REV")
        return await self._changed(principal, label, stretch, at=before, most=most)

    async def count_use(self, principal: str, reader: Label, ids: Collection[str], op: str) -> None:
        """Count that a session with the taint `reader` recalled memories, once for `op`."""
        if not ids:
            return
        keys = _keys(principal)
        named = {"uses": keys.uses(str(reader)), "versions": keys.versions, "op": keys.op(op)}
        await self._shared.run(call(Script.COUNT_USE, named, {"ids": sorted(set(ids)), "label": str(reader)}))

    async def uses(self, principal: str, readers: Collection[Label], ids: Collection[str]) -> Mapping[str, int]:
        """Return how often sessions of these labels recalled each memory."""
        if not ids:
            return {}
        keys, names, found = _keys(principal), list(dict.fromkeys(ids)), dict[str, int]()
        asked = [("HMGET", keys.uses(str(reader)), *map(raw, names)) for reader in dict.fromkeys(readers)]
        for counts in await self._shared.connection.commands(*asked):
            for name, count in zip(names, counts, strict=True):
                if count is not None:
                    found[name] = found.get(name, 0) + int(count)
        return found

    async def _changed(
        self, principal: str, label: Label, stretch: tuple[str, ...], *, at: int, most: int
    ) -> MemoryChanges:
        """Return memories of a range of versions, as ZRANGE takes it, which begins after `at`."""
        keys = _keys(principal, label)
        # One more tells whether there are more.
        asked = ("ZRANGE", keys.changed, *stretch, "LIMIT", 0, most + 1, "WITHSCORES")
        (flat,) = await self._shared.connection.commands(asked)
        versions = list(codec.pairs(flat).items())
        shown = versions[:most]
        if not shown:
            return MemoryChanges(at, (), more=bool(versions))
        (records,) = await self._shared.connection.commands(("HMGET", keys.memories, *(field for field, _ in shown)))
        found = _read(principal, label, [text(field) for field, _ in shown], records)
        return MemoryChanges(int(shown[-1][1]), tuple(found), more=len(versions) > most)

    async def _tell(self, what: str, memory: Memory, audit: tuple[AuditRow, ...]) -> None:
        """Append the audit rows of a change, unless they were appended within the last ten minutes."""
        if audit:
            op = audit_op(f"{what}/{memory.id}")
            await self._shared.change_outside(Script.AUDIT_APPEND, {"op": op}, {}, audit)

    async def _change(self, script: Script, memory: Memory, args: Arguments, *, op: str) -> ScriptAnswer:
        keys = _keys(memory.principal, memory.label)
        named = {
            "memories": keys.memories,
            "changed": keys.changed,
            "versions": keys.versions,
            "kept": keys.kept,
            "op": keys.op(op),
        }
        told = {"id": memory.id, "label": str(memory.label)}
        return await self._shared.run(call(script, named, {**told, **args}))


def _keys(principal: str, label: Label = PUBLIC) -> MemoryKeys:
    return memory_keys(principal, str(label))


def _read(principal: str, label: Label, names: list[str], records: list[bytes | None]) -> list[Memory]:
    """Read memories from the answer to HMGET; absent ones are left out."""
    return codec.reading(
        lambda: [
            _memory(principal, label, name, record)
            for name, record in zip(names, records, strict=True)
            if record is not None
        ]
    )


def _record(value: Memory) -> Values:
    return {
        **{name: getattr(value, name) for name in _PLAIN},
        "created": value.learned_at,
        "session": value.sid,
        "authors": codec.listing(value.authors),
        "state": "" if value.state is MemoryState.KEPT else value.state.value,
        "ended": value.ended_at,
        "refs": refs.written(value.refs),
    }


def _memory(principal: str, label: Label, name: str, record: bytes) -> Memory:
    got = unpack(MEMORY, record)
    return Memory(
        **{part: got[part] for part in _PLAIN},
        id=name,
        principal=principal,
        label=label,
        learned_at=got["created"],
        sid=got["session"],
        authors=tuple(cast("list[str]", codec.listed(got["authors"]))),
        state=MemoryState(got["state"]) if got["state"] else MemoryState.KEPT,
        ended_at=got["ended"],
        refs=refs.read(got["refs"]),
    )
