"""A workflow's state from its events: pure, and the same for the same events.

Fields that an event does not know are left unchanged, and only an event takes anything away. So the fold of more events
has all that the fold of fewer ones has, no matter who wrote the others.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

from bot.sessions.workflows.definitions import WorkflowDefinition
from bot.sessions.workflows.document import LoggedDecision, OpenFinding, StepStatus, WorkflowDocument, WorkflowStep
from bot.sessions.workflows.events import (
    DecisionMade,
    FileTakenIn,
    FindingAdded,
    FindingRemoved,
    StepCompleted,
    StepSkipped,
    StepStarted,
    SubStepDone,
    WorkflowEvent,
    WorkflowStarted,
)

Edit: TypeAlias = Mapping[str, Any]
"""The edit in a state file, see `bot.workflows.edits`."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ID: Final = 12
_REMEMBERED: Final = 32


@dataclass(frozen=True, slots=True)
class Fold:
    """The fold of events. `keys` has for each id of a decision or finding the event that it came with."""

    document: WorkflowDocument
    definition: WorkflowDefinition
    keys: Mapping[str, str]


def iso(at: int) -> str:
    """Return a time in milliseconds since the epoch as ISO 8601, in UTC."""
    return (_EPOCH + timedelta(milliseconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def updated_by(before: int, event: WorkflowEvent) -> int:
    """Return when a state was made that an event led to: no two states of a workflow have one time.

    Events of one millisecond are distinguished, and those of a clock that went back.
    """
    return max(before + 1, event.at) if before else event.at


def workflow_id(principal: str, project: str) -> str:
    """Return the id that tells workflows of different principals apart whose projects have one name."""
    return f"wf_{hashlib.sha256(f'{principal}/{project}'.encode()).hexdigest()[:_ID]}"


@lru_cache(maxsize=_REMEMBERED)
def fold(principal: str, project: str, events: tuple[WorkflowEvent, ...]) -> Fold | None:
    """Return the fold of events, in their order; None where no workflow began with them.

    A write needs the same folds several times: before and after it, for the caller and for the file. So the last ones
    are remembered, which events and fold allow as nothing of them changes.
    """
    state, count = None, 0
    for count, event in enumerate(events, start=1):  # noqa: B007 - how many there were
        if isinstance(event.body, WorkflowStarted):
            state = state or _State(principal, project)
            state.begin(event.body)
        if state is not None:
            state.take(event)
    return None if state is None else state.fold(count)


@dataclass(slots=True)
class _State:
    """A state that events change."""

    principal: str
    project: str
    definition: WorkflowDefinition | None = None
    branch: str = ""
    updated: int = 0
    current: str = ""
    steps: dict[str, WorkflowStep] = field(default_factory=dict[str, WorkflowStep])
    decisions: dict[str, Any] = field(default_factory=dict[str, Any])
    log: dict[str, LoggedDecision] = field(default_factory=dict[str, LoggedDecision])
    findings: dict[str, OpenFinding] = field(default_factory=dict[str, OpenFinding])
    audit: dict[str, Any] = field(default_factory=dict[str, Any])
    logged: int = 0
    found: int = 0

    def begin(self, body: WorkflowStarted) -> None:
        """Begin, or learn of the steps of another beginning, which did not know of the first."""
        if self.definition is None:
            self.definition, self.branch = body.definition, body.branch
        else:
            fresh = tuple(step for step in body.definition.steps if self.definition.step(step.id) is None)
            self.definition = replace(self.definition, steps=(*self.definition.steps, *fresh))
        for step in self.definition.steps:
            self.steps.setdefault(step.id, WorkflowStep(step.name))
        self.current = self.current or next(iter(self.steps), "")

    def take(self, event: WorkflowEvent) -> None:
        """Take one event in."""
        self.updated = updated_by(self.updated, event)
        match event.body:
            case StepStarted(step, files):
                self._change(
                    step,
                    {
                        "status": StepStatus.IN_PROGRESS,
                        "sub_step": "",
                        "started": iso(event.at),
                        "completed": "",
                        "context_files_used": files,
                    },
                )
                self.current = step if step in self.steps else self.current
            case SubStepDone(step, sub_step, artifacts):
                there = self.steps[step].artifacts if step in self.steps else ()
                every = tuple(dict.fromkeys((*there, *artifacts)))
                self._change(step, {"sub_step": sub_step, "artifacts": every})
            case StepCompleted(step, passed_by):
                self._change(step, {"status": StepStatus.COMPLETE, "sub_step": "", "completed": iso(event.at)})
                if passed_by:
                    stood = [one.id for one in self.findings.values()]
                    self.audit[step] = {"passed_by": passed_by, "passed": iso(event.at), "open_findings": stood}
                self._go_on(step)
            case StepSkipped(step):
                self._change(step, {"status": StepStatus.SKIPPED, "sub_step": ""})
                self._go_on(step)
            case DecisionMade(step, title, choice, rationale):
                self._log(f"{event.order}", {"step": step, "title": title, "choice": choice, "rationale": rationale})
                self.decisions[title] = choice
            case FindingAdded(step, text):
                self._find(f"{event.order}", {"step": step, "text": text})
            case FindingRemoved(finding):
                self.findings.pop(finding, None)
            case FileTakenIn(changes):
                self._edit(event.order, cast("Edit", json.loads(changes)))
            case _:
                pass

    def fold(self, revision: int) -> Fold:
        """Return the fold of all events, whose number is `revision`."""
        definition = self.definition or WorkflowDefinition("", "", "", ())
        document = WorkflowDocument(
            project=self.project,
            branch=self.branch,
            updated=iso(self.updated),
            current_step=self.current,
            steps=MappingProxyType(dict(self.steps)),
            decisions=MappingProxyType(dict(self.decisions)),
            decision_log=tuple(self.log.values()),
            open_findings=tuple(self.findings.values()),
            review_audit=MappingProxyType(dict(self.audit)),
            workflow=workflow_id(self.principal, self.project),
            revision=revision,
        )
        keys = {one.id: key for key, one in (*self.log.items(), *self.findings.items())}
        return Fold(document, definition, MappingProxyType(keys))

    def _change(self, step: str, change: Mapping[str, Any]) -> None:
        # A step of a beginning that the reader does not know of is no step to them.
        if step in self.steps:
            self.steps[step] = replace(self.steps[step], **change)

    def _go_on(self, step: str) -> None:
        """Let the first open step behind one that ended be the current one."""
        if step not in self.steps or step != self.current:
            return
        names = list(self.steps)
        later = names[names.index(step) + 1 :]
        self.current = next((name for name in later if self.steps[name].open), step)

    def _log(self, key: str, said: Mapping[str, str]) -> None:
        if key not in self.log:
            self.logged += 1
        name = self.log[key].id if key in self.log else f"D{self.logged}"
        self.log[key] = LoggedDecision(name, **said)

    def _find(self, key: str, said: Mapping[str, str]) -> None:
        if key not in self.findings:
            self.found += 1
        name = self.findings[key].id if key in self.findings else f"F{self.found}"
        self.findings[key] = OpenFinding(name, **said)

    def _edit(self, order: int, edit: Edit) -> None:
        self.branch = edit.get("branch", self.branch)
        self.current = edit.get("current_step", self.current)
        for step, change in edit.get("steps", {}).items():
            self._change(step, _step_change(change))
        for kept, changes in ((self.decisions, edit.get("decisions", {})), (self.audit, edit.get("review_audit", {}))):
            for name, value in changes.items():
                if value is None:
                    kept.pop(name, None)
                else:
                    kept[name] = value
        for place, (key, said) in enumerate(edit.get("decision_log", ())):
            if said is None:
                self.log.pop(key, None)
            else:
                self._log(key or f"{order}/{place}", said)
        for place, (key, said) in enumerate(edit.get("open_findings", ())):
            if said is None:
                self.findings.pop(key, None)
            else:
                self._find(key or f"{order}/{place}", said)


def _step_change(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return an edit of a step, in a step's own terms."""
    made = dict[str, Any]()
    for name, value in change.items():
        match name:
            case "status":
                made[name] = StepStatus(value)
            case "artifacts" | "context_files_used":
                made[name] = tuple(value)
            case _:
                made[name] = value
    return made
