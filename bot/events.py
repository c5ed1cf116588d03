"""The events a turn writes, one function each, so that every writer labels and marks them alike.

What entered the context is `admitted` and carries the label of its content; what only tells of a decision
carries the session's taint, which is what its reader must be cleared for.
"""

from pydantic import JsonValue

from bot.sessions.values import Approval, Event, EventType, NewEvent, Visibility
from bot.standing import Call, Standing
from policy.decision import Decision, Verdict
from policy.labels import Label
from policy.request import Hook


def turn_started(standing: Standing, attempt: int) -> NewEvent:
    """Tell that a turn began."""
    return _told(standing, EventType.TURN_STARTED, "worker", {"attempt": attempt})


def turn_completed(standing: Standing, reason: str) -> NewEvent:
    """Tell how a turn ended."""
    return _told(standing, EventType.TURN_COMPLETED, "worker", {"reason": reason})


def user_message(standing: Standing, sender: str, text: str, label: Label) -> NewEvent:
    """Admit what a person said."""
    return _admitted(standing, EventType.USER_MESSAGE, sender, {"text": text}, label, Visibility.USER)


def agent_message(standing: Standing, text: str, *, said: bool) -> NewEvent:
    """Admit an answer; `said` is false for one that was withheld, which only operators see."""
    visibility = Visibility.USER if said else Visibility.INTERNAL
    return _admitted(standing, EventType.AGENT_MESSAGE, "agent", {"text": text}, standing.taint, visibility)


def thinking(standing: Standing, body: dict[str, JsonValue]) -> NewEvent:
    """Admit a model's response that is not an answer yet."""
    return _admitted(standing, EventType.AGENT_THINKING, "agent", body, standing.taint, Visibility.INTERNAL)


def tool_call(standing: Standing, call: Call) -> NewEvent:
    """Tell that a call was decided; it stands in the log before the call runs."""
    arguments = None if call.arguments is None else dict(call.arguments)
    body: dict[str, JsonValue] = {"call": call.id, "tool": call.tool, "arguments": arguments}
    return _told(standing, EventType.TOOL_CALL, "agent", body)


def tool_result(standing: Standing, call: str, tool: str, text: str, outcome: str, label: Label) -> NewEvent:
    """Admit a call's result; `outcome` is ok, failed, denied or interrupted."""
    body: dict[str, JsonValue] = {"call": call, "tool": tool, "text": text, "outcome": outcome}
    return _admitted(standing, EventType.TOOL_RESULT, tool, body, label, Visibility.PROGRESS)


def taint_raised(standing: Standing, after: Label, cause: str) -> tuple[NewEvent, ...]:
    """Raise the taint to its join with a label; nothing if it stays."""
    joined = standing.taint.join(after)
    if joined == standing.taint:
        return ()
    body: dict[str, JsonValue] = {"before": str(standing.taint), "after": str(joined), "cause": cause}
    return (_admitted(standing, EventType.TAINT_RAISED, "gate", body, joined, Visibility.PROGRESS),)


def decided(standing: Standing, hook: Hook, decision: Decision, about: str, text: str) -> NewEvent:
    """Tell of a decision that was not simply ALLOW; `text` is what `/why` shows."""
    rules: list[JsonValue] = [
        {"id": outcome.rule, "verdict": outcome.verdict.name, "fixed": outcome.fixed, "message": outcome.message}
        for outcome in decision.outcomes
        if outcome.verdict is not Verdict.ALLOW
    ]
    body: dict[str, JsonValue] = {
        "hook": hook.value,
        "about": about,
        "verdict": decision.verdict.name,
        "rules": rules,
        "before": str(decision.label_before),
        "after": str(decision.label_after),
        "text": text,
    }
    return _told(standing, EventType.POLICY_DECISION, "gate", body)


def approval_requested(standing: Standing, approval: Approval) -> NewEvent:
    """Tell that people are asked."""
    body: dict[str, JsonValue] = {"approval": approval.id, **approval.question, "expires_at": approval.expires_at}
    return _told(standing, EventType.APPROVAL_REQUESTED, "gate", body)


def approval_resolved(standing: Standing, approval: Approval) -> NewEvent:
    """Tell what people answered."""
    body: dict[str, JsonValue] = {"approval": approval.id, "state": approval.state.value}
    return _told(standing, EventType.APPROVAL_RESOLVED, approval.resolved_by or "clock", body)


def error(standing: Standing, reference: str, text: str) -> NewEvent:
    """Tell operators what went wrong; the chat only gets the reference."""
    body: dict[str, JsonValue] = {"reference": reference, "text": text}
    return NewEvent(EventType.ERROR, "worker", standing.taint, body, Visibility.INTERNAL, turn=standing.turn)


def resolved_in(history: tuple[Event, ...]) -> frozenset[str]:
    """Return the ids of the approvals whose answer is in the log already."""
    return frozenset(str(event.body["approval"]) for event in history if event.type is EventType.APPROVAL_RESOLVED)


def _told(standing: Standing, kind: EventType, actor: str, body: dict[str, JsonValue]) -> NewEvent:
    return NewEvent(kind, actor, standing.taint, body, Visibility.PROGRESS, turn=standing.turn)


def _admitted(
    standing: Standing, kind: EventType, actor: str, body: dict[str, JsonValue], label: Label, visibility: Visibility
) -> NewEvent:
    return NewEvent(kind, actor, label, body, visibility, admitted=True, turn=standing.turn)
