"""Approvals: the binding of a question to people, the people who may answer it, and when an answer counts.

An approval lifts laws `untrusted_cannot_command`, `endorsed_cannot_steer` and `others_cannot_command`, the fixed rule
`standing_work_is_approved` and configured rules, nothing else; the engine ensures that. Law `no_write_down` is lifted
by the same answer where the call is offered for release, and only by people who may release. This module has the
binding to exact arguments, to the meaning of the names in them, to label and principal, and the eligibility of people.
Silence never consents: an approval without an answer in time is expired.
"""

import hashlib
import json
from dataclasses import replace
from typing import Final

from bot.access import labelling, principals
from bot.access.authorize import at_least
from bot.access.decision_context import Call, DecisionContext
from bot.sessions.approvals import FOR_EVER, Approval, ApprovalState
from bot.sessions.background.runs import UNREAD
from bot.sessions.log.events import DeferredResult
from policy.decision import Decision, Verdict
from policy.document.model import Document
from policy.document.programs import is_program
from policy.fixed import OUTCOME
from policy.labels import Label
from policy.request import Role

ANSWER: Final = "answer"
"""Stands for the tool when an answer itself needs an approval."""

DENIED: Final = "a person refused this call"
UNANSWERED: Final = "nobody answered in time, so this call was not made"
"""The results of a call that people did not approve."""

OTHERS: Final = "others_cannot_command"
"""The rule about words of other people than the asker: none of these people may lift it."""

RELEASE: Final = "no_write_down"
"""The rule about labels above a sink: only people who may release lift it, for one whole call."""

_SELF: Final = frozenset(
    {"untrusted_cannot_command", "endorsed_cannot_steer", OTHERS, "standing_work_is_approved", OUTCOME, RELEASE}
)
"""The fixed rules that askers may lift for themselves; a configured rule needs another person."""


_GRANTABLE: Final = frozenset({"untrusted_cannot_command", "endorsed_cannot_steer", OTHERS})
"""The fixed rules that a grant may lift for further calls; a configured rule has to say so itself."""


def binding(
    standing: DecisionContext, call: Call, refers: tuple[DeferredResult, ...] = (), leads: tuple[str, ...] = ()
) -> str:
    """Return the digest that an approval for this call is bound to.

    Another argument, a changed taint, another principal, session or generation gives another digest. So does another
    content or label of an item that the call refers to. `leads` are the meanings of the recipients that it names, and
    the sink that it could be released to: people who approve a name approve the place and the person.
    """
    parts = [
        standing.sid,
        str(standing.generation),
        standing.principal,
        standing.asker,
        *sorted(standing.others),
        str(standing.taint),
        call.tool,
        call.digest,
        *(f"{held.ref} {held.label} {held.digest}" for held in refers),
        *leads,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def live(
    document: Document, approvals: tuple[Approval, ...], *, bound: str, call: str, asked: tuple[str, ...], now: int
) -> Approval | None:
    """Return the approval that lifts a call: bound to it and in time.

    It must have been given for every rule in `asked`, by a person who may still give it. The policy in force decides
    that, not the one it was given under (law `deny_overrides`). An approval that was already spent counts for the same
    call that spent it, so that a crash between the decision and the result does not ask people twice. It does not count
    if that call's outcome is unknown: people must know that it may have taken effect.

    Args:
        document: The policy in force.
        approvals: The approvals of the session.
        bound: The binding of the call.
        call: The id of the call.
        asked: The rules that ask now.
        now: The time, in milliseconds on the store's clock.
    """
    counts = {ApprovalState.APPROVED} if OUTCOME in asked else {ApprovalState.APPROVED, ApprovalState.USED}
    for approval in approvals:
        if approval.binding != bound or approval.call != call or not set(asked).issubset(approval.rules):
            continue
        if not may_answer(document, approval, approval.resolved_by):
            continue
        if approval.state in counts and (approval.state is ApprovalState.USED or now < approval.expires_at):
            return approval
    return None


def to_spend(approval: Approval | None) -> str | None:
    """Return the id of an approval that its use will spend, None if there is none or it is spent already."""
    return approval.id if approval is not None and approval.state is ApprovalState.APPROVED else None


def may_be_granted(document: Document, rules: tuple[str, ...]) -> bool:
    """Say whether people may answer for all these rules for further calls, by the policy in force.

    Work that goes on after its turn is approved each time: else a grant would reach it by another way.
    """
    return bool(rules) and all(rule in _GRANTABLE or document.may_be_granted(rule) for rule in rules)


def entitled(
    document: Document, approval: Approval, asked: tuple[str, ...], *, standing: DecisionContext, label: Label
) -> bool:
    """Say whether a grant may be used for a call now: by its asker, and given by a person who could answer now.

    Args:
        document: The policy in force.
        approval: The approval that the grant was given with.
        asked: The rules that ask now.
        standing: The session, with the present authors of its context.
        label: The label of the call's session and references.
    """
    return standing.asker == approval.principal and _may_answer(
        document, asked, approval.principal, label=label, principal=approval.resolved_by, others=standing.others
    )


def withheld(approvals: tuple[Approval, ...], bound: str, call: str) -> bool:
    """Say whether people were asked about a call without being shown the text behind its references."""
    return any(one.question.withheld for one in approvals if (one.binding, one.call) == (bound, call))


def may_answer(document: Document, approval: Approval, principal: str) -> bool:
    """Say whether a principal may answer: entitled by role and rule, and cleared for the shown facts.

    Only the asker of a background session may answer its approvals. An agent's question is not an approval, so no
    principal may answer it here.
    """
    if approval.is_question or (approval.alone and principal != approval.principal):
        return False
    others = frozenset(approval.question.authors)
    return _may_answer(
        document, approval.rules, approval.principal, label=approval.label, principal=principal, others=others
    )


def may_approve(document: Document, label: Label, principal: str) -> bool:
    """Say whether a principal may approve another person's call in a session of this taint, where any one rule asks."""
    yours = (one.id for one in document.all_rules if one.action is Verdict.REQUIRE_APPROVAL and not one.log_only)
    return any(
        _may_answer(document, (asked,), "", label=label, principal=principal, others=frozenset())
        for asked in ("untrusted_cannot_command", *yours)
    )


def anybody_may_answer(document: Document, approval: Approval) -> bool:
    """Say whether there is a principal who may answer."""
    return any(may_answer(document, approval, principal) for principal in document.principals)


def may_reply(question: Approval, principal: str) -> bool:
    """Say whether a principal may answer an agent's question: only the principal of its turn may."""
    return question.is_question and principal == question.principal


def decides_for(document: Document, whose: str, person: str) -> bool:
    """Say whether a person decides for a principal: on the skills in force, and on gates.

    People decide for themselves; for a chat an admin does.
    """
    known = document.principals.get(person)
    if known is None:
        return False
    return at_least(known.role, Role.ADMIN if principals.is_chat(whose) else Role.MEMBER) and (
        whose == person or principals.is_chat(whose)
    )


def may_withdraw(approval: Approval, principal: str) -> bool:
    """Say whether a principal may withdraw their own request: a refusal grants nothing."""
    return principal == approval.principal


def answering(document: Document, rules: tuple[str, ...]) -> tuple[Role, ...]:
    """Return the roles that let a person other than the asker answer for all of these rules."""
    return tuple(role for role in Role if all(_satisfies(document, rule, role, own=False) for rule in rules))


def put_to(document: Document, decision: Decision, standing: DecisionContext) -> Decision:
    """Return a decision that asks people with the roles that may answer, unless the asker may."""
    rules = asking(decision)
    if decision.verdict is not Verdict.REQUIRE_APPROVAL or _may_answer(
        document, rules, standing.asker, label=standing.taint, principal=standing.asker, others=standing.others
    ):
        return decision
    return replace(decision, approvers=answering(document, rules))


def someone_may_answer(document: Document, decision: Decision, standing: DecisionContext) -> bool:
    """Say whether any person could answer; if none could, the verdict is BLOCK.

    The home of a background session or run has no readers: only its asker is asked, in a private chat that is cleared
    for it.
    """
    rules = asking(decision)
    if standing.home.channel in UNREAD:
        places = labelling.private_places(document, standing.asker, standing.taint)
        return bool(places) and _may_answer(
            document, rules, standing.asker, label=standing.taint, principal=standing.asker, others=standing.others
        )
    return any(
        _may_answer(document, rules, standing.asker, label=standing.taint, principal=principal, others=standing.others)
        for principal in document.principals
    )


def asking(decision: Decision) -> tuple[str, ...]:
    """Return the rules that ask for an approval."""
    return tuple(outcome.rule for outcome in decision.outcomes if outcome.verdict is Verdict.REQUIRE_APPROVAL)


def until(document: Document, rules: tuple[str, ...], now: int, longest: int | None) -> int:
    """Return when a question by these rules expires: after the shortest of their times, or after `longest`.

    Times are in milliseconds; `longest` is None for a question that waits for ever.
    """
    entries = (document.rule(rule) for rule in rules)
    times = [entry.timeout * 1000 for entry in entries if entry is not None and entry.timeout is not None]
    life = min(times, default=longest)
    return FOR_EVER if life is None else now + life


def _may_answer(
    document: Document, rules: tuple[str, ...], asker: str, *, label: Label, principal: str, others: frozenset[str]
) -> bool:
    """Say whether a person satisfies all rules that ask, and is cleared for the label in question.

    A person whose words may have caused the request does not answer for them, under any of their accounts. A program
    consents to nothing, for itself or for others, unless its token has the scope `admin` (ADR 0041).
    """
    person = document.principals.get(principal)
    if person is None or not rules or not label.flows_to(person.clearance):
        return False
    theirs = not others.isdisjoint({principal, *person.accounts})
    if principal != asker and theirs and not {OTHERS, RELEASE}.isdisjoint(rules):
        return False
    if RELEASE in rules and not person.may_release:
        return False
    if is_program(principal) and not at_least(person.role, Role.ADMIN):
        return False
    return all(
        _satisfies(document, rule, person.role, own=principal == asker) and document.is_among_approvers(rule, principal)
        for rule in rules
    )


def _satisfies(document: Document, rule: str, role: Role, *, own: bool) -> bool:
    """Say whether a role may answer for one rule; for a rule that is not in force any more, no role may."""
    if rule in _SELF:
        return own or at_least(role, Role.APPROVER)
    return not own and role in document.approvers(rule)
