"""Skills: what sessions of a principal do in numbered steps, in versions of which a person approves the one in force.

A skill is at one secrecy label: its id, name, state and counts are known to whom that flows, and to nobody else. Each
version keeps the label of what wrote it until a person approved exactly that text. Times are milliseconds since the
epoch on the store's clock.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bot.sessions.refs import Ref
from policy.labels import Label

LONGEST_NAME: Final = 80
"""Characters of the name of a skill."""

LONGEST_DESCRIPTION: Final = 400
"""Characters of the description of a skill."""

LONGEST_STEP: Final = 500
"""Characters of a step."""

MOST_STEPS: Final = 20
"""Steps of a skill."""

LONGEST_SKILL: Final = 3_000
"""Characters of a skill in all, so that one message shows a person the whole of what they approve."""

LONGEST_NOTES: Final = 1_000
"""Characters of the notes of a reflection."""

MOST_VERSIONS: Final = 50
"""Versions of a skill that are kept."""

MOST_EVENTS: Final = 200
"""Events of a skill that are kept, the newest."""

MOST_NOTES: Final = 20
"""Notes of a skill that are kept of the sessions of one label, the newest."""

_DIGEST: Final = 24


class SkillState(StrEnum):
    """Whether a skill is in force: an ACTIVE one is applied, and a REJECTED one never was."""

    DRAFT = "draft"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    REJECTED = "rejected"


class SkillDeed(StrEnum):
    """What is done with a skill, as its log and the audit tell it."""

    CREATED = "created"
    GENERATED = "generated"
    LOADED = "loaded"
    UPDATED = "updated"
    APPROVED = "approved"
    REJECTED = "rejected"
    DEPRECATED = "deprecated"
    ROLLED_BACK = "rolled back"


class Outcome(StrEnum):
    """How it went where a skill was applied."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class SkillText:
    """What a skill says. `domain` is what it is about, empty for anything."""

    name: str
    description: str
    domain: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """One text of a skill; it never changes, and what people decide about it is noted with it.

    `label` is that of what wrote it, integrity too; its secrecy is the skill's. `asker` is the person whose turn or
    command wrote it, `by_agent` tells that an agent did, in the session `sid`, empty for none. `authors` are the people
    besides the asker whose words it derives from, `sources` the ids of the memories that it was generated from, `refs`
    what its words came from. `call` is a digest of the key of the call that wrote it. Who decided is empty, and when is
    0, where nobody did.
    """

    number: int
    text: SkillText
    label: Label
    made_at: int
    asker: str
    by_agent: bool = False
    sid: str = ""
    authors: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    refs: tuple[Ref, ...] = ()
    call: str = ""
    approved_by: str = ""
    approved_at: int = 0
    rejected_by: str = ""
    rejected_at: int = 0

    @property
    def told(self) -> Label:
        """The label that it is told with: without what anybody may have written, once a person approved it."""
        return self.label.secrecy if self.approved_by else self.label


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill with the versions that are kept, the oldest first.

    `label` is the secrecy at which it is known. `current` is the number of the version in force, which a person
    approved, and 0 where there never was one. `pool` is the label of what created it, among whose skills it counts.
    `derived_from` is the skill that it was made from by who had read more, and `revision` counts its changes.
    """

    id: str
    principal: str
    label: Label
    state: SkillState
    versions: tuple[SkillVersion, ...]
    created_at: int
    changed_at: int
    pool: Label
    current: int = 0
    derived_from: str = ""
    revision: int = 1

    @property
    def latest(self) -> SkillVersion:
        """The version that was written last."""
        return self.versions[-1]

    @property
    def shown(self) -> SkillVersion:
        """The version by which it is named: the one in force, or the latest where there never was one."""
        return self.version(self.current) or self.latest

    @property
    def waiting(self) -> SkillVersion | None:
        """The version that waits for a person: the latest, if nobody decided about it."""
        last = self.latest
        waits = self.state is not SkillState.REJECTED and not last.approved_by and not last.rejected_by
        return last if waits else None

    def known_to(self, reader: Label) -> "Skill | None":
        """Return it as a reader may know of it that its label flows to, None if they may not.

        To a TRUSTED one a version that anybody may have written is as if it were not there, until a person approved it:
        an UNTRUSTED session chooses nothing that a TRUSTED one is told.
        """
        if reader.untrusted:
            return self
        kept = tuple(one for one in self.versions if not one.told.untrusted)
        if not kept:
            return None
        return self if len(kept) == len(self.versions) else replace(self, versions=kept)

    def version(self, number: int) -> SkillVersion | None:
        """Return the version of a number, None if it is not kept."""
        return next((one for one in self.versions if one.number == number), None)


@dataclass(frozen=True, slots=True)
class SkillChanges:
    """What changed among a principal's skills of one label: those that did, and the version that they lead to.

    `more` tells that there are more changes behind that version.
    """

    version: int
    changed: tuple[Skill, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class SkillEvent:
    """One line of a skill's log: who did what, when, and with which version."""

    at: int
    actor: str
    do: SkillDeed
    version: int
    by_agent: bool = False


@dataclass(frozen=True, slots=True)
class Reflection:
    """How it went where a skill was applied, as a session told: `label` is that of all that it had read."""

    at: int
    outcome: Outcome
    label: Label
    notes: str = ""


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """How often a skill was applied, and how often that went well, as far as a reader may know."""

    uses: int = 0
    successes: int = 0

    @property
    def percent(self) -> str:
        """The share that went well, with one decimal at most: `87.5`, `100`. Empty without any use."""
        if not self.uses:
            return ""
        tenths = (2_000 * self.successes + self.uses) // (2 * self.uses)
        return f"{tenths // 10}.{tenths % 10}".removesuffix(".0")


def digest(text: SkillText) -> str:
    """Return what stands for exactly this text, as a person's decision names it."""
    whole = json.dumps([text.name, text.description, text.domain, *text.steps])
    return hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
