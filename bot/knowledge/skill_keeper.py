"""Skills as they are written, approved, rolled back and reflected on: checked, within the quota, and in the audit.

Readers know the skills whose label flows to theirs; to all others a skill is as one that never was (law `no_read_up`).
Agents write drafts. The text in force is always one that a person approved, exactly as they were shown it: any later
version waits beside it. The rows of the audit name the skill and hold nothing of its text.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling
from bot.core.errors import BusyError, ChangedSkillError, CursorError, NotFoundError, RequestError
from bot.knowledge.keeper import DOMAIN_TOO_LONG, Learner
from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.memories import LONGEST_DOMAIN
from bot.sessions.knowledge.skills import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    LONGEST_NOTES,
    LONGEST_SKILL,
    LONGEST_STEP,
    MOST_STEPS,
    MOST_VERSIONS,
    Outcome,
    Reflection,
    Skill,
    SkillDeed,
    SkillEvent,
    SkillState,
    SkillText,
    SkillVersion,
    SuccessRate,
    digest,
)
from bot.sessions.ports.knowledge import SkillStore
from bot.sessions.visibility import LONGEST_ID
from policy.labels import Label

NAMELESS: Final = "a skill needs a name"
NAME_TOO_LONG: Final = f"the name of a skill has at most {LONGEST_NAME} characters"
DESCRIPTION_TOO_LONG: Final = f"the description of a skill has at most {LONGEST_DESCRIPTION} characters"
STEPLESS: Final = f"a skill needs 1 to {MOST_STEPS} steps"
STEP_WORDLESS: Final = "each step of a skill needs a text"
STEP_TOO_LONG: Final = f"a step of a skill has at most {LONGEST_STEP} characters"
SKILL_TOO_LONG: Final = f"a skill has at most {LONGEST_SKILL} characters in all"
NOTES_TOO_LONG: Final = f"the notes of a reflection have at most {LONGEST_NOTES} characters"
REJECTED: Final = "that skill was rejected"
NOT_ACTIVE: Final = "that skill is not active"
NOT_APPROVED: Final = "nobody approved that version of the skill"
NO_VERSION: Final = "that skill has no such version"
LISTED: Final = 20
"""Skills that a page shows if it does not say."""

EVERY_STATE: Final = frozenset(SkillState)

_ID: Final = 12
_PAGE: Final = 100
"""Skills of a label that are read at once."""
_TRIES: Final = 8
"""How often a change is begun anew because another one came first."""


@dataclass(frozen=True, slots=True)
class SkillEdit:
    """An update's text: all steps, and None for a field that stays as in the version that it begins with."""

    name: str
    steps: tuple[str, ...]
    description: str | None = None
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """Which text a person decides about: the number of the version that they were shown, and `digest` of its text."""

    number: int
    digest: str


@dataclass(frozen=True, slots=True)
class SkillPage:
    """Skills, those created last first; `cursor` asks for the next page, empty at the end."""

    skills: tuple[Skill, ...]
    cursor: str = ""


class SkillKeeper:
    """Keeps skills. At most `most` are kept per principal and level, those that were rejected apart.

    `now` is the store's clock, in milliseconds since the epoch. A reader names the skills whose label flows to it.
    Every method raises StoreError: the store cannot be used.
    """

    def __init__(self, skills: SkillStore, *, now: Callable[[], int], most: int) -> None:
        self._skills = skills
        self._now = now
        self._most = most

    async def create(
        self,
        author: Learner,
        text: SkillText,
        key: str,
        *,
        deed: SkillDeed = SkillDeed.CREATED,
        sources: tuple[str, ...] = (),
    ) -> Skill:
        """Keep a draft, with the label of its writer; the same `key` again is the same skill.

        Args:
            author: who writes it.
            text: its text; white space is made plain.
            key: a repeated call with it makes the same skill.
            deed: how it came: created, generated or loaded.
            sources: ids of the memories that it was generated from.

        Raises:
            RequestError: its text has too little, or too much.
            FullError: as many are kept as may.
        """
        return await self._created(author, checked(text), key, label=author.label, deed=deed, sources=sources)

    async def update(self, author: Learner, name: str, edit: SkillEdit, key: str) -> Skill:
        """Keep a new version of a skill, which waits as a draft; the same `key` again is the same version.

        The version in force stays so until a person approves the new version. The version is as little TRUSTED as the
        parts that it takes over from the old one. The skill stays unchanged if the version's label adds something to
        its label, or if a TRUSTED session may know of the skill and not of the version. Another skill is then returned,
        which takes the old one's place when a person approves it.

        Raises:
            NotFoundError: there is none that they may know of.
            RequestError: the text has too little, or too much, or the skill was rejected.
            FullError: as many are kept as may.
            BusyError: others change it all the time.
        """
        call = _call(key)
        for _ in range(_TRIES):
            known = await self._known(author.principal, author.reader, (_id(key), name))
            found = known.get(_id(key)) or known.get(name)
            seen = None if found is None else found.known_to(author.reader)
            if found is None or seen is None:
                raise NotFoundError
            if any(one.call == call for one in found.versions):
                return found
            if found.state is SkillState.REJECTED:
                raise RequestError(REJECTED, next_step="create another one")
            base = seen.shown
            text, label = checked(_edited(base.text, edit)), base.told.join(author.label)
            if label.secrecy != found.label or (label.untrusted and found.known_to(found.label) is not None):
                return await self._created(author, text, key, label=label, derived_from=found.id)
            now = self._now()
            made = _version(author, text, found.latest.number + 1, label=label, key=key, now=now)
            after = replace(found, versions=(*_with_room(found), made))
            kept = await self._put(
                found, after, SkillEvent(now, author.asker, SkillDeed.UPDATED, made.number, author.by_agent)
            )
            if kept is not None:
                return kept
        raise BusyError

    async def find(self, principal: str, reader: Label, name: str) -> Skill:
        """Return a skill by its id, in any state. Raises NotFoundError: there is none that they may know of."""
        found = (await self._known(principal, reader, (name,))).get(name)
        seen = None if found is None else found.known_to(reader)
        if seen is None:
            raise NotFoundError
        return seen

    async def listed(
        self,
        principal: str,
        reader: Label,
        *,
        states: Collection[SkillState] = EVERY_STATE,
        domain: str = "",
        after: str = "",
        limit: int = LISTED,
    ) -> SkillPage:
        """Return skills of a principal that a reader may know of, those created last first.

        Args:
            principal: whose skills.
            reader: the reader's label.
            states: the states that are wanted.
            domain: their subject; skills without a subject are found too. Empty for all.
            after: the cursor of the page before, empty for the first page.
            limit: how many are returned at most.

        Raises CursorError: the cursor is of no page that they may know of.
        """
        known = sorted(await self._every(principal, reader), key=_newest_first)
        if after:
            last = next((place for place, skill in enumerate(known) if skill.id == after), None)
            if last is None:
                raise CursorError
            known = known[last + 1 :]
        wanted = [one for one in known if one.state in states and about(one.shown.text, domain)]
        shown = tuple(wanted[:limit])
        return SkillPage(shown, shown[-1].id if shown and len(wanted) > limit else "")

    async def approve(self, principal: str, reader: Label, name: str, *, decided: Decided, actor: str) -> Skill:
        """Put the waiting version in force, or a deprecated skill's own one: exactly the text that a person was shown.

        Raises:
            NotFoundError: there is none that they may know of.
            ChangedSkillError: the text that they were shown is not the waiting one.
            RequestError: the skill was rejected.
        """

        def approved(skill: Skill) -> tuple[Skill, SkillDeed] | None:
            if skill.state is SkillState.REJECTED:
                raise RequestError(REJECTED)
            version = _shown_to(skill, decided)
            if version.number == skill.current and skill.state is SkillState.ACTIVE:
                return None
            if version.number != skill.current:
                if version is not skill.waiting:
                    raise ChangedSkillError
                version = replace(version, approved_by=actor, approved_at=self._now())
            after = replace(_with(skill, version), state=SkillState.ACTIVE, current=version.number)
            return after, SkillDeed.APPROVED

        made = await self._changed(principal, reader, name, approved, actor=actor, number=decided.number)
        await self._replaced(made, actor)
        return made

    async def _replaced(self, skill: Skill, actor: str) -> None:
        """Take a skill out of force whose place another one takes that was made from it, where all know of both."""
        known = await self._known(skill.principal, labelling.untrusted(skill.label), (skill.derived_from,))
        old = known.get(skill.derived_from)
        if old is not None and old.label == skill.label and old.state is SkillState.ACTIVE:
            await self.deprecate(skill.principal, labelling.untrusted(skill.label), old.id, actor)

    async def reject(self, principal: str, reader: Label, name: str, *, decided: Decided, actor: str) -> Skill:
        """Reject the version that waits; a skill of which none was ever in force is rejected with it.

        Raises:
            NotFoundError: there is none that they may know of.
            ChangedSkillError: the text that they were shown is not the waiting one.
        """

        def rejected(skill: Skill) -> tuple[Skill, SkillDeed] | None:
            version = _shown_to(skill, decided)
            if version.rejected_by:
                return None
            if version is not skill.waiting:
                raise ChangedSkillError
            after = _with(skill, replace(version, rejected_by=actor, rejected_at=self._now()))
            state = skill.state if skill.current else SkillState.REJECTED
            return replace(after, state=state), SkillDeed.REJECTED

        return await self._changed(principal, reader, name, rejected, actor=actor, number=decided.number)

    async def deprecate(self, principal: str, reader: Label, name: str, actor: str) -> Skill:
        """Put an active skill out of force.

        Raises:
            NotFoundError: it is not active.
            RequestError: it is not active.
        """

        def deprecated(skill: Skill) -> tuple[Skill, SkillDeed]:
            _require_active(skill)
            return replace(skill, state=SkillState.DEPRECATED), SkillDeed.DEPRECATED

        return await self._changed(principal, reader, name, deprecated, actor=actor)

    async def roll_back(
        self, principal: str, reader: Label, name: str, number: int, *, actor: str, by_agent: bool = False
    ) -> Skill:
        """Put another version of an active skill in force, which a person approved before.

        All who may know of the skill get the result: a session that has read more than that may not do it.

        Raises:
            NotFoundError: it is not active, has no such version, or the version is not approved.
            RequestError: it is not active, has no such version, or the version is not approved.
        """

        def rolled_back(skill: Skill) -> tuple[Skill, SkillDeed] | None:
            _require_active(skill)
            version = skill.version(number)
            if version is None:
                raise RequestError(NO_VERSION)
            if not version.approved_by:
                raise RequestError(NOT_APPROVED)
            return None if number == skill.current else (replace(skill, current=number), SkillDeed.ROLLED_BACK)

        return await self._changed(principal, reader, name, rolled_back, actor=actor, number=number, by_agent=by_agent)

    async def history(self, principal: str, reader: Label, name: str) -> tuple[SkillEvent, ...]:
        """Return the log of a skill, the newest event first. Raises NotFoundError."""
        found = await self.find(principal, reader, name)
        events = await self._skills.history(found)
        return events if reader.untrusted else tuple(one for one in events if found.version(one.version) is not None)

    async def reflect(
        self, author: Learner, name: str, outcome: Outcome, key: str, *, notes: str = ""
    ) -> tuple[Skill, SuccessRate]:
        """Count how it went where an active skill was applied, once for `key`, and return all that they may know.

        Raises:
            NotFoundError: it is not active, or the notes are too long.
            RequestError: it is not active, or the notes are too long.
        """
        if len(notes) > LONGEST_NOTES:
            raise RequestError(NOTES_TOO_LONG)
        skill = await self.find(author.principal, author.reader, name)
        _require_active(skill)
        told = Reflection(self._now(), outcome, skill.label.join(author.label), notes)
        await self._skills.reflect(author.principal, name, told, key)
        rate = (await self.rates(author.principal, author.reader, (name,))).get(name, SuccessRate())
        if not told.label.within(author.reader):
            # They know of their own report, though of no other one with a label above theirs.
            rate = SuccessRate(rate.uses + 1, rate.successes + (outcome is Outcome.SUCCESS))
        return skill, rate

    async def rates(self, principal: str, reader: Label, names: Collection[str]) -> Mapping[str, SuccessRate]:
        """Return the success of applied skills, as far as a reader may know of the reports.

        Reports of UNTRUSTED sessions count for UNTRUSTED readers alone. Skills without any use are left out.
        """
        return await self._skills.rates(principal, await self._tellers(principal, reader), names)

    async def notes(self, principal: str, reader: Label, name: str) -> tuple[Reflection, ...]:
        """Return the notes about a skill, the newest first, as far as a reader may know. Raises NotFoundError."""
        found = await self.find(principal, reader, name)
        return await self._skills.notes(principal, await self._tellers(principal, reader), found.id)

    async def _created(  # noqa: PLR0913 - a skill is made of its author, its text, and its sources
        self,
        author: Learner,
        text: SkillText,
        key: str,
        *,
        label: Label,
        deed: SkillDeed = SkillDeed.CREATED,
        sources: tuple[str, ...] = (),
        derived_from: str = "",
    ) -> Skill:
        now = self._now()
        made = Skill(
            id=_id(key),
            principal=author.principal,
            label=label.secrecy,
            pool=label,
            state=SkillState.DRAFT,
            versions=(_version(author, text, 1, label=label, key=key, now=now, sources=sources),),
            created_at=now,
            changed_at=now,
            derived_from=derived_from,
        )
        event = SkillEvent(now, author.asker, deed, 1, by_agent=author.by_agent)
        return await self._skills.create(made, event, self._most, (_row(made, event),))

    async def _changed(  # noqa: PLR0913 - a change has a skill, a version, and a person who makes it
        self,
        principal: str,
        reader: Label,
        name: str,
        change: Callable[[Skill], tuple[Skill, SkillDeed] | None],
        *,
        actor: str,
        number: int = 0,
        by_agent: bool = False,
    ) -> Skill:
        """Change a skill as it is now, again where another change came first; None from `change` leaves it as it is.

        Raises NotFoundError, BusyError, and any error of `change`.
        """
        for _ in range(_TRIES):
            found = (await self._known(principal, reader, (name,))).get(name)
            if found is None or found.known_to(reader) is None:
                raise NotFoundError
            done = change(found)
            if done is None:
                return found
            after, deed = done
            event = SkillEvent(self._now(), actor, deed, number or found.current, by_agent=by_agent)
            kept = await self._put(found, after, event)
            if kept is not None:
                return kept
        raise BusyError

    async def _put(self, before: Skill, after: Skill, event: SkillEvent) -> Skill | None:
        after = replace(after, revision=before.revision + 1, changed_at=event.at)
        return after if await self._skills.change(after, event, (_row(after, event),)) else None

    async def _every(self, principal: str, reader: Label) -> list[Skill]:
        found = list[Skill]()
        for label, version in (await self._skills.versions(principal)).items():
            at, more = 0, bool(version) and label.flows_to(reader)
            while more:
                changes = await self._skills.changes(principal, label, at, _PAGE)
                found += changes.changed
                at, more = changes.version, changes.more
        # One that changed while it was read is there twice.
        every = {skill.id: skill for skill in found}.values()
        return [seen for skill in every if (seen := skill.known_to(reader)) is not None]

    async def _known(self, principal: str, reader: Label, names: Collection[str]) -> Mapping[str, Skill]:
        """Return skills by id, as far as they are there and a reader may know of them."""
        asked = [name for name in names if name and len(name) <= LONGEST_ID]
        if not asked:
            return {}
        labels = [label for label, version in (await self._skills.versions(principal)).items() if version]
        visible = [label for label in labels if label.flows_to(reader)]
        found = await self._skills.skills(principal, dict.fromkeys(visible, asked)) if visible else ()
        return {skill.id: skill for skill in found}

    async def _tellers(self, principal: str, reader: Label) -> list[Label]:
        """Return the labels of sessions of whose reflections a reader may know."""
        return [label for label in await self._skills.versions(principal) if label.within(reader)]


def written_by(skill: Skill, key: str) -> SkillVersion:
    """Return the version of a skill that the call of a key wrote, or the latest."""
    return next((one for one in skill.versions if one.call == _call(key)), skill.latest)


def about(text: SkillText, domain: str) -> bool:
    """Say whether a skill is about a domain, or about anything; each is, where the domain is empty."""
    return not domain or text.domain in (domain, "")


def checked(text: SkillText) -> SkillText:
    """Return a text as it is kept: each part on one line, so that no part of it looks like another.

    Raises RequestError: it has too little, or too much.
    """
    plain = SkillText(_line(text.name), _line(text.description), _line(text.domain), tuple(map(_line, text.steps)))
    whole = len(plain.name) + len(plain.description) + len(plain.domain) + sum(map(len, plain.steps))
    wrong = {
        NAMELESS: not plain.name,
        NAME_TOO_LONG: len(plain.name) > LONGEST_NAME,
        DESCRIPTION_TOO_LONG: len(plain.description) > LONGEST_DESCRIPTION,
        DOMAIN_TOO_LONG: len(plain.domain) > LONGEST_DOMAIN,
        STEPLESS: not 1 <= len(plain.steps) <= MOST_STEPS,
        STEP_WORDLESS: not all(plain.steps),
        STEP_TOO_LONG: any(len(step) > LONGEST_STEP for step in plain.steps),
        SKILL_TOO_LONG: whole > LONGEST_SKILL,
    }
    for why, is_so in wrong.items():
        if is_so:
            raise RequestError(why)
    return plain


def _line(text: str) -> str:
    return " ".join(text.split())


def _id(key: str) -> str:
    return f"skill_{_call(key)}"


def _call(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:_ID]


def _newest_first(skill: Skill) -> tuple[int, str]:
    return -skill.created_at, skill.id


def _require_active(skill: Skill) -> None:
    if skill.state is not SkillState.ACTIVE:
        raise RequestError(NOT_ACTIVE)


def _shown_to(skill: Skill, decided: Decided) -> SkillVersion:
    """Return the version that a person decides about.

    Raises ChangedSkillError: it differs from the version that they were shown.
    """
    version = skill.version(decided.number)
    if version is None or digest(version.text) != decided.digest:
        raise ChangedSkillError
    return version


def _with(skill: Skill, changed: SkillVersion) -> Skill:
    """Return a skill with a version in the place of that of the same number."""
    return replace(skill, versions=tuple(changed if one.number == changed.number else one for one in skill.versions))


def _with_room(skill: Skill) -> tuple[SkillVersion, ...]:
    """Return the versions of a skill with room for one more: the oldest goes that nobody approved, if there is one.

    The one in force stays, and agents that write one draft after another do not displace approved versions.
    """
    if len(skill.versions) < MOST_VERSIONS:
        return skill.versions
    spare = [one for one in skill.versions if one.number != skill.current]
    gone = next((one for one in spare if not one.approved_by), spare[0])
    return tuple(one for one in skill.versions if one is not gone)


def _edited(base: SkillText, edit: SkillEdit) -> SkillText:
    description = base.description if edit.description is None else edit.description
    domain = base.domain if edit.domain is None else edit.domain
    return SkillText(edit.name, description, domain, edit.steps)


def _version(  # noqa: PLR0913 - a version is made of its author, its text, and its sources
    author: Learner,
    text: SkillText,
    number: int,
    *,
    label: Label,
    key: str,
    now: int,
    sources: tuple[str, ...] = (),
) -> SkillVersion:
    return SkillVersion(
        number=number,
        text=text,
        label=label,
        made_at=now,
        asker=author.asker,
        by_agent=author.by_agent,
        sid=author.sid,
        authors=author.authors,
        sources=sources,
        refs=author.refs,
        call=_call(key),
    )


def _row(skill: Skill, event: SkillEvent) -> AuditRow:
    """Return the row of the audit that tells what is done with a skill."""
    facts: dict[str, str | int | bool] = {
        "do": event.do.value,
        "skill": skill.id,
        "version": event.version,
        "principal": skill.principal,
        "label": str(skill.label),
        "by_agent": event.by_agent,
    }
    derived = {"derived_from": skill.derived_from} if skill.derived_from and event.version == 1 else {}
    return AuditRow("skill", event.actor, {**facts, **derived})
