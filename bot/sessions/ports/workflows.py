"""The port for workflows: a log of events for each project of a principal and each label.

All logs of a principal share the slot of their knowledge. The logs of different labels are kept apart, so that events
of one label neither count, order nor delay those of another (law `no_read_up`). A store that does not answer raises
StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bot.sessions.audit import AuditRow
from bot.sessions.workflows.events import NewWorkflowEvent, WorkflowEvent
from policy.labels import Label


@dataclass(frozen=True, slots=True)
class WorkflowPlace:
    """A log to write: of a principal's project, at a label."""

    principal: str
    project: str
    label: Label


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """The number of events that a writer has seen, for each label within `reader`; labels with none are left out."""

    reader: Label
    seen: Mapping[Label, int]


class WorkflowStore(Protocol):
    """Keeps the logs of workflows."""

    async def advance(
        self,
        place: WorkflowPlace,
        view: WorkflowView,
        events: tuple[NewWorkflowEvent, ...],
        audit: tuple[AuditRow, ...],
    ) -> tuple[WorkflowEvent, ...] | None:
        """Append events to a log in one atomic step, and return them as they are kept; None if the view is old.

        The view is old if a label within its reader has a number of events other than the one seen. A repeated call, as
        told by the first event's `call`, returns the events that the first one wrote. `audit` is written before them.

        Raises FullError: the label has its most workflows, or the log its most events.
        """
        ...

    async def log(
        self, principal: str, project: str, known: Callable[[Label], bool], *, since: Sequence[WorkflowEvent] = ()
    ) -> tuple[WorkflowEvent, ...]:
        """Return the events of a project with `known` labels, in order.

        Args:
            principal: The owner of the workflow.
            project: Its project.
            known: Tells for a label whether its events are asked for.
            since: The events that an earlier call returned; only later ones are read from the store.
        """
        ...

    async def projects(self, principal: str, known: Callable[[Label], bool], most: int) -> tuple[str, ...]:
        """Return up to `most` projects with events of `known` labels, the last changed first."""
        ...
