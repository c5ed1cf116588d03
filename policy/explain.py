"""A decision in words for one reader, and in JSON's terms for a program.

Labels appear only if they flow to the reader's clearance; otherwise a constant phrase replaces them. Rules' messages
hold no labels of the session. The output names no content.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from policy.decision import Decision, Remedy, RuleOutcome, Verdict
from policy.labels import Label
from policy.request import Role

ABOVE: Final = "more than may be told here"

REST: Final = "`/why` tells the other rules and remedies."
"""The last line of a brief explanation that leaves some out."""

REST_SHARED: Final = "`/why`, typed in the shared chat, tells the other rules and remedies."
"""That line where it may be read in another chat, such as a private one, whose `/why` tells other refusals."""

_CONSONANTS: Final = frozenset({Role.MEMBER, Role.GUEST, Role.STRANGER})

_VERDICTS: Final[Mapping[Verdict, str]] = MappingProxyType(
    {
        Verdict.ALLOW: "Allowed",
        Verdict.REDACT: "Allowed with parts replaced",
        Verdict.REQUIRE_APPROVAL: "Needs an approval",
        Verdict.BLOCK: "Refused",
    }
)
_REMEDIES: Final[Mapping[Remedy, str]] = MappingProxyType(
    {
        Remedy.RESET: "start anew with `/reset` and send it again: a session that has read nothing may do this",
        Remedy.CONFIRM: "confirm it: type `/reset confirm`",
        Remedy.APPROVER: "have it approved: `/approvals` lists waiting calls, `/approve` answers one",
        Remedy.RELEASE: "have the agent say it here; a permitted person then releases it: `/release last to RECIPIENT`",
        Remedy.PRIVATE_CHAT: "ask in a chat whose readers are all cleared for it, such as a private chat with this bot",
        Remedy.ALONE: "ask where nobody else has spoken: in a thread of your own, or in private with this bot",
        Remedy.OTHER_DESTINATION: "choose a destination cleared for it",
        Remedy.OTHER_MODEL: "choose a model whose provider is cleared for it: an admin sets `model` in config.yaml",
        Remedy.RECLASSIFY: "ask an admin to raise the clearance concerned: `/classify`, or `policy` in config.yaml",
        Remedy.CLEAR_READER: "ask an admin to raise the clearance of the reader there: `/allow NAME LABEL`, or"
        " `policy.principals` in config.yaml",
        Remedy.VOUCH: "ask an admin to vouch for the members of that chat: `/classify CHAT vouch`",
        Remedy.CLASSIFY_LOWER: "ask an admin to classify this chat for its readers with `/classify LEVEL`, then start"
        " anew with `/reset`",
        Remedy.DECLARE_TOOL: "ask an admin to declare the tool's labels under `policy.tools` in config.yaml",
        Remedy.GRANT_SECRET: "ask an admin to name the tool and the host under `secrets` in config.yaml",
        Remedy.GRANT_TOOL: "ask an admin to name your role under `policy.tools` in config.yaml",
        Remedy.BOUND_TOOL: "ask an admin to bound that argument under `policy.tools` in config.yaml",
        Remedy.BOUND_ENTRY: "ask an admin to list `KIND-unheard` in the tool's `bounds` under `policy.tools` in"
        " config.yaml",
        Remedy.FIX_RULE: "ask an admin to mend the rule named above in config.yaml, `lockgate check` tests it",
    }
)


_RESET_OF_HELD: Final = "start anew with `/reset` and ask for all of it again, as a reset ends all held results"
"""The words for a reset where the call refers to a held result."""


def shown(label: Label, reader: Label) -> str:
    """Return a label as a reader with this clearance may see it."""
    return str(label) if label.flows_to(reader) else ABOVE


def remedy(offered: Remedy, approvers: Collection[Role] = ()) -> str:
    """Return a remedy as a sentence that names the step; `approvers` are as in `Decision`."""
    if offered is Remedy.APPROVER and approvers:
        return f"have another person approve it: {people(approvers)}"
    return _REMEDIES[offered]


def people(roles: Collection[Role]) -> str:
    """Return roles as one person of any of them: `an owner, an admin or an approver`."""
    named = [f"{'a' if role in _CONSONANTS else 'an'} {role}" for role in roles]
    return " or ".join(filter(None, (", ".join(named[:-1]), *named[-1:])))


@dataclass(frozen=True, slots=True)
class LabelWording:
    """The words for the labels of a decision."""

    before: str
    """The subject that has the label before."""
    after: str
    """The subject that has the label after."""


SESSION: Final = LabelWording("This session has read", "It would then have read")
"""The labels are those of a session."""


def render(
    decision: Decision, reader: Label, *, subject: str, told: LabelWording = SESSION, rest: str = ""
) -> tuple[str, ...]:
    """Return the lines that explain a decision about `subject` to a reader with this clearance.

    Args:
        decision: the decision.
        reader: the clearance of the reader; a label above it is not shown.
        subject: the name of the call, command or message that was decided about.
        told: the words for the labels before and after.
        rest: the last line of a brief explanation, which leaves all but the strictest rule and the first remedy to
            `/why`; empty for the whole explanation.

    Returns:
        The verdict, each rule that did not simply allow, the labels, and the remedies, a sentence each.
    """
    lines = [f"{_VERDICTS[decision.verdict]}: {subject}."]
    telling = [outcome for outcome in decision.outcomes if outcome.verdict is not Verdict.ALLOW or outcome.message]
    telling.sort(key=lambda outcome: -outcome.verdict)
    rules = [_rule(outcome) for outcome in telling]
    remedies = [f"You can: {_step(offered, decision)}." for offered in decision.remedies]
    most = 1 if rest else None
    lines += rules[:most]
    before, after = shown(decision.label_before, reader), shown(decision.label_after, reader)
    lines.append(f"{told.before}: {before}.")
    if after != before:  # as shown, so that a change above the reader does not show either
        lines.append(f"{told.after}: {after}.")
    if decision.redact:
        lines.append(f"Replaced: {', '.join(decision.redact)}.")
    lines += remedies[:most]
    if rest and (len(rules) > 1 or len(remedies) > 1):
        lines.append(rest)
    return tuple(lines)


def _step(offered: Remedy, decision: Decision) -> str:
    refers = any(one.entry is not None or one.unvouched or one.quotes for one in decision.requests)
    return _RESET_OF_HELD if offered is Remedy.RESET and refers else remedy(offered, decision.approvers)


def _rule(outcome: RuleOutcome) -> str:
    told = outcome.message or _VERDICTS[outcome.verdict].lower()
    return f"Rule `{outcome.rule}`: {told.removesuffix('.')}."


def as_dict(decision: Decision, reader: Label) -> dict[str, object]:
    """Return a decision in JSON's terms, with every rule evaluated, for a reader with this clearance."""
    return {
        "verdict": decision.verdict.name,
        "rules": [
            {
                "id": outcome.rule,
                "verdict": outcome.verdict.name,
                "fixed": outcome.fixed,
                "message": outcome.message,
            }
            for outcome in decision.outcomes
        ],
        "taint_before": shown(decision.label_before, reader),
        "taint_after": shown(decision.label_after, reader),
        "remedies": [offered.value for offered in decision.remedies],
        "approvers": [role.value for role in decision.approvers],
        "redact": list(decision.redact),
        "policy": decision.policy,
    }
