"""The events a turn writes, one function each, so that every writer labels and marks them alike.

What entered the context is `admitted` and carries the label of its content; what only tells of a decision
carries the session's taint, which is what its reader must be cleared for.
"""

from collections.abc import Iterable
from typing import cast

from pydantic import JsonValue

from bot.access.authors import named
from bot.access.decision_context import Call, DecisionContext
from bot.sessions.approvals import Approval
from bot.sessions.delegation import Endorsed
from bot.sessions.events import DeferredResult, Event, EventType, JsonObject, NewEvent, Visibility
from bot.sessions.models import Summary
from bot.sessions.releases import Release
from policy import explain
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC, Label, parse
from policy.request import Hook


def turn_started(standing: DecisionContext, attempt: int) -> NewEvent:
    """Tell that a turn began."""
    return _told(standing, EventType.TURN_STARTED, "worker", body={"attempt": attempt})


def turn_completed(standing: DecisionContext, reason: str) -> NewEvent:
    """Tell how a turn ended."""
    return _told(standing, EventType.TURN_COMPLETED, "worker", body={"reason": reason})


def user_message(  # noqa: PLR0913 - what a message is made of
    standing: DecisionContext,
    sender: str,
    text: str,
    *,
    label: Label,
    origin: JsonValue = None,
    files: Iterable[JsonObject] = (),
    authors: Iterable[str] = (),
) -> NewEvent:
    """Admit what a person said and where the files are that came with it, or what another session said.

    Then `origin` tells which, and as what, and `authors` are the people whose words it derives from.
    """
    body: dict[str, JsonValue] = {"text": text} if origin is None else {"text": text, "origin": origin}
    body |= named(authors)
    told: list[JsonValue] = [dict(file) for file in files]
    if told:
        body["files"] = told
    return _admitted(standing, EventType.USER_MESSAGE, sender, body=body, label=label, visibility=Visibility.USER)


def observed(standing: DecisionContext, text: str, *, label: Label, upto: str, authors: Iterable[str]) -> NewEvent:
    """Admit what people said in a chat and not to the bot; `upto` is the id of the last of it."""
    body: dict[str, JsonValue] = {"text": text, "upto": upto, **named(authors)}
    return _admitted(standing, EventType.OBSERVED, "chat", body=body, label=label, visibility=Visibility.USER)


def agent_message(standing: DecisionContext, text: str, *, said: bool) -> NewEvent:
    """Admit an answer; `said` is false for one that was withheld, which only operators see."""
    visibility = Visibility.USER if said else Visibility.INTERNAL
    return _admitted(
        standing, EventType.AGENT_MESSAGE, "agent", body={"text": text}, label=standing.taint, visibility=visibility
    )


def thinking(standing: DecisionContext, body: dict[str, JsonValue]) -> NewEvent:
    """Admit a model's response that is not an answer yet."""
    return _admitted(
        standing, EventType.AGENT_THINKING, "agent", body=body, label=standing.taint, visibility=Visibility.INTERNAL
    )


def tool_call(standing: DecisionContext, call: Call) -> NewEvent:
    """Tell that a call was decided; it stands in the log before the call runs."""
    arguments = None if call.arguments is None else dict(call.arguments)
    body: dict[str, JsonValue] = {"call": call.id, "tool": call.tool, "arguments": arguments}
    return _told(standing, EventType.TOOL_CALL, "agent", body=body)


def tool_result(standing: DecisionContext, call: str, tool: str, text: str, *, outcome: str, label: Label) -> NewEvent:
    """Admit a call's result; `outcome` is ok, held, failed, denied or interrupted."""
    body: dict[str, JsonValue] = {"call": call, "tool": tool, "text": text, "outcome": outcome}
    return _admitted(standing, EventType.TOOL_RESULT, tool, body=body, label=label, visibility=Visibility.PROGRESS)


def item_held(standing: DecisionContext, held: DeferredResult, told: NewEvent | None = None) -> NewEvent:
    """Keep a result out of the context: it is not admitted, so the taint stays.

    `told` is the event of the decision that made it what it is. It is kept in this one: how many events a call leaves
    can be counted by who may not know of them (law `no_read_up`).
    """
    body: dict[str, JsonValue] = {"ref": held.ref, "text": held.text, "floor": str(held.floor)}
    if told is not None:
        body["decision"] = dict(told.body)
    return NewEvent(EventType.ITEM_HELD, "gate", held.label, body, turn=standing.turn)


def decision_in(event: Event) -> JsonObject | None:
    """Return the body of the decision that an event tells of, alone or beside what it holds; None if it tells none."""
    if event.type is EventType.POLICY_DECISION:
        return event.body
    kept = event.body.get("decision") if event.type is EventType.ITEM_HELD else None
    return kept if isinstance(kept, dict) else None


def held_in(events: Iterable[Event | NewEvent]) -> tuple[DeferredResult, ...]:
    """Return what these events of one generation hold."""
    return tuple(
        DeferredResult(str(event.body["ref"]), str(event.body["text"]), event.label, parse(str(event.body["floor"])))
        for event in events
        if event.type is EventType.ITEM_HELD
    )


def endorsed_in(events: Iterable[Event | NewEvent]) -> tuple[Endorsed, ...]:
    """Return the bounded answers that these events let in, or that what they let in depends on; each of them once."""
    origins = (event.body.get("origin") for event in events if event.type is EventType.USER_MESSAGE)
    named = (origin.get("endorsed") for origin in origins if isinstance(origin, dict))
    return tuple(dict.fromkeys(one for answers in named for one in endorsed_from(answers)))


def endorsed_from(answers: JsonValue) -> tuple[Endorsed, ...]:
    """Return the bounded answers of a list as `origin_of` writes it, none of what is no such list."""
    listed = (one for one in answers if isinstance(one, dict)) if isinstance(answers, list) else ()
    return tuple(
        Endorsed(str(one["session"]), str(one["text"]), str(one["run"]), cast("int", one["millibits"]))
        for one in listed
    )


def taint_raised(standing: DecisionContext, after: Label, cause: str) -> tuple[NewEvent, ...]:
    """Raise the taint to its join with a label; nothing if it stays."""
    joined = standing.taint.join(after)
    if joined == standing.taint:
        return ()
    body: dict[str, JsonValue] = {"before": str(standing.taint), "after": str(joined), "cause": cause}
    return (
        _admitted(standing, EventType.TAINT_RAISED, "gate", body=body, label=joined, visibility=Visibility.PROGRESS),
    )


def summarized(standing: DecisionContext, summary: Summary) -> NewEvent:
    """Keep a recap; it carries the session's taint, whatever it says (law `labels_are_never_parsed_from_content`).

    It names the people whose words it sums up, but for the one whose session it is.
    """
    told: dict[str, JsonValue] = {"text": summary.text, "upto": summary.upto, "topic": summary.topic}
    told["messages"] = summary.messages
    body = {**told, **named(standing.authors - {standing.principal})}
    return _admitted(
        standing, EventType.SUMMARY, "agent", body=body, label=standing.taint, visibility=Visibility.PROGRESS
    )


def decided(
    standing: DecisionContext, hook: Hook, decision: Decision, *, about: str, text: str, label: Label = PUBLIC
) -> NewEvent:
    """Tell of a decision that was not simply ALLOW; `text` is what `/why` shows.

    `label` is that of what it tells beside the taint: what was held and decided it.
    """
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
        "asker": standing.asker,
        "text": text,
    }
    return _told(standing, EventType.POLICY_DECISION, "gate", body=body, label=label)


def told_to(event: Event, reader: Label) -> JsonObject:
    """Return an event's body; the labels that a decision names are there as far as its reader may know them."""
    if event.type is not EventType.POLICY_DECISION:
        return event.body
    labels = {name: explain.shown(parse(str(event.body[name])), reader) for name in ("before", "after")}
    return {**event.body, **labels}


def approval_requested(standing: DecisionContext, approval: Approval) -> NewEvent:
    """Tell that people are asked."""
    body: dict[str, JsonValue] = {"approval": approval.id, **approval.question, "expires_at": approval.expires_at}
    return _told(standing, EventType.APPROVAL_REQUESTED, "gate", body=body, label=approval.label)


def approval_resolved(standing: DecisionContext, approval: Approval) -> NewEvent:
    """Tell what people answered."""
    body: dict[str, JsonValue] = {"approval": approval.id, "state": approval.state.value}
    return _told(standing, EventType.APPROVAL_RESOLVED, approval.resolved_by or "clock", body=body)


def release_requested(standing: DecisionContext, release: Release) -> NewEvent:
    """Tell what a person was shown, who may release it."""
    return _told(standing, EventType.RELEASE_REQUESTED, release.principal, body=release.body())


def release_confirmed(standing: DecisionContext, release: Release) -> NewEvent:
    """Tell that he released it: the record that its delivery refers to."""
    return _told(standing, EventType.RELEASE_CONFIRMED, release.principal, body=release.body())


def error(standing: DecisionContext, reference: str, text: str) -> NewEvent:
    """Tell operators what went wrong; the chat only gets the reference."""
    body: dict[str, JsonValue] = {"reference": reference, "text": text}
    return NewEvent(EventType.ERROR, "worker", standing.taint, body, Visibility.INTERNAL, turn=standing.turn)


def _told(
    standing: DecisionContext, kind: EventType, actor: str, *, body: dict[str, JsonValue], label: Label = PUBLIC
) -> NewEvent:
    return NewEvent(kind, actor, standing.taint.join(label), body, Visibility.PROGRESS, turn=standing.turn)


def _admitted(
    standing: DecisionContext,
    kind: EventType,
    actor: str,
    *,
    body: dict[str, JsonValue],
    label: Label,
    visibility: Visibility,
) -> NewEvent:
    return NewEvent(kind, actor, label, body, visibility, admitted=True, turn=standing.turn)
