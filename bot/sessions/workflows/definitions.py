"""What a workflow goes through: its steps in their order, and what each asks for."""

from dataclasses import dataclass
from typing import Final

MOST_STEPS: Final = 50
"""Steps of one definition."""

MOST_SUB_STEPS: Final = 50
"""Sub-steps of one step."""

LONGEST_NAME: Final = 64
"""Characters of the name of a definition, a step's id or a sub-step."""

LONGEST_TITLE: Final = 200
"""Characters of what people read as the name of a definition or step, and of a path."""

CONTEXT_FILES: Final = range(1, 4)
"""How many files a step may let its start read."""


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """A step of a definition.

    `context_files` is how many files may be read at its start. `artifacts` are the paths that are expected of it, which
    may hold `{project}`. At a `gate` a person decides whether it is passed. `reviewer` is the name of the agent that
    adds and removes findings, empty for people alone. One that is `optional` may be skipped by an agent, and is not
    missed where it is pending.
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
        """Return the sub-steps behind one, all of them for the empty name or one there is not."""
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
