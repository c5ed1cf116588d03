"""Skills as people see them and decide about them: a chat and the command line share this.

A reader's clearance is compared with a skill's label (law `no_read_up`). A person approves exactly the text that they
were
shown: they name the version and the digest of its text. Answers to people enter no context.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bot.access import labelling
from bot.core.clock import moment
from bot.core.errors import OperatorError, RequestError
from bot.knowledge.keeper import Learner
from bot.knowledge.skill_files import folder_name, written
from bot.knowledge.skill_keeper import EVERY_STATE, Decided, SkillEdit, SkillKeeper, SkillPage
from bot.knowledge.skill_wording import version_lines
from bot.operations.knowledge.skill_folders import read_skills, write_skills
from bot.sessions.knowledge.skills import (
    Reflection,
    Skill,
    SkillDeed,
    SkillEvent,
    SkillState,
    SkillVersion,
    SuccessRate,
    digest,
)
from policy.labels import Label

NOT_YOURS: Final = "Only an admin decides about the skills of this chat."
NOTHING_WAITS: Final = "no version of that skill waits for a person"
NOT_SAVED: Final = "that skill is not active, so there is nothing to copy"

_ALL: Final = 100
"""Skills that are read at once where all are wanted."""


@dataclass(frozen=True, slots=True)
class SkillViewer:
    """The viewer of skills: `principal` is whose they are, `reader` the clearance of the asking address.

    `actor` is the person who asks. `decides` tells that they may put skills in force.
    """

    principal: str
    reader: Label
    actor: str
    decides: bool = True


@dataclass(frozen=True, slots=True)
class KnownSkill:
    """A skill that the viewer may know of, and its success as far as they may know."""

    skill: Skill
    rate: SuccessRate
    notes: tuple[Reflection, ...] = ()

    @property
    def offered(self) -> SkillVersion | None:
        """The version that a person may put in force now: the waiting one, or a deprecated skill's own."""
        skill = self.skill
        deprecated = skill.version(skill.current) if skill.state is SkillState.DEPRECATED else None
        return skill.waiting or deprecated

    @property
    def shown(self) -> SkillVersion:
        """The version that is shown whole: the one that a person may decide about, else the one in force."""
        return self.offered or self.skill.shown


@dataclass(frozen=True, slots=True)
class LoadedSkills:
    """The outcome of a folder: ids of new skills, of skills with a new version, and the number of known ones."""

    created: tuple[str, ...]
    updated: tuple[str, ...]
    unchanged: int


class SkillOperations:
    """Shows skills to people, and carries out their decisions."""

    def __init__(self, keeper: SkillKeeper) -> None:
        self._keeper = keeper

    async def listed(self, by: SkillViewer, *, domain: str = "", after: str = "") -> SkillPage:
        """Return skills that the viewer may know of, those created last first. Raises CursorError, StoreError."""
        return await self._keeper.listed(by.principal, by.reader, domain=domain, after=after)

    async def rated(self, by: SkillViewer, skills: tuple[Skill, ...]) -> tuple[KnownSkill, ...]:
        """Return skills with their success, as far as the viewer may know. Raises StoreError."""
        rates = await self._keeper.rates(by.principal, by.reader, [skill.id for skill in skills])
        return tuple(KnownSkill(skill, rates.get(skill.id, SuccessRate())) for skill in skills)

    async def show(self, by: SkillViewer, name: str) -> KnownSkill:
        """Return a skill by its id.

        Raises:
            NotFoundError: the viewer may know of no such skill.
            StoreError: the store cannot be used.
        """
        found = await self._keeper.find(by.principal, by.reader, name)
        (known,) = await self.rated(by, (found,))
        return replace(known, notes=await self._keeper.notes(by.principal, by.reader, found.id))

    async def approve(self, by: SkillViewer, name: str, decided: Decided) -> Skill:
        """Put the version in force that a person was shown.

        Raises:
            NotFoundError: the viewer may know of no such skill.
            RequestError: they do not decide about it, or it was rejected; ChangedSkillError: it says something else.
            StoreError: the store cannot be used.
        """
        await self._theirs(by, name)
        return await self._keeper.approve(by.principal, by.reader, name, decided=decided, actor=by.actor)

    async def reject(self, by: SkillViewer, name: str, decided: Decided | None = None) -> Skill:
        """Reject the version that waits, or if `decided` is given only that one.

        Raises:
            NotFoundError: the viewer may know of no such skill.
            RequestError: they do not decide about it, or none waits; ChangedSkillError: it says something else.
            StoreError: the store cannot be used.
        """
        skill = await self._theirs(by, name)
        if decided is None:
            if skill.waiting is None:
                raise RequestError(NOTHING_WAITS)
            decided = Decided(skill.waiting.number, digest(skill.waiting.text))
        return await self._keeper.reject(by.principal, by.reader, name, decided=decided, actor=by.actor)

    async def deprecate(self, by: SkillViewer, name: str) -> Skill:
        """Put a skill out of force. Raises NotFoundError, RequestError, StoreError as `reject`."""
        await self._theirs(by, name)
        return await self._keeper.deprecate(by.principal, by.reader, name, by.actor)

    async def roll_back(self, by: SkillViewer, name: str, number: int) -> Skill:
        """Put another version in force that a person approved. Raises NotFoundError, RequestError, StoreError."""
        await self._theirs(by, name)
        return await self._keeper.roll_back(by.principal, by.reader, name, number, actor=by.actor)

    async def log(self, by: SkillViewer, name: str) -> tuple[Skill, tuple[SkillEvent, ...]]:
        """Return a skill with its events, the newest first. Raises NotFoundError, StoreError."""
        skill = await self._keeper.find(by.principal, by.reader, name)
        return skill, await self._keeper.history(by.principal, by.reader, name)

    async def exported(self, by: SkillViewer, name: str) -> tuple[Skill, str]:
        """Return a skill in force with its file.

        Raises:
            NotFoundError: it is not active.
            RequestError: it is not active.
            StoreError: the store cannot be used.
        """
        skill = await self._keeper.find(by.principal, by.reader, name)
        version = skill.version(skill.current)
        if skill.state is not SkillState.ACTIVE or version is None:
            raise RequestError(NOT_SAVED)
        return skill, written(skill, version, folder_name(skill))

    async def load(self, by: SkillViewer, folder: Path, label: Label) -> LoadedSkills:
        """Keep drafts of the skills in a folder, as UNTRUSTED text, and none if one is broken.

        One whose name is known there becomes a new version that waits. A text that was there before is left alone, also
        if it was rejected.

        Raises:
            OperatorError: the folder cannot be read, or holds a file that is not a skill; nothing was kept.
            RequestError: the label is above their clearance.
            FullError: the limit is reached; the skills kept before that stay.
            StoreError: the store cannot be used.
        """
        label = labelling.untrusted(label)
        if not label.secrecy.flows_to(by.reader):
            raise RequestError(f"you are not cleared for {label.secrecy}")
        files = await asyncio.to_thread(read_skills, folder)
        known = [skill for skill in await self._every(by) if skill.label == label.secrecy]
        before = {digest(version.text) for skill in known for version in skill.versions}
        author = Learner(by.principal, by.actor, label, label)
        created, updated = list[str](), list[str]()
        fresh = [file.text for file in files.values() if digest(file.text) not in before]
        for text in fresh:
            key = f"skill-file/{by.principal}/{label}/{digest(text)}"
            # A session's own skill does not stand for the one that the operator means by a name.
            named = [one for one in known if _goes_by(one, text.name) and (one.current or not one.latest.by_agent)]
            same = max(named, key=lambda one: one.state is SkillState.ACTIVE, default=None)
            if same is None:
                created.append((await self._keeper.create(author, text, key, deed=SkillDeed.LOADED)).id)
            else:
                edit = SkillEdit(text.name, text.steps, text.description, text.domain)
                updated.append((await self._keeper.update(author, same.id, edit, key)).id)
        return LoadedSkills(tuple(created), tuple(updated), len(files) - len(fresh))

    async def save(self, by: SkillViewer, folder: Path, clearance: Label) -> tuple[str, ...]:
        """Write the skills in force whose readers may be those of a folder; return the names of those that changed.

        Raises:
            OperatorError: something of others is there, or it cannot be written.
            StoreError: the store cannot be used.
        """
        texts = dict[str, tuple[str, str]]()
        for skill in sorted(await self._every(by), key=lambda one: (one.created_at, one.id)):
            version = skill.version(skill.current)
            if skill.state is SkillState.ACTIVE and version is not None and version.told.flows_to(clearance):
                name = folder_name(skill)
                name = f"{name[:40].rstrip('-')}-{skill.id.rpartition('_')[2]}" if name in texts else name
                texts[name] = (skill.id, written(skill, version, name))
        if not texts:
            raise OperatorError(f"there is no active skill that flows to {clearance}")
        return await asyncio.to_thread(write_skills, folder, texts)

    async def _every(self, by: SkillViewer) -> list[Skill]:
        """Return all skills that may be told of. Raises StoreError."""
        found, after = list[Skill](), ""
        while True:
            page = await self._keeper.listed(by.principal, by.reader, states=EVERY_STATE, after=after, limit=_ALL)
            found += page.skills
            after = page.cursor
            if not after:
                return found

    async def _theirs(self, by: SkillViewer, name: str) -> Skill:
        """Return a skill. Raises NotFoundError if it may not be told of, RequestError if they do not decide on it."""
        skill = await self._keeper.find(by.principal, by.reader, name)
        if not by.decides:
            raise RequestError(NOT_YOURS)
        return skill


def skill_line(known: KnownSkill, name: str) -> str:
    """Return a skill as a listing shows it; `name` is its name, masked."""
    skill, version = known.skill, known.skill.shown
    about = f" [{version.text.domain}]" if version.text.domain else ""
    steps, rate = len(version.text.steps), rate_words(known.rate)
    waits = f", version {skill.waiting.number} waits for approval" if skill.waiting and skill.current else ""
    return f"{skill.id} {skill.state.value}, {version.told}{about}: {name}, {steps}-step{waits}, {rate}"


def rate_words(rate: SuccessRate) -> str:
    """Return how a skill did, in words."""
    if not rate.uses:
        return "no reflections yet"
    return f"{rate.uses} use{'' if rate.uses == 1 else 's'}, {rate.percent}% success rate"


def skill_lines(known: KnownSkill) -> list[str]:
    """Return a skill with all that the version says which is shown, and how it did."""
    skill, version = known.skill, known.shown
    force = f"version {skill.current} is in force" if skill.state is SkillState.ACTIVE else "it is not in force"
    lines = [
        f"Skill {skill.id}: {skill.state.value}, {force}.",
        f"Version {version.number} of {skill.latest.number}, {moment(version.made_at)} UTC:",
        *version_lines(version),
    ]
    lines += [f"Others' words in it: {', '.join(version.authors)}"] if version.authors else []
    lines += [f"From memories: {', '.join(version.sources)}"] if version.sources else []
    lines += [f"Made from: {skill.derived_from}"] if skill.derived_from else []
    approved = [one.number for one in skill.versions if one.approved_by]
    lines += [f"Approved versions: {', '.join(map(str, approved))}"] if approved else []
    return [*lines, f"As far as may be told here: {rate_words(known.rate)}."]


def event_line(event: SkillEvent) -> str:
    """Return a line of a skill's log."""
    who = f"{'the agent for ' if event.by_agent else ''}{event.actor}"
    return f"{moment(event.at)} UTC, version {event.version}: {event.do.value} by {who}"


def skill_document(known: KnownSkill) -> dict[str, JsonValue]:
    """Return a skill for a program, with all of its versions."""
    skill = known.skill
    return {
        "id": skill.id,
        "principal": skill.principal,
        "label": str(skill.label),
        "state": skill.state.value,
        "in_force": skill.current or None,
        "waiting": skill.waiting.number if skill.waiting else None,
        "derived_from": skill.derived_from or None,
        "created_at": skill.created_at,
        "changed_at": skill.changed_at,
        "uses": known.rate.uses,
        "success_rate": known.rate.percent or None,
        "versions": [_version_document(version) for version in skill.versions],
    }


def event_document(event: SkillEvent) -> dict[str, JsonValue]:
    """Return a line of a skill's log for a program."""
    facts: dict[str, JsonValue] = {"at": event.at, "do": event.do.value, "version": event.version}
    return {**facts, "actor": event.actor, "by_agent": event.by_agent}


def _version_document(version: SkillVersion) -> dict[str, JsonValue]:
    text = version.text
    return {
        "version": version.number,
        "digest": digest(text),
        "name": text.name,
        "description": text.description or None,
        "domain": text.domain or None,
        "steps": list(text.steps),
        "label": str(version.label),
        "made_at": version.made_at,
        "asker": version.asker,
        "by_agent": version.by_agent,
        "session": version.sid or None,
        "authors": list(version.authors),
        "sources": list(version.sources),
        "approved_by": version.approved_by or None,
        "approved_at": version.approved_at or None,
        "rejected_by": version.rejected_by or None,
        "rejected_at": version.rejected_at or None,
    }


def _goes_by(skill: Skill, name: str) -> bool:
    """Say whether a skill that was not rejected has a name, or its newest version does."""
    return skill.state is not SkillState.REJECTED and name in {skill.shown.text.name, skill.latest.text.name}
