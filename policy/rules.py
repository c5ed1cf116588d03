"""Configured rules: what one says, and the index that finds those a request may concern.

Selectors (hook, tool, channel, level, integrity) are settled by the index and remembered per
combination, so that rules which cannot match cost nothing and rules which are selectors alone cost
one lookup together. What has to look at the request itself is left open: a pattern in the content,
and conditions. A condition is any predicate of request and moment; configuration offers none yet
(CEL and schedules will compile to them). A rule that raises while being evaluated blocks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache

from policy.decision import Outcome, Remedy, Verdict
from policy.fixed import APPROVED
from policy.labels import Level
from policy.request import Hook, Request

Condition = Callable[[Request, datetime], bool]

_MEMO_ENTRIES = 4096
_MEMO_NAME = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """One configured rule; a selector left at its default selects everything.

    `tools` and `channels` are globs, `levels` the levels of taint it concerns. `pattern` names what
    has to occur in the content, and what REDACT replaces. All `conditions` have to hold.
    """

    id: str
    hook: Hook
    action: Verdict
    message: str = ""
    tools: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    levels: frozenset[Level] = frozenset(Level)
    untrusted: bool | None = None
    pattern: str | None = None
    conditions: tuple[Condition, ...] = ()

    def selects(self, tool: str, channel: str, level: Level, *, untrusted: bool) -> bool:
        """Say whether the selectors admit this combination; `tool` and `channel` are empty when there is none."""
        return (
            level in self.levels
            and (self.untrusted is None or self.untrusted is untrusted)
            and (not self.tools or any(fnmatchcase(tool, glob) for glob in self.tools))
            and (not self.channels or any(fnmatchcase(channel, glob) for glob in self.channels))
        )


@dataclass(frozen=True, slots=True)
class OpenRule:
    """A candidate that has to look at the request, with its possible outcomes made beforehand."""

    pattern: str | None
    conditions: tuple[Condition, ...]
    applies: Outcome
    otherwise: Outcome
    raised: Outcome

    def outcome(self, request: Request, now: datetime, found: frozenset[str]) -> Outcome:
        """Return what the rule says, given the patterns found in the content.

        A condition that raises blocks under the rule's name (law `fails_closed`).
        """
        if self.pattern is not None and self.pattern not in found:
            return self.otherwise
        try:
            holds = all(condition(request, now) for condition in self.conditions)
        except Exception:  # noqa: BLE001 - whatever a condition raises, the answer is BLOCK
            return self.raised
        return self.applies if holds else self.otherwise


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rules one combination of selectors leaves: outcomes already settled, and rules still open.

    `verdict` is the strictest of the settled ones and `remedies` what those of that verdict offer;
    `patterns` is what the open ones look for.
    """

    settled: tuple[Outcome, ...]
    verdict: Verdict
    remedies: tuple[Remedy, ...]
    open: tuple[OpenRule, ...]
    patterns: frozenset[str]


def remedies(outcomes: Iterable[Outcome], verdict: Verdict) -> list[Remedy]:
    """Return what the outcomes of this verdict offer."""
    return [remedy for outcome in outcomes if outcome.verdict is verdict for remedy in outcome.remedies]


def _applies(rule: Rule, *, approved: bool) -> Outcome:
    """Return the outcome of a rule that applies; an approval lifts the demand for one and no more."""
    if rule.action is Verdict.REQUIRE_APPROVAL:
        if approved:
            return Outcome(rule.id, Verdict.ALLOW, fixed=False, message=APPROVED)
        return Outcome(rule.id, rule.action, fixed=False, message=rule.message, remedies=(Remedy.APPROVER,))
    return Outcome(rule.id, rule.action, fixed=False, message=rule.message)


def _open(rule: Rule, *, approved: bool) -> OpenRule:
    return OpenRule(
        rule.pattern,
        rule.conditions,
        applies=_applies(rule, approved=approved),
        otherwise=Outcome(rule.id, Verdict.ALLOW, fixed=False),
        raised=Outcome(
            rule.id,
            Verdict.BLOCK,
            fixed=False,
            message="this rule could not be evaluated",
            remedies=(Remedy.FIX_RULE,),
        ),
    )


class RuleIndex:
    """All configured rules, by what they select. Its memo is bounded and never seen from outside."""

    __slots__ = ("_by_hook", "_remembered")

    def __init__(self, rules: Iterable[Rule]) -> None:
        ordered = sorted(rules, key=lambda rule: rule.id)
        self._by_hook = {hook: tuple(rule for rule in ordered if rule.hook is hook) for hook in Hook}
        self._remembered = lru_cache(maxsize=_MEMO_ENTRIES)(self._select)

    def candidates(
        self,
        hook: Hook,
        tool: str,
        channel: str,
        level: Level,
        untrusted: bool,  # noqa: FBT001 - positional, as the memo's key is
        approved: bool,  # noqa: FBT001 - as above
    ) -> Candidates:
        """Return what this combination leaves; unusually long names are not remembered."""
        if len(tool) > _MEMO_NAME or len(channel) > _MEMO_NAME:
            return self._select(hook, tool, channel, level, untrusted, approved)
        return self._remembered(hook, tool, channel, level, untrusted, approved)

    def remembered(self) -> int:
        """Return how many combinations the memo holds, at most 4096."""
        return self._remembered.cache_info().currsize

    def _select(
        self,
        hook: Hook,
        tool: str,
        channel: str,
        level: Level,
        untrusted: bool,  # noqa: FBT001 - as above
        approved: bool,  # noqa: FBT001 - as above
    ) -> Candidates:
        chosen = [rule for rule in self._by_hook[hook] if rule.selects(tool, channel, level, untrusted=untrusted)]
        plain = [rule for rule in chosen if rule.pattern is None and not rule.conditions]
        settled = tuple(_applies(rule, approved=approved) for rule in plain)
        still_open = [rule for rule in chosen if rule.pattern is not None or rule.conditions]
        verdict = max((outcome.verdict for outcome in settled), default=Verdict.ALLOW)
        return Candidates(
            settled,
            verdict,
            tuple(dict.fromkeys(remedies(settled, verdict))),
            tuple(_open(rule, approved=approved) for rule in still_open),
            frozenset(rule.pattern for rule in still_open if rule.pattern is not None),
        )
