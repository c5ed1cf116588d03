"""Configured rules: the definition of one, and the index that finds the rules that a request may concern.

The index settles selectors (hook, tool, channel, level, integrity) and remembers them per combination. So rules that
cannot match cost nothing, and rules that only select cost one lookup together. Checks of the request or the clock stay
open: a pattern in the content, a schedule, a condition. The conditions of one combination are compiled together. A rule
that cannot be evaluated blocks.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from policy.conditions.expressions import Expression
from policy.conditions.schedule import WeeklyWindow
from policy.conditions.variables import Facts, flag
from policy.decision import Remedy, RuleOutcome, Verdict
from policy.fixed import APPROVED
from policy.labels import Level
from policy.request import Hook

if TYPE_CHECKING:
    from policy.conditions.evaluation import Fused

_MEMO_ENTRIES = 4096
_MEMO_FUSED = 256
_MEMO_NAME = 200

NOT_EVALUATED: Final = "this rule could not be evaluated"
"""The message of a rule that raised an error."""


Test = Callable[[Facts, datetime], bool]
"""Say whether a rule applies to a request at a moment: a pure function, as decisions are made again and compared."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One configured rule; a selector left at its default selects everything.

    The pattern, the schedule, the condition and the test all have to hold.
    """

    id: str
    hook: Hook
    action: Verdict
    message: str = ""
    tools: tuple[str, ...] = ()
    """Globs of names of tools."""
    channels: tuple[str, ...] = ()
    """Globs of names of channels."""
    levels: frozenset[Level] = frozenset(Level)
    """The levels of taint that it concerns."""
    untrusted: bool | None = None
    """Whether it concerns UNTRUSTED taints alone or TRUSTED ones alone, None for both."""
    pattern: str | None = None
    """The pattern that must occur in the content, and that REDACT replaces."""
    schedule: WeeklyWindow | None = None
    """The times at which it is in force, None for all."""
    when: Expression | None = None
    """The condition that has to hold, None for none."""
    test: Test | None = None
    """The test of a plugin's rule, None for a rule of the file."""
    log_only: bool = False
    """Whether its verdict is only written down, and not applied."""

    @property
    def plain(self) -> bool:
        """Whether the selectors alone say if it applies."""
        return self.pattern is None and self.schedule is None and self.when is None and self.test is None

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
    """A candidate that has to look at request or clock, with its possible outcomes made beforehand."""

    pattern: str | None
    schedule: WeeklyWindow | None
    test: Test | None
    applies: RuleOutcome
    otherwise: RuleOutcome
    raised: RuleOutcome

    def outcome(self, now: datetime, facts: Facts, truth: object) -> RuleOutcome:
        """Return the rule's outcome, given the facts, the patterns found in them, and the value of its condition.

        A rule that cannot be evaluated blocks under its own name (law `fails_closed`).
        """
        if truth is False or (self.pattern is not None and self.pattern not in facts.found):
            return self.otherwise
        try:
            if self.schedule is not None and not self.schedule.holds(now):
                return self.otherwise
            if self.test is not None and truth is True:
                truth = self.test(facts, now)
                if truth is False:
                    return self.otherwise
        except Exception:  # noqa: BLE001 - the answer to any error of a schedule or a test is BLOCK
            return self.raised
        return self.applies if truth is True else self.raised


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rules that one combination of selectors leaves: outcomes already settled, and rules still open."""

    settled: tuple[RuleOutcome, ...]
    """The outcomes that the selectors alone decided."""
    verdict: Verdict
    """The strictest verdict of the settled outcomes."""
    remedies: tuple[Remedy, ...]
    """The remedies of the settled outcomes with that verdict."""
    open: tuple[OpenRule, ...]
    """The rules that still depend on the request or the clock."""
    resting: tuple[RuleOutcome, ...]
    """The outcomes of the open rules when they do not apply."""
    patterns: frozenset[str]
    """The patterns that the open rules look for."""
    redacts: bool
    """One of the open rules may replace something."""
    tests: bool
    """One of the open rules has a test of a plugin, which may look at every fact."""
    conditions: int
    """The first so many open rules have a condition, in the order of `fused`."""
    fused: "Fused | None"

    def evaluate(self, facts: Facts, now: datetime) -> tuple[list[RuleOutcome], list[tuple[OpenRule, RuleOutcome]]]:
        """Return the outcomes of the open rules, and separately the outcomes of rules that apply and may decide."""
        truths: Mapping[int, object] = {} if self.fused is None else self.fused.awake(facts)
        outcomes, awake = list(self.resting), list[tuple[OpenRule, RuleOutcome]]()
        for place in (*truths, *range(self.conditions, len(self.open))):
            outcomes[place] = self.open[place].outcome(now, facts, truths.get(place, True))
            awake.append((self.open[place], outcomes[place]))
        return outcomes, awake


def remedies(outcomes: Iterable[RuleOutcome], verdict: Verdict) -> list[Remedy]:
    """Return the remedies of the outcomes with this verdict."""
    return [remedy for outcome in outcomes if outcome.verdict is verdict for remedy in outcome.remedies]


def _applies(rule: Rule, *, approved: bool) -> RuleOutcome:
    """Return the outcome of a rule that applies; an approval lifts the demand for one and no more."""
    if rule.action is Verdict.REQUIRE_APPROVAL:
        if approved:
            return RuleOutcome(rule.id, Verdict.ALLOW, fixed=False, message=APPROVED)
        return RuleOutcome(rule.id, rule.action, fixed=False, message=rule.message, remedies=(Remedy.APPROVER,))
    return RuleOutcome(rule.id, rule.action, fixed=False, message=rule.message)


def _open(rule: Rule, *, approved: bool) -> OpenRule:
    return OpenRule(
        rule.pattern,
        rule.schedule,
        rule.test,
        applies=_applies(rule, approved=approved),
        otherwise=RuleOutcome(rule.id, Verdict.ALLOW, fixed=False),
        raised=RuleOutcome(
            rule.id,
            Verdict.BLOCK,
            fixed=False,
            message=NOT_EVALUATED,
            remedies=(Remedy.FIX_RULE,),
        ),
    )


@dataclass(frozen=True, slots=True)
class CodeRules:
    """The rules that plugins bring; `digest` names their code, so that processes with other code notice."""

    rules: tuple[Rule, ...] = ()
    digest: str = ""


class RuleIndex:
    """All configured rules, indexed by their selectors; `patterns` are the known named patterns.

    Its memos are bounded and never seen from outside.
    """

    __slots__ = ("_by_hook", "_fused", "_patterns", "_remembered", "_scanning")

    def __init__(self, rules: Iterable[Rule], patterns: Collection[str] = ()) -> None:
        ordered = sorted(rules, key=lambda rule: rule.id)
        self._by_hook = {hook: tuple(rule for rule in ordered if rule.hook is hook) for hook in Hook}
        self._patterns = tuple(patterns)
        self._scanning = frozenset(hook for hook in Hook if self._looked_for(self._by_hook[hook]))
        self._remembered = lru_cache(maxsize=_MEMO_ENTRIES)(self._select)
        self._fused = lru_cache(maxsize=_MEMO_FUSED)(self._fuse)
        if any(rule.when is not None for rule in ordered):
            # The library is loaded now, not by the first decision.
            self._fused(())

    def candidates(
        self,
        hook: Hook,
        tool: str,
        *,
        channel: str,
        level: Level,
        untrusted: bool,
        approved: bool,
    ) -> Candidates:
        """Return the candidates of this combination; unusually long names are not remembered."""
        if len(tool) > _MEMO_NAME or len(channel) > _MEMO_NAME:
            return self._select(hook, tool, channel=channel, level=level, untrusted=untrusted, approved=approved)
        return self._remembered(hook, tool, channel=channel, level=level, untrusted=untrusted, approved=approved)

    def looks_for_patterns(self, hook: Hook) -> bool:
        """Say whether any rule at a hook looks for a pattern, by name or in a condition."""
        return hook in self._scanning

    def at(self, hook: Hook) -> tuple[Rule, ...]:
        """Return the rules at a hook, none at one that there is not."""
        return self._by_hook.get(hook, ())

    def remembered(self) -> int:
        """Return how many combinations the memo holds, at most 4096."""
        return self._remembered.cache_info().currsize

    def _select(
        self,
        hook: Hook,
        tool: str,
        *,
        channel: str,
        level: Level,
        untrusted: bool,
        approved: bool,
    ) -> Candidates:
        chosen = [rule for rule in self._by_hook[hook] if rule.selects(tool, channel, level, untrusted=untrusted)]
        settled = tuple(_applies(rule, approved=approved) for rule in chosen if rule.plain)
        unsettled = sorted((rule for rule in chosen if not rule.plain), key=lambda rule: rule.when is None)
        still_open = tuple(_open(rule, approved=approved) for rule in unsettled)
        conditions = tuple(rule.when for rule in unsettled if rule.when is not None)
        verdict = max((outcome.verdict for outcome in settled), default=Verdict.ALLOW)
        return Candidates(
            settled=settled,
            verdict=verdict,
            remedies=tuple(dict.fromkeys(remedies(settled, verdict))),
            open=still_open,
            resting=tuple(rule.otherwise for rule in still_open),
            patterns=self._looked_for(unsettled),
            redacts=any(rule.action is Verdict.REDACT for rule in unsettled),
            tests=any(rule.test is not None for rule in unsettled),
            conditions=len(conditions),
            fused=self._fused(conditions) if conditions else None,
        )

    def _looked_for(self, rules: Iterable[Rule]) -> frozenset[str]:
        """Return the patterns these rules look for, by name or in a condition."""
        named = {rule.pattern for rule in rules if rule.pattern is not None}
        asked = {name for rule in rules if rule.when is not None for name, _ in rule.when.variables}
        return frozenset(named | {pattern for pattern in self._patterns if flag(pattern) in asked})

    def _fuse(self, conditions: tuple[Expression, ...]) -> "Fused":
        from policy.conditions.evaluation import Fused

        return Fused(conditions, self._patterns)
