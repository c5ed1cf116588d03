"""A workflow as a reader may know of it, and where work on it goes on."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bot.sessions.audit import AuditRow
from bot.sessions.refs import Ref, WorkflowRef
from bot.sessions.workflows.definitions import StepDefinition, WorkflowDefinition
from bot.sessions.workflows.document import LoggedDecision, StepStatus, WorkflowDocument
from bot.sessions.workflows.events import WorkflowBody, WorkflowEvent
from bot.sessions.workflows.serialization import kind_of
from policy.labels import Label

WorkflowEventsSince: TypeAlias = tuple[WorkflowEvent, ...]


@dataclass(frozen=True, slots=True)
class WorkflowActor:
    """The actor of a change: whose workflow it is, and the person who asks.

    Their words have `label`, joined with the labels of the data that they have seen of the workflow. `reader` is the
    highest label that they may know of. `sid` is the session, empty for a person's command. `by_agent` tells that an
    agent does it, which has the name `agent`. `refs` are the sources of their words.
    """

    principal: str
    asker: str
    label: Label
    reader: Label
    sid: str = ""
    by_agent: bool = False
    agent: str = ""
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow as a reader may know of it.

    `version` is how many events they may know of, `label` the join of these. `touched_at` is when the last of them was
    written, in milliseconds since the epoch, and `touched_by_sid` by which session, empty for a person. `note` tells
    the outcome for its state file, empty where there is none.
    """

    principal: str
    definition: WorkflowDefinition
    document: WorkflowDocument
    version: int
    label: Label
    events: tuple[WorkflowEvent, ...]
    touched_at: int
    touched_by_sid: str
    note: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether a step is in progress."""
        return any(step.status is StepStatus.IN_PROGRESS for step in self.document.steps.values())

    @property
    def at_gate(self) -> bool:
        """Whether a person has to let the step in progress pass its gate."""
        step = self.document.steps.get(self.document.current_step)
        gated = self.definition.step(self.document.current_step)
        return step is not None and step.status is StepStatus.IN_PROGRESS and gated is not None and gated.gate

    @property
    def ref(self) -> WorkflowRef:
        """The reference to this state."""
        return state_ref(self.principal, self.document.project, self.label, self.version)


def state_ref(principal: str, project: str, label: Label, upto: int) -> WorkflowRef:
    """Return the reference to the state that the first `upto` events within a label came to."""
    return WorkflowRef(principal, project, str(label), str(upto))


@dataclass(frozen=True, slots=True)
class WorkflowWrite:
    """The outcome of a write: `exported` is the path of the state file, empty for none, with the reason in `note`."""

    workflow: Workflow
    exported: str = ""
    note: str = ""


class ResumeBranch(StrEnum):
    """How work on a step goes on: the branches of the recovery protocol."""

    FRESH = "fresh"
    """Nothing was begun: the first step starts."""

    START = "start"
    """The step is pending: it starts."""

    CONTINUE = "continue"
    """The step is in progress: it goes on at `sub_step`."""

    RERUN = "rerun"
    """The step is complete: it says so, and may be run again."""

    NEXT = "next"
    """The step was skipped: the next one starts."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where work on a workflow goes on.

    `sub_step` is the sub-step to go on with and `done` the last one that was done, both empty where there is none.
    `open_before` are earlier steps that are open, which is a reason for a warning and a choice. An agent may begin
    nothing behind those that have a gate, `gates_before`.
    """

    branch: ResumeBranch
    step: StepDefinition
    workflow: Workflow
    sub_step: str = ""
    done: str = ""
    open_before: tuple[str, ...] = ()
    gates_before: tuple[str, ...] = ()


def resumption(workflow: Workflow, step: StepDefinition) -> Resumption:
    """Return how work on a step goes on."""
    document, definition = workflow.document, workflow.definition
    begun = any(one.status is not StepStatus.PENDING for one in document.steps.values())
    state = document.steps[step.id]
    left = step.after(state.sub_step)
    match state.status:
        case StepStatus.PENDING:
            branch = ResumeBranch.START if begun else ResumeBranch.FRESH
        case StepStatus.IN_PROGRESS:
            branch = ResumeBranch.CONTINUE
        case StepStatus.COMPLETE:
            branch = ResumeBranch.RERUN
        case StepStatus.SKIPPED:
            branch = ResumeBranch.NEXT
            step = _behind(workflow, step)
            left = step.sub_steps
    earlier = definition.steps[: definition.steps.index(step)]
    return Resumption(
        branch,
        step,
        workflow,
        sub_step=left[0] if left and branch is not ResumeBranch.RERUN else "",
        done=state.sub_step if branch is ResumeBranch.CONTINUE else "",
        open_before=tuple(one.id for one in earlier if document.steps[one.id].open and not one.optional),
        gates_before=tuple(one.id for one in earlier if document.steps[one.id].open and one.gate),
    )


def _behind(workflow: Workflow, step: StepDefinition) -> StepDefinition:
    """Return the first open step behind one, the step itself where there is none."""
    steps = workflow.definition.steps
    later = steps[steps.index(step) + 1 :]
    return next((one for one in later if workflow.document.steps[one.id].open), step)


def decided(document: WorkflowDocument) -> tuple[LoggedDecision, ...]:
    """Return every decision of a state: those of the log, and after them those that only a state file has.

    The latter have no id and no step; a value that is not a text is given as JSON.
    """
    logged = {one.title: one.choice for one in document.decision_log}
    more = (
        LoggedDecision("", "", title, choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False), "")
        for title, choice in document.decisions.items()
        if logged.get(title) != choice
    )
    return (*document.decision_log, *more)


def seen_of(events: Iterable[WorkflowEvent]) -> Mapping[Label, int]:
    """Return how many events there are of each label."""
    return Counter(event.label for event in events)


def audit_row(principal: str, project: str, label: Label, body: WorkflowBody, *, actor: str) -> AuditRow:
    """Return the row of the audit about an event; it holds none of the event's words."""
    facts = {"do": kind_of(body), "principal": principal, "workflow": project, "label": str(label)}
    return AuditRow("workflow", actor, facts)
