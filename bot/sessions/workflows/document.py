"""The state document of a workflow, schema 3.0: the state of its steps, as far as a reader may know of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

SCHEMA_VERSION: Final = "3.0"


class StepStatus(StrEnum):
    """How far a step is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """A step's state; `sub_step` is the last one that was done, and times are ISO 8601, empty where there is none."""

    name: str
    status: StepStatus = StepStatus.PENDING
    sub_step: str = ""
    started: str = ""
    completed: str = ""
    artifacts: tuple[str, ...] = ()
    context_files_used: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether something is left to be done."""
        return self.status in {StepStatus.PENDING, StepStatus.IN_PROGRESS}


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """A decision of the log."""

    id: str
    step: str
    title: str
    choice: str
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """A finding that stands."""

    id: str
    step: str
    text: str


@dataclass(frozen=True, slots=True)
class WorkflowDocument:
    """The whole state of a workflow.

    Args:
        project: The project.
        branch: Its branch.
        updated: When it changed last, in ISO 8601.
        current_step: The current step.
        steps: The steps by id.
        decisions: The newest choice of each title.
        decision_log: All decisions.
        open_findings: The findings that stand.
        review_audit: The person who let each step pass its gate.
        workflow: An id that tells workflows of the same project name apart, see `bot.workflows.state_file`.
        revision: The number of events it was folded from, 0 if unknown.
        schema_version: The version of its schema.
    """

    project: str
    branch: str = ""
    updated: str = ""
    current_step: str = ""
    steps: Mapping[str, WorkflowStep] = field(default_factory=lambda: MappingProxyType({}))
    decisions: Mapping[str, JsonValue] = field(default_factory=lambda: MappingProxyType({}))
    decision_log: tuple[LoggedDecision, ...] = ()
    open_findings: tuple[OpenFinding, ...] = ()
    review_audit: Mapping[str, JsonValue] = field(default_factory=lambda: MappingProxyType({}))
    workflow: str = ""
    revision: int = 0
    schema_version: str = SCHEMA_VERSION
