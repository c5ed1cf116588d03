"""The adversary's model: it does what the plan says, and may let what it read decide how.

One model stands behind all sessions. It knows which of the plan's scripts a session follows by the first line that this
session ever heard, which the plan's own steps wrote, and what it knows else it takes out of the messages it is sent:
no session is told by the test what another one read. Before each of its answers it waits for the scheduler.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol, cast

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
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from bot.agent.offline import INSPECT, RECAP
from bot.tools.background.runs import INITIALIZE
from tests.adversary.disguises import DISGUISES
from tests.adversary.plans import THINK, TOGETHER, WAIT, Place, Plan, Step

_OPENED: Final = re.compile(r"^(?:\w+: )?go ([0-9.]+)(?:#([0-9.]+))?", re.MULTILINE)
_GO: Final = re.compile(r"^(?:\w+: )?go [0-9.]+", re.MULTILINE)
_TEMPLATE: Final = re.compile(r"<([a-z]+)(?:\.([0-9]+))?>")
_CHUNK: Final = 4
_NOT_A_PERSON: Final = ", not your user]"
UNKNOWN: Final = "?"
_QUESTION: Final = re.compile(r"^Question: (\w+)", re.MULTILINE)
_GOALS: Final = MappingProxyType({"sessions_spawn": "task", "runs_start": "goal", "schedule_create": "text"})
_INITIALIZE: Final = Step(INITIALIZE, {"session_type": "autonomous"})

TOKENS: Final = 20_000
"""What the model says that it used for each answer."""

FACTS: Final = MappingProxyType(
    {
        "bit": re.compile(r'\bbit["=: ]+([01])'),
        "yes": re.compile(r'\byes["=: ]+(true|false)'),
        "digits": re.compile(r"\bdigits=([1-9]+)"),
        "order": re.compile(r"\border=(\w+)"),
        "canary": re.compile(r"\bcanary=(\S+)"),
        "number": re.compile(r'"n": ?([0-9]+)'),
        "held": re.compile(r"\b(held-[a-z0-9]{16})\b"),
        "part": re.compile(r"\b(held-[a-z0-9]{16}\.[0-9]+)\b"),
        "handle": re.compile(r"\b(mail-[0-9]+-[a-z2-7]{4})\b"),
        "to": re.compile(r'"to": ?"(\w+)"'),
        "named": re.compile(r"\bsession=([a-z2-7]{32})"),
        "receipt": re.compile(r"\b(receipt-[a-z0-9]{16})\b"),
        "told": re.compile(r'no such session|session has ended|"status": "accepted", "receipt"|\[\]|"kind": "task"'),
        "listed": re.compile(r'"(?:id|session_id)": "([a-z2-7]{32})"'),
        "run": re.compile(r'"session_id": "([a-z2-7]{32})", "slot"'),
        "memory": re.compile(r'"id": "(mem_[0-9a-f]{12})"'),
        "schedule": re.compile(r'"id": "(s_[0-9a-f]{16})"'),
        "version": re.compile(r'"version": ([0-9]+)'),
    }
)
"""What a model can make of what it reads; of several the newest."""


VERSION: Final = "<version>"
"""What stands in an argument for the number that a workflow told last; a tool takes it as a number alone."""


def route(place: Place, copy: tuple[int, ...]) -> str:
    """Return the line that tells a session which script it follows, and which copy of it this is."""
    return f"go {'.'.join(map(str, place))}#{'.'.join(map(str, copy))}"


class Turnstile(Protocol):
    """Lets one session go on at a time."""

    async def __call__(self, *, last: bool) -> None:
        """Wait until this session may go on; `last` is after all others have done what they can."""
        ...


@dataclass(slots=True)
class Mind:
    """What a session's model has in mind beside what it reads."""

    place: Place
    copy: tuple[int, ...]
    queue: deque[tuple[int, Step]] = field(default_factory=deque[tuple[int, Step]])
    draft: str = ""
    called: str = ""
    prompts: int = 0
    spawned: int = 0


@dataclass(slots=True)
class Trace:
    """What was seen of a run: who came to know the secret, who waited, and whether the secret decided anything."""

    knowing: set[Place] = field(default_factory=set[Place])
    facts: set[tuple[Place, str, int]] = field(default_factory=set[tuple[Place, str, int]])
    holding: dict[str, tuple[Place, str]] = field(default_factory=dict[str, tuple[Place, str]])
    waited: set[Place] = field(default_factory=set[Place])
    drafts: dict[Place, str] = field(default_factory=dict[Place, str])
    decided: bool = False


class Adversary(Model):
    """A model that is the adversary's: all sessions ask it, and it follows `plan`."""

    def __init__(self, turnstile: Turnstile) -> None:
        super().__init__(profile=ModelProfile(supports_image_input=False))
        self._turnstile = turnstile
        self.plan = Plan(())
        self.names: Mapping[str, str] = {}
        self.answers: Mapping[str, str] = {}
        self.patient: frozenset[Place] = frozenset()
        self.minds: dict[tuple[Place, tuple[int, ...]], Mind] = {}
        self.trace = Trace()

    def begin(
        self, plan: Plan, names: Mapping[str, str], answers: Mapping[str, str], patient: frozenset[Place]
    ) -> None:
        """Follow another plan from now on.

        `names` are what it may call by name, `answers` what each role answers; `patient` sessions let others go first.
        """
        self.plan, self.names, self.answers, self.patient = plan, names, answers, patient
        self.minds, self.trace = {}, Trace()

    @property
    def model_name(self) -> str:
        return "offline"

    @property
    def system(self) -> str:
        return "offline"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        usage = RequestUsage(input_tokens=TOKENS)
        last = messages[-1]
        if isinstance(last, ModelRequest) and last.instructions == RECAP:
            return ModelResponse(parts=[TextPart("recap")], usage=usage, model_name="offline", provider_name="offline")
        if isinstance(last, ModelRequest) and last.instructions == INSPECT:
            told = [TextPart(self._inspected(_text(messages)))]
            return ModelResponse(parts=told, usage=usage, model_name="offline", provider_name="offline")
        running = any(tool.name == INITIALIZE for tool in model_request_parameters.function_tools)
        parts = await self._next(messages, running=running)
        return ModelResponse(parts=parts, usage=usage, model_name="offline", provider_name="offline")

    def _inspected(self, text: str) -> str:
        """Answer a question about held items: in fields, or in a text where the question is `text`."""
        found = {name: pattern.findall(text) for name, pattern in FACTS.items()}
        facts = {name: values[-1] for name, values in found.items() if values}
        self.trace.decided |= "bit" in facts or "yes" in facts
        question = _QUESTION.search(text)
        turn = question.group(1) if question is not None else ""
        template = self.answers.get("inspect", '{"bit": <bit>}') if turn.isdecimal() else "bit=<bit>"
        return self._filled(template.replace(".turn>", f".{turn}>"), facts)

    async def _next(self, messages: list[ModelMessage], *, running: bool) -> list[ModelResponsePart]:
        """Return the next calls, or the answer when the script is at its end."""
        text = _text(messages)
        mind = self._mind(text)
        if mind is None:
            await self._turnstile(last=False)
            return [TextPart("done")]
        if running and len(messages) == 1:
            # A schedule starts one run after the other that follows the same script.
            mind = self.minds[mind.place, mind.copy] = Mind(mind.place, mind.copy)
        self._hear(mind, _prompts(messages), running=running)
        facts = self._facts(mind, text)
        while True:
            index, step = mind.queue.popleft() if mind.queue else (0, None)
            if step is not None and ((step.guarded and not self._goes(facts)) or not _possible(step, facts)):
                continue
            if step is not None and step.tool == THINK:
                mind.draft = _thought(step, mind.draft, facts)
                facts["draft"] = mind.draft
                if mind.draft:
                    self.trace.drafts[mind.place] = mind.draft
                continue
            waits = step is not None and step.tool == WAIT
            if waits:
                self.trace.waited.add(mind.place)
            await self._turnstile(last=waits or mind.place in self.patient)
            if step is None:
                return [TextPart(self._filled(self._answer(mind), facts))]
            if not waits:
                return self._calls(step, index, mind, facts)

    def _goes(self, facts: dict[str, str]) -> bool:
        """Say whether a guarded step is done; that the secret decided is noted."""
        self.trace.decided |= "bit" in facts
        return facts.get("bit") == "1"

    def _mind(self, text: str) -> Mind | None:
        found = _OPENED.search(text)
        if found is None:
            return None
        place = _numbers(found.group(1))
        key = (place, _numbers(found.group(2) or ""))
        return self.minds.setdefault(key, Mind(*key))

    def _hear(self, mind: Mind, prompts: list[str], *, running: bool) -> None:
        """Put into the queue what is to be done on account of what was said since."""
        script = self.plan.script(mind.place)
        for prompt in prompts[mind.prompts :]:
            asked = _GO.search(prompt) is not None and _NOT_A_PERSON not in prompt
            first, done = (0, script.steps) if asked else (len(script.steps), script.heard)
            if asked and running and not mind.prompts:
                # Without this no tool of the run's tasks is to be had.
                mind.queue.append((0, _INITIALIZE))
            mind.queue.extend((index, step) for index, step in enumerate(done, first) for _ in range(step.times))
        mind.prompts = len(prompts)

    def _facts(self, mind: Mind, text: str) -> dict[str, str]:
        """Return what the model knows."""
        found = {name: pattern.findall(text) for name, pattern in FACTS.items()}
        facts = {**self.names, **{name: values[-1] for name, values in found.items() if values}}
        facts["numbers"] = "-".join(found["number"])
        facts["draft"] = mind.draft
        if "held" in facts:
            # Ids of one call might be alike.
            facts["guessed"] = facts["held"].replace("held-", "receipt-")
        self.trace.facts |= {(mind.place, name, len(set(values))) for name, values in found.items() if name == "number"}
        self.trace.facts |= {(mind.place, name, 1) for name, values in found.items() if values}
        if "bit" in facts:
            self.trace.knowing.add(mind.place)
        for held in found["held"]:
            self.trace.holding.setdefault(held, (mind.place, mind.called))
        return facts

    def _answer(self, mind: Mind) -> str:
        if len(mind.place) == 1:
            return self.answers.get(str(mind.place[0]), "done")
        above = self.plan.script(mind.place[:-1])
        step = (*above.steps, *above.heard)[mind.place[-1]]
        return self.answers.get(step.role, "bit=<bit>").replace(".turn>", f".{mind.prompts - 1}>")

    def _calls(self, step: Step, index: int, mind: Mind, facts: dict[str, str]) -> list[ModelResponsePart]:
        if step.tool != TOGETHER:
            return [self._call(step, index, mind, facts)]
        calls = cast("list[dict[str, JsonValue]]", step.arguments["calls"])
        return [ToolCallPart(str(one["tool"]), json.dumps(self._put(one["arguments"], facts))) for one in calls]

    def _call(self, step: Step, index: int, mind: Mind, facts: dict[str, str]) -> ToolCallPart:
        arguments = {name: self._put(value, facts) for name, value in step.arguments.items()}
        if step.role:
            mind.spawned += 1
            copy = (*mind.copy, mind.spawned)
            said = route((*mind.place, index), copy)
            goal = _GOALS[step.tool]
            more = arguments.get(goal, "")
            arguments |= {goal: f"{said}\n{more}" if more else said, "title": said}
        mind.called = step.tool
        return ToolCallPart(step.tool, json.dumps(arguments))

    def _put(self, value: JsonValue, facts: dict[str, str]) -> JsonValue:
        if value == VERSION and VERSION.strip("<>") in facts:
            return int(self._filled(VERSION, facts))
        if isinstance(value, str):
            return self._filled(value, facts)
        if isinstance(value, dict):
            return {name: self._put(inner, facts) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._put(inner, facts) for inner in value]
        return value

    def _filled(self, template: str, facts: dict[str, str]) -> str:
        """Return a template with what the model knows in it; `<digits.2>` is the third chunk of four digits."""

        def fact(found: re.Match[str]) -> str:
            name, chunk = found.groups()
            if name in {"bit", "held", "part", "handle"}:
                # What is held may decide what becomes of a call, though the model does not know it.
                self.trace.decided |= name in facts
            known = facts.get(name, UNKNOWN)
            if chunk is None:
                return known
            return known[int(chunk) * _CHUNK : (int(chunk) + 1) * _CHUNK] or UNKNOWN

        return _TEMPLATE.sub(fact, template)


def _possible(step: Step, facts: Mapping[str, str]) -> bool:
    """Say whether the model knows what a step names; that it does not know the secret stops no step."""
    named = {found.group(1) for found in _TEMPLATE.finditer(json.dumps(dict(step.arguments)))}
    return all(facts.get(name) for name in named - {"bit"})


def _thought(step: Step, draft: str, facts: Mapping[str, str]) -> str:
    """Return the draft after a step in the mind."""
    disguise = step.arguments.get("disguise")
    if isinstance(disguise, str) and not draft:
        return ""
    if isinstance(disguise, str):
        change: Callable[[str], str] = DISGUISES[disguise]
        return change(draft)
    return facts.get(str(step.arguments["fact"]), "")


def _text(messages: list[ModelMessage]) -> str:
    """Return all that was ever said to the model."""
    return "\n".join(
        str(cast("object", part.content))
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart | ToolReturnPart)
    )


def _prompts(messages: list[ModelMessage]) -> list[str]:
    return [
        str(cast("object", part.content))
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(".") if number)
