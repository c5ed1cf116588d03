"""Conditions at work: all those that a request has to meet in one evaluation by the CEL library.

This is the only module that knows the library, and it is imported only where a rule has a condition: the library takes
a quarter of a second to load. `policy.conditions.expressions` has checked the conditions before. Most conditions do not
hold, and to hand over an answer costs as much as to find it. So the library is asked of each few whether any of them
holds, and of one alone only if so. One error fails a whole evaluation; it is then repeated condition by condition, so
that only those that fail are without an answer.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, cast

import cel

from policy.conditions.expressions import Expression
from policy.conditions.variables import ARG, Facts, Read, reader

_FEW: Final = 10
"""How many conditions share one answer: of a hundred, where one holds, twenty answers are handed over."""

_REMEMBERED: Final = 64
"""How many combinations of values are remembered."""

Values = tuple[object, ...]
"""The values of all variables, in the order of their readers."""


class Fused:
    """Conditions compiled together.

    It never changes; outsiders do not see that it compiles some conditions only when needed, and remembers values.
    """

    def __init__(self, expressions: Sequence[Expression], patterns: Collection[str]) -> None:
        self._expressions = tuple(expressions)
        self._readers: dict[tuple[str, str], Read] = {
            variable: reader(*variable, patterns) for expression in expressions for variable in expression.variables
        }
        self._has_arguments = any(name.startswith(ARG) for name, _ in self._readers)
        self._ready = dict[Values, cel.Context]()
        # An argument may have one type in one tool and another in another; such conditions cannot share a binding.
        names = {name for name, _ in self._readers}
        texts = [expression.text for expression in expressions]
        few = (" || ".join(texts[begin : begin + _FEW]) for begin in range(0, len(texts), _FEW))
        self._program = cel.compile(f"[{', '.join(few)}]") if len(names) == len(self._readers) else None

    def awake(self, facts: Facts) -> Mapping[int, object]:
        """Return the conditions that hold, by their places, and those that cannot be evaluated.

        The value of one that holds is True; for the others it is anything else but False.
        """
        truths = self._one_by_one(facts) if self._program is None else self._together(self._program, facts)
        return {place: truth for place, truth in truths if truth is not False}

    def remembered(self) -> int:
        """Return how many combinations of values are remembered, at most 64."""
        return len(self._ready)

    def _together(self, program: "cel.Program", facts: Facts) -> Sequence[tuple[int, object]]:
        try:
            values = tuple(_frozen(read(facts)) for read in self._readers.values())
            # Nobody else has it meanwhile: the library's contexts are for one thread at a time.
            context = self._ready.pop(values, None) or self._context(values)
            awake = [
                (place, self._programs[place].execute(context))
                for number, any_holds in enumerate(program.execute(context))
                if any_holds is not False
                for place in range(number * _FEW, min(number * _FEW + _FEW, len(self._expressions)))
            ]
        except Exception:  # noqa: BLE001 - the other conditions are evaluated even if one raises any error
            return list(self._one_by_one(facts))
        self._keep(values, context)
        return awake

    def _context(self, values: Values) -> "cel.Context":
        return cel.Context(dict(zip((name for name, _ in self._readers), values, strict=True)))

    def _keep(self, values: Values, context: "cel.Context") -> None:
        """Remember values as the library has them: it takes a fifth of an evaluation to make them.

        A session decides again and again about the same ones. A call's arguments are not kept: they may be long.
        """
        if self._has_arguments:
            return
        if len(self._ready) >= _REMEMBERED:
            self._ready.clear()
        self._ready[values] = context

    def _one_by_one(self, facts: Facts) -> Iterator[tuple[int, object]]:
        for place, expression in enumerate(self._expressions):
            yield place, self._alone(place, expression, facts)

    def _alone(self, place: int, expression: Expression, facts: Facts) -> object:
        try:
            values = {name: self._readers[name, kind](facts) for name, kind in expression.variables}
            return self._programs[place].execute(values)
        except Exception:  # noqa: BLE001 - no answer is an answer: the rule blocks
            return None

    @cached_property
    def _programs(self) -> tuple["cel.Program", ...]:
        return tuple(cel.compile(expression.text) for expression in self._expressions)


def _frozen(value: object) -> object:
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value
