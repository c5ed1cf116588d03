"""A decision in words for one reader, and in JSON's terms for a program.

Labels appear only as far as they flow to the reader's clearance; otherwise a constant phrase stands
in their place. Rules' messages hold no labels of the session. What is said names no content.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from policy.decision import Decision, Remedy, Verdict
from policy.labels import Label
from policy.request import Role

ABOVE: Final = "more than may be told here"

_CONSONANTS: Final = frozenset({Role.MEMBER, Role.GUEST, Role.STRANGER})

_VERDICTS: Final[Mapping[Verdict, str]] = MappingProxyType(
    {
        Verdict.ALLOW: "allowed",
        Verdict.REDACT: "allowed with parts replaced",
        Verdict.REQUIRE_APPROVAL: "needs an approval",
        Verdict.BLOCK: "refused",
    }
)
_REMEDIES: Final[Mapping[Remedy, str]] = MappingProxyType(
    {
        Remedy.RESET: "start anew with `/reset` and send it again: a session that has read nothing may do this",
        Remedy.CONFIRM: "confirm it: type `/reset confirm`",
        Remedy.APPROVER: "have it approved: `/approvals` lists what waits, `/approve` answers",
        Remedy.RELEASE: "have the agent say it here, and somebody who may releases it: `/release last to RECIPIENT`",
        Remedy.PRIVATE_CHAT: "ask for it where only those read who may know it, such as a private chat with this bot",
        Remedy.ALONE: "ask for it where you alone have spoken: in a thread of your own, or in private with this bot",
        Remedy.OTHER_DESTINATION: "choose a destination cleared for it",
        Remedy.OTHER_MODEL: "choose a model whose provider is cleared for it: an admin sets `model` in config.yaml",
        Remedy.RECLASSIFY: "ask an admin to raise the clearance concerned: `/classify`, or `policy` in config.yaml",
        Remedy.CLEAR_READER: "ask an admin to raise the clearance of the person who reads there: `/allow NAME LABEL`"
        " for one who was let in, else `policy.principals` in config.yaml",
        Remedy.VOUCH: "ask an admin to answer for the members of that chat: `/classify CHAT vouch`",
        Remedy.CLASSIFY_LOWER: "ask an admin to classify this chat for the people who read here, then start anew with"
        " `/reset`: `/classify LEVEL`",
        Remedy.DECLARE_TOOL: "ask an admin to declare the tool's labels under `policy.tools` in config.yaml",
        Remedy.GRANT_SECRET: "ask an admin to name the tool and the host under `secrets` in config.yaml",
        Remedy.GRANT_TOOL: "ask an admin to name your role under `policy.tools` in config.yaml",
        Remedy.FIX_RULE: "ask an admin to mend the rule named above in config.yaml, `lockgate check` tests it",
    }
)


def shown(label: Label, reader: Label) -> str:
    """Return a label as a reader with this clearance may see it."""
    return str(label) if label.flows_to(reader) else ABOVE


def remedy(offered: Remedy, approvers: Collection[Role] = ()) -> str:
    """Return a remedy as a sentence that tells what to do; `approvers` are as `Decision` has them."""
    if offered is Remedy.APPROVER and approvers:
        return f"have another person approve it: {people(approvers)}"
    return _REMEDIES[offered]


def people(roles: Collection[Role]) -> str:
    """Return roles as one person of any of them: `an owner, an admin or an approver`."""
    named = [f"{'a' if role in _CONSONANTS else 'an'} {role}" for role in roles]
    return " or ".join(filter(None, (", ".join(named[:-1]), *named[-1:])))


@dataclass(frozen=True, slots=True)
class LabelWording:
    """Of what the labels of a decision are told: `before` names what has the one, `after` what the other."""

    before: str
    after: str


SESSION: Final = LabelWording("this session has read", "it would then have read")
"""The labels are those of a session."""


def render(decision: Decision, reader: Label, *, subject: str, told: LabelWording = SESSION) -> tuple[str, ...]:
    """Return the lines that tell a reader with this clearance what was decided about `subject`.

    First the verdict, then each rule that did not simply allow, the labels as `told` names them, and what can be done.
    """
    lines = [f"{subject}: {_VERDICTS[decision.verdict]}"]
    telling = [outcome for outcome in decision.outcomes if outcome.verdict is not Verdict.ALLOW or outcome.message]
    lines += [
        f"rule `{outcome.rule}`: {outcome.message or _VERDICTS[outcome.verdict]}"
        for outcome in sorted(telling, key=lambda outcome: -outcome.verdict)
    ]
    before, after = shown(decision.label_before, reader), shown(decision.label_after, reader)
    lines.append(f"{told.before}: {before}")
    if after != before:  # as shown, so that a change above the reader does not show either
        lines.append(f"{told.after}: {after}")
    if decision.redact:
        lines.append(f"replaced: {', '.join(decision.redact)}")
    lines += [f"you can: {remedy(offered, decision.approvers)}" for offered in decision.remedies]
    return tuple(lines)


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
