"""What is questionable about rules that can be put in force: those that never decide, and those that silence too much.

A rule that could never apply is refused when it is read. Here is what only shows between rules, or may be meant:
one is *shadowed* if whatever it concerns is blocked by another, *redundant* if another says the same of all it
concerns, *silencing* if it keeps back everything that is said, Lockgate's own notices among it. Only what is certain
is told: of two conditions nobody can tell which one is wider unless they are the same.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from policy.decision import Verdict
from policy.document.entries import RuleEntry
from policy.request import Hook

_WILD: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at: the place of the rule among the rules, and a sentence."""

    place: int
    kind: Literal["shadowed", "redundant", "silencing"]
    message: str


def lint(rules: Sequence[RuleEntry]) -> tuple[Finding, ...]:
    """Return what is questionable, in the order of the rules; each rule is told of once."""
    by_hook = defaultdict[Hook, list[int]](list)
    for place, rule in enumerate(rules):
        by_hook[rule.hook].append(place)
    found = dict[int, Finding]()
    for places in by_hook.values():
        for finding in _between(rules, places):
            found.setdefault(finding.place, finding)
    for place, rule in enumerate(rules):
        if rule.hook is Hook.PRE_OUTPUT and rule.action is Verdict.BLOCK and rule.compiled().plain:
            message = f"rule `{rule.id}` also keeps back Lockgate's own notices and refusals where it applies"
            found.setdefault(place, Finding(place, "silencing", message))
    return tuple(found[place] for place in sorted(found))


def _between(rules: Sequence[RuleEntry], places: Sequence[int]) -> Iterator[Finding]:
    for place in places:
        for other in places:
            if place == other or not _covers(rules[other], rules[place]):
                continue
            # Of two that cover each other the first stays.
            if _says_as_much(rules[other], rules[place]) and (other < place or not _covers(rules[place], rules[other])):
                message = f"rule `{rules[place].id}` adds nothing, rule `{rules[other].id}` says the same of all of it"
                yield Finding(place, "redundant", message)
            elif rules[other].action is Verdict.BLOCK and rules[place].action is not Verdict.BLOCK:
                message = f"rule `{rules[place].id}` never decides, rule `{rules[other].id}` blocks all of it"
                yield Finding(place, "shadowed", message)


def _covers(wide: RuleEntry, narrow: RuleEntry) -> bool:
    """Say whether a rule certainly applies wherever the other one does."""
    return (
        narrow.taint <= wide.taint
        and wide.untrusted in {None, narrow.untrusted}
        and _globs_cover(wide.tools, narrow.tools)
        and _globs_cover(wide.channels, narrow.channels)
        and wide.pattern in {None, narrow.pattern}
        and wide.schedule in {None, narrow.schedule}
        and wide.when in {None, narrow.when}
    )


def _globs_cover(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    if not wide or "*" in wide:
        return True
    return bool(narrow) and all(
        glob in wide or (not _WILD & set(glob) and any(fnmatchcase(glob, other) for other in wide)) for glob in narrow
    )


def _says_as_much(one: RuleEntry, other: RuleEntry) -> bool:
    """Say whether what the first does leaves nothing for the second, where both apply."""
    if one.action is not other.action:
        return False
    if one.action is Verdict.REDACT:
        return one.pattern == other.pattern
    return one.action is Verdict.BLOCK or (one.approvers, one.timeout) == (other.approvers, other.timeout)
