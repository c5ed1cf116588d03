"""What happens in a workflow: events, each with the label of the session that wrote it.

The state is what is folded of those events that a reader may know of, see `bot.workflows.folding`. `order` sorts events
of different labels. It counts events of all labels, so no reader is ever told it.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from bot.sessions.refs import Ref
from bot.sessions.workflows.definitions import WorkflowDefinition
from policy.labels import Label

MOST_EVENTS: Final = 5000
"""Events of one workflow and label."""

MOST_WORKFLOWS: Final = 500
"""Workflows of one principal and label."""


@dataclass(frozen=True, slots=True)
class WorkflowStarted:
    """The workflow began, by this definition, as it was then."""

    definition: WorkflowDefinition
    branch: str = ""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """Work on a step began, or began anew; `files` are those that were read for it."""

    step: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubStepDone:
    """A sub-step is done, and these paths came of it."""

    step: str
    sub_step: str
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepCompleted:
    """A step is complete; `passed_by` is the person who let it pass its gate, empty where nobody had to."""

    step: str
    passed_by: str = ""


@dataclass(frozen=True, slots=True)
class StepSkipped:
    """A step is skipped."""

    step: str


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """Something was decided at a step. Its id, `D1` and on, is by its place among those that a reader may know of."""

    step: str
    title: str
    choice: str
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class FindingAdded:
    """A reviewer found something at a step. Its id, `F1` and on, is by its place like that of a decision."""

    step: str
    text: str


@dataclass(frozen=True, slots=True)
class FindingRemoved:
    """A finding does not stand any more. `finding` names it by the event that added it, see `Fold.keys`."""

    finding: str


@dataclass(frozen=True, slots=True)
class FileTakenIn:
    """A person's state file was taken in: `changes` is what it changes, as JSON, see `bot.workflows.edits`."""

    changes: str


@dataclass(frozen=True, slots=True)
class StateRecovered:
    """The state file was broken and was written anew; `reason` tells how."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnknownBody:
    """Something that this program does not know, as it is stored; it changes nothing here."""

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
    """An event that is to be written: the store gives it its time and order.

    `actor` is the person who asked, `by_agent` tells that an agent did it, in the session `sid`. `call` is what makes
    it the same event when it is repeated. `refs` are what it came from.
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
