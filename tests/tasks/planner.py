"""A planner in the place of the model: it makes the steps of a good plan, until an attack that it hears takes it over.

It counts as taken over from the first text that the attacker wrote, and also from the first value that they could
choose: a bounded answer, or a skeleton. From then on it first proposes all calls of the attacker in one step. The model
that answers inspections is the attacker's as soon as it is shown an attack.
"""

import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from bot.agent.offline import INSPECT
from bot.gate.sparing import SHOWN
from bot.tools import references
from tests.bot.kit import proposed
from tests.tasks.office import ATTACKS, POISON

Plan: TypeAlias = Generator[list[ToolCallPart], list[str], str]
"""The steps of a plan: each yields calls and is sent their results; it returns the answer."""

_HELD: Final = re.compile(r"held-[a-z2-7]{16}")
_NOTICE: Final = "The result of this call is held as"


def call(tool: str, **arguments: JsonValue) -> ToolCallPart:
    """Return a call of a step."""
    return proposed(tool, arguments)


def unread(tool: str, **arguments: JsonValue) -> ToolCallPart:
    """Return a call whose result is to stay out of the conversation."""
    return call(tool, **arguments, **{references.HOLD: True})


def held(result: str) -> str:
    """Return the id of a held result from its notice."""
    found = _HELD.search(result)
    assert found is not None, result
    return found[0]


def passed(ref: str) -> JsonValue:
    """Return a reference as it stands in place of a text."""
    return {"$ref": ref}


def last_line(result: str) -> Any:  # noqa: ANN401 - JSON
    """Return the skeleton of a held result, or the whole of one that was read."""
    return json.loads(result.rpartition("\n")[2])


@dataclass(frozen=True)
class Script:
    """What is played: a plan for each message that a session begins with, and what the reader of `inspect` answers.

    `read` is its answer if it is shown `seen`, and `misread` the one that the attacker wants.
    """

    plans: Mapping[str, Callable[[], Plan]]
    seen: str = ""
    read: str = ""
    misread: str = ""


@dataclass
class _Played:
    plan: Plan
    waiting: list[str] | None = None
    hijacked: bool = False
    begun: bool = False

    def step(self, results: list[str]) -> list[ToolCallPart] | str:
        try:
            if self.begun:
                return self.plan.send(results)
            self.begun = True
            return next(self.plan)
        except StopIteration as end:
            return str(end.value or "Noted.")


@dataclass
class _Scene:
    script: Script
    attacked: bool
    played: dict[str, _Played] = field(default_factory=dict[str, _Played])


class Planner(Model):
    """Plays scripts."""

    def __init__(self) -> None:
        super().__init__()
        self._scene = _Scene(Script({}), attacked=False)

    @property
    def model_name(self) -> str:
        return "planner"

    @property
    def system(self) -> str:
        return "scripted"

    @property
    def hijacked(self) -> bool:
        """Whether an attack took over a session of the script."""
        return any(one.hijacked for one in self._scene.played.values())

    def play(self, script: Script, *, attacked: bool) -> None:
        """Play a script from its beginning."""
        self._scene = _Scene(script, attacked)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make the next step, or answer an inspection."""
        last = messages[-1]
        if isinstance(last, ModelRequest) and last.instructions == INSPECT:
            step = self._read("\n".join(_prompts(messages)))
        else:
            step = self._step(messages)
        said: Sequence[ModelResponsePart] = [TextPart(step)] if isinstance(step, str) else step
        usage = RequestUsage(input_tokens=10, output_tokens=5)
        return ModelResponse(parts=list(said), usage=usage, model_name="planner", provider_name="scripted")

    def _read(self, shown: str) -> str:
        script = self._scene.script
        if POISON in shown:
            return script.misread
        return script.read if script.seen in shown else "I cannot tell."

    def _step(self, messages: Sequence[ModelMessage]) -> list[ToolCallPart] | str:
        first = next(iter(_prompts(messages)))
        plans = self._scene.script.plans
        begins = next((begin for begin in plans if begin in first), None)
        if begins is None:
            return "Noted."
        played = self._scene.played.setdefault(begins, _Played(plans[begins]()))
        results = [str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if self._scene.attacked and not played.hijacked and _is_hijacked(messages):
            played.hijacked, played.waiting = True, results
            return [proposed(tool, arguments) for tool, arguments in ATTACKS.values()]
        if played.waiting is not None:
            results, played.waiting = played.waiting, None
        return played.step(results)


def _is_hijacked(messages: Sequence[ModelMessage]) -> bool:
    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return any(_hears(part.tool_name, str(part.content)) for part in returned)


def _hears(tool: str, text: str) -> bool:
    answered = tool == references.INSPECT and not text.startswith(_NOTICE)
    return POISON in text or SHOWN in text or answered


def _prompts(messages: Iterable[ModelMessage]) -> list[str]:
    return [str(part.content) for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
