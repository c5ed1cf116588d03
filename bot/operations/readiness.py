"""Whether a process of `lockgate run` can do its work now, and the missing parts if not.

It names the obstacles of this process: a store that does not answer, another policy in force, platforms without a
listener yet, or models that are still being loaded. A process that was asked to end is not ready either. The doctor
tells the faults of a configuration, a platform or a model (`bot.operations.diagnostics`).
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from bot.core.errors import StoreError
from policy.document.reading import API

if TYPE_CHECKING:
    from pydantic import JsonValue

    from bot.policy_state import PolicyReloader, ProcessKeys

_PATIENCE: Final = 3.0
"""Seconds that the store may take to answer."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A missing part of a process, the reason, and the operator's next step, empty if that is to wait."""

    subject: str
    problem: str
    next_step: str = ""

    def __str__(self) -> str:
        """Return it as one sentence."""
        return ", ".join(filter(None, (f"{self.subject}: {self.problem}", self.next_step)))


@dataclass(frozen=True, slots=True)
class Readiness:
    """The missing parts of a process of this `role`: none if it is ready."""

    role: str
    missing: tuple[Missing, ...]

    @property
    def ready(self) -> bool:
        """Whether it can do its work."""
        return not self.missing

    def document(self) -> "dict[str, JsonValue]":
        """Return it as a JSON object."""
        missing: list[JsonValue] = [
            {"subject": one.subject, "problem": one.problem, "next_step": one.next_step} for one in self.missing
        ]
        return {"role": self.role, "ready": self.ready, "missing": missing}


@dataclass(slots=True)
class ReadinessChecks:
    """Looks at a process: `platforms` are those it is to listen to, and `heard` those that it listens to.

    The HTTP API is in `heard` when it is served. `waiting` are the rights that it waits for while another process has
    them: a platform that another one listens to is not missing, as this one stands by. `working` says whether it runs
    turns. `keys` are those of the process. `ending` tells that it was asked to end.
    """

    reloader: "PolicyReloader"
    platforms: Collection[str]
    working: Callable[[], bool]
    keys: "ProcessKeys"
    waiting: Collection[str] = ()
    heard: set[str] = field(default_factory=set[str])
    ending: bool = False

    async def look(self, role: str, *, listens: bool, works: bool, answers: bool = False) -> Readiness:
        """Return the parts that a process lacks now.

        It `listens` to platforms, `works` on turns, or `answers` programs.
        """
        found = await self._of_store()
        here = self._of_process(listens=listens, works=works, answers=answers)
        return Readiness(role, (*here, *(() if found is None else (found,))))

    def _of_process(self, *, listens: bool, works: bool, answers: bool) -> Iterator[Missing]:
        if self.ending:
            yield Missing("process", "it was told to end, and takes nothing on")
            return
        if works and not self.working():
            yield Missing("worker", "models and tools are still being loaded")
        stands_by = {right.partition("/")[0] for right in self.waiting if right.count("/") == 1}
        for name in sorted(set(self.platforms) - self.heard - stands_by) if listens else ():
            yield Missing(f"channel {name}", "it is not listened to yet", "`lockgate doctor` tells what is wrong there")
        if answers and API not in self.heard:
            yield Missing(API, "it is not served yet", "look whether another process listens at its port")

    async def _of_store(self) -> Missing | None:
        if (other := self.keys.problem) is not None:
            return Missing("keys", str(other), other.next_step)
        try:
            with anyio.fail_after(_PATIENCE):
                if not await self.reloader.current_now():
                    return Missing("policy", await self.reloader.shown())
        except StoreError as error:
            return Missing("store", str(error), error.next_step)
        except TimeoutError:
            return Missing("store", f"it did not answer within {_PATIENCE:g} seconds", "look whether it runs")
        return None
