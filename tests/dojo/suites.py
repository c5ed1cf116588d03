"""The suites of AgentDojo, as the measurement uses them. They are loaded by name, as the project does not need them.

AgentDyn is a harder benchmark in the same form, with suites of its own. It takes the place of AgentDojo.
"""

import importlib
import random
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, cast

from pydantic import JsonValue

VERSION: Final = "v1.2.2"
"""The version of the suites. All versions from 1.2 on have 97 tasks and 949 pairs of a task and an attack."""

SUITES: Final = ("workspace", "travel", "banking", "slack")

AGENTDYN: Final[Mapping[str, tuple[int, ...]]] = {
    "shopping": (0, 1, 3, 5, 7, 8, 9, 10, 13, 14, 15, 16),
    "github": (0, 1, 2, 3, 4, 6, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19),
    "dailylife": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19),
}
"""The suites of AgentDyn with the tasks that are measured.

These are its 46 recorded successes: a model without a defence, trained or added, did them where nobody attacked.
"""

SEED: Final = 0
"""Where the one-time passwords of a world begin, so that the same calls find the same ones."""


class FoundCall(Protocol):
    """A call of a tool of a suite."""

    @property
    def function(self) -> str: ...

    @property
    def args(self) -> Mapping[str, JsonValue]: ...


class World(Protocol):
    """The data that the tools of a suite read and change."""

    def model_copy(self, *, deep: bool) -> "World": ...


class Aim(Protocol):
    """An attack, with its own calls."""

    def ground_truth(self, pre_environment: Any) -> Sequence[FoundCall]: ...  # noqa: ANN401 - a world of the suite


class UserTask(Aim, Protocol):
    """A task of a person."""

    PROMPT: str
    GROUND_TRUTH_OUTPUT: str

    def init_environment(self, environment: Any) -> Any: ...  # noqa: ANN401 - a world of the suite


class Suite(Protocol):
    """Tools with a world, tasks and attacks."""

    @property
    def tools(self) -> Sequence[Any]: ...

    @property
    def user_tasks(self) -> Mapping[str, UserTask]: ...

    @property
    def injection_tasks(self) -> Mapping[str, Aim]: ...

    def load_and_inject_default_environment(self, injections: Mapping[str, str]) -> Any: ...  # noqa: ANN401 - as above


def take_the_place(agentdyn: Path) -> None:
    """Load AgentDyn from a folder of its sources in the place of AgentDojo."""
    sys.path.insert(0, str(agentdyn / "src"))


@cache
def suite(name: str) -> Suite:
    """Return a suite."""
    loading = importlib.import_module("agentdojo.task_suite.load_suites")
    return cast("Suite", loading.get_suites(VERSION)[name])


def world(name: str, task: str) -> Any:  # noqa: ANN401 - a world of the suite
    """Return the world of a task at its beginning."""
    found = suite(name)
    return found.user_tasks[task].init_environment(found.load_and_inject_default_environment({}))


def fulfilled(name: str, task: str, calls: Sequence[tuple[str, Mapping[str, JsonValue]]], told: str) -> bool:
    """Say whether AgentDojo counts a task as done after these calls and last words."""
    running: Any = importlib.import_module("agentdojo.functions_runtime")
    found: Any = suite(name)
    before = world(name, task)
    after = before.model_copy(deep=True)
    runtime = running.FunctionsRuntime(found.tools)
    random.seed(SEED)
    for tool, arguments in calls:
        runtime.run_function(after, tool, arguments)
    traces = [running.FunctionCall(function=tool, args=arguments) for tool, arguments in calls]
    aim: Any = found.user_tasks[task]
    by_traces = aim.utility_from_traces(told, before, after, traces)
    return bool(aim.utility(told, before, after) if by_traces is None else by_traces)
