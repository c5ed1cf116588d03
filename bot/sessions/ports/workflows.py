"""The port for workflows: a log of events for each project of a principal and each label.

All of a principal's share the slot of their knowledge. The logs of different labels are kept apart, so that nothing of
one label counts, orders or delays what is of another (law `no_read_up`). A store that does not answer raises
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
    """Which log is written: a principal's project, at a label."""

    principal: str
    project: str
    label: Label


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """What a writer has seen: how many events of each label within `reader`; labels with none are left out."""

    reader: Label
    seen: Mapping[Label, int]


class WorkflowStore(Protocol):
    """What workflows ask of the store."""

    async def advance(
        self,
        place: WorkflowPlace,
        view: WorkflowView,
        events: tuple[NewWorkflowEvent, ...],
        audit: tuple[AuditRow, ...],
    ) -> tuple[WorkflowEvent, ...] | None:
        """Append events to a log in one atomic step, and return them as they are kept; None if the view is old.

        The view is old where a label within its reader has another number of events than was seen. A repeated call,
        which the first event's `call` names, returns what the first one wrote. In front of it `audit` is written.

        Raises FullError: as many workflows of the label, or events of the log, are kept as may be.
        """
        ...

    async def log(
        self, principal: str, project: str, known: Callable[[Label], bool], *, since: Sequence[WorkflowEvent] = ()
    ) -> tuple[WorkflowEvent, ...]:
        """Return the events of those labels of a project that are `known`, in their order.

        Args:
            principal: the owner of the workflow.
            project: its project.
            known: tells for a label whether its events are asked for.
            since: what an earlier call returned; only later events are read from the store.
        """
        ...

    async def projects(self, principal: str, known: Callable[[Label], bool], most: int) -> tuple[str, ...]:
        """Return up to `most` projects with events of `known` labels, the one that changed last first."""
        ...
