"""The release of a whole call: the calls that people may be asked to release, and the binding of their answer.

A release is the exception to law `no_write_down` for one call to its tool's own sink, once. A tool offers it in its
`CallFacts.releases_to`; the engine decides whether the call waits for one (`Request.releasable`). All of this is
decided without the texts behind a call's references, since people and models see whether it is asked.
"""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from bot.access.approvals import RELEASE, asking
from bot.access.decision_context import DecisionContext
from bot.gate.results import CallDecision
from bot.sessions.approvals import Approval
from bot.sessions.consents.released_calls import CallRelease, fits
from bot.tools.arguments import as_json
from bot.tools.base import Arguments, CallFacts, Tool
from bot.tools.references import definition_digest
from policy.decision import Decision, Verdict
from policy.request import ToolFacts


def offer(declared: CallFacts, facts: ToolFacts) -> CallRelease | None:
    """Return the sink that a call could be released to; None where its tool offers none, or the clearance is unknown.

    A call that sends a text to an address offers none: `/release` is for texts.
    """
    elsewhere = declared.says is not None or declared.tells is not None
    if not declared.releases_to or elsewhere or facts.clearance is None:
        return None
    return CallRelease(declared.releases_to, facts.clearance)


def may_begin(
    standing: DecisionContext, made: CallDecision, arguments: Arguments, given: Mapping[str, JsonValue]
) -> bool:
    """Say whether a call may be offered for release, as far as its session and its arguments tell.

    The tool has to get the arguments as people are shown them, not in another form of the same value. Where the store
    lost events, a released call may have been made already. A call with references waits as a whole only if people were
    asked openly.
    """
    if as_json(arguments, given=True) != given:
        return False
    if made.open is not None:
        return made.release is not None
    return made.begun or not standing.truncated


def bound(tool: Tool, offered: CallRelease | None) -> tuple[str, ...]:
    """Return the facts that bind an approval beside the call: the tool's declaration, the sink and its clearance."""
    return () if offered is None else (definition_digest(tool), offered.sink, str(offered.clearance))


def released(approval: Approval) -> str:
    """Return the person who released a call, empty for an approval that releases nothing."""
    return approval.resolved_by if RELEASE in approval.rules else ""


def concerns(decision: Decision, by: str) -> bool:
    """Say whether a call waits for a release, or was released `by` a person."""
    return bool(by) or RELEASE in asking(decision)


def marked(made: CallDecision, offered: CallRelease | None, decision: Decision) -> CallDecision:
    """Return a call with the sink of its release, if it waits for one or has one."""
    release = offered if concerns(decision, made.released) else None
    return made if made.release is release else replace(made, release=release)


def possible(made: CallDecision, decision: Decision) -> bool:
    """Say whether a release would let exactly the shown call run, and people can be shown it whole.

    A rule that replaces parts of it would make it another call.
    """
    if decision.verdict is Verdict.BLOCK or decision.redact:
        return False
    return fits(made.call.tool, made.call.arguments or {})
