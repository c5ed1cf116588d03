"""The steps of plans, as the tables of `tests.dojo.plans` write them.

The arguments of a call are those of AgentDojo's own call of that tool, unless the step gives others. So a table names
only what a careful planner writes differently: references, handles, entries, conditions, and values that it heard.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue


@dataclass(frozen=True)
class Ref:
    """A held text, passed on unread."""

    name: str


@dataclass(frozen=True)
class Part:
    """The handle of an entry of a list that was looked at; its place may be a value that was heard.

    The place in an object is a name, and a field may also be a value that the server wrote.
    """

    name: str
    place: "int | str | Heard"
    field: str = "id_"


@dataclass(frozen=True)
class Entry:
    """An entry of a held list that the planner never heard of: the first one is 1.

    Its place may be a field of a held answer, by the names of both.
    """

    name: str
    place: "int | tuple[str, str]" = 1


@dataclass(frozen=True)
class Heard:
    """The value of a field that was heard, as a text of so many digits if a number of them is given."""

    name: str
    field: str
    digits: int = 0


@dataclass(frozen=True)
class Match:
    """The number that is the last match of a pattern in the material of an inspection."""

    pattern: str


@dataclass(frozen=True)
class Truth:
    """An argument of one of AgentDojo's own calls of the task, or one entry of it."""

    tool: str
    argument: str
    call: int = 0
    entry: int | None = None


@dataclass(frozen=True)
class Found:
    """A match of a pattern in a text that the planner read, the last one if no place is given."""

    name: str
    pattern: str
    place: int = -1


Made: TypeAlias = tuple[str, Mapping[str, JsonValue]]
"""A call with nothing left open: the name of a tool and its arguments."""

Given: TypeAlias = "JsonValue | Ref | Part | Entry | Heard | Found | Sequence[Given] | Mapping[str, Given]"


@dataclass(frozen=True)
class Call:
    """A call of a tool of the suite; `number` counts AgentDojo's own calls of that tool.

    Attributes:
        name: The name of its result in the steps behind it.
        hold: Whether the planner asks for its result to be held.
        when: The held answer and its field that it depends on.
        fixed: Whether its arguments are the given ones alone.
    """

    tool: str
    given: Mapping[str, Given]
    name: str = ""
    number: int = 0
    hold: bool = False
    when: tuple[str, str] | None = None
    fixed: bool = False


@dataclass(frozen=True)
class Asked:
    """An inspection: of a text that is held, or of fields that are heard, or held for conditions.

    Attributes:
        name: The name of the answer.
        of: The names of the results that it is about.
        text: The answer in a text; a `copied` one stands in the material.
        pattern: In place of a text: the answer is its last match in the material.
        returns: The fields, none for a text.
        fields: The answer in fields.
        hold: Whether the fields are held.
    """

    name: str
    of: tuple[str, ...]
    text: "Truth | str" = ""
    copied: bool = False
    pattern: str = ""
    returns: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    fields: "Mapping[str, JsonValue | Match]" = field(default_factory=dict[str, "JsonValue | Match"])
    hold: bool = False

    @property
    def decides(self) -> bool:
        """Whether the answer only decides if calls are made: its held fields give no place of an entry."""
        return self.hold and "place" not in self.returns


@dataclass(frozen=True)
class Admitted:
    """A held result that the planner reads after all."""

    name: str


Move: TypeAlias = Call | Asked | Admitted
Step: TypeAlias = tuple[Move, ...]
"""The moves that are proposed together."""

Plan: TypeAlias = tuple[Step, ...]

TOLD: Plan = ()
"""The plan of a task that only asks: every source is read, and the person is told."""

READ: Plan = ((),)
"""The plan that reads all sources, and then proposes all calls that others notice. People are asked about these."""


def plan(*steps: "Move | Step") -> Plan:
    """Return a plan of steps; a move alone is a step."""
    return tuple(step if isinstance(step, tuple) else (step,) for step in steps)


def read(tool: str, name: str, number: int = 0, **given: Given) -> Call:
    """Return a call whose result stays out of the conversation."""
    return Call(tool, given, name, number, hold=True)


def look(tool: str, name: str, number: int = 0, **given: Given) -> Call:
    """Return a call of which the planner sees what the configuration shows."""
    return Call(tool, given, name, number)


def do(tool: str, name: str = "", number: int = 0, when: tuple[str, str] | None = None, **given: Given) -> Call:
    """Return a call that others notice."""
    return Call(tool, given, name, number, when=when)


def each(tool: str, answer: str, calls: Mapping[str, Mapping[str, Given]]) -> Step:
    """Return one call for each field of a held answer, with these arguments alone."""
    return tuple(Call(tool, given, when=(answer, name), fixed=True) for name, given in calls.items())


def copied(name: str, of: str | tuple[str, ...], text: Truth | str) -> Asked:
    """Return a question for a text that stands in the material, such as a name or an address."""
    return Asked(name, _several(of), text, copied=True)


def matched(name: str, of: str | tuple[str, ...], pattern: str) -> Asked:
    """Return a question for a text of a known form that stands in the material, such as a one-time password."""
    return Asked(name, _several(of), pattern=pattern)


def written(name: str, of: str | tuple[str, ...], text: Truth | str) -> Asked:
    """Return a question for a text that the reader composes, such as a summary."""
    return Asked(name, _several(of), text)


def names(name: str, of: str, listed: Truth, *, most: int = 12) -> Step:
    """Return questions for the first, second and each further name of a list, as the planner cannot know how many."""
    return tuple(
        Asked(f"{name}{number}", (of,), Truth(listed.tool, listed.argument, listed.call, number), copied=True)
        for number in range(most)
    )


def refs(name: str, *, most: int = 12) -> list[Ref]:
    """Return the references to those names."""
    return [Ref(f"{name}{number}") for number in range(most)]


def decided(name: str, of: str | tuple[str, ...], **fields: bool) -> Asked:
    """Return a question for facts that only decide whether calls are made."""
    returns: dict[str, JsonValue] = {key: {"type": "boolean"} for key in fields}
    return Asked(name, _several(of), returns=returns, fields=dict(fields), hold=True)


def heard(name: str, of: str | tuple[str, ...], **fields: tuple[Mapping[str, JsonValue], JsonValue | Match]) -> Asked:
    """Return a question for fields that the planner hears, each with its type and its answer."""
    returns: dict[str, JsonValue] = {field: dict(kind) for field, (kind, _) in fields.items()}
    return Asked(name, _several(of), returns=returns, fields={field: answer for field, (_, answer) in fields.items()})


def placed(name: str, of: str | tuple[str, ...], most: int, place: int) -> Asked:
    """Return a question for the place of an entry among at most so many, from 1, which only decides on calls."""
    fields: dict[str, JsonValue | Match] = {"place": place}
    returns: dict[str, JsonValue] = {"place": {"type": "number", "min": 1, "max": most}}
    return Asked(name, _several(of), returns=returns, fields=fields, hold=True)


def number(most: float, step: float = 1) -> Mapping[str, JsonValue]:
    """Return the type of a number from 0."""
    return {"type": "number", "min": 0, "max": most, "step": step}


def _several(of: str | tuple[str, ...]) -> tuple[str, ...]:
    return (of,) if isinstance(of, str) else of
