"""Findings about valid rules: rules that never decide, and rules that silence too much.

A rule that could never apply is refused when it is read. The lint finds problems that show only between rules, or that
may be intended. A rule is *shadowed* if another one blocks every request that it concerns, and *redundant* if another
one gives the same result for all of them. It is *silencing* if it blocks every output, Lockgate's own notices included.
It reports certain cases only: two conditions are compared only if they are the same.
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
    """Return the findings, in the order of the rules, at most one per rule."""
    by_hook = defaultdict[Hook, list[int]](list)
    for place, rule in enumerate(rules):
        if not rule.log_only:
            by_hook[rule.hook].append(place)
    found = dict[int, Finding]()
    for places in by_hook.values():
        for finding in _between(rules, places):
            found.setdefault(finding.place, finding)
    for place, rule in enumerate(rules):
        blocks = rule.hook is Hook.PRE_OUTPUT and rule.action is Verdict.BLOCK and not rule.log_only
        if blocks and rule.compiled().plain:
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
    return one.action is Verdict.BLOCK or _asked(one) == _asked(other)


def _asked(rule: RuleEntry) -> tuple[object, ...]:
    """Return the facts about the people that a rule asks, and for how long."""
    return rule.approvers, rule.approvers_among, rule.timeout
