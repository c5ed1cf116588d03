"""Errors of workflows. All are RequestErrors: the caller can mend them.

- `RequestError`
  - `ConflictError`: another writer came first; it carries the change
  - `ContextBudgetError`: more files than a step may read at its start
  - `GateError`: a person has to let a step pass
  - `NotReviewerError`: findings are for the reviewer of a step
  - `NewerSchemaError`: a state file of a newer version, which is not touched
"""

from bot.core.errors import RequestError
from bot.workflows.views import Workflow, WorkflowEventsSince


class ConflictError(RequestError):
    """Another writer came first. `workflow` is how it stands now, and `since` the events that the writer had not seen.

    Where nothing happened since, or it was to begin and is there, `since` is empty.
    """

    code = "conflict"

    def __init__(self, workflow: Workflow, since: WorkflowEventsSince = (), *, begins: bool = False) -> None:
        named = f"workflow `{workflow.document.project}`"
        told = f"{named} is there already" if begins else f"{named} is at version {workflow.version} by now"
        step = "resume it, or name another project" if begins else "look at the change, and name this version"
        super().__init__(told, next_step=step)
        self.workflow = workflow
        self.since = since


class ContextBudgetError(RequestError):
    """More files than a step may read at its start."""

    code = "context_budget"


class GateError(RequestError):
    """A person has to let a step pass."""

    code = "gate"


class NotReviewerError(RequestError):
    """Findings are added and removed by the reviewer of a step, or by a person."""

    code = "not_reviewer"


class NewerSchemaError(RequestError):
    """A state file is of a newer version than this program knows."""

    code = "newer_schema"
