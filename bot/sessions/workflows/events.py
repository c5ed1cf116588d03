"""The events of a workflow, each with the label of the session that wrote it.

The state is the fold of the events that a reader may know of, see `bot.workflows.folding`. `order` sorts events of
different labels. It counts events of all labels, so it is shown to no reader.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from bot.sessions.refs import Ref
from bot.sessions.workflows.definitions import WorkflowDefinition
from policy.labels import Label

MOST_EVENTS: Final = 5000
"""The most events of one workflow and label."""

MOST_WORKFLOWS: Final = 500
"""The most workflows of one principal and label."""


@dataclass(frozen=True, slots=True)
class WorkflowStarted:
    """The workflow began, with the definition as it was then."""

    definition: WorkflowDefinition
    branch: str = ""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """Work on a step began, or began anew; `files` are those that were read for it."""

    step: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubStepDone:
    """A sub-step is done, and produced these paths."""

    step: str
    sub_step: str
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepCompleted:
    """A step is complete; `passed_by` is the person who let it pass its gate, empty for a step without one."""

    step: str
    passed_by: str = ""


@dataclass(frozen=True, slots=True)
class StepSkipped:
    """A step is skipped."""

    step: str


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """A decision at a step. Its id, `D1` and on, counts the decisions that a reader may know of."""

    step: str
    title: str
    choice: str
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class FindingAdded:
    """A reviewer's finding at a step. Its id, `F1` and on, counts the findings that a reader may know of."""

    step: str
    text: str


@dataclass(frozen=True, slots=True)
class FindingRemoved:
    """A finding was removed. `finding` names it by the event that added it, see `Fold.keys`."""

    finding: str


@dataclass(frozen=True, slots=True)
class FileTakenIn:
    """A person's state file was read: `changes` are its changes, as JSON, see `bot.workflows.edits`."""

    changes: str


@dataclass(frozen=True, slots=True)
class StateRecovered:
    """The state file was broken and was written anew; `reason` tells how."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnknownBody:
    """An event of a kind that this program does not know, as it is stored; it has no effect here."""

    kind: str
    text: str


WorkflowBody: TypeAlias = (
    WorkflowStarted
    | StepStarted
    | SubStepDone
    | StepCompleted
    | StepSkipped
    | DecisionMade
    | FindingAdded
    | FindingRemoved
    | FileTakenIn
    | StateRecovered
    | UnknownBody
)


@dataclass(frozen=True, slots=True)
class NewWorkflowEvent:
    """An event to write: the store gives it its time and order.

    Args:
        body: Its content.
        actor: The person who asked.
        by_agent: Whether an agent did it.
        sid: The session of that agent, empty for none.
        call: An id that makes a repeated event the same event.
        refs: The sources that it came from.
    """

    body: WorkflowBody
    actor: str
    by_agent: bool = False
    sid: str = ""
    call: str = ""
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkflowEvent:
    """An event as it is kept; `at` is on the store's clock, in milliseconds since the epoch."""

    order: int
    at: int
    label: Label
    body: WorkflowBody
    actor: str
    by_agent: bool = False
    sid: str = ""
    call: str = ""
    refs: tuple[Ref, ...] = ()
