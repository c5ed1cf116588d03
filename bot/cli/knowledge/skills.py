"""`lockgate skills`: the skills of agents, as the owner sees them, decides about them, loads and saves them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.access import labelling
from bot.cli.background.runs import managing
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.core.json_values import JsonObject, mapped_object
from bot.knowledge.skill_keeper import Decided
from bot.operations.knowledge.skills import (
    KnownSkill,
    SkillOperations,
    SkillViewer,
    event_document,
    event_line,
    skill_document,
    skill_lines,
)
from bot.sessions.knowledge.skills import digest
from policy.errors import LabelTextError
from policy.labels import Label

if TYPE_CHECKING:
    from pydantic import JsonValue

    from bot.app.app import App

NOT_YET: Final = "nothing is approved yet"
NOTHING_WAITS: Final = "no version of that skill waits for approval"
IN_PART: Final = "A text that looks like a secret is hidden here, so this cannot be approved."

_NAMES: Final = "`lockgate skills list` names them"


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator at work: the application, and whose skills they look at."""

    app: "App"
    by: SkillViewer

    @property
    def skills(self) -> SkillOperations:
        return self.app.skills

    def masked(self, text: str) -> str:
        return self.app.gate.masks.masked(text)

    def label(self, text: str) -> Label:
        """Return a label that an operator typed. Raises OperatorError: it is not a label."""
        try:
            return labelling.named(self.app.gate.document, text)
        except LabelTextError as error:
            raise OperatorError(str(error)) from None


@asynccontextmanager
async def _operating(config: Config, whose: str, *, looking: bool = False) -> AsyncGenerator[_Operator]:
    """Look at the skills of a principal as the owner, at their own if `whose` is empty.

    Raises OperatorError: there is no such skill that the owner is cleared for, or it does not allow that.
    """
    async with managing(config, what="skill", names=_NAMES, looking=looking) as at:
        yield _Operator(
            at.app, SkillViewer(whose or at.caller.principal, labelling.untrusted(at.by.reader), at.by.actor)
        )


async def list_skills(config: Config, whose: str, *, as_json: bool, after: str) -> None:
    """Print a page of a principal's skills that the owner is cleared for, those created last first."""
    async with _operating(config, whose, looking=True) as at:
        page = await at.skills.listed(at.by, after=after)
        known = await at.skills.rated(at.by, page.skills)
        names = [at.masked(one.skill.shown.text.name) for one in known]
        told: list[JsonValue] = [dict(mapped_object(skill_document(one), at.masked)) for one in known]
    if as_json:
        print_json(told)
        return
    rows = [
        (one.skill.id, one.skill.state.value, str(one.skill.shown.told), str(len(one.skill.shown.text.steps)), name)
        for one, name in zip(known, names, strict=True)
    ]
    print_lines(table([("skill", "state", "label", "steps", "name"), *rows]))
    if page.cursor:
        print_lines([f"there are more: `lockgate skills list --of {at.by.principal} --after {page.cursor}`"])


async def show_skill(config: Config, whose: str, name: str, *, as_json: bool) -> None:
    """Print one skill, with all that the version says which waits, or that which is in force.

    Raises OperatorError: the owner is not cleared for any such skill.
    """
    async with _operating(config, whose, looking=True) as at:
        known = await at.skills.show(at.by, name)
        told: JsonObject = {
            **mapped_object(skill_document(known), at.masked),
            "notes": [
                {"at": one.at, "outcome": one.outcome.value, "label": str(one.label), "notes": at.masked(one.notes)}
                for one in known.notes
            ],
        }
        lines = _lines(at, known, whose)
    if as_json:
        print_json(told)
    else:
        print_lines(lines)


async def approve_skill(config: Config, whose: str, name: str, decided: Decided | None) -> None:
    """Put exactly the version in force that was shown; one that is named alone is only shown.

    Raises OperatorError: it was only shown, its text has changed, or the owner is not cleared for any such skill.
    """
    async with _operating(config, whose) as at:
        if decided is None:
            known = await at.skills.show(at.by, name)
            print_lines(_lines(at, known, whose))
            raise OperatorError(NOT_YET if known.offered else NOTHING_WAITS)
        done = await at.skills.approve(at.by, name, decided)
    print_lines([f"version {decided.number} of {done.id} is in force"])


async def reject_skill(config: Config, whose: str, name: str, decided: Decided | None) -> None:
    """Reject the version that waits. Raises OperatorError: none does, or the owner is not cleared for it."""
    async with _operating(config, whose) as at:
        done = await at.skills.reject(at.by, name, decided)
    print_lines([f"version {done.latest.number if decided is None else decided.number} of {done.id} is rejected"])


async def deprecate_skill(config: Config, whose: str, name: str) -> None:
    """Put a skill out of force. Raises OperatorError: it is not active, or none that the owner is cleared for."""
    async with _operating(config, whose) as at:
        done = await at.skills.deprecate(at.by, name)
    print_lines([f"{done.id} is not in force any more"])


async def roll_back_skill(config: Config, whose: str, name: str, number: int) -> None:
    """Put another approved version in force.

    Raises OperatorError: there is no such version, or they are not cleared for the skill.
    """
    async with _operating(config, whose) as at:
        done = await at.skills.roll_back(at.by, name, number)
    print_lines([f"version {done.current} of {done.id} is in force"])


async def log_skill(config: Config, whose: str, name: str, *, as_json: bool) -> None:
    """Print the events of a skill, newest first. Raises OperatorError: the owner is not cleared for it."""
    async with _operating(config, whose, looking=True) as at:
        _, events = await at.skills.log(at.by, name)
    if as_json:
        print_json([event_document(event) for event in events])
    else:
        print_lines(map(event_line, events))


async def export_skill(config: Config, whose: str, name: str) -> None:
    """Print the SKILL.md of an active skill. Raises OperatorError: it is not active, or they are not cleared for it."""
    async with _operating(config, whose, looking=True) as at:
        _, text = await at.skills.exported(at.by, name)
        print_lines([at.masked(text.rstrip("\n"))])


async def load_skills(config: Config, whose: str, folder: Path, label: str, *, as_json: bool) -> None:
    """Keep the skills of a folder as drafts at a label, and print the outcome.

    Raises OperatorError: one of them cannot be read, and none was kept; or the owner is not cleared for the label.
    """
    async with _operating(config, whose) as at:
        done = await at.skills.load(at.by, folder, at.label(label))
    if as_json:
        print_json({"created": list(done.created), "updated": list(done.updated), "unchanged": done.unchanged})
        return
    lines = [
        *(f"{name} is a new draft" for name in done.created),
        *(f"{name} has a new draft" for name in done.updated),
    ]
    counts = f"{len(lines)} loaded, {done.unchanged} unchanged"
    print_lines([*lines, f"{counts}; `lockgate skills approve` puts a draft in force"])


async def save_skills(config: Config, whose: str, folder: Path, clearance: str) -> None:
    """Write the skills in force that flow to a label into a folder, and print the names of those that changed.

    Raises OperatorError: a file of others is there, it cannot be written, or no skill matches.
    """
    async with _operating(config, whose) as at:
        changed = await at.skills.save(at.by, folder, at.label(clearance))
    print_lines([f"{name} is written" for name in changed] or ["nothing changed"])


def _lines(at: _Operator, known: KnownSkill, whose: str) -> list[str]:
    """Return a skill as it is shown, and how to approve it, where nothing of it is hidden."""
    whole = skill_lines(known)
    lines, offered = [at.masked(line) for line in whole], known.offered
    if offered is None:
        return lines
    of = f" --of {whose}" if whose else ""
    what = f"{known.skill.id} {offered.number} {digest(offered.text)}"
    return [*lines, f"Approve exactly this with `lockgate skills approve {what}{of}`." if lines == whole else IN_PART]
