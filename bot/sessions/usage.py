"""How much of models is used."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Usage:
    """What models were asked, in tokens; `complete` is false when a provider did not say.

    `requests` counts every attempt, also those that failed. `cost` is what is known of it, in millionths of the
    currency that the configured prices are in; `priced` is false when a part of it is not known.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    complete: bool = True
    cost: int = 0
    priced: bool = True

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum; unknown stays unknown."""
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.complete and other.complete,
            self.cost + other.cost,
            self.priced and other.priced,
        )


UNUSED: Final = Usage()
"""Nothing was used, and that is known."""
