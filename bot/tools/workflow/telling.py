"""A workflow in words: to an agent as JSON, and to the person who passes a gate as a question."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from bot.core.invisible import spelled
from bot.sessions.workflows.definitions import StepDefinition
from bot.sessions.workflows.document import StepStatus
from bot.sessions.workflows.events import (
    DecisionMade,
    FileTakenIn,
    FindingAdded,
    FindingRemoved,
    StateRecovered,
    StepCompleted,
    StepSkipped,
    StepStarted,
    SubStepDone,
    UnknownBody,
    WorkflowBody,
    WorkflowEvent,
    WorkflowStarted,
)
from bot.workflows.views import Resumption, Workflow, WorkflowEventsSince, decided

LONGEST_QUESTION: Final = 12_000
"""The most characters that a person is asked to read; a gate with longer open findings is not passed by a question."""

_WHAT: Final[Mapping[type[WorkflowBody], str]] = MappingProxyType(
    {
        WorkflowStarted: "started",
        StepStarted: "step_started",
        SubStepDone: "sub_step_done",
        StepCompleted: "step_completed",
        StepSkipped: "step_skipped",
        DecisionMade: "decided",
        FindingAdded: "finding_added",
        FindingRemoved: "finding_removed",
        FileTakenIn: "file_taken_in",
        UnknownBody: "unknown",
        StateRecovered: "recovered",
    }
)


def brief(workflow: Workflow) -> dict[str, JsonValue]:
    """Return the common part of each answer: the workflow's state, and the version that the next write names."""
    document = workflow.document
    step = document.steps.get(document.current_step)
    return {
        "project": document.project,
        "definition": workflow.definition.name,
        "version": workflow.version,
        "step": document.current_step or None,
        "status": None if step is None else step.status.value,
        "sub_step": None if step is None else step.sub_step or None,
        "open_findings": len(document.open_findings),
    }


def whole(workflow: Workflow) -> dict[str, JsonValue]:
    """Return all that is known of a workflow."""
    document = workflow.document
    steps: list[JsonValue] = [
        {
            "id": name,
            "name": step.name,
            "status": step.status.value,
            "sub_step": step.sub_step or None,
            "artifacts": list(step.artifacts),
            "context_files_used": list(step.context_files_used),
            **(_asks(workflow.definition.step(name), document.project)),
        }
        for name, step in document.steps.items()
    ]
    decisions: list[JsonValue] = [
        {"id": one.id, "step": one.step, "title": one.title, "choice": one.choice, "rationale": one.rationale}
        for one in decided(document)
    ]
    findings: list[JsonValue] = [{"id": one.id, "step": one.step, "text": one.text} for one in document.open_findings]
    told = {**brief(workflow), "label": str(workflow.label), "branch": document.branch or None}
    return {**told, "steps": steps, "decision_log": decisions, "open_findings": findings}


def resumption(resuming: Resumption) -> dict[str, JsonValue]:
    """Return the place where work goes on, and the open points before that."""
    step, workflow = resuming.step, resuming.workflow
    return {
        **brief(workflow),
        "branch": resuming.branch.value,
        "step": step.id,
        "name": step.name,
        "sub_step": resuming.sub_step or None,
        "done": resuming.done or None,
        **_asks(step, workflow.document.project),
        "open_before": list(resuming.open_before),
    }


def since(workflow: Workflow, events: WorkflowEventsSince) -> dict[str, JsonValue]:
    """Return the state of a workflow that another writer changed, and the events since."""
    happened: list[JsonValue] = [happening(event) for event in events]
    return {**brief(workflow), "since": happened}


def happening(event: WorkflowEvent) -> dict[str, JsonValue]:
    """Return an event for the agent; the number of other events is not in it."""
    told: dict[str, JsonValue] = {"what": _WHAT[type(event.body)]}
    match event.body:
        case WorkflowStarted(definition, branch):
            told |= {"definition": definition.name, "branch": branch or None}
        case StepStarted(step, files):
            told |= {"step": step, "files": list(files)}
        case SubStepDone(step, sub_step, artifacts):
            told |= {"step": step, "sub_step": sub_step, "artifacts": list(artifacts)}
        case StepCompleted(step, passed_by):
            told |= {"step": step, "passed_by": passed_by or None}
        case StepSkipped(step):
            told |= {"step": step}
        case DecisionMade(step, title, choice, rationale):
            told |= {"step": step, "title": title, "choice": choice, "rationale": rationale}
        case FindingAdded(step, text):
            told |= {"step": step, "text": text}
        case StateRecovered(reason):
            told |= {"reason": reason}
        case FindingRemoved() | FileTakenIn() | UnknownBody():
            pass
    more: dict[str, JsonValue] = {"label": str(event.label), "session": event.sid or None}
    return {**told, "at": event.at, "actor": event.actor, "by_agent": event.by_agent, **more}


def gate_question(workflow: Workflow) -> str:
    """Return the question to a person before the step in progress is complete, empty if none is needed.

    It shows every finding that stands open. One that would be too long to be read is empty, too: then no person is
    asked, and the gate holds.
    """
    document = workflow.document
    step, state = workflow.definition.step(document.current_step), document.steps.get(document.current_step)
    if step is None or state is None or state.status is not StepStatus.IN_PROGRESS:
        return ""
    if not (step.gate or document.open_findings):
        return ""
    artifacts = [f"- {_line(path)}" for path in state.artifacts] or ["- none"]
    findings = [f"- {one.id}{_at(one.step)}: {_line(one.text)}" for one in document.open_findings] or ["- none"]
    left = step.after(state.sub_step)
    lines = (
        f"May workflow {document.project} pass step {step.id} ({_line(step.name)})?",
        "Artifacts:",
        *artifacts,
        *((f"Sub-steps that are not done: {', '.join(left)}",) if left else ()),
        "Open findings:",
        *findings,
    )
    question = "\n".join(lines)
    return question if len(question) <= LONGEST_QUESTION else ""


def _asks(step: StepDefinition | None, project: str) -> dict[str, JsonValue]:
    if step is None:
        return {}
    return {
        "sub_steps": list(step.sub_steps),
        "context_files": step.context_files,
        "expected_artifacts": [path.replace("{project}", project) for path in step.artifacts],
        "gate": step.gate,
    }


def _at(step: str) -> str:
    return f" (step {step})" if step else ""


def _line(text: str) -> str:
    # A channel may leave out invisible characters, and another line may be taken for one of ours.
    return spelled(" ".join(text.split()))
