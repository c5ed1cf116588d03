"""The engine's answer: a verdict with every rule behind it, the resulting label, and remedies.

A decision is never a boolean: `Verdict` has no truth value, so that `if verdict:` cannot be written.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final, NoReturn

from policy.labels import Label
from policy.request import Request, Role


class Verdict(IntEnum):
    """The four answers; the strictest wins, so `max` combines them."""

    ALLOW = 0
    REDACT = 1
    REQUIRE_APPROVAL = 2
    BLOCK = 3

    def __bool__(self) -> NoReturn:
        """Refuse to be a truth value.

        Raises TypeError: always.
        """
        raise TypeError("a verdict is not a boolean, compare it with Verdict.ALLOW or another member")


_WOULD: Final = MappingProxyType(
    {
        Verdict.ALLOW: "would_allow",
        Verdict.REDACT: "would_redact",
        Verdict.REQUIRE_APPROVAL: "would_ask",
        Verdict.BLOCK: "would_refuse",
    }
)


class Remedy(StrEnum):
    """A step that works and that the reader of a denial can take; `policy.explain` puts it into words."""

    RESET = "reset"
    CONFIRM = "confirm"
    APPROVER = "approver"
    RELEASE = "release"
    OTHER_DESTINATION = "other_destination"
    PRIVATE_CHAT = "private_chat"
    ALONE = "alone"
    OTHER_MODEL = "other_model"
    RECLASSIFY = "reclassify"
    CLEAR_READER = "clear_reader"
    VOUCH = "vouch"
    CLASSIFY_LOWER = "classify_lower"
    DECLARE_TOOL = "declare_tool"
    GRANT_SECRET = "grant_secret"
    GRANT_TOOL = "grant_tool"
    BOUND_TOOL = "bound_tool"
    BOUND_ENTRY = "bound_entry"
    FIX_RULE = "fix_rule"


OTHER_WAYS: Final = frozenset(
    {
        Remedy.RELEASE,
        Remedy.FIX_RULE,
        Remedy.DECLARE_TOOL,
        Remedy.GRANT_SECRET,
        Remedy.GRANT_TOOL,
        Remedy.BOUND_TOOL,
        Remedy.BOUND_ENTRY,
    }
)
"""Remedies that do not make the same request again, or that an operator carries out in the configuration."""


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """One rule's result: its verdict, and the reason in one sentence without labels that the reader may not know."""

    rule: str
    verdict: Verdict
    fixed: bool
    message: str = ""
    remedies: tuple[Remedy, ...] = ()
    """The steps that the rule itself proposes against its verdict; the decision keeps those of the deciding rules."""


@dataclass(frozen=True, slots=True)
class PolicyParts:
    """Short digests of parts of a policy.

    `rules` is that of the configured rules, `places` that of everything but rules and models, and `labels` that of the
    labels that data get when they are read.
    """

    rules: str
    places: str
    labels: str


NO_PARTS: Final = PolicyParts("", "", "")
"""The digests of an engine that was not made of a document."""


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """The result of a rule that is `log_only`: its verdict if it were applied, or that it `failed`."""

    rule: str
    verdict: Verdict
    failed: bool = False

    @property
    def word(self) -> str:
        """The result in one word, for the audit, traces and metrics."""
        return "error" if self.failed else _WOULD[self.verdict]


@dataclass(frozen=True, slots=True)
class Decision:
    """The engine's answer."""

    verdict: Verdict
    outcomes: tuple[RuleOutcome, ...]
    """Every evaluated rule, fixed rules first."""
    label_before: Label
    """The session's taint."""
    label_after: Label
    """The taint that the session would have if the request went through."""
    remedies: tuple[Remedy, ...] = ()
    """Empty unless the verdict stops the request."""
    redact: tuple[str, ...] = ()
    """The patterns to replace before the content goes on."""
    policy: str = ""
    """The digest of the policy that decided."""
    approvers: tuple[Role, ...] = ()
    """Roles: a person other than the asker who has one of them must approve.

    Empty where the asker may approve, or no approval is needed.
    """
    would: tuple[LoggedOutcome, ...] = ()
    """The rules that are `log_only` and would not simply allow; nothing but the operator's records may depend on it."""
    requests: tuple[Request, ...] = field(default=(), compare=False, repr=False)
    """The requests that it answers, none where no rule was asked."""
    parts: PolicyParts = field(default=NO_PARTS, compare=False, repr=False)
    """The digests of parts of the policy that decided."""

    @property
    def rules(self) -> tuple[str, ...]:
        """The ids of the rules that did not simply allow, strictest first."""
        telling = [outcome for outcome in self.outcomes if outcome.verdict is not Verdict.ALLOW]
        return tuple(outcome.rule for outcome in sorted(telling, key=lambda outcome: -outcome.verdict))


def combined(first: Decision, second: Decision) -> Decision:
    """Return the decision on a request that crosses two hooks: the stricter verdict, with the rules of both.

    The labels are the first's, as the second crossing reads nothing; a BLOCK by either changes no label. A
    rule that speaks at both is reported once, where it is stricter. Remedies are those of the deciding
    crossing; if both decide, only those that help at both, and those that go another way than this request.
    """
    verdict = max(first.verdict, second.verdict)
    deciding = [decision for decision in (first, second) if decision.verdict is verdict]
    offered = dict.fromkeys(remedy for decision in deciding for remedy in decision.remedies)
    before = {outcome.rule: outcome.verdict for outcome in first.outcomes}
    after = {outcome.rule: outcome.verdict for outcome in second.outcomes}
    kept = [outcome for outcome in first.outcomes if outcome.verdict >= after.get(outcome.rule, Verdict.ALLOW)]
    added = [out for out in second.outcomes if out.rule not in before or out.verdict > before[out.rule]]
    return Decision(
        verdict=verdict,
        outcomes=(*kept, *added),
        label_before=first.label_before,
        label_after=first.label_before if verdict is Verdict.BLOCK else first.label_after,
        remedies=tuple(
            remedy
            for remedy in offered
            if remedy in OTHER_WAYS or all(remedy in decision.remedies for decision in deciding)
        ),
        redact=tuple(dict.fromkeys((*first.redact, *second.redact))),
        policy=first.policy,
        would=_each_once((*first.would, *second.would)),
        requests=(*first.requests, *second.requests),
        parts=first.parts,
    )


def _each_once(would: tuple[LoggedOutcome, ...]) -> tuple[LoggedOutcome, ...]:
    """Return the results of rules, one for each rule: the stricter of two, and a failure before that."""
    strictest = dict[str, LoggedOutcome]()
    for one in would:
        known = strictest.setdefault(one.rule, one)
        if (one.failed, one.verdict) > (known.failed, known.verdict):
            strictest[one.rule] = one
    return tuple(strictest.values())
