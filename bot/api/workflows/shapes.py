"""The documents about workflows: the bodies that programs send to carry them on, and the answers."""

from typing import Annotated

from pydantic import Field

from bot.api.shapes import ApiInput, ApiOutput

MOST_PATHS = 50
LONGEST_PATH = 1_000
LONGEST_TEXT = 4_000

Name = Annotated[str, Field(min_length=1, max_length=64)]
Version = Annotated[int, Field(ge=0, le=1_000_000, description="The version that this program saw last.")]
Path = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH)]


class NewWorkflow(ApiInput):
    """A workflow to begin."""

    project: Name
    definition: Name
    branch: str = Field(default="", max_length=200)


class StepBegun(ApiInput):
    """A step to begin."""

    step: Name
    version: Version
    files: list[Path] = Field(
        default_factory=list[str],
        max_length=MOST_PATHS,
        description="Paths of the files that are read at its beginning.",
    )
    again: bool = Field(default=False, description="Whether one that was begun before is begun anew.")


class SubStepReached(ApiInput):
    """A part of the step in progress that is done."""

    sub_step: Name
    version: Version
    artifacts: list[Path] = Field(default_factory=list[str], max_length=MOST_PATHS)


class DecisionNoted(ApiInput):
    """A decision at the step in progress."""

    version: Version
    title: str = Field(min_length=1, max_length=LONGEST_PATH)
    choice: str = Field(min_length=1, max_length=LONGEST_TEXT)
    rationale: str = Field(min_length=1, max_length=LONGEST_TEXT)


class SeenVersion(ApiInput):
    """The state that this program saw."""

    version: Version


class WorkflowBrief(ApiOutput):
    """Where a workflow stands."""

    project: str
    definition: str
    version: int
    step: str | None = Field(description="The current step.")
    status: str | None = Field(description="Its status: `pending`, `in_progress`, `complete` or `skipped`.")
    sub_step: str | None = Field(description="Its last part that is done.")
    open_findings: int


class WorkflowListed(WorkflowBrief):
    """A workflow of a list."""

    label: str = Field(description="The clearance that a reader needs.")


class WorkflowChanged(WorkflowBrief):
    """Where a workflow stands that was changed by this request or one with the same key."""

    exported: str | None = Field(description="The path of its state file; null where none is written.")
    note: str | None = Field(description="The fate of the file, in a sentence.")


class WorkflowStepDocument(ApiOutput):
    """A step."""

    id: str
    name: str
    status: str
    sub_step: str | None
    artifacts: tuple[str, ...]
    context_files_used: tuple[str, ...]
    sub_steps: tuple[str, ...] = ()
    context_files: int = Field(default=0, description="How many files may be read at its beginning.")
    expected_artifacts: tuple[str, ...] = ()
    gate: bool = Field(default=False, description="Whether a person passes it.")


class WorkflowDecision(ApiOutput):
    """A decision."""

    id: str
    step: str
    title: str
    choice: str
    rationale: str


class WorkflowFinding(ApiOutput):
    """A finding that stands."""

    id: str
    step: str
    text: str


class WorkflowInFull(ApiOutput):
    """A workflow, as far as this program may know of it."""

    project: str
    definition: str
    version: int
    label: str
    branch: str | None
    step: str | None
    status: str | None
    sub_step: str | None
    steps: tuple[WorkflowStepDocument, ...]
    decision_log: tuple[WorkflowDecision, ...]
    open_findings: tuple[WorkflowFinding, ...]


class WorkflowHappening(ApiOutput):
    """An event of a workflow."""

    what: str
    at: int = Field(description="Milliseconds since 1970.")
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


class WorkflowLog(ApiOutput):
    """The events of a workflow that this program may know of, oldest first."""

    events: tuple[WorkflowHappening, ...]


class WorkflowDefinitionDocument(ApiOutput):
    """A definition that a workflow may begin with."""

    name: str
    title: str
    steps: tuple[str, ...]


class WorkflowList(ApiOutput):
    """Workflows of this program, the one that changed last first, and the definitions to begin with."""

    workflows: tuple[WorkflowListed, ...]
    definitions: tuple[WorkflowDefinitionDocument, ...]


class WorkflowResumption(WorkflowBrief):
    """Where work on a workflow goes on."""

    branch: str = Field(description="How: `fresh`, `start`, `continue`, `rerun` or `next`.")
    name: str
    done: str | None = Field(description="The last part that is done; `sub_step` is the next one.")
    open_before: tuple[str, ...] = Field(description="Earlier steps that are open.")
    sub_steps: tuple[str, ...]
    context_files: int
    expected_artifacts: tuple[str, ...]
    gate: bool
