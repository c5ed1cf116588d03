"""The edit in a state file: the difference between the state that it was made from and its text.

An edit is kept as that difference, so that it takes nothing away that its author did not know of. It is JSON: `branch`,
`current_step`, `steps` (id → fields), `decisions` and `review_audit` (name → value, null for a removed one).
`decision_log` and `open_findings` are pairs of the event that an entry came with, empty for a new one, and the entry,
null for a removed one.

A file that a session may have written passes no gate and removes no finding: people do that where they are asked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from bot.sessions.workflows.definitions import StepDefinition
from bot.sessions.workflows.document import LoggedDecision, OpenFinding, StepStatus, WorkflowDocument, WorkflowStep
from bot.workflows.folding import Fold

TOO_LARGE: Final = "the state file changes more than a million characters"

_MOST: Final = 1_000_000
_ENDED: Final = frozenset({StepStatus.COMPLETE, StepStatus.SKIPPED})


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A file's edit, as JSON, empty for none; `refused` tells its refused parts, in words."""

    changes: str
    refused: tuple[str, ...] = ()

    @property
    def too_large(self) -> bool:
        """Whether it is more than one event may hold: each is kept for ever, and read with every state."""
        return len(self.changes) > _MOST


def edit_between(before: Fold, after: WorkflowDocument, *, by_person: bool, now: Fold | None = None) -> FileEdit:
    """Return the edit that turns a state into a document.

    `by_person` tells that no session can have written it, and `now` is the present state where that is another one: the
    refused parts are described by it.
    """
    present = (now or before).document
    document, refused = before.document, list[str]()
    edit = dict[str, Any]()
    for name in ("branch", "current_step"):
        if getattr(document, name) != getattr(after, name):
            edit[name] = getattr(after, name)
    steps = dict[str, Any]()
    for step in before.definition.steps:
        old, new = document.steps[step.id], after.steps.get(step.id)
        if new is None:
            continue
        change = _step_change(old, new)
        ends = "status" in change and _needs_person(
            step, present.steps[step.id], new, findings=bool(present.open_findings)
        )
        if ends and not by_person:
            refused.append(f"the {'gate' if step.gate else 'end'} of step {step.id}")
            change = {name: value for name, value in change.items() if name not in {"status", "completed", "sub_step"}}
            edit.pop("current_step", None)
        if change:
            steps[step.id] = change
    findings = _entries(document.open_findings, after.open_findings, before.keys)
    if findings and not by_person:
        refused.append("changes of findings")
        findings = []
    audit = _mapping(document.review_audit, after.review_audit) if by_person else {}
    more = {
        "steps": steps,
        "decisions": _mapping(document.decisions, after.decisions),
        "review_audit": audit,
        "decision_log": _entries(document.decision_log, after.decision_log, before.keys),
        "open_findings": findings,
    }
    edit |= {name: value for name, value in more.items() if value}
    return FileEdit(json.dumps(edit, ensure_ascii=False, separators=(",", ":")) if edit else "", tuple(refused))


def _needs_person(step: StepDefinition, old: WorkflowStep, new: WorkflowStep, *, findings: bool) -> bool:
    """Say whether a person alone ends a step so: by a gate, over open findings, or as it is not optional."""
    if new.status is old.status or new.status not in _ENDED:
        return False
    if new.status is StepStatus.SKIPPED:
        return not step.optional
    return step.gate or findings


def _step_change(old: WorkflowStep, new: WorkflowStep) -> dict[str, Any]:
    """Return the fields of a step that differ; its name is that of the definition."""
    named = [field.name for field in fields(WorkflowStep) if field.name != "name"]
    return {name: getattr(new, name) for name in named if getattr(new, name) != getattr(old, name)}


def _mapping(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    return {**changed, **dict.fromkeys(name for name in old if name not in new)}


def _entries(
    old: tuple[LoggedDecision, ...] | tuple[OpenFinding, ...],
    new: tuple[LoggedDecision, ...] | tuple[OpenFinding, ...],
    keys: Mapping[str, str],
) -> list[tuple[str, dict[str, str] | None]]:
    there = {one.id: one for one in old}
    kept = {one.id for one in new}
    gone = [(keys[name], None) for name in there if name not in kept]
    return [*gone, *[(keys[one.id] if one.id in there else "", _said(one)) for one in new if there.get(one.id) != one]]


def _said(entry: LoggedDecision | OpenFinding) -> dict[str, str]:
    return {field.name: getattr(entry, field.name) for field in fields(entry) if field.name != "id"}
