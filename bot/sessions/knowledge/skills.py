"""Skills: tasks that sessions of a principal do in numbered steps, in versions; a person approves the one in force.

A skill has one secrecy label: its id, name, state and counts are known only to readers that the label flows to. Each
version keeps the label of its writer until a person approved exactly that text. Times are milliseconds since the epoch
on the store's clock.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bot.sessions.refs import Ref
from policy.labels import Label

LONGEST_NAME: Final = 80
"""The most characters of the name of a skill."""

LONGEST_DESCRIPTION: Final = 400
"""The most characters of the description of a skill."""

LONGEST_STEP: Final = 500
"""The most characters of a step."""

MOST_STEPS: Final = 20
"""The most steps of a skill."""

LONGEST_SKILL: Final = 3_000
"""The most characters of a whole skill, so that one message shows a person the entire text to approve."""

LONGEST_NOTES: Final = 1_000
"""The most characters of the notes of a reflection."""

MOST_VERSIONS: Final = 50
"""The most versions of a skill that are kept."""

MOST_EVENTS: Final = 200
"""The most events of a skill that are kept, the newest."""

MOST_NOTES: Final = 20
"""The most notes kept for a skill and label of session, the newest."""

_DIGEST: Final = 24


class SkillState(StrEnum):
    """Whether a skill is in force: an ACTIVE one is applied, and a REJECTED one never was."""

    DRAFT = "draft"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    REJECTED = "rejected"


class SkillDeed(StrEnum):
    """The operations on a skill, as named in its log and in the audit."""

    CREATED = "created"
    GENERATED = "generated"
    LOADED = "loaded"
    UPDATED = "updated"
    APPROVED = "approved"
    REJECTED = "rejected"
    DEPRECATED = "deprecated"
    ROLLED_BACK = "rolled back"


class Outcome(StrEnum):
    """The outcome of an applied skill."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class SkillText:
    """The text of a skill. `domain` is its domain, empty for any."""

    name: str
    description: str
    domain: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """One text of a skill. It never changes; decisions of people about it are noted with it.

    Args:
        number: Its number.
        text: The text.
        label: The label of its writer, with integrity; its secrecy is the skill's.
        made_at: When it was written.
        asker: The person whose turn or command wrote it.
        by_agent: Whether an agent wrote it.
        sid: The session that wrote it, empty for none.
        authors: The people besides the asker whose words it derives from.
        sources: The ids of the memories that it was generated from.
        refs: The sources that its words came from.
        call: A digest of the key of the call that wrote it.
        approved_by: The person who approved it, empty for none.
        approved_at: When they approved it, 0 for never.
        rejected_by: The person who rejected it, empty for none.
        rejected_at: When they rejected it, 0 for never.
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
        """The label that it is shown with: its secrecy alone, hence TRUSTED, once a person approved it."""
        return self.label.secrecy if self.approved_by else self.label


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill with its kept versions, the oldest first.

    Args:
        id: Its id.
        principal: Its principal.
        label: The secrecy at which it is known.
        state: Its state.
        versions: Its kept versions.
        created_at: When it was created.
        changed_at: When it changed last.
        pool: The label of its creator, among whose skills it counts.
        current: The number of the approved version in force, 0 where there never was one.
        derived_from: The skill that it was made from by a session that had read more.
        revision: The number of its changes.
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
        """The version that names it: the one in force, or the latest where there never was one."""
        return self.version(self.current) or self.latest

    @property
    def waiting(self) -> SkillVersion | None:
        """The version that waits for a person: the latest, if nobody decided about it."""
        last = self.latest
        waits = self.state is not SkillState.REJECTED and not last.approved_by and not last.rejected_by
        return last if waits else None

    def known_to(self, reader: Label) -> "Skill | None":
        """Return the skill as a reader that its label flows to may know it, None if they may not.

        A TRUSTED reader does not see a version that anyone may have written until a person approved it. So an UNTRUSTED
        session chooses nothing that a TRUSTED one is told.
        """
        if reader.untrusted:
            return self
        kept = tuple(one for one in self.versions if not one.told.untrusted)
        if not kept:
            return None
        return self if len(kept) == len(self.versions) else replace(self, versions=kept)

    def version(self, number: int) -> SkillVersion | None:
        """Return the version with a number, None if it is not kept."""
        return next((one for one in self.versions if one.number == number), None)


@dataclass(frozen=True, slots=True)
class SkillChanges:
    """The changes among a principal's skills of one label after a version.

    Args:
        version: The version that they lead to.
        changed: The changed skills.
        more: Whether there are more changes after that version.
    """

    version: int
    changed: tuple[Skill, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class SkillEvent:
    """One line of a skill's log: the actor, the operation, the time, and the version."""

    at: int
    actor: str
    do: SkillDeed
    version: int
    by_agent: bool = False


@dataclass(frozen=True, slots=True)
class Reflection:
    """The outcome of an applied skill, as a session reports it: `label` is that of all that the session had read."""

    at: int
    outcome: Outcome
    label: Label
    notes: str = ""


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """How often a skill was applied, and how often with success, as far as a reader may know."""

    uses: int = 0
    successes: int = 0

    @property
    def percent(self) -> str:
        """The share of successes, with at most one decimal: `87.5`, `100`. Empty without any use."""
        if not self.uses:
            return ""
        tenths = (2_000 * self.successes + self.uses) // (2 * self.uses)
        return f"{tenths // 10}.{tenths % 10}".removesuffix(".0")


def digest(text: SkillText) -> str:
    """Return the digest of exactly this text, which a person's decision names."""
    whole = json.dumps([text.name, text.description, text.domain, *text.steps])
    return hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
