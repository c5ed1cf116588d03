"""Errors of the policy core, all of them made at load; `decide()` itself raises none.

- `PolicyError`
  - `LabelTextError`: a text that is not a label or level
  - `ExpressionError`: a text that is not a condition
  - `DocumentError`: a policy document that cannot be put in force; carries every problem found
"""

from collections.abc import Iterable, Sequence
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


def meant(word: str, known: Sequence[str]) -> str:
    """Return `, did you mean ...?` for the closest known word, or nothing."""
    close = get_close_matches(word, known, n=1, cutoff=0.6) or get_close_matches(word.upper(), known, n=1, cutoff=0.6)
    return f", did you mean `{close[0]}`?" if close else ""


def nearest(word: str, known: Iterable[str], *, ranked: bool = False) -> str:
    """Return `, did you mean ...?` for the closest known word, or the list of known words, or nothing.

    `ranked` words are listed in the order that they come in, others by alphabet.
    """
    names = list(known) if ranked else sorted(known)
    if like := meant(word, names):
        return like
    return f", known are {', '.join(f'`{name}`' for name in names)}" if names else ""
