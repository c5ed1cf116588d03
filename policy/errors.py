"""Errors of the policy core, all of them made at load; `decide()` itself raises none.

- `PolicyError`
  - `LabelTextError`: a text that is not a label or level
  - `ExpressionError`: a text that is not a condition
  - `DocumentError`: a policy document that cannot be put in force; carries every problem found
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


class PolicyError(Exception):
    """A policy that cannot be put in force; the operator can mend it."""


class LabelTextError(PolicyError):
    """A text that is not a label or level."""


class ExpressionError(PolicyError):
    """A text that is not a condition over the variables of its hook."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a document.

    `path` leads to it from the document's root (keys and list positions); `message` tells the fault and the next step,
    without file or line, which the loader adds.
    """

    path: tuple[str | int, ...]
    message: str


class DocumentError(PolicyError):
    """A policy document that cannot be put in force."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


def nearest(word: str, known: Iterable[str], *, ranked: bool = False) -> str:
    """Return `, did you mean ...?` for the closest known word, or the list of known words, or nothing.

    `ranked` words are listed in the order that they come in, others by alphabet.
    """
    names = list(known) if ranked else sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6) or get_close_matches(word.upper(), names, n=1, cutoff=0.6)
    if close:
        return f", did you mean `{close[0]}`?"
    return f", known are {', '.join(f'`{name}`' for name in names)}" if names else ""
