"""Conditions at work: all those that a request has to meet in one evaluation by the CEL library.

This is the only module that knows the library, and it is imported only where a rule has a condition: the library
takes a quarter of a second to load. What it is given was checked by `policy.expressions`. One error fails a whole
evaluation; it is then repeated condition by condition, so that only those that fail are without an answer.
"""

from collections.abc import Collection, Sequence
from functools import cached_property

import cel

from policy.expressions import Expression
from policy.variables import Facts, Read, reader


class Fused:
    """Conditions compiled together. It never changes; what it compiles at need is not seen from outside."""

    def __init__(self, expressions: Sequence[Expression], patterns: Collection[str]) -> None:
        self._expressions = tuple(expressions)
        self._readers: dict[tuple[str, str], Read] = {
            variable: reader(*variable, patterns) for expression in expressions for variable in expression.variables
        }
        # An argument may have one type in one tool and another in another; such conditions cannot share a binding.
        names = {name for name, _ in self._readers}
        together = f"[{', '.join(expression.text for expression in expressions)}]"
        self._program = cel.compile(together) if len(names) == len(self._readers) else None

    def truths(self, facts: Facts) -> Sequence[object]:
        """Return for each condition whether it holds: True, False, or anything else where that cannot be told."""
        if self._program is not None:
            try:
                return self._program.execute({name: read(facts) for (name, _), read in self._readers.items()})
            except Exception:  # noqa: BLE001 - whatever one condition raises, the others are to be told
                return self._one_by_one(facts)
        return self._one_by_one(facts)

    def _one_by_one(self, facts: Facts) -> list[object]:
        return [
            self._alone(expression, program, facts)
            for expression, program in zip(self._expressions, self._programs, strict=True)
        ]

    def _alone(self, expression: Expression, program: "cel.Program", facts: Facts) -> object:
        try:
            values = {name: self._readers[name, kind](facts) for name, kind in expression.variables}
            return program.execute(values)
        except Exception:  # noqa: BLE001 - no answer is an answer: the rule blocks
            return None

    @cached_property
    def _programs(self) -> tuple["cel.Program", ...]:
        return tuple(cel.compile(expression.text) for expression in self._expressions)
