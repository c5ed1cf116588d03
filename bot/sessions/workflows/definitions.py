"""The definition of a workflow: its steps in order, and the requirements of each."""

from dataclasses import dataclass
from typing import Final

MOST_STEPS: Final = 50
"""Steps of one definition."""

MOST_SUB_STEPS: Final = 50
"""Sub-steps of one step."""

LONGEST_NAME: Final = 64
"""Characters of the name of a definition, a step's id or a sub-step."""

LONGEST_TITLE: Final = 200
"""The most characters of the title of a definition or step, and of a path."""

CONTEXT_FILES: Final = range(1, 4)
"""How many files a step may allow to be read at its start."""


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """A step of a definition.

    Args:
        id: Its id.
        name: Its name for people.
        sub_steps: Its sub-steps, in order.
        context_files: How many files may be read at its start.
        artifacts: The paths that it is expected to produce, which may hold `{project}`.
        gate: Whether a person decides if it is passed.
        reviewer: The name of the agent that adds and removes findings, empty for people alone.
        optional: Whether an agent may skip it; it is not missed while it is pending.
    """

    id: str
    name: str
    sub_steps: tuple[str, ...] = ()
    context_files: int = CONTEXT_FILES.stop - 1
    artifacts: tuple[str, ...] = ()
    gate: bool = False
    reviewer: str = ""
    optional: bool = False

    def after(self, sub_step: str) -> tuple[str, ...]:
        """Return the sub-steps after one, all of them for an empty or unknown name."""
        return self.sub_steps[self.sub_steps.index(sub_step) + 1 :] if sub_step in self.sub_steps else self.sub_steps


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    """A definition; the order of its steps is that of its file, and `digest` that of its content."""

    name: str
    title: str
    digest: str
    steps: tuple[StepDefinition, ...]

    def step(self, name: str) -> StepDefinition | None:
        """Return a step by its id."""
        return next((step for step in self.steps if step.id == name), None)
