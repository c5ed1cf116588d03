"""How far a workflow is, in words: the step in progress, where it goes on, and since when nothing was done."""

from typing import Final

from bot.sessions.workflows.document import StepStatus
from bot.workflows.views import Resumption, Workflow, resumption

RESUMED: Final = "workflow/"
"""How the dedupe key of an input begins that has a session go on with a workflow."""


def in_progress(workflow: Workflow) -> Resumption | None:
    """Return where work goes on in the first step in progress, None if there is none."""
    for step in workflow.definition.steps:
        if workflow.document.steps[step.id].status is StepStatus.IN_PROGRESS:
            return resumption(workflow, step)
    return None


def standing_at(resuming: Resumption) -> str:
    """Return a step with its name and the sub-step that is next."""
    at = f" at {resuming.sub_step}" if resuming.sub_step else ""
    return f"step {resuming.step.id} ({resuming.step.name}){at}"


def ago(milliseconds: int) -> str:
    """Return how long something is over, roughly."""
    minutes = max(milliseconds, 0) // 60_000
    for size, unit in ((24 * 60, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size:
            count = minutes // size
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "a moment ago"
