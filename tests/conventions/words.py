"""The lint of words: counts clauses without a noun, pronouns of one sex and long sentences, and holds them to a budget.

`python -m tests.conventions.words [PATH…]` prints every finding of these files or folders, and the counts of each area;
`--lower` writes the counts that fell into the budget, which is `words.toml` beside this file. Shown messages (every
literal of three words or more, and the help of the command line) have none of any kind; what is exempt of them is told
in `texts._unread` and `texts._SYNTAX`. It does not judge whether a sentence is true, nor its grammar.
"""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conventions.texts import Sentence, sentences, words

KINDS: Final = ("headless", "pronoun", "long")
BUDGET: Final = Path("tests/conventions/words.toml")

LONG: Final = 30
"""Words of a sentence of docs, docstrings and comments, at most."""

LONG_SHOWN: Final = 20
"""Words of a sentence of a shown message, at most."""

_ALWAYS: Final = re.compile(r"\b(?:whoever|whomever|whatever|whichever)\b", re.IGNORECASE)
_HEADLESS: Final = re.compile(
    r"\b(?:some|any|every)(?:body|one)\s+(?:who|whom|whose|that|of|else\s+than)\b"
    r"|\b(?:nobody|no\sone)\s+(?:who|whom|whose|that|of|else\s+than)\b",
    re.IGNORECASE,
)
_WHAT: Final = re.compile(r"\bwhat\b", re.IGNORECASE)
_TELLING: Final = re.compile(
    r"\b(?:say|says|said|saying|tell|tells|told|telling|show|shows|showed|shown|showing|know|knows|knew|known|knowing"
    r"|ask|asks|asked|asking|see|sees|saw|seen|seeing|explain|explains|explained|explaining|decide|decides|decided"
    r"|deciding|learn|learns|learned|learning|describe|describes|described|describing|check|checks|checked|checking"
    r"|name|names|named|naming|list|lists|listed|listing|remember|remembers|remembered|remembering)"
    r"(?:\s+(?!(?:that|of|and|or|but|as|for|from|in|on|with|by|only|than|is|are|was|were|not|be|at)\b)[\w']+)?\s+$",
    re.IGNORECASE,
)
_PRONOUN: Final = re.compile(r"\b(?:[Hh]e|[Hh]is|[Hh]im|[Hh]imself|[Ww]hom|[Ss]he|[Hh]ers?|[Hh]erself)\b")


@dataclass(frozen=True, slots=True)
class WordFinding:
    """One finding: its kind, and the sentence that it is in."""

    kind: str
    sentence: Sentence

    def __str__(self) -> str:
        return f"{self.sentence.path}:{self.sentence.line}: {self.kind}: {self.sentence.text}"


def judged(sentence: Sentence) -> Iterator[WordFinding]:
    """Yield what is counted of one sentence."""
    text = sentence.text
    question = text.rstrip("\"')").endswith("?")
    for _ in [*_ALWAYS.finditer(text), *_HEADLESS.finditer(text)]:
        yield WordFinding("headless", sentence)
    for what in () if question else _WHAT.finditer(text):
        if not _TELLING.search(text[: what.start()]):
            yield WordFinding("headless", sentence)
    for _ in _PRONOUN.finditer(text):
        yield WordFinding("pronoun", sentence)
    if words(text) > (LONG_SHOWN if sentence.shown else LONG):
        yield WordFinding("long", sentence)


def word_findings(root: Path) -> list[WordFinding]:
    """Return the findings in all that is written under a root, in the order of files."""
    return [finding for sentence in sentences(root) for finding in judged(sentence)]


def counts(found: Iterable[WordFinding]) -> dict[str, tuple[int, ...]]:
    """Return how many findings of each kind each area has, in the order of `KINDS`."""
    counted = Counter((finding.sentence.area, finding.kind) for finding in found)
    areas = sorted({area for area, _ in counted})
    return {area: tuple(counted[area, kind] for kind in KINDS) for area in areas}


def budget(root: Path) -> dict[str, tuple[int, ...]]:
    """Return how many findings each area may have."""
    return {area: tuple(most) for area, most in tomllib.loads((root / BUDGET).read_text("utf-8")).items()}


def differences(counted: Mapping[str, tuple[int, ...]], allowed: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return a sentence for every count that is not that of the budget, with the next step."""
    told = list[str]()
    for area in sorted({*counted, *allowed}):
        have, may = counted.get(area, (0,) * len(KINDS)), allowed.get(area, (0,) * len(KINDS))
        for kind, count, most in zip(KINDS, have, may, strict=True):
            if count > most:
                told.append(
                    f"{area}: {count} {kind}, its budget is {most}: rewrite the sentences that"
                    f" `python -m tests.conventions.words` prints"
                )
            elif count < most:
                told.append(
                    f"{area}: {count} {kind}, its budget is {most}: lower it with"
                    f" `python -m tests.conventions.words --lower`"
                )
    return told


def lowered(counted: Mapping[str, tuple[int, ...]], allowed: Mapping[str, tuple[int, ...]]) -> str:
    """Return the text of the budget with every count that fell; none rises, and an area without findings goes."""
    kept = {area: tuple(map(min, counted.get(area, (0,) * len(KINDS)), most)) for area, most in allowed.items()}
    lines = [f'"{area}" = [{", ".join(map(str, most))}]' for area, most in sorted(kept.items()) if any(most)]
    head = [
        f"# How many findings of words each area may have: {', '.join(KINDS)}. No count rises.",
        "# Lower them with `python -m tests.conventions.words --lower`.",
    ]
    return "\n".join([*head, *lines, ""])


def main(arguments: list[str]) -> int:
    """Print the findings of these paths, and the counts; return 1 if a count is not that of the budget."""
    root = Path.cwd()
    found = word_findings(root)
    paths = [argument.removeprefix("./").rstrip("/") for argument in arguments if not argument.startswith("--")]
    if "--lower" in arguments:
        (root / BUDGET).write_text(lowered(counts(found), budget(root)), "utf-8")
    within = [
        finding
        for finding in found
        if not paths or any(f"{finding.sentence.path}/".startswith(f"{path}/") for path in paths)
    ]
    for finding in within:
        print(finding)
    for area, counted in counts(within).items():
        print(f"{area}: {', '.join(f'{count} {kind}' for kind, count in zip(KINDS, counted, strict=True))}")
    told = differences(counts(found), budget(root))
    for each in told:
        print(each)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
