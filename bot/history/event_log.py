"""The events a turn writes, one function each, so that every writer labels and marks them alike.

An event that entered the context is `admitted` and carries the label of its content. One that only tells of a decision
carries the session's taint, as its reader must be cleared for that.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bot.access.approvals import ANSWER
from bot.access.decision_context import Call, DecisionContext
from bot.core.json_values import JsonObject
from bot.sessions.approvals import Approval
from bot.sessions.consents.releases import Release
from bot.sessions.log.event_types import (
    AgentMessage,
    AgentThinking,
    ApprovalRequested,
    ApprovalResolved,
    ChatObserved,
    EventBody,
    ItemHeld,
    MemoriesRecalled,
    MessageFile,
    PolicyDecision,
    ReleaseConfirmed,
    ReleaseRequested,
    RuleVerdict,
    SessionSummary,
    TaintRaised,
    ToolCall,
    ToolResult,
    TurnCompleted,
    TurnError,
    TurnStarted,
    UserMessage,
)
from bot.sessions.log.events import DeferredResult, Event, NewEvent, Visibility
from bot.sessions.log.serialization import event_json
from bot.sessions.messages import Endorsed, Origin, named
from bot.sessions.models import Summary
from bot.sessions.refs import CallRef, HeldRef, MemoryRef, ObservedRef, Ref
from policy import explain
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC, Label
from policy.request import Hook


def turn_started(standing: DecisionContext, attempt: int) -> NewEvent:
    """Tell that a turn began."""
    return _told(standing, "worker", TurnStarted(attempt))


def turn_completed(standing: DecisionContext, completed: TurnCompleted) -> NewEvent:
    """Tell how a turn ended."""
    return _told(standing, "worker", completed)


def user_message(  # noqa: PLR0913 - the parts of a message
    standing: DecisionContext,
    sender: str,
    text: str,
    *,
    label: Label,
    origin: Origin | None = None,
    files: Iterable[MessageFile] = (),
    authors: Iterable[str] = (),
    refs: Iterable[Ref] = (),
    number: int = 0,
) -> NewEvent:
    """Admit a person's message with the places of its files, or a message of another session.

    Then `origin` tells which session, and the kind, and `authors` are the people whose words it derives from. `refs`
    are the input and its sources, `number` its place among the inputs if a program sent it.
    """
    message = UserMessage(text, origin, named(authors), tuple(files), number)
    event = _admitted(standing, sender, message, label=label, visibility=Visibility.USER)
    return replace(event, refs=tuple(refs))


def observed(standing: DecisionContext, text: str, *, label: Label, upto: str, authors: Iterable[str]) -> NewEvent:
    """Admit people's messages in a chat that were not for the bot; `upto` is the id of the last of them."""
    event = _admitted(
        standing, "chat", ChatObserved(text, upto, named(authors)), label=label, visibility=Visibility.USER
    )
    return replace(event, refs=(ObservedRef(upto),) if upto else ())


def memories_recalled(standing: DecisionContext, text: str, memories: Iterable[str]) -> NewEvent:
    """Admit memories that the runtime recalled for a turn; nothing among them changes the session's taint."""
    recalled = MemoriesRecalled(text, tuple(memories))
    event = _admitted(standing, "memory", recalled, label=standing.taint, visibility=Visibility.PROGRESS)
    return replace(event, refs=tuple(map(MemoryRef, recalled.memories)))


def agent_message(standing: DecisionContext, text: str, *, said: bool) -> NewEvent:
    """Admit an answer; `said` is false for one that was withheld, which only operators see."""
    visibility = Visibility.USER if said else Visibility.INTERNAL
    return _admitted(standing, "agent", AgentMessage(text), label=standing.taint, visibility=visibility)


def thinking(standing: DecisionContext, response: AgentThinking) -> NewEvent:
    """Admit a model's response that is not an answer yet."""
    return _admitted(standing, "agent", response, label=standing.taint, visibility=Visibility.INTERNAL)


def tool_call(
    standing: DecisionContext, call: Call, refers: Iterable[str], *, depended: tuple[Endorsed, ...] = ()
) -> NewEvent:
    """Record that a call was decided; it is in the log before the call runs.

    `refers` are the held items that its arguments refer to, and `depended` the held answers and entries that choose
    something of it.
    """
    event = _told(standing, "agent", ToolCall(call.id, call.tool, call.arguments, depended))
    return replace(event, refs=tuple(map(HeldRef, refers)))


def tool_result(standing: DecisionContext, result: ToolResult, label: Label, *, refs: Iterable[Ref] = ()) -> NewEvent:
    """Admit a call's result; `refs` are its sources beside the call, none of them above its label."""
    event = _admitted(standing, result.tool, result, label=label, visibility=Visibility.PROGRESS)
    return replace(event, refs=(CallRef(result.call), *refs))


def item_held(
    standing: DecisionContext,
    held: DeferredResult,
    decision: PolicyDecision | None = None,
    *,
    refs: Iterable[Ref] = (),
) -> NewEvent:
    """Keep a result out of the context: it is not admitted, so the taint stays.

    `decision` is the decision behind it. It is kept in this event: readers who may not know of a call's events can
    still count them (law `no_read_up`). So are `refs`, its sources.
    """
    item = ItemHeld(
        held.ref,
        held.text,
        held.floor,
        decision,
        held.parts,
        held.server,
        held.answer,
        held.listed,
        held.tool,
        held.at,
    )
    return NewEvent("gate", held.label, item, turn=standing.turn, refs=tuple(refs))


def decision_in(event: Event) -> PolicyDecision | None:
    """Return the decision in an event, alone or beside its held item; None if it has none."""
    match event.body:
        case PolicyDecision():
            return event.body
        case ItemHeld(decision=decision):
            return decision
        case _:
            return None


def held_in(events: Iterable[Event | NewEvent]) -> tuple[DeferredResult, ...]:
    """Return the items that these events of one generation hold, each before its parts."""
    return tuple(
        item for event in events if isinstance(event.body, ItemHeld) for item in _items(event.body, event.label)
    )


def _items(body: ItemHeld, label: Label) -> Iterator[DeferredResult]:
    whose = body.server if body.listed else ""
    whole = DeferredResult(
        body.ref, body.text, label, body.floor, server=whose, answer=body.answer, tool=body.tool, at=body.at
    )
    handles = tuple(dict.fromkeys(part.handle for part in body.parts if part.handle))
    yield replace(whole, listed=body.listed, handles=handles)
    for part in body.parts:
        server = body.server if part.handle else ""
        yield replace(whole, ref=part.ref, text=part.text, handle=part.handle, server=server, answer=None)


def endorsed_in(events: Iterable[Event | NewEvent]) -> tuple[Endorsed, ...]:
    """Return the bounded answers that these events let in, or that their content depends on; each of them once."""
    return tuple(dict.fromkeys(one for event in events for one in _endorsed(event.body)))


def _endorsed(body: EventBody) -> tuple[Endorsed, ...]:
    match body:
        case UserMessage(origin=Origin(endorsed=endorsed)) | ToolResult(endorsed=endorsed):
            return endorsed
        case _:
            return ()


def taint_raised(standing: DecisionContext, after: Label, cause: str) -> tuple[NewEvent, ...]:
    """Raise the taint to its join with a label; nothing if it stays."""
    joined = standing.taint.join(after)
    if joined == standing.taint:
        return ()
    raised = TaintRaised(standing.taint, joined, cause)
    return (_admitted(standing, "gate", raised, label=joined, visibility=Visibility.PROGRESS),)


def summarized(standing: DecisionContext, summary: Summary) -> NewEvent:
    """Keep a recap; it carries the session's taint, with any content (law `labels_are_never_parsed_from_content`).

    It names the people whose words it sums up, but for the one whose session it is.
    """
    recap = SessionSummary(
        summary.text,
        summary.upto,
        topic=summary.topic,
        messages=summary.messages,
        authors=named(standing.authors - {standing.principal}),
    )
    return _admitted(standing, "agent", recap, label=standing.taint, visibility=Visibility.PROGRESS)


def policy_decision(
    standing: DecisionContext, hook: Hook, decision: Decision, *, about: str, text: str
) -> PolicyDecision:
    """Return the body of an event about a decision that was not simply ALLOW; `text` is the text of `/why`."""
    rules = tuple(
        RuleVerdict(outcome.rule, outcome.verdict, outcome.fixed, outcome.message)
        for outcome in decision.outcomes
        if outcome.verdict is not Verdict.ALLOW
    )
    return PolicyDecision(
        hook=hook,
        about=about,
        verdict=decision.verdict,
        rules=rules,
        before=decision.label_before,
        after=decision.label_after,
        asker=standing.asker,
        text=text,
    )


def decided(standing: DecisionContext, told: PolicyDecision, label: Label = PUBLIC) -> NewEvent:
    """Tell of a decision; `label` is the label of its content beside the taint, from the held item that decided it."""
    return _told(standing, "gate", told, label=label)


def told_to(event: Event, reader: Label, *, whole: bool = False) -> JsonObject:
    """Return an event's body as JSON; the labels in a decision are there as far as its reader may know them.

    An answer that waits for people's approval is in a `whole` log alone.
    """
    match event.body:
        case PolicyDecision() as body:
            before, after = explain.shown(body.before, reader), explain.shown(body.after, reader)
            return {**event_json(body), "before": before, "after": after}
        case ApprovalRequested(question=question) as body if question.tool == ANSWER and not whole:
            return event_json(replace(body, question=replace(question, arguments={})))
        case body:
            return event_json(body)


def approval_requested(standing: DecisionContext, approval: Approval, refers: Iterable[str] = ()) -> NewEvent:
    """Tell that people are asked; `refers` are the held items that the call refers to."""
    asked = ApprovalRequested(approval.id, approval.question, approval.expires_at)
    event = _told(standing, "gate", asked, label=approval.label)
    return replace(event, refs=tuple(map(HeldRef, refers)))


def approval_resolved(standing: DecisionContext, approval: Approval) -> NewEvent:
    """Tell people's answer."""
    return _told(standing, approval.resolved_by or "clock", ApprovalResolved(approval.id, approval.state))


def release_requested(standing: DecisionContext, release: Release) -> NewEvent:
    """Tell the text that was shown to a person, who may release it."""
    return _told(standing, release.principal, ReleaseRequested(release))


def release_confirmed(standing: DecisionContext, release: Release) -> NewEvent:
    """Tell that they released it: the record that its delivery refers to."""
    return _told(standing, release.principal, ReleaseConfirmed(release))


def error(standing: DecisionContext, reference: str, text: str) -> NewEvent:
    """Tell operators the error; the chat only gets the reference."""
    return NewEvent("worker", standing.taint, TurnError(reference, text), Visibility.INTERNAL, turn=standing.turn)


def _told(standing: DecisionContext, actor: str, body: EventBody, *, label: Label = PUBLIC) -> NewEvent:
    return NewEvent(actor, standing.taint.join(label), body, Visibility.PROGRESS, turn=standing.turn)


def _admitted(
    standing: DecisionContext, actor: str, body: EventBody, *, label: Label, visibility: Visibility
) -> NewEvent:
    return NewEvent(actor, label, body, visibility, admitted=True, turn=standing.turn)
