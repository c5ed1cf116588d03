"""The engine: one pure, total function from a request and a moment to a decision.

Fixed rules come first, then the configured rules that the selectors leave. The strictest verdict wins, so the order of
rules does not matter and a configured rule can only tighten (law `deny_overrides`). The content is scanned once, as it
is written and as it is shown, and only if a candidate rule names a pattern; all conditions are evaluated together.
Nothing here acts on a decision; that is `bot/gate`'s.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from policy.conditions.variables import Facts
from policy.decision import NO_PARTS, Decision, LoggedOutcome, PolicyParts, Remedy, RuleOutcome, Verdict
from policy.document.parts import parts_of
from policy.fixed import LAWS, outgoing
from policy.labels import Label
from policy.redaction import checks
from policy.redaction.redactor import Redactor, compiled
from policy.remedies import TRIALS, taken
from policy.request import Hook, Request, Role
from policy.rules import NOT_EVALUATED, Candidates, Rule, RuleIndex, remedies

if TYPE_CHECKING:
    from policy.document.model import Document

# Verdict, outcomes, label after, remedies of the deciding rules, patterns to replace.
_Judgement = tuple[Verdict, tuple[RuleOutcome, ...], Label, tuple[Remedy, ...], tuple[str, ...]]

# Bound once: looking a member up on its class takes ten times as long as comparing with it.
_BLOCK = Verdict.BLOCK
_REQUIRE_APPROVAL = Verdict.REQUIRE_APPROVAL
_REDACT = Verdict.REDACT
_SESSION_RESET = Hook.SESSION_RESET
_PRE_OUTPUT = Hook.PRE_OUTPUT

Views = Callable[[str], Iterable[str]]
"""Return the further views that people have of a text, beside its written form."""

_ROUNDS = 4
"""The limit of rounds in which a visible text is replaced by its visible form; after that nothing of it goes on."""

_NOTHING_FOUND = frozenset[str]()

_FAILED = RuleOutcome(
    "fails_closed",
    Verdict.BLOCK,
    fixed=True,
    message="this request could not be decided",
    remedies=(Remedy.FIX_RULE,),
)


def _unread(_text: str) -> Iterable[str]:
    """Return no further view: readers see the text as it is written."""
    return ()


@dataclass(frozen=True, slots=True)
class Engine:
    """A policy in force. Build it with `build` or `from_document`; it never changes afterwards.

    `top` is the highest label of the configuration, and `digest` names the policy in every decision. The flag
    `releases` tells that a person holds the right to release, so that it is offered. `logged` are the rules that are
    `log_only`, None if there is none: they only add to `Decision.would`. `parts` are digests of parts of the policy.
    """

    top: Label
    index: RuleIndex
    redactor: Redactor
    digest: str
    releases: bool = False
    logged: RuleIndex | None = None
    parts: PolicyParts = NO_PARTS

    def decide(self, request: Request, now: datetime) -> Decision:
        """Answer one request at one moment (an aware datetime), always and without side effect.

        For a malformed request the answer is BLOCK by `fails_closed`, never an exception.
        """
        before = request.taint
        try:
            verdict, outcomes, after, proposed, redact = self._judge(request, before, now)
            offered = self._offered(proposed, request, now, verdict) if verdict >= _REQUIRE_APPROVAL else ()
        except Exception:  # noqa: BLE001 - total: an error of any kind must not open the gate
            verdict, outcomes, after, offered, redact = _BLOCK, (_FAILED,), before, _FAILED.remedies, ()
        would = () if self.logged is None else self._would(self.logged, request, now)
        return Decision(
            verdict, outcomes, before, after, offered, redact, self.digest, (), would, (request,), self.parts
        )

    def redact(self, text: str, decision: Decision, shown: Views = _unread) -> str:
        """Return the text as the decision allows it, with markers in place of the patterns it names.

        `shown` gives the views that people see of a text beside its written form. If a view still holds a pattern, the
        text is replaced by that view, without its formatting, and redacted again. So no view of the result holds a
        pattern.
        """
        if not decision.redact:
            return text
        text = self.redactor.redact(text, decision.redact)
        for _ in range(_ROUNDS):
            left = next((view for view in shown(text) if self.redactor.scan(view, decision.redact)), None)
            if left is None:
                return text
            text = self.redactor.redact(left, decision.redact)
        return self.hidden(decision)

    def hidden(self, decision: Decision) -> str:
        """Return the marker that replaces a whole text; the decision must redact something."""
        return self.redactor.marker(decision.redact[0])

    def begun(self, text: str, request: Request) -> str:
        """Return the beginning of a text without matches of the rules that may concern a request."""
        return self.redactor.redact(text, self._looked_for(request))

    def looks_inside(self, request: Request) -> bool:
        """Say whether a rule that may concern the request looks at more than its selectors, such as its content."""
        return bool(self._candidates(self.index, request, outgoing(request, request.taint)).open)

    def load(self) -> bool:
        """Load the libraries for pattern checks, if any rule needs them; return whether one does."""
        looking = any(map(self.reads_at, Hook))
        if looking:
            checks.load()
        return looking

    def scans_at(self, hook: Hook) -> bool:
        """Say whether any rule at a hook looks for a pattern."""
        return self.index.looks_for_patterns(hook)

    def reads_at(self, hook: Hook) -> bool:
        """Say whether any rule at a hook looks for a pattern, also one that is `log_only`."""
        return self.scans_at(hook) or (self.logged is not None and self.logged.looks_for_patterns(hook))

    def reads(self, request: Request) -> bool:
        """Say what `scans` says, also of rules that are `log_only`."""
        if self.scans(request):
            return True
        leaving = outgoing(request, request.taint)
        return self.logged is not None and bool(self._candidates(self.logged, request, leaving).patterns)

    def scans(self, request: Request) -> bool:
        """Say whether a rule that may concern the request looks for a pattern, in this session or an empty one."""
        return bool(self._looked_for(request))

    def finds(self, texts: Iterable[str], decision: Decision) -> bool:
        """Say whether a text holds a pattern that the decision replaces."""
        return bool(decision.redact) and any(self.redactor.scan(text, decision.redact) for text in texts)

    @classmethod
    def build(
        cls, rules: Iterable[Rule], *, top: Label, redactor: Redactor, digest: str, releases: bool = False
    ) -> "Engine":
        """Return an engine for these rules; patterns they name must be the redactor's."""
        every = tuple(rules)
        logged = [rule for rule in every if rule.log_only]
        applied = RuleIndex((rule for rule in every if not rule.log_only), redactor.names)
        return cls(top, applied, redactor, digest, releases, RuleIndex(logged, redactor.names) if logged else None)

    @classmethod
    def from_document(cls, document: "Document") -> "Engine":
        """Return the engine of a validated policy document."""
        built = cls.build(
            document.all_rules,
            top=document.top,
            redactor=compiled(*sorted(document.patterns.items())),
            digest=document.digest,
            releases=any(person.may_release for person in document.principals.values()),
        )
        return replace(built, parts=parts_of(document))

    def _offered(
        self, proposed: tuple[Remedy, ...], request: Request, now: datetime, verdict: Verdict
    ) -> tuple[Remedy, ...]:
        """Return the proposed remedies that help."""
        every = dict.fromkeys((Remedy.RESET, *proposed))
        return tuple(remedy for remedy in every if self._works(remedy, request, now, verdict))

    def _judge(self, request: Request, taint: Label, now: datetime) -> _Judgement:
        """Evaluate every rule that concerns the request, as if the session's taint were `taint`."""
        hook = request.hook
        label_after, laws = LAWS[hook]
        after = label_after(request, taint, self.top)
        leaving = outgoing(request, taint)
        candidates = self._candidates(self.index, request, leaving)
        fixed = [law(request, taint, after) for law in laws]
        opened, deciding, redact = self._open(candidates, request, leaving, now) if candidates.open else ((), (), ())
        verdict = candidates.verdict
        for outcome in (*fixed, *deciding):
            if outcome.verdict > verdict:  # noqa: PLR1730 - max() costs four times as much here
                verdict = outcome.verdict
        offered: tuple[Remedy, ...] = ()
        if verdict >= _REQUIRE_APPROVAL:
            offered = (*remedies(fixed, verdict), *remedies(deciding, verdict))
            if candidates.verdict is verdict:
                offered += candidates.remedies
        return verdict, (*fixed, *candidates.settled, *opened), taint if verdict is _BLOCK else after, offered, redact

    def _would(self, logged: RuleIndex, request: Request, now: datetime) -> tuple[LoggedOutcome, ...]:
        """Return the results of the rules that are `log_only`; an error of one is its result, and refuses nothing."""
        asked = replace(request, approved=False) if request.approved else request
        try:
            leaving = outgoing(asked, asked.taint)
            candidates = self._candidates(logged, asked, leaving)
            said = self._open(candidates, asked, leaving, now)[1] if candidates.open else ()
        except Exception:  # noqa: BLE001 - such as that of a hostile text in a pattern
            return tuple(LoggedOutcome(rule.id, Verdict.BLOCK, failed=True) for rule in logged.at(request.hook))
        return tuple(
            LoggedOutcome(outcome.rule, outcome.verdict, failed=outcome.message == NOT_EVALUATED)
            for outcome in (*candidates.settled, *said)
            if outcome.verdict is not Verdict.ALLOW
        )

    def _candidates(self, index: RuleIndex, request: Request, leaving: Label) -> Candidates:
        destination = request.destination
        return index.candidates(
            request.hook,
            "" if request.tool is None else request.tool.name,
            channel=request.channel if destination is None else destination.channel,
            level=leaving.level,
            untrusted=leaving.untrusted,
            approved=request.approved,
        )

    def _open(
        self, candidates: Candidates, request: Request, label: Label, now: datetime
    ) -> tuple[list[RuleOutcome], list[RuleOutcome], tuple[str, ...]]:
        """Evaluate the rules that look at request or clock.

        Returns: all outcomes, the outcomes of rules that apply, and the patterns to replace.
        """
        found = self._found(request, candidates.patterns) if candidates.patterns else _NOTHING_FOUND
        if candidates.tests and request.hook is _PRE_OUTPUT:
            # An output is decided again when it is sent, and then no person asks: both decide by the same facts.
            none = frozenset[str]()
            request = replace(request, asker="", asker_role=Role.STRANGER, asker_groups=none, principal_groups=none)
        outcomes, awake = candidates.evaluate(Facts(request, label, self.top, found), now)
        redact = (
            {rule.pattern for rule, said in awake if said.verdict is _REDACT and rule.pattern is not None}
            if candidates.redacts
            else ()
        )
        return outcomes, [said for _, said in awake], tuple(sorted(redact))

    def _looked_for(self, request: Request) -> frozenset[str]:
        """Return the patterns that rules look for which may concern a request, also once a remedy was taken."""
        taints = dict.fromkeys(taint for taint in (request.taint, request.fresh, request.lowered) if taint is not None)
        return frozenset[str]().union(
            *(self._candidates(self.index, request, outgoing(request, taint)).patterns for taint in taints)
        )

    def _found(self, request: Request, names: frozenset[str]) -> frozenset[str]:
        """Return which patterns occur in the content, as it is written or as it is shown."""
        found = self.redactor.scan(request.content, names)
        for view in request.shown:
            found |= self.redactor.scan(view, names)
        return found

    def _works(self, remedy: Remedy, request: Request, now: datetime, verdict: Verdict) -> bool:
        """Say whether the same request would meet a milder verdict once a remedy was taken."""
        if remedy is Remedy.RELEASE:
            return self.releases
        if remedy not in TRIALS:
            return True
        if remedy is Remedy.RESET and request.hook is _SESSION_RESET:
            return False
        again = taken(remedy, request, self.top)
        return again is not None and again != request and self._judge(again, again.taint, now)[0] < verdict
