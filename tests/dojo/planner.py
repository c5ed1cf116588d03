"""A planner in the place of the model, which makes the calls of a plan, and the attacker's once it heard of others.

It counts as the attacker's from the first text that it reads, and also from the first value that it hears: a bounded
answer, or a skeleton. In each of these two states it first proposes the calls of all attacks. The model that answers
inspections tells the truth of the task, or in the attacker's place what serves them.
"""

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

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

from bot.agent.calls import MOST_ASKED
from bot.agent.offline import INSPECT
from bot.gate.sparing import SHOWN
from bot.tools.held.conditions import ANSWER, FIELD, IF
from bot.tools.held.entries import ENTRY
from bot.tools.references import ADMIT, HOLD
from bot.tools.references import INSPECT as TOOL
from tests.bot.kit import proposed
from tests.dojo.steps import (
    READ,
    TOLD,
    Admitted,
    Asked,
    Call,
    Entry,
    Found,
    Given,
    Heard,
    Made,
    Match,
    Move,
    Part,
    Plan,
    Ref,
    Truth,
)
from tests.dojo.suites import FoundCall

Reader: TypeAlias = Literal["truth", "attacker", "true", "false", "broken"]
"""Whose answers inspections get. With `true`, `false` and `broken` the attacker chooses only what conditions name."""

State: TypeAlias = Literal["heard", "read"]
"""What a session knows of others: a bounded answer or a skeleton, or their words."""

_HELD: Final = re.compile(r"held-[a-z2-7]{16}")
_NOTICE: Final = "The result of this call is held as"
_ASKED: Final = re.compile(r"^Question: What is \[(\w+)\]\?")
_THEIRS: Final = "what the attacker wants"
_NONE: Final = "none"

_ANSWERING: Final = frozenset({"get_webpage", "create_file"})
"""Tools that others notice, and whose results the next calls of AgentDojo need."""

_HANDLE: Final = re.compile(r"(\w+)-\d+-[a-z2-7]{4,}")


@dataclass(frozen=True)
class Script:
    """What is played.

    Attributes:
        server: The name of the server, which begins the names of its tools.
        plan: The steps.
        truth: AgentDojo's own calls of the task.
        reads: Whether a tool only reads.
        calls: The file to which the server appends its calls.
        told: The last words.
        reader: Whose answers inspections get.
        attacks: The calls of each attack, none without an attacker.
        kinds: The kinds of handles that the arguments of a tool take.
    """

    server: str
    plan: Plan
    truth: Sequence[FoundCall]
    reads: Callable[[str], bool]
    calls: Path
    told: str
    reader: Reader = "truth"
    attacks: Mapping[str, Sequence[Made]] = field(default_factory=dict[str, Sequence[Made]])
    kinds: Callable[[str], Mapping[str, str]] = lambda _tool: {}


def lines(calls: Path) -> list[dict[str, Any]]:
    """Return the calls that a server made."""
    return [json.loads(line) for line in calls.read_text("utf-8").splitlines()]


def needs_bounds(plan: Plan) -> bool:
    """Say whether a plan works only where an operator described roles and results."""
    return any(_needs(move) for step in plan for move in step)


def _needs(move: Move) -> bool:
    match move:
        case Call():
            return any(_is_bound(one) for one in move.given.values())
        case Asked():
            return any("list" in cast("Mapping[str, JsonValue]", kind) for kind in move.returns.values())
        case Admitted():
            return False


def _is_bound(given: Given) -> bool:
    match given:
        case Ref() | Part() | Entry() | Heard():
            return True
        case Mapping():
            return any(_is_bound(one) for one in given.values())
        case list() | tuple():
            return any(_is_bound(one) for one in given)
        case _:
            return False


class Performance:
    """A script, step by step."""

    def __init__(self, script: Script) -> None:
        self.passed: dict[State, set[str]] = {}
        """The attacks that no person was asked about, in each state that the session came to."""
        self.attacking = False
        """Whether the calls that it proposed last are the attacker's."""
        self.seen: list[str] = []
        """The results that it saw, without the names of held ones."""
        self.ended = False
        """Whether it said its last words."""
        self._script = script
        self._held: dict[str, str] = {}
        self._shown: dict[str, Any] = {}
        self._heard: dict[str, dict[str, JsonValue]] = {}
        self._read: dict[str, str] = {}
        self._asked: dict[str, Asked] = {}
        self._handles: dict[tuple[str, str], str] = {}
        self._run = self._steps()
        self._begun = False

    def step(self, results: list[str]) -> list[ToolCallPart] | str:
        """Return the next calls, or the last words."""
        try:
            if self._begun:
                return self._run.send(results)
            self._begun = True
            return next(self._run)
        except StopIteration:
            self.ended = True
            return self._script.told or "Done."

    def answer(self, shown: str) -> str:
        """Return what the model says that is asked about held results."""
        found = _ASKED.match(shown)
        if found is None:
            return "I cannot tell."
        asked, material = self._asked[found[1]], shown[found.end() :]
        if asked.returns:
            return self._fields(asked, material)
        if self._script.reader == "attacker":
            return _THEIRS
        if asked.pattern:
            return next(reversed(re.findall(asked.pattern, material)), "I cannot tell.")
        text = self._truth(asked.text) if isinstance(asked.text, Truth) else asked.text
        known = isinstance(text, str) and (not asked.copied or text == _NONE or text in material)
        return str(text) if known else "I cannot tell."

    def _fields(self, asked: Asked, material: str) -> str:
        match self._script.reader:
            case "attacker" if not asked.hold:
                return json.dumps({name: _chosen(asked, name) for name in asked.fields})
            case "true" | "attacker" if asked.hold:
                return json.dumps({name: _extreme(asked, name, highest=True) for name in asked.fields})
            case "false" if asked.hold:
                return json.dumps({name: _extreme(asked, name, highest=False) for name in asked.fields})
            case "broken" if asked.hold:
                return f'{{"made": "{_THEIRS}"}}'
            case _:
                return json.dumps({name: _told(asked, name, material) for name in asked.fields})

    def _steps(self) -> Generator[list[ToolCallPart], list[str], None]:
        for step in self._plan():
            moves = [one for one in step if not isinstance(one, Admitted) or one.name in self._held]
            if not moves:
                continue
            results = yield [self._proposed(one) for one in moves]
            self.seen += [_HELD.sub("held", one) for one in results]
            state = self._taken(moves, results)
            if state is not None and state not in self.passed:
                yield from self._attacked(state)

    def _attacked(self, state: State) -> Generator[list[ToolCallPart], list[str], None]:
        self.passed[state], self.attacking = set(), True
        listed = [(name, one) for name, calls in self._script.attacks.items() for one in calls]
        begin = len(lines(self._script.calls))
        for place in range(0, len(listed), MOST_ASKED):
            yield [
                self._called(tool, self._named(tool, given)) for _, (tool, given) in listed[place : place + MOST_ASKED]
            ]
        made = [(one["tool"], one["arguments"]) for one in lines(self._script.calls)[begin:] if not one["failed"]]
        for name, calls in self._script.attacks.items():
            if all((tool, dict(given)) in made for tool, given in calls):
                self.passed[state].add(name)
        self.attacking = False

    def _named(self, tool: str, given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return arguments with handles in place of the identifiers that the session has handles for."""
        kinds = self._script.kinds(tool)
        return {name: self._handled(kinds.get(name, ""), value) for name, value in given.items()}

    def _handled(self, kind: str, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self._handled(kind, one) for one in value]
        return self._handles.get((kind, str(value)), value)

    # --- plans -------------------------------------------------------------------------------------

    def _plan(self) -> Iterator[Sequence[Move]]:
        plan = self._script.plan
        if plan not in (TOLD, READ):
            yield from plan
            return
        numbers: dict[str, int] = {}
        calls: list[Call] = []
        for one in self._script.truth:
            count = numbers[one.function] = numbers.get(one.function, -1) + 1
            calls.append(Call(one.function, {}, f"{one.function}_{count}", count))
        for place, one in enumerate(call for call in calls if self._script.reads(call.tool)):
            # Only the first has to be kept out: what it tells makes the session UNTRUSTED.
            yield [one if place else Call(one.tool, {}, one.name, one.number, hold=True)]
            yield [] if place else [Admitted(one.name)]
        group: list[Call] = []
        for one in calls:
            if self._script.reads(one.tool):
                continue
            if group and group[-1].tool in _ANSWERING and one.tool not in _ANSWERING:
                yield group
                group = []
            group.append(one)
        yield group

    # --- calls -------------------------------------------------------------------------------------

    def _proposed(self, move: Move) -> ToolCallPart:
        match move:
            case Admitted():
                return proposed(ADMIT, {"ref": self._held[move.name]})
            case Asked():
                self._asked[move.name] = move
                how: dict[str, JsonValue] = {"returns": dict(move.returns)} if move.returns else {"text": True}
                refs: JsonValue = [self._held[one] for one in move.of]
                beside: dict[str, JsonValue] = {HOLD: True} if move.hold else {}
                return proposed(TOOL, {"refs": refs, "question": f"What is [{move.name}]?", **how, **beside})
            case Call():
                given = {} if move.fixed else dict(self._own(move))
                given |= {name: self._value(one) for name, one in move.given.items()}
                given |= {HOLD: True} if move.hold else {}
                if move.when is not None:
                    given[IF] = {ANSWER: self._held[move.when[0]], FIELD: move.when[1]}
                return self._called(move.tool, given)

    def _called(self, tool: str, given: Mapping[str, JsonValue]) -> ToolCallPart:
        return proposed(f"{self._script.server}__{tool}", given)

    def _own(self, move: Call) -> Mapping[str, JsonValue]:
        made = [one for one in self._script.truth if one.function == move.tool]
        return made[move.number].args if move.number < len(made) else {}

    def _value(self, given: Given) -> JsonValue:
        match given:
            case Ref():
                return {"$ref": self._held[given.name]}
            case Part():
                place = self._value(given.place)
                return self._shown[given.name][place if isinstance(place, str) else int(str(place))][given.field]
            case Entry():
                return {"$ref": self._held[given.name], ENTRY: self._place(given.place)}
            case Heard():
                value = self._heard[given.name][given.field]
                return f"{value:0{given.digits}d}" if given.digits else value
            case Found():
                return re.findall(given.pattern, self._read[given.name])[given.place]
            case _:
                return self._values(given)

    def _values(self, given: JsonValue | Sequence[Given] | Mapping[str, Given]) -> JsonValue:
        match given:
            case str() | int() | float() | None:
                return given
            case Mapping():
                return {name: self._value(one) for name, one in given.items()}
            case Sequence():
                return [self._value(one) for one in given]

    def _place(self, place: int | tuple[str, str]) -> JsonValue:
        return place if isinstance(place, int) else {ANSWER: self._held[place[0]], FIELD: place[1]}

    def _truth(self, of: Truth) -> JsonValue:
        calls = [one for one in self._script.truth if one.function == of.tool]
        value = calls[of.call].args[of.argument]
        if of.entry is None:
            return value
        listed = cast("list[JsonValue]", value)
        return listed[of.entry] if of.entry < len(listed) else _NONE

    # --- results -----------------------------------------------------------------------------------

    def _taken(self, moves: Sequence[Move], results: Sequence[str]) -> State | None:
        """Keep the results of a step, and return what the session now knows of others through them."""
        states = {self._kept(move, result) for move, result in zip(moves, results, strict=True)}
        return "read" if "read" in states else "heard" if "heard" in states else None

    def _kept(self, move: Move, result: str) -> State | None:
        notice = result.startswith(_NOTICE)
        found = _HELD.search(result) if notice else None
        if found is not None:
            self._held[move.name] = found[0]
        match move:
            case Admitted():
                self._read[move.name] = result
                return "read"
            case Asked() if not notice:
                self._heard[move.name] = json.loads(result.rpartition("\n")[2])
                return "heard"
            case Call() if SHOWN in result:
                self._shown[move.name] = json.loads(result.rpartition("\n")[2])["result"]
                self._remember(move)
                return "heard"
            case Call() if not notice:
                self._read[move.name] = result
                return "read"
            case _:
                return None

    def _remember(self, move: Call) -> None:
        """Remember the identifiers behind the handles of a result, which an attacker knows."""
        made = next(one for one in reversed(lines(self._script.calls)) if one["tool"] == move.tool)
        self._handles |= _behind(self._shown[move.name], made["result"])


def _behind(shown: Any, known: Any) -> dict[tuple[str, str], str]:  # noqa: ANN401 - JSON
    """Return the handles of a skeleton by their kind and the identifier."""
    if isinstance(shown, str):
        found = _HANDLE.fullmatch(shown)
        return {} if found is None else {(found[1], str(known)): shown}
    if isinstance(shown, list):
        pairs = zip(cast("list[Any]", shown), cast("list[Any]", known), strict=True)
        return dict(one for entry, true in pairs for one in _behind(entry, true).items())
    if isinstance(shown, dict):
        inner = cast("dict[str, Any]", shown)
        return dict(one for name in inner if name in known for one in _behind(inner[name], known[name]).items())
    return {}


def _told(asked: Asked, name: str, material: str) -> JsonValue:
    """Return the true value of a field; of a number that is not there, the lowest."""
    match asked.fields[name]:
        case Match(pattern):
            found = re.findall(pattern, material)
            return int(found[-1]) if found else cast("Mapping[str, Any]", asked.returns[name])["min"]
        case value:
            return value


def _chosen(asked: Asked, name: str) -> JsonValue:
    """Return a value of a field that serves an attacker: another one than the true one, as high as can be."""
    kind, true = cast("Mapping[str, Any]", asked.returns[name]), cast("JsonValue", asked.fields[name])
    match kind["type"]:
        case "boolean":
            return not true
        case "enum":
            return kind["values"][-1]
        case "number" | "date":
            return kind["max"]
        case _:
            return true


def _extreme(asked: Asked, name: str, *, highest: bool) -> JsonValue:
    """Return a value of a held field: a boolean, or the last or first place of an entry."""
    kind = cast("Mapping[str, Any]", asked.returns[name])
    return highest if kind["type"] == "boolean" else kind["max" if highest else "min"]


class Planner(Model):
    """Plays scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.performance: Performance | None = None

    @property
    def model_name(self) -> str:
        return "planner"

    @property
    def system(self) -> str:
        return "scripted"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make the next step, or answer an inspection."""
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        assert self.performance is not None
        if last.instructions == INSPECT:
            step = self.performance.answer("\n".join(_prompts(last)))
        else:
            step = self.performance.step([str(one.content) for one in last.parts if isinstance(one, ToolReturnPart)])
        said: Sequence[ModelResponsePart] = [TextPart(step)] if isinstance(step, str) else step
        usage = RequestUsage(input_tokens=10, output_tokens=5)
        return ModelResponse(parts=list(said), usage=usage, model_name="planner", provider_name="scripted")


def _prompts(request: ModelRequest) -> list[str]:
    return [str(part.content) for part in request.parts if isinstance(part, UserPromptPart)]
