"""The API's answers about workflows, as values."""

from lockgate.transport import Told


class WorkflowStanding(Told):
    """Where a workflow stands: its current `step`, the last part of that which is done, and its `version`."""

    project: str
    definition: str
    version: int
    step: str | None
    status: str | None
    sub_step: str | None
    open_findings: int


class OwnWorkflow(WorkflowStanding):
    """A workflow of a list; `label` is the clearance that a reader needs."""

    label: str


class WorkflowProgress(WorkflowStanding):
    """A workflow behind a change.

    `exported` is the path of its state file, and `note` tells the outcome of writing it.
    """

    exported: str | None
    note: str | None


class OwnDefinition(Told):
    """A definition that a workflow may begin with."""

    name: str
    title: str
    steps: tuple[str, ...]


class OwnWorkflows(Told):
    """Workflows of this program, the one that changed last first, and the definitions to begin with."""

    workflows: tuple[OwnWorkflow, ...]
    definitions: tuple[OwnDefinition, ...]


class StepState(Told):
    """A step: its progress, and its definition. People pass a `gate`."""

    id: str
    name: str
    status: str
    sub_step: str | None
    artifacts: tuple[str, ...]
    context_files_used: tuple[str, ...]
    sub_steps: tuple[str, ...] = ()
    context_files: int = 0
    expected_artifacts: tuple[str, ...] = ()
    gate: bool = False


class NotedDecision(Told):
    """A decision."""

    id: str
    step: str
    title: str
    choice: str
    rationale: str


class StandingFinding(Told):
    """A finding that stands."""

    id: str
    step: str
    text: str


class OwnWorkflowInFull(Told):
    """A workflow, as far as this program may know of it."""

    project: str
    definition: str
    version: int
    label: str
    branch: str | None
    step: str | None
    status: str | None
    sub_step: str | None
    steps: tuple[StepState, ...]
    decision_log: tuple[NotedDecision, ...]
    open_findings: tuple[StandingFinding, ...]


class WorkflowHappened(Told):
    """An event of a workflow: its kind is in `what`, `at` is in milliseconds since 1970. The rest depends on that."""

    what: str
    at: int
    actor: str
    by_agent: bool
    label: str
    session: str | None
    step: str | None = None
    sub_step: str | None = None
    definition: str | None = None
    branch: str | None = None
    files: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    passed_by: str | None = None
    title: str | None = None
    choice: str | None = None
    rationale: str | None = None
    text: str | None = None
    reason: str | None = None


class WorkflowHistory(Told):
    """The events of a workflow that this program may know of, oldest first."""

    events: tuple[WorkflowHappened, ...]


class NextWork(WorkflowStanding):
    """Where work goes on: `branch` is `fresh`, `start`, `continue`, `rerun` or `next`, and `sub_step` the next part.

    `done` is the last part that is done, `open_before` are earlier steps that are open.
    """

    branch: str
    name: str
    done: str | None
    open_before: tuple[str, ...]
    sub_steps: tuple[str, ...]
    context_files: int
    expected_artifacts: tuple[str, ...]
    gate: bool
