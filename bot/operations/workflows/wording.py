"""Workflows in words for people: a line each, one in full, and how work on one goes on."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from bot.core.clock import moment
from bot.sessions.workflows.document import LoggedDecision, OpenFinding, StepStatus, WorkflowStep
from bot.workflows.progress import in_progress, standing_at
from bot.workflows.views import ResumeBranch, Resumption, Workflow, decided

_STATUS: Final = MappingProxyType(
    {
        StepStatus.PENDING: "pending",
        StepStatus.IN_PROGRESS: "in progress",
        StepStatus.COMPLETE: "complete",
        StepStatus.SKIPPED: "skipped",
    }
)
_TAKEN_UP: Final = (
    "Go on with workflow {project}: step {step} ({name}){sub_step}, {how}. "
    "Call `workflow` with action `resume` and this project first, and follow its answer."
)
_HOW: Final = MappingProxyType(
    {
        ResumeBranch.FRESH: "which is the first one",
        ResumeBranch.START: "which is pending",
        ResumeBranch.CONTINUE: "which is in progress",
        ResumeBranch.RERUN: "which is run again",
        ResumeBranch.NEXT: "as the one before it was skipped",
    }
)


def workflow_line(workflow: Workflow) -> str:
    """Return a workflow as a listing shows it."""
    document, going = workflow.document, in_progress(workflow)
    if going is not None:
        where = f"{standing_at(going)} in progress"
    else:
        where = (
            "all steps are done" if not any(step.open for step in document.steps.values()) else "no step in progress"
        )
    return (
        f"{document.project}: {workflow.definition.name}, {where}, version {workflow.version}, "
        f"{moment(workflow.touched_at)} UTC, {workflow.label}"
    )


def workflow_lines(workflow: Workflow, mask: Callable[[str], str]) -> list[str]:
    """Return a workflow in full; `mask` takes secrets out of its texts."""
    document = workflow.document
    lines = [
        f"Workflow {document.project}: {workflow.definition.title}, version {workflow.version}.",
        f"Label: {workflow.label}",
        f"Changed: {moment(workflow.touched_at)} UTC",
        *([f"Branch: {mask(_line(document.branch))}"] if document.branch else []),
        *(_step_line(name, step, workflow, mask) for name, step in document.steps.items()),
        *(
            f"{_entry('Decision', one)}: {mask(_line(one.title))}: {mask(_line(one.choice))}"
            for one in decided(document)
        ),
        *(f"{_entry('Open finding', one)}: {mask(_line(one.text))}" for one in document.open_findings),
    ]
    return [*lines, f"State file: {workflow.note}"] if workflow.note else lines


def taken_up(resuming: Resumption) -> str:
    """Return the message to a session that goes on with a workflow."""
    at = f" at {resuming.sub_step}" if resuming.sub_step else ""
    return _TAKEN_UP.format(
        project=resuming.workflow.document.project,
        step=resuming.step.id,
        name=resuming.step.name,
        sub_step=at,
        how=_HOW[resuming.branch],
    )


def _step_line(name: str, step: WorkflowStep, workflow: Workflow, mask: Callable[[str], str]) -> str:
    definition = workflow.definition.step(name)
    done = f", {step.sub_step} is done" if step.sub_step else ""
    gate = ", has a gate" if definition is not None and definition.gate and step.open else ""
    made = f"; made {', '.join(mask(_line(path)) for path in step.artifacts)}" if step.artifacts else ""
    return f"Step {name} ({step.name}): {_STATUS[step.status]}{done}{gate}{made}"


def _entry(what: str, one: LoggedDecision | OpenFinding) -> str:
    """Return how an entry is called; one that a state file brought may have no id and no step."""
    step = f" (step {one.step})" if one.step else ""
    return f"{what} {one.id}".rstrip() + step


def _line(text: str) -> str:
    return " ".join(text.split())
