"""The part of the store for skills.

A principal's skills are in the slot of their memories, those of each label under keys of their own. A skill is one
record with all its versions, so that everything read of it belongs together; its log is beside it. The audit is in
another slot: its rows are written before a change.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from bot.core.errors import FullError
from bot.sessions import refs
from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.skills import (
    Outcome,
    Reflection,
    Skill,
    SkillChanges,
    SkillDeed,
    SkillEvent,
    SkillState,
    SkillText,
    SkillVersion,
    SuccessRate,
)
from bot.store.calls import Arguments, ScriptAnswer, call
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.records.form import Values, complete, stored, unpack
from bot.store.records.kinds import SKILL, SKILL_EVENT, SKILL_NOTE
from bot.store.schema import SkillKeys, audit_op, skill_keys
from bot.store.scripts.loader import Script
from bot.store.shared import Shared
from policy.labels import PUBLIC, Label

_TEXT: Final = ("name", "description", "domain")
_PLAIN: Final = (
    *("number", "made_at", "asker", "by_agent", "sid", "call"),
    *("approved_by", "approved_at", "rejected_by", "rejected_at"),
)
"""The parts of a version that are written as they are."""

_LISTS: Final = ("authors", "sources")


class RedisSkills:
    """Implements the port `SkillStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def create(self, skill: Skill, event: SkillEvent, most: int, audit: tuple[AuditRow, ...]) -> Skill:
        """Keep a new skill, once for its id, with the first line of its log."""
        op = f"create/{skill.id}"
        await self._tell(op, audit)
        got = await self._put(skill, event, op=op, most=most)
        if got.word == "full":
            raise FullError("skills")
        record = got.value("skill")
        if record is not None:
            return codec.reading(lambda: _skill(skill.principal, skill.label, skill.id, record))
        # It was kept at another label, when this was tried first.
        (first,) = await self.skills(skill.principal, {codec.label(got.text("label")): (skill.id,)})
        return first

    async def change(self, skill: Skill, event: SkillEvent, audit: tuple[AuditRow, ...]) -> bool:
        """Keep a changed skill, with the log line of the change."""
        op = self._shared.ids.op()
        await self._tell(op, audit)
        return (await self._put(skill, event, op=op, most=0)).word == "ok"

    async def versions(self, principal: str) -> Mapping[Label, int]:
        """Return each label of which a principal has skills, or that reflected on some, with the last version."""
        (flat,) = await self._shared.connection.commands(("HGETALL", _keys(principal).versions))
        return codec.reading(
            lambda: {codec.label(text(label)): int(version) for label, version in codec.pairs(flat).items()}
        )

    async def changes(self, principal: str, label: Label, since: int, most: int) -> SkillChanges:
        """Return up to `most` skills of a label that changed after a version."""
        keys = _keys(principal, label)
        # One more tells whether there are more.
        asked = ("ZRANGE", keys.changed, f"({since}", "+inf", "BYSCORE", "LIMIT", 0, most + 1, "WITHSCORES")
        (flat,) = await self._shared.connection.commands(asked)
        versions = list(codec.pairs(flat).items())
        shown = versions[:most]
        if not shown:
            return SkillChanges(since, ())
        found = await self.skills(principal, {label: [text(field) for field, _ in shown]})
        return SkillChanges(int(shown[-1][1]), found, more=len(versions) > most)

    async def skills(self, principal: str, ids: Mapping[Label, Collection[str]]) -> tuple[Skill, ...]:
        """Return skills by label and id in one round trip, as they are now."""
        wanted = [(label, list(names)) for label, names in ids.items() if names]
        asked = [("HMGET", _keys(principal, label).skills, *map(raw, names)) for label, names in wanted]
        replies = await self._shared.connection.commands(*asked)
        return codec.reading(
            lambda: tuple(
                _skill(principal, label, name, record)
                for (label, names), records in zip(wanted, replies, strict=True)
                for name, record in zip(names, records, strict=True)
                if record is not None
            )
        )

    async def history(self, skill: Skill) -> tuple[SkillEvent, ...]:
        """Return the log of a skill, the newest event first."""
        key = _keys(skill.principal).log(str(skill.label), skill.id)
        (records,) = await self._shared.connection.commands(("LRANGE", key, 0, -1))
        return codec.reading(lambda: tuple(map(_event, records)))

    async def reflect(self, principal: str, name: str, reflection: Reflection, op: str) -> None:
        """Count the outcome of an applied skill, once for `op`."""
        keys, reader = _keys(principal), str(reflection.label)
        named = {
            "outcomes": keys.outcomes(reader),
            "notes": keys.notes(reader, name),
            "versions": keys.versions,
            "op": keys.op(op),
        }
        note: Values = {"time": reflection.at, "kind": reflection.outcome.value, "text": reflection.notes}
        told = {"note": stored(note)} if reflection.notes else {}
        wanted = {"field": _field(name, reflection.outcome), "label": reader, **told}
        await self._shared.run(call(Script.REFLECT, named, wanted))

    async def rates(
        self, principal: str, readers: Collection[Label], ids: Collection[str]
    ) -> Mapping[str, SuccessRate]:
        """Return the success rates of skills, as reported by sessions of these labels."""
        names = list(dict.fromkeys(ids))
        if not names:
            return {}
        keys, found = _keys(principal), dict[str, SuccessRate]()
        fields = [raw(_field(name, outcome)) for name in names for outcome in Outcome]
        asked = [("HMGET", keys.outcomes(str(reader)), *fields) for reader in dict.fromkeys(readers)]
        for counts in await self._shared.connection.commands(*asked):
            told = [int(count or 0) for count in counts]
            for name, well, badly in zip(names, told[::2], told[1::2], strict=True):
                if well or badly:
                    before = found.get(name, SuccessRate())
                    found[name] = SuccessRate(before.uses + well + badly, before.successes + well)
        return found

    async def notes(self, principal: str, readers: Collection[Label], name: str) -> tuple[Reflection, ...]:
        """Return the notes of sessions of these labels about a skill, the newest first."""
        keys, labels = _keys(principal), list(dict.fromkeys(readers))
        asked = [("LRANGE", keys.notes(str(label), name), 0, -1) for label in labels]
        replies = await self._shared.connection.commands(*asked)
        found = codec.reading(
            lambda: [_note(label, record) for label, records in zip(labels, replies, strict=True) for record in records]
        )
        return tuple(sorted(found, key=lambda one: one.at, reverse=True))

    async def _tell(self, op: str, audit: tuple[AuditRow, ...]) -> None:
        """Append the audit rows of a change, unless they were appended within the last ten minutes."""
        if audit:
            await self._shared.change_outside(Script.AUDIT_APPEND, {"op": audit_op(f"skill/{op}")}, {}, audit)

    async def _put(self, skill: Skill, event: SkillEvent, *, op: str, most: int) -> ScriptAnswer:
        keys = _keys(skill.principal, skill.label)
        named = {
            "skills": keys.skills,
            "changed": keys.changed,
            "versions": keys.versions,
            "kept": keys.kept,
            "log": keys.log(str(skill.label), skill.id),
            "op": keys.op(op),
        }
        record, told = complete(SKILL, _record(skill)), stored(_event_record(event))
        args: Arguments = {"id": skill.id, "label": str(skill.label), "skill": record, "event": told, "most": most}
        return await self._shared.run(call(Script.PUT_SKILL, named, args))


def _keys(principal: str, label: Label = PUBLIC) -> SkillKeys:
    return skill_keys(principal, str(label))


def _field(name: str, outcome: Outcome) -> str:
    return f"{name}/{outcome.value}"


def _record(value: Skill) -> Values:
    return {
        "state": value.state.value,
        "current": value.current,
        "versions": codec.listing([_version_object(one) for one in value.versions]),
        "created": value.created_at,
        "updated": value.changed_at,
        "pool": str(value.pool),
        "derived_from": value.derived_from,
        "revision": value.revision,
    }


def _skill(principal: str, label: Label, name: str, record: bytes) -> Skill:
    got = unpack(SKILL, record)
    return Skill(
        id=name,
        principal=principal,
        label=label,
        state=SkillState(got["state"]),
        versions=tuple(map(_version, cast("list[dict[str, Any]]", codec.listed(got["versions"])))),
        created_at=got["created"],
        changed_at=got["updated"],
        pool=codec.label(got["pool"]),
        current=got["current"],
        derived_from=got["derived_from"],
        revision=got["revision"],
    )


def _version_object(value: SkillVersion) -> dict[str, object]:
    """Return a version as a JSON object, without blank fields."""
    whole: dict[str, object] = {
        **{name: getattr(value, name) for name in _PLAIN},
        **{name: getattr(value.text, name) for name in _TEXT},
        **{name: list(getattr(value, name)) for name in _LISTS},
        "steps": list(value.text.steps),
        "label": str(value.label),
        "refs": refs.written(value.refs),
    }
    return {name: part for name, part in whole.items() if part}


def _version(got: dict[str, Any]) -> SkillVersion:
    said = SkillText(**{name: got.get(name, "") for name in _TEXT}, steps=tuple(got["steps"]))
    parts: dict[str, Any] = {"asker": "", "made_at": 0, **{name: got[name] for name in _PLAIN if name in got}}
    lists: dict[str, Any] = {name: tuple(got.get(name, ())) for name in _LISTS}
    came = refs.read(got.get("refs", ""))
    return SkillVersion(text=said, label=codec.label(got["label"]), refs=came, **parts, **lists)


def _event_record(value: SkillEvent) -> Values:
    return {
        "time": value.at,
        "actor": value.actor,
        "kind": value.do.value,
        "number": value.version,
        "by_agent": value.by_agent,
    }


def _event(record: bytes) -> SkillEvent:
    got = unpack(SKILL_EVENT, record)
    return SkillEvent(got["time"], got["actor"], SkillDeed(got["kind"]), got["number"], by_agent=got["by_agent"])


def _note(label: Label, record: bytes) -> Reflection:
    got = unpack(SKILL_NOTE, record)
    return Reflection(got["time"], Outcome(got["kind"]), label, got["text"])
