"""Bodies of events, of messages to sessions and of questions to people, as JSON objects and back. Pure.

The only module that knows this format: the store keeps it, and exports and listings show it. Logs are never rewritten.
So every name that was ever written can be read, an unknown name is ignored, and an event of an unknown type keeps all
its fields. A body that lacks a field, or has one in another form, raises.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from types import MappingProxyType
from typing import Final, assert_never

from pydantic import JsonValue

from bot.core.json_values import JsonObject, child, flag, numbers, objects, text, texts, whole, whole_object
from bot.sessions.approvals import ApprovalQuestion, ApprovalState, QuestionKind
from bot.sessions.consents.grants import GrantScope
from bot.sessions.consents.released_calls import CallRelease
from bot.sessions.consents.releases import Release
from bot.sessions.log import event_types
from bot.sessions.log.event_types import (
    EventBody,
    MessageFile,
    PolicyDecision,
    RuleVerdict,
    ToolOutcome,
    UnknownEvent,
    YieldReason,
)
from bot.sessions.log.events import EventType
from bot.sessions.messages import Endorsed, FileKind, Origin, OriginKind, SessionMessage
from bot.sessions.usage import Usage
from channels.messages import Attachment
from policy.decision import Verdict
from policy.labels import Label, parse
from policy.request import Hook


def event_json(body: EventBody) -> dict[str, JsonValue]:  # noqa: C901, PLR0911, PLR0912 - a case for each type
    """Return an event's body as a JSON object."""
    match body:
        case event_types.ToolCall():
            arguments = None if body.arguments is None else dict(body.arguments)
            said = {"call": body.call, "tool": body.tool, "arguments": arguments}
            return {**said, **_named("depended", endorsed_json(body.depended))}
        case event_types.ToolResult():
            said = {"call": body.call, "tool": body.tool, "text": body.text, "outcome": body.outcome.value}
            return {**said, **_named("endorsed", endorsed_json(body.endorsed))}
        case event_types.AgentThinking():
            return {"response": dict(body.response)}
        case event_types.AgentMessage():
            return {"text": body.text}
        case event_types.MemoriesRecalled():
            return {"text": body.text, "memories": list(body.memories)}
        case event_types.TurnStarted():
            return {"attempt": body.attempt}
        case event_types.TurnCompleted():
            return _turn_json(body)
        case event_types.TaintRaised():
            return {"before": str(body.before), "after": str(body.after), "cause": body.cause}
        case event_types.ApprovalResolved():
            return {"approval": body.approval, "state": body.state.value}
        case event_types.TurnError():
            return {"reference": body.reference, "text": body.text}
        case (
            event_types.SessionCreated()
            | event_types.SessionReset()
            | event_types.SessionPaused()
            | event_types.SessionResumed()
            | event_types.SessionArchived()
            | event_types.SessionRestored()
        ):
            return {}
        case event_types.SessionImported() | event_types.LogTruncated():
            return asdict(body)
        case UnknownEvent():
            return dict(body.fields)
        case _:
            return _longer_json(body)


_USUAL: Final = event_types.TurnCompleted(YieldReason.COMPLETED, back=1, usage=Usage(requests=1))
"""The most frequent record of a turn: the store keeps only the differences from it, as every turn has a record."""


def _turn_json(body: event_types.TurnCompleted) -> dict[str, JsonValue]:
    """Return the record of a turn."""
    used, usual = body.usage, _USUAL.usage
    told: dict[str, tuple[JsonValue, JsonValue]] = {
        "took": (body.took, _USUAL.took),
        "idle": (body.idle, _USUAL.idle),
        "attempt": (body.attempt, _USUAL.attempt),
        "back": (body.back, _USUAL.back),
        "error": (body.error, _USUAL.error),
        "requests": (used.requests, usual.requests),
        "tokens": ([used.input_tokens, used.output_tokens], [0, 0]),
        "cost": (used.cost, usual.cost),
        "complete": (used.complete, usual.complete),
        "priced": (used.priced, usual.priced),
    }
    return {"reason": body.reason.value, **{name: value for name, (value, left) in told.items() if value != left}}


def _turn_completed(found: JsonObject) -> EventBody:
    used = _USUAL.usage
    read, written = numbers(found, "tokens", (0, 0))
    return event_types.TurnCompleted(
        YieldReason(text(found, "reason")),
        took=whole(found, "took", _USUAL.took),
        idle=whole(found, "idle", _USUAL.idle),
        attempt=whole(found, "attempt", _USUAL.attempt),
        back=whole(found, "back", _USUAL.back),
        error=text(found, "error", _USUAL.error),
        usage=Usage(
            requests=whole(found, "requests", used.requests),
            input_tokens=read,
            output_tokens=written,
            complete=flag(found, "complete", absent=used.complete),
            cost=whole(found, "cost", used.cost),
            priced=flag(found, "priced", absent=used.priced),
        ),
    )


def _longer_json(  # noqa: PLR0911 - as above
    body: event_types.UserMessage
    | event_types.ChatObserved
    | event_types.ItemHeld
    | PolicyDecision
    | event_types.ApprovalRequested
    | event_types.ReleaseRequested
    | event_types.ReleaseConfirmed
    | event_types.SessionSummary,
) -> dict[str, JsonValue]:
    """Return the body of an event that has lists, or parts of its own."""
    match body:
        case event_types.UserMessage():
            return {
                "text": body.text,
                **_origin_json(body.origin),
                **_named("authors", body.authors),
                **_named("files", map(_file_json, body.files)),
                **({"number": body.number} if body.number else {}),
            }
        case event_types.ChatObserved():
            return {"text": body.text, "upto": body.upto, **_named("authors", body.authors)}
        case event_types.ItemHeld():
            decision = {} if body.decision is None else {"decision": _decision_json(body.decision)}
            parts = {**_named("parts", map(_part_json, body.parts)), **({"server": body.server} if body.server else {})}
            parts |= {} if body.answer is None else {"answer": _answer_json(body.answer)}
            parts |= _named("listed", map(_identifiers_json, body.listed))
            parts |= {"tool": body.tool, "at": body.at} if body.tool else {}
            return {"ref": body.ref, "text": body.text, "floor": str(body.floor), **decision, **parts}
        case PolicyDecision():
            return _decision_json(body)
        case event_types.ApprovalRequested():
            return {"approval": body.approval, **question_json(body.question), "expires_at": body.expires_at}
        case event_types.ReleaseRequested() | event_types.ReleaseConfirmed():
            return release_json(body.release)
        case event_types.SessionSummary():
            told: dict[str, JsonValue] = {"text": body.text, "upto": body.upto, "topic": body.topic}
            return {**told, "messages": body.messages, **_named("authors", body.authors)}
        case _:
            assert_never(body)


def event_from(name: str, found: JsonObject) -> EventBody:
    """Return the body of an event of the type `name` from a JSON object.

    Raises KeyError, TypeError, ValueError, LabelTextError: a type that is known is written otherwise.
    """
    fields, read = whole_object(found), _READERS.get(name)
    return UnknownEvent(name, fields) if read is None else read(fields)


def message_json(message: SessionMessage) -> dict[str, JsonValue]:
    """Return a message's content as a JSON object; equal messages give equal objects, by which they are compared."""
    told: dict[str, JsonValue] = {"text": message.text}
    if message.account:
        told["account"] = message.account
    if message.opens:
        told["opens"] = True
    if message.origin is not None or message.hops:
        told["hops"] = message.hops
    files: Iterable[JsonValue] = (asdict(file) for file in message.files)
    return {
        **told,
        **_named("quoted", message.quoted),
        **_named("files", files),
        **_origin_json(message.origin),
        **_named("authors", message.authors),
    }


def message_from(found: JsonObject) -> SessionMessage:
    """Return a message from its JSON object. Raises TypeError, ValueError: it is not a message."""
    if len(found) == 1:
        # Most messages are text alone.
        return SessionMessage(text(found, "text"))
    return SessionMessage(
        text(found, "text"),
        account=text(found, "account", ""),
        quoted=texts(found, "quoted"),
        files=tuple([_attachment(one) for one in objects(found, "files")]),
        opens=flag(found, "opens"),
        origin=_origin(found),
        hops=whole(found, "hops", 0),
        authors=texts(found, "authors"),
    )


def question_json(question: ApprovalQuestion) -> dict[str, JsonValue]:
    """Return a question to people as a JSON object, as the command `approvals` shows it."""
    told: dict[str, JsonValue] = {
        "tool": question.tool,
        "arguments": dict(question.arguments),
        "rules": list(question.rules),
    }
    if question.withheld:
        told["withheld"] = True
    if question.missing:
        told["missing"] = True
    if question.interrupted:
        told["interrupted"] = question.interrupted
    if question.steers:
        told["steers"] = question.steers
    if question.kind is not QuestionKind.APPROVAL:
        told["kind"] = question.kind.value
    if question.scope is not None:
        told["scope"] = scope_json(question.scope)
    if question.release is not None:
        told["release"] = {"sink": question.release.sink, "clearance": str(question.release.clearance)}
    endorsed = endorsed_json(question.endorsed)
    more = {**_named("endorsed", endorsed), **_named("vouches", question.vouches)}
    return {**told, **_named("authors", question.authors), **more}


def question_from(found: JsonObject) -> ApprovalQuestion:
    """Return a question to people from a JSON object. Raises KeyError, TypeError: it is not a question."""
    return ApprovalQuestion(
        text(found, "tool"),
        whole_object(found["arguments"]),
        rules=texts(found, "rules"),
        withheld=flag(found, "withheld"),
        missing=flag(found, "missing"),
        interrupted=text(found, "interrupted", ""),
        authors=texts(found, "authors"),
        endorsed=endorsed_from(objects(found, "endorsed")),
        steers=text(found, "steers", ""),
        vouches=texts(found, "vouches"),
        kind=QuestionKind(text(found, "kind", QuestionKind.APPROVAL.value)),
        scope=scope_from(whole_object(found["scope"])) if "scope" in found else None,
        release=_call_release(child(found, "release")),
    )


def scope_json(scope: GrantScope) -> dict[str, JsonValue]:
    """Return a scope as a JSON object."""
    return {
        "declaration": scope.declaration,
        "reach": scope.reach,
        "shape": scope.shape,
        "most": dict(scope.most),
        "label": str(scope.label),
        "rules": list(scope.rules),
        "uses": scope.uses,
        "worst": scope.worst,
    }


def scope_from(found: JsonObject) -> GrantScope:
    """Return a scope from a JSON object. Raises KeyError, TypeError, LabelTextError: it is not a scope."""
    return GrantScope(
        declaration=text(found, "declaration"),
        reach=text(found, "reach"),
        shape=text(found, "shape"),
        most=tuple((place, _amount(value)) for place, value in whole_object(found["most"]).items()),
        label=parse(text(found, "label")),
        rules=texts(found, "rules"),
        uses=whole(found, "uses"),
        worst=text(found, "worst"),
    )


def _amount(value: JsonValue) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not an amount")
    return value


def _call_release(found: JsonObject | None) -> CallRelease | None:
    return None if found is None else CallRelease(text(found, "sink"), _label(text(found, "clearance")))


def release_json(release: Release) -> dict[str, JsonValue]:
    """Return a release as a JSON object; it does not contain the text."""
    return {
        "code": release.code,
        "principal": release.principal,
        "home": release.home,
        "source": release.source,
        "digest": release.digest,
        "label": str(release.label),
        "address": release.address,
        "clearance": str(release.clearance),
        "recipient": release.recipient,
        "meant": release.meant,
        "expires_at": release.expires_at,
    }


def endorsed_json(answers: Iterable[Endorsed]) -> list[JsonValue]:
    """Return bounded answers as a JSON list."""
    return [{"session": one.session, "text": one.text, "run": one.run, "millibits": one.millibits} for one in answers]


def endorsed_from(listed: Iterable[JsonObject]) -> tuple[Endorsed, ...]:
    """Return bounded answers from objects. Raises TypeError: they are not bounded answers."""
    return tuple(
        [Endorsed(text(one, "session"), text(one, "text"), text(one, "run"), whole(one, "millibits")) for one in listed]
    )


def _named(name: str, values: Iterable[JsonValue]) -> dict[str, JsonValue]:
    """Return a list under its name; an empty list is left out."""
    listed = list(values)
    return {name: listed} if listed else {}


@lru_cache(maxsize=1024)
def _label(written: str) -> Label:
    return parse(written)


def _origin_json(origin: Origin | None) -> dict[str, JsonValue]:
    if origin is None:
        return {}
    told: dict[str, JsonValue] = {"as": origin.kind.value}
    if origin.session:
        told["session"] = origin.session
    listed = {**_named("typed", origin.typed), **_named("endorsed", endorsed_json(origin.endorsed))}
    return {"origin": {**told, **listed}}


def _origin(found: JsonObject) -> Origin | None:
    origin = child(found, "origin")
    if origin is None:
        return None
    return Origin(
        OriginKind(text(origin, "as")),
        session=text(origin, "session", ""),
        typed=texts(origin, "typed"),
        endorsed=endorsed_from(objects(origin, "endorsed")),
    )


def _attachment(found: JsonObject) -> Attachment:
    return Attachment(
        text(found, "handle"), text(found, "name"), text(found, "media_type", ""), whole(found, "size", 0)
    )


def _file_json(file: MessageFile) -> dict[str, JsonValue]:
    if file.problem:
        return {"name": file.name, "problem": file.problem}
    return {
        "name": file.name,
        "kind": file.kind.value,
        "path": file.path,
        "media_type": file.media_type,
        "size": file.size,
        "sha256": file.digest,
    }


def _file(found: JsonObject) -> MessageFile:
    name, problem = text(found, "name"), text(found, "problem", "")
    if problem:
        return MessageFile(name, problem)
    return MessageFile(
        name,
        kind=FileKind(text(found, "kind")),
        path=text(found, "path"),
        media_type=text(found, "media_type"),
        size=whole(found, "size"),
        digest=text(found, "sha256"),
    )


def _decision_json(decision: PolicyDecision) -> dict[str, JsonValue]:
    rules: list[JsonValue] = [
        {"id": one.rule, "verdict": one.verdict.name, "fixed": one.fixed, "message": one.message}
        for one in decision.rules
    ]
    return {
        "hook": decision.hook.value,
        "about": decision.about,
        "verdict": decision.verdict.name,
        "rules": rules,
        "before": str(decision.before),
        "after": str(decision.after),
        "asker": decision.asker,
        "text": decision.text,
    }


def _decision(found: JsonObject) -> PolicyDecision:
    return PolicyDecision(
        hook=Hook(text(found, "hook")),
        about=text(found, "about"),
        verdict=Verdict[text(found, "verdict")],
        rules=tuple(
            [
                RuleVerdict(text(one, "id"), Verdict[text(one, "verdict")], flag(one, "fixed"), text(one, "message"))
                for one in objects(found, "rules")
            ]
        ),
        before=_label(text(found, "before")),
        after=_label(text(found, "after")),
        asker=text(found, "asker", ""),
        text=text(found, "text"),
    )


def _user_message(found: JsonObject) -> EventBody:
    files = tuple([_file(one) for one in objects(found, "files")])
    return event_types.UserMessage(
        text(found, "text"), _origin(found), texts(found, "authors"), files, whole(found, "number", 0)
    )


def _chat_observed(found: JsonObject) -> EventBody:
    return event_types.ChatObserved(text(found, "text"), text(found, "upto"), texts(found, "authors"))


def _recalled(found: JsonObject) -> EventBody:
    # Not through `_named`, which leaves out empty lists: this event always has memories.
    return event_types.MemoriesRecalled(text(found, "text"), texts({"memories": found["memories"]}, "memories"))


def _tool_call(found: JsonObject) -> EventBody:
    depended = endorsed_from(objects(found, "depended"))
    return event_types.ToolCall(text(found, "call"), text(found, "tool"), child(found, "arguments"), depended)


def _tool_result(found: JsonObject) -> EventBody:
    outcome = ToolOutcome(text(found, "outcome"))
    named = text(found, "call"), text(found, "tool"), text(found, "text")
    return event_types.ToolResult(*named, outcome, endorsed_from(objects(found, "endorsed")))


def _item_held(found: JsonObject) -> EventBody:
    decision = child(found, "decision")
    return event_types.ItemHeld(
        text(found, "ref"),
        text(found, "text"),
        _label(text(found, "floor")),
        None if decision is None else _decision(decision),
        tuple([_part(one) for one in objects(found, "parts")]),
        text(found, "server", ""),
        None if (answer := child(found, "answer")) is None else _answer(answer),
        tuple([_identifiers(one) for one in objects(found, "listed")]),
        text(found, "tool", ""),
        whole(found, "at", 0),
    )


def _answer_json(answer: event_types.HeldAnswer) -> JsonValue:
    fields: list[JsonValue] = [{"name": name, "boolean": boolean} for name, boolean in answer.fields]
    return {"fields": fields, "counted": answer.counted, **_named("endorsed", endorsed_json(answer.endorsed))}


def _answer(found: JsonObject) -> event_types.HeldAnswer:
    fields = tuple([(text(one, "name"), one["boolean"] is True) for one in objects(found, "fields")])
    return event_types.HeldAnswer(fields, found["counted"] is True, endorsed_from(objects(found, "endorsed")))


def _identifiers_json(listed: event_types.HeldIdentifiers) -> JsonValue:
    made: dict[str, JsonValue] = {"made": True} if listed.made else {}
    return {"kind": listed.kind, "most": listed.most, **_named("identifiers", listed.identifiers), **made}


def _identifiers(found: JsonObject) -> event_types.HeldIdentifiers:
    kind, most, made = text(found, "kind"), whole(found, "most"), found.get("made") is True
    return event_types.HeldIdentifiers(kind, most, texts(found, "identifiers"), made)


def _part_json(part: event_types.HeldPart) -> JsonValue:
    return {"ref": part.ref, "text": part.text, **({"handle": part.handle} if part.handle else {})}


def _part(found: JsonObject) -> event_types.HeldPart:
    return event_types.HeldPart(text(found, "ref"), text(found, "text"), text(found, "handle", ""))


def _taint_raised(found: JsonObject) -> EventBody:
    before, after = _label(text(found, "before")), _label(text(found, "after"))
    return event_types.TaintRaised(before, after, text(found, "cause"))


def _approval_requested(found: JsonObject) -> EventBody:
    return event_types.ApprovalRequested(text(found, "approval"), question_from(found), whole(found, "expires_at"))


def _approval_resolved(found: JsonObject) -> EventBody:
    return event_types.ApprovalResolved(text(found, "approval"), ApprovalState(text(found, "state")))


def _release(found: JsonObject) -> Release:
    return Release(
        code=text(found, "code"),
        principal=text(found, "principal"),
        home=text(found, "home"),
        source=whole(found, "source"),
        digest=text(found, "digest"),
        label=_label(text(found, "label")),
        address=text(found, "address"),
        clearance=_label(text(found, "clearance")),
        recipient=text(found, "recipient"),
        meant=text(found, "meant"),
        expires_at=whole(found, "expires_at"),
    )


def _session_imported(found: JsonObject) -> EventBody:
    return event_types.SessionImported(
        text(found, "session"),
        whole(found, "generation"),
        whole(found, "made"),
        text(found, "key"),
        at_top=flag(found, "at_top"),
    )


def _session_summary(found: JsonObject) -> EventBody:
    return event_types.SessionSummary(
        text(found, "text"),
        whole(found, "upto"),
        topic=text(found, "topic", ""),
        messages=whole(found, "messages", 0),
        authors=texts(found, "authors"),
    )


_READERS: Final[Mapping[str, Callable[[JsonObject], EventBody]]] = MappingProxyType(
    {
        EventType.SESSION_CREATED: lambda _: event_types.SessionCreated(),
        EventType.SESSION_RESET: lambda _: event_types.SessionReset(),
        EventType.SESSION_PAUSED: lambda _: event_types.SessionPaused(),
        EventType.SESSION_RESUMED: lambda _: event_types.SessionResumed(),
        EventType.SESSION_ARCHIVED: lambda _: event_types.SessionArchived(),
        EventType.SESSION_RESTORED: lambda _: event_types.SessionRestored(),
        EventType.SESSION_IMPORTED: _session_imported,
        EventType.LOG_TRUNCATED: lambda found: event_types.LogTruncated(whole(found, "kept"), whole(found, "lost")),
        EventType.USER_MESSAGE: _user_message,
        EventType.OBSERVED: _chat_observed,
        EventType.RECALLED: _recalled,
        EventType.AGENT_MESSAGE: lambda found: event_types.AgentMessage(text(found, "text")),
        EventType.AGENT_THINKING: lambda found: event_types.AgentThinking(whole_object(found["response"])),
        EventType.TURN_STARTED: lambda found: event_types.TurnStarted(whole(found, "attempt")),
        EventType.TURN_COMPLETED: _turn_completed,
        EventType.TOOL_CALL: _tool_call,
        EventType.TOOL_RESULT: _tool_result,
        EventType.ITEM_HELD: _item_held,
        EventType.POLICY_DECISION: _decision,
        EventType.TAINT_RAISED: _taint_raised,
        EventType.APPROVAL_REQUESTED: _approval_requested,
        EventType.APPROVAL_RESOLVED: _approval_resolved,
        EventType.RELEASE_REQUESTED: lambda found: event_types.ReleaseRequested(_release(found)),
        EventType.RELEASE_CONFIRMED: lambda found: event_types.ReleaseConfirmed(_release(found)),
        EventType.SUMMARY: _session_summary,
        EventType.ERROR: lambda found: event_types.TurnError(text(found, "reference"), text(found, "text")),
    }
)
