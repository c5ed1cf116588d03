"""The use of models."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of models, in tokens.

    Args:
        requests: How many requests were attempted, failed ones included.
        input_tokens: Tokens that models read.
        output_tokens: Tokens that models wrote.
        complete: Whether every provider reported its tokens.
        cost: The known cost, in millionths of the currency of the configured prices.
        priced: Whether the whole cost is known.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    complete: bool = True
    cost: int = 0
    priced: bool = True

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum; an unknown part makes the sum incomplete."""
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.complete and other.complete,
            self.cost + other.cost,
            self.priced and other.priced,
        )


UNUSED: Final = Usage()
"""No use, known for certain."""
