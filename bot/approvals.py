"""Approvals: what a question to people is bound to, who may answer it, and when an answer counts.

An approval lifts law `untrusted_cannot_command` and configured rules, never another fixed rule; the
engine sees to that. Here: the binding to exact arguments, label and principal, and eligibility. Silence
never consents: an approval nobody answered in time is expired.
"""

import hashlib
import json
from typing import Final

from bot.authorize import at_least
from bot.sessions.values import Approval, ApprovalState
from bot.standing import Call, Standing
from policy.decision import Decision, Verdict
from policy.document import Document
from policy.labels import Label
from policy.request import Role

ANSWER: Final = "answer"
"""What stands in a tool's place when an answer itself needs an approval."""

_SELF: Final = frozenset({"untrusted_cannot_command"})
"""Fixed rules that the asker may lift for himself (SPEC B, approvals); a configured rule needs somebody else."""


def binding(standing: Standing, call: Call) -> str:
    """Return the digest of what an approval for this call is bound to.

    Another argument, a changed taint, another principal, session or generation gives another digest.
    """
    parts = [
        standing.sid,
        str(standing.generation),
        standing.principal,
        str(standing.taint),
        call.tool,
        call.digest,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def live(approvals: tuple[Approval, ...], bound: str, call: str, now: int) -> Approval | None:
    """Return the approval that lifts a call: approved, in time, bound to it.

    One that was already spent counts for the very call that spent it, so that a crash between the
    decision and the result does not ask people twice.
    """
    for approval in approvals:
        if approval.binding != bound or approval.call != call:
            continue
        if approval.state is ApprovalState.USED or (
            approval.state is ApprovalState.APPROVED and now < approval.expires_at
        ):
            return approval
    return None


def to_spend(approval: Approval | None) -> str | None:
    """Return the id of an approval that its use will spend, None if there is none or it is spent already."""
    return approval.id if approval is not None and approval.state is ApprovalState.APPROVED else None


def may_answer(document: Document, approval: Approval, principal: str) -> bool:
    """Say whether a principal may answer: entitled by role and rule, and cleared for the complete arguments."""
    return _may_answer(document, approval.rules, approval.principal, approval.label, principal)


def someone_may_answer(document: Document, decision: Decision, standing: Standing) -> bool:
    """Say whether anybody at all could answer; nobody eligible means BLOCK (SPEC B, approvals)."""
    rules = asking(decision)
    return any(
        _may_answer(document, rules, standing.principal, standing.taint, principal) for principal in document.principals
    )


def asking(decision: Decision) -> tuple[str, ...]:
    """Return the rules that ask for an approval."""
    return tuple(outcome.rule for outcome in decision.outcomes if outcome.verdict is Verdict.REQUIRE_APPROVAL)


def _may_answer(document: Document, rules: tuple[str, ...], asker: str, label: Label, principal: str) -> bool:
    person = document.principals.get(principal)
    if person is None or not label.flows_to(person.clearance):
        return False
    if principal == asker:
        return _SELF.issuperset(rules)
    return at_least(person.role, Role.APPROVER)
