"""What the adversary does, as a value: a tree of steps for each session that it drives, to be grown, run and shrunk.

A plan has a script for each lane: a conversation, or a person who types commands. A step is a tool call, a command, or
what a model does in its own mind. One that spawns has a script for the new session. A guarded step is left out by a
session that does not know the secret, or knows it to be zero: a model may behave as what it read tells it to.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, TypeAlias

from pydantic import JsonValue

Place: TypeAlias = tuple[int, ...]
"""Where a script is: the lane, then the step that spawned, for each generation."""

Copy: TypeAlias = tuple[Place, tuple[int, ...]]
"""A session: the place of its script, and which of the sessions that follow it this is."""

WAIT: Final = "wait"
"""The step in which a session does nothing until all others have done what they can."""

THINK: Final = "think"
"""The step in which a model changes the draft that it has in mind; nothing is called."""

TOGETHER: Final = "together"
"""The step in which a model makes several calls at once."""

TYPE: Final = "type"
"""The step in which a person types a line."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done. `arguments` are templates, see `model.filled`; `role` is that of a spawned session.

    `guarded` leaves it to the secret whether it is done; `times` repeats it.
    """

    tool: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    role: str = ""
    script: "Script | None" = None
    guarded: bool = False
    times: int = 1

    @property
    def size(self) -> int:
        """How many steps this is, with those of the session it spawns."""
        return 1 + (self.script.size if self.script else 0)

    def lines(self, indent: str) -> Iterator[str]:
        """Yield it as people read it."""
        when = "if the secret is 1: " if self.guarded else ""
        times = f", {self.times} times" if self.times > 1 else ""
        yield f"{indent}{when}{self.tool} {json.dumps(dict(self.arguments), ensure_ascii=False)}{times}"
        if self.script is not None:
            yield from self.script.lines(f"{indent}    ")


@dataclass(frozen=True, slots=True)
class Script:
    """What one session does: `steps` when it is asked, `heard` whenever another session's message came."""

    steps: tuple[Step, ...] = ()
    heard: tuple[Step, ...] = ()

    @property
    def size(self) -> int:
        return sum(step.size for step in (*self.steps, *self.heard))

    def lines(self, indent: str) -> Iterator[str]:
        for step in self.steps:
            yield from step.lines(indent)
        if self.heard:
            yield f"{indent}when another session's message comes:"
            for step in self.heard:
                yield from step.lines(f"{indent}    ")


@dataclass(frozen=True, slots=True)
class Plan:
    """A script for each lane, in the order of the lanes."""

    lanes: tuple[Script, ...]

    @property
    def size(self) -> int:
        return sum(script.size for script in self.lanes)

    def shown(self, names: tuple[str, ...]) -> str:
        """Return it as people read it."""
        lines = list[str]()
        for name, script in zip(names, self.lanes, strict=True):
            if script.size:
                lines += [f"{name}:", *script.lines("    ")]
        return "\n".join(lines)

    def script(self, place: Place) -> Script:
        """Return the script at a place."""
        script = self.lanes[place[0]]
        for at in place[1:]:
            inner = (*script.steps, *script.heard)[at].script
            script = inner or Script()
        return script

    def places(self) -> Iterator[tuple[Place, str]]:
        """Yield the place of every script with its role; that of a lane is its number."""
        for lane, script in enumerate(self.lanes):
            yield (lane,), str(lane)
            yield from _places((lane,), script)

    def put(self, place: Place, script: Script) -> "Plan":
        """Return the plan with another script at a place."""
        lane = _put(self.lanes[place[0]], place[1:], script)
        return Plan((*self.lanes[: place[0]], lane, *self.lanes[place[0] + 1 :]))


Alphabet: TypeAlias = Mapping[str, tuple[Step, ...]]
"""The steps of each role; those of `ROLE/heard` are done when a message came."""


def grown(plan: Plan, alphabet: Alphabet, roles: tuple[str, ...], knowing: frozenset[Place]) -> Iterator[Plan]:
    """Yield every plan that has one step more, at the end of some script.

    `roles` are those of the lanes. A step is guarded too where a session may know the secret.
    """
    for place, name in plan.places():
        role = roles[place[0]] if len(place) == 1 else name
        script = plan.script(place)
        for step in alphabet.get(role, ()):
            yield plan.put(place, replace(script, steps=(*script.steps, step)))
            if place in knowing:
                yield plan.put(place, replace(script, steps=(*script.steps, replace(step, guarded=True))))
        for step in alphabet.get(f"{role}/heard", ()):
            yield plan.put(place, replace(script, heard=(*script.heard, step)))


def drawn(random: Random, alphabet: Alphabet, roles: tuple[str, ...], longest: int) -> Plan:
    """Return a random plan of at most so many steps."""
    plan = Plan(tuple(Script() for _ in roles))
    for _ in range(random.randint(1, longest)):
        places = [(place, roles[place[0]] if len(place) == 1 else name) for place, name in plan.places()]
        places = [(place, role) for place, role in places if alphabet.get(role)]
        # What was spawned last is as likely as all before it: long chains are where attacks are.
        place, role = places[-1] if random.random() < 0.4 else random.choice(places)
        script = plan.script(place)
        handlers = alphabet.get(f"{role}/heard", ())
        if handlers and random.random() < 0.2:
            plan = plan.put(place, replace(script, heard=(*script.heard, random.choice(handlers))))
            continue
        step = random.choice(alphabet[role])
        step = replace(step, guarded=random.random() < 0.35, times=random.choice((1, 1, 1, 1, 2, 3, 5)))
        plan = plan.put(place, replace(script, steps=(*script.steps, step)))
    return plan


def smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans that are a little less than this one, the much smaller ones first."""
    for place, _ in sorted(plan.places(), key=lambda one: -plan.script(one[0]).size):
        script = plan.script(place)
        for index in reversed(range(len(script.steps))):
            kept = (*script.steps[:index], *script.steps[index + 1 :])
            yield plan.put(place, replace(script, steps=kept))
        for index in reversed(range(len(script.heard))):
            yield plan.put(place, replace(script, heard=(*script.heard[:index], *script.heard[index + 1 :])))
        for index, step in enumerate(script.steps):
            for simpler in _simpler(step):
                kept = (*script.steps[:index], simpler, *script.steps[index + 1 :])
                yield plan.put(place, replace(script, steps=kept))


def _simpler(step: Step) -> Iterator[Step]:
    if step.times > 1:
        yield replace(step, times=1)
        yield replace(step, times=step.times - 1)
    if step.guarded:
        yield replace(step, guarded=False)


def _places(place: Place, script: Script) -> Iterator[tuple[Place, str]]:
    for index, step in enumerate((*script.steps, *script.heard)):
        if step.role:
            there = (*place, index)
            yield there, step.role
            yield from _places(there, step.script or Script())


def _put(script: Script, place: Place, new: Script) -> Script:
    if not place:
        return new
    at, steps = place[0], [*script.steps, *script.heard]
    steps[at] = replace(steps[at], script=_put(steps[at].script or Script(), place[1:], new))
    count = len(script.steps)
    return Script(tuple(steps[:count]), tuple(steps[count:]))
