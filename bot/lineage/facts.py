"""The facts of the lineage map: pure, from one stored record at a time.

Titles tell the kind of an item and its writer. They hold no words of a conversation: a reader who may trace an item may
not therefore read it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from pydantic import JsonValue

from bot.core.json_values import JsonObject
from bot.lineage import names
from bot.lineage.graph import EventSpan, Fact, LineageNode, NodeKind, Origin
from bot.sessions.background.delegation import SESSION
from bot.sessions.background.runs import called
from bot.sessions.background.schedules import Schedule
from bot.sessions.deliveries import Delivery, DeliveryState
from bot.sessions.knowledge.memories import Memory, MemoryState
from bot.sessions.knowledge.skills import Skill
from bot.sessions.log.event_types import (
    AgentMessage,
    ApprovalRequested,
    ChatObserved,
    EventBody,
    ItemHeld,
    LogTruncated,
    MemoriesRecalled,
    ReleaseConfirmed,
    SessionImported,
    SessionSummary,
    ToolCall,
    ToolResult,
    UnknownEvent,
    UserMessage,
)
from bot.sessions.log.events import Event, Visibility
from bot.sessions.models import SessionState
from bot.sessions.refs import (
    ApprovalRef,
    CallRef,
    EventsRef,
    FileRef,
    HeldRef,
    InputRef,
    MemoryRef,
    Ref,
    ScheduleRef,
    SkillRef,
    WorkflowRef,
)
from bot.sessions.webhooks import ProgramWebhook, WebhookPosition
from bot.sessions.workflows.events import WorkflowEvent
from channels.messages import Address
from policy.labels import Label, join_all

WRITES: Final = "write_file"
"""The tool that writes files: a file that it wrote refers to its call."""

_KINDS: Final[Mapping[type[EventBody], NodeKind]] = MappingProxyType(
    {
        ChatObserved: NodeKind.OBSERVED,
        ToolCall: NodeKind.CALL,
        ToolResult: NodeKind.RESULT,
        MemoriesRecalled: NodeKind.RECALL,
        ItemHeld: NodeKind.HELD,
        SessionSummary: NodeKind.RECAP,
        ApprovalRequested: NodeKind.APPROVAL,
        ReleaseConfirmed: NodeKind.RELEASE,
        SessionImported: NodeKind.EVENT,
        LogTruncated: NodeKind.EVENT,
        UnknownEvent: NodeKind.EVENT,
    }
)

_TITLES: Final[Mapping[type[EventBody], str]] = MappingProxyType(
    {
        ChatObserved: "messages of the chat",
        LogTruncated: "events that the store lost",
        MemoriesRecalled: "memories that were recalled",
        SessionSummary: "recap",
    }
)

_READ: Final = frozenset(
    {
        NodeKind.MESSAGE,
        NodeKind.OBSERVED,
        NodeKind.RECALL,
        NodeKind.RESULT,
        NodeKind.RECAP,
        NodeKind.ANSWER,
        NodeKind.EVENT,
    }
)
"""The kinds that a model reads in its session, beside its own calls, which their results name."""

_TOLD: Final = ("path", "to", "deliver_to", "url")
"""Arguments that name the place of a read or a send."""

_PLACE: Final = re.compile(r"[^\s?#]{1,120}")
"""The form of an address or a person's name; a text with blanks could hold words."""

_LONGEST: Final = 120
_VERSION: Final = 16


def sources(refs: Iterable[Ref], sid: str) -> Iterator[Origin]:
    """Yield the sources that references of a session name, by the ids and names of facts."""
    for ref in refs:
        match ref:
            case EventsRef(first, last, other) if first == last:
                yield names.event_id(other or sid, first)
            case EventsRef(first, last, other):
                yield EventSpan(other or sid, first, last, every=bool(other))
            case CallRef(call, other):
                yield names.call_name(other or sid, call)
            case FileRef(path, version):
                yield names.file_id(path, sid, version)
            case MemoryRef(name) | SkillRef(name):
                yield name
            case ScheduleRef(schedule):
                yield names.schedule_id(schedule)
            case WorkflowRef():
                yield names.workflow_state(ref)
            case InputRef() | HeldRef() | ApprovalRef():
                yield _within(ref, sid)
            case _:
                # Observed messages are in the event that refers to them, and nothing is known of an unknown kind.
                pass


def _within(ref: InputRef | HeldRef | ApprovalRef, sid: str) -> str:
    match ref:
        case InputRef(dedupe):
            return names.input_name(sid, dedupe)
        case HeldRef(held):
            return names.held_name(sid, held)
        case ApprovalRef(approval):
            return names.approval_name(sid, approval)


def event_facts(event: Event, state: SessionState) -> Iterator[Fact]:
    """Yield the fact of an event, and those of the files that came with it."""
    sid, name = state.sid, names.event_id(state.sid, event.seq)
    kind, title = _described(event)
    where = _told_at(event, state)
    node = None if kind is None else LineageNode(name, kind, title, event.label, event.ts, where)
    came = list(sources(event.refs, sid))
    if isinstance(event.body, UserMessage) and state.background is not None and kind is NodeKind.MESSAGE:
        # A task came from the source of its session, and that from the call: the session stands between them.
        came.append(sid)
    enters = event.admitted and (kind in _READ or isinstance(event.body, SessionImported))
    yield Fact(name, node, tuple(came), sid, event.seq, enters, tuple(_names(event, sid)))
    if isinstance(event.body, UserMessage):
        for file in event.body.files:
            if not file.problem:
                yield file_fact(file.path, sid, file.digest[:_VERSION], event.label, came=(name,))


def _told_at(event: Event, state: SessionState) -> str:
    """Return the address where a question or a release was shown to people, the session of any other event."""
    match event.body:
        case ReleaseConfirmed(release=release):
            return release.address
        case ApprovalRequested():
            return state.home
        case _:
            return state.sid


def session_fact(state: SessionState, first: Event | None) -> Fact:
    """Return the fact of a session; its sources are those of its `first` message, or a run's schedule."""
    background, came = state.background, list[Origin]()
    title = "conversation"
    if background is not None:
        title = called(background)
        refs = () if first is None else first.refs
        came += sources((ref for ref in refs if isinstance(ref, CallRef | EventsRef) and ref.session), state.sid)
    if state.charter is not None and state.charter.schedule:
        came.append(names.schedule_id(state.charter.schedule))
    label = state.creation.join(state.inbox_label)
    node = LineageNode(state.sid, NodeKind.SESSION, title, label, state.created_at, state.home)
    # It is also found under the id of its run.
    also = (names.run_name(background.run),) if background is not None else ()
    return Fact(state.sid, node, tuple(came), names=also)


def deleted_fact(sid: str, at: int, label: Label) -> Fact:
    """Return the fact of a deleted session, of which a tombstone is left."""
    return Fact(sid, LineageNode(sid, NodeKind.SESSION, "deleted session", label, at))


def delivery_fact(delivery: Delivery) -> Fact:
    """Return the fact of a delivery; one to another session has no node, as its message there has one."""
    name = names.delivery_id(delivery.sid, delivery.key)
    address = Address.parse(delivery.address)
    node = None
    if address.channel != SESSION:
        addressee = f", for {delivery.meant_for}" if delivery.meant_for else ""
        title = f"{delivery.kind} {delivery.state.value}{addressee}"
        node = LineageNode(name, NodeKind.DELIVERY, title, delivery.label, delivery.created_at, delivery.address)
    came = sources(delivery.refs, delivery.sid)
    # With events that were written together with it, also a question, which no model reads.
    return Fact(name, node, tuple(replace(one, every=True) if isinstance(one, EventSpan) else one for one in came))


def said_fact(event: Event, state: SessionState) -> Fact:
    """Return the fact that an answer was delivered at its home: the delivery is kept for a day, and its event stays."""
    name = f"{names.delivery_id(state.sid, str(event.seq))}"
    title = f"answer {DeliveryState.SENT.value}, its receipt is not kept any more"
    node = LineageNode(name, NodeKind.DELIVERY, title, event.label, event.ts, state.home)
    return Fact(name, node, (names.event_id(state.sid, event.seq),))


def memory_fact(memory: Memory) -> Fact:
    """Return the fact of a memory; it came from the call that taught it, and from the memory it corrects."""
    came: list[Origin] = [*sources(memory.refs, memory.sid)]
    came += [memory.corrects] if memory.corrects else []
    state = "" if memory.state is MemoryState.KEPT else f", {memory.state.value}"
    title = f"memory taught by {_who(memory.asker, by_agent=memory.by_agent)}{state}"
    node = LineageNode(memory.id, NodeKind.MEMORY, title, memory.label, memory.learned_at, memory.principal)
    return Fact(memory.id, node, tuple(came))


def skill_fact(skill: Skill) -> Fact:
    """Return the fact of a skill; it came from the calls and memories of its versions."""
    came = [one for version in skill.versions for one in sources(version.refs, version.sid)]
    came += [memory for version in skill.versions for memory in version.sources]
    came += [skill.derived_from] if skill.derived_from else []
    shown = skill.shown
    title = f"skill by {_who(shown.asker, by_agent=shown.by_agent)}, {skill.state.value}"
    node = LineageNode(skill.id, NodeKind.SKILL, title, shown.told, skill.changed_at, skill.principal)
    return Fact(skill.id, node, tuple(dict.fromkeys(came)))


def schedule_fact(schedule: Schedule) -> Fact:
    """Return the fact of a schedule; it came from the call that made it."""
    name = names.schedule_id(schedule.id)
    title = f"{schedule.kind.value} by {_who(schedule.asker, by_agent=schedule.by_agent)}, {schedule.status.value}"
    node = LineageNode(name, NodeKind.SCHEDULE, title, schedule.label, schedule.created_at, schedule.principal)
    return Fact(name, node, tuple(sources(schedule.refs, "")))


def workflow_fact(project: str, principal: str, events: Sequence[WorkflowEvent]) -> Fact:
    """Return the fact of a workflow, from its events that may be known; it came from the sources of each."""
    name, last = names.workflow_id(project, principal), events[-1]
    label = join_all(event.label for event in events)
    node = LineageNode(name, NodeKind.WORKFLOW, f"workflow {project}", label, last.at, principal)
    came = [one for event in events for one in sources(event.refs, event.sid)]
    return Fact(name, node, tuple(dict.fromkeys(came)))


def workflow_state_fact(ref: WorkflowRef, events: Sequence[WorkflowEvent]) -> Fact:
    """Return the fact of a state of a workflow: the sources of its events up to that state.

    The state has no node, as the item that holds it has one.
    """
    came = (one for event in events for one in sources(event.refs, event.sid))
    return Fact(names.workflow_state(ref), None, tuple(dict.fromkeys(came)))


def file_fact(path: str, sid: str, version: str, label: Label, *, came: tuple[Origin, ...] = ()) -> Fact:
    """Return the fact of a version of a file."""
    name = names.file_id(path, sid, version)
    where = sid if names.is_workspace(path) else path.partition("/")[0]
    return Fact(name, LineageNode(name, NodeKind.FILE, path, label, where=where), came)


def webhook_fact(webhook: ProgramWebhook, at: WebhookPosition, state: SessionState) -> Fact:
    """Return the fact of the events of a session that a webhook was sent."""
    name = names.webhook_id(webhook.id, state.sid)
    title = f"webhook of {webhook.owner}"
    node = LineageNode(name, NodeKind.WEBHOOK, title, state.visibility, at.tried_at, _host(webhook.url))
    return Fact(name, node, (EventSpan(state.sid, 1, at.seq, every=True),))


def written_path(event: Event) -> str | None:
    """Return the path of the file that a call wrote, None for any other event."""
    match event.body:
        case ToolCall(tool=tool, arguments=arguments) if tool == WRITES and arguments is not None:
            path = arguments.get("path")
            return path if isinstance(path, str) else None
        case _:
            return None


def _described(event: Event) -> tuple[NodeKind | None, str]:
    """Return the kind of an event's node and its title; none for an event that only passes on its sources."""
    body = event.body
    if isinstance(body, UserMessage):
        said = f"message of {event.actor}" if body.origin is None else f"{body.origin.kind.value} from another session"
        return NodeKind.MESSAGE, said
    if isinstance(body, AgentMessage):
        return NodeKind.ANSWER, "answer" if event.visibility is Visibility.USER else "answer that was withheld"
    return _KINDS.get(type(body)), _titled(body)


def _titled(body: EventBody) -> str:
    title = ""
    match body:
        case ToolCall(tool=tool, arguments=arguments):
            title = f"call of {tool}{_about(arguments)}"
        case ToolResult(tool=tool, outcome=outcome):
            title = f"result of {tool}, {outcome.value}"
        case ItemHeld(ref=ref):
            title = f"held result {ref}"
        case ApprovalRequested(approval=approval):
            title = f"question {approval} to people"
        case ReleaseConfirmed(release=release):
            title = f"released by {release.principal}"
        case SessionImported(session=session):
            title = f"import of session {session}"
        case UnknownEvent(name=name):
            title = f"unknown event {name}"
        case _:
            title = _TITLES.get(type(body), "")
    return title


def _names(event: Event, sid: str) -> Iterator[str]:
    """Yield the names by which references find an event."""
    match event.body:
        case ToolCall(call=call):
            yield names.call_name(sid, call)
        case ItemHeld(ref=ref):
            yield names.held_name(sid, ref)
        case ApprovalRequested(approval=approval):
            yield names.approval_name(sid, approval)
        case UserMessage():
            yield from (names.input_name(sid, ref.dedupe) for ref in event.refs if isinstance(ref, InputRef))
        case _:
            pass


def _about(arguments: JsonObject | None) -> str:
    """Return the subject of a call, as far as its arguments name a place."""
    told = [place for name in _TOLD if (place := _place(name, (arguments or {}).get(name)))]
    return f", {' '.join(told)}" if told else ""


def _place(name: str, value: JsonValue) -> str:
    """Return the place that an argument names, empty for none: of a URL its host, as the rest may hold any words."""
    if not isinstance(value, str):
        return ""
    if name == "path":
        return value[:_LONGEST]
    if name == "url":
        return _host(value)
    return value if _PLACE.fullmatch(value) else ""


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return host if _PLACE.fullmatch(host) else ""


def _who(asker: str, *, by_agent: bool) -> str:
    return f"an agent for {asker}" if by_agent else asker
