"""The part of the store for workflows: a log of events for each project and label.

A principal's workflows are in the slot of their memories, the events of each label under keys of their own. The audit
is in another slot: its rows are written before a change.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from bot.core.errors import FullError
from bot.sessions import refs
from bot.sessions.audit import AuditRow
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowView
from bot.sessions.workflows.events import MOST_EVENTS, MOST_WORKFLOWS, NewWorkflowEvent, WorkflowEvent
from bot.sessions.workflows.serialization import body_from, body_json, kind_of
from bot.store.calls import Arguments, call
from bot.store.records import codec
from bot.store.records.codec import text
from bot.store.records.form import stored, unpack
from bot.store.records.kinds import WORKFLOW_EVENT
from bot.store.schema import WorkflowKeys, audit_op, workflow_keys
from bot.store.scripts.loader import Script
from bot.store.shared import Shared
from policy.labels import PUBLIC, Label

_PLAIN: Final = ("actor", "by_agent", "call")
"""The parts of an event that are written as they are."""


class RedisWorkflows:
    """Implements the port `WorkflowStore`. At most so many `events` are kept of a log, and `projects` of a label."""

    def __init__(self, shared: Shared, *, events: int = MOST_EVENTS, projects: int = MOST_WORKFLOWS) -> None:
        self._shared = shared
        self._events = events
        self._projects = projects

    async def advance(
        self,
        place: WorkflowPlace,
        view: WorkflowView,
        events: tuple[NewWorkflowEvent, ...],
        audit: tuple[AuditRow, ...],
    ) -> tuple[WorkflowEvent, ...] | None:
        """Append events to a log in one atomic step, and return them as they are kept; None if the view is old."""
        op = f"workflow/{place.project}/{events[0].call or self._shared.ids.op()}"
        if audit:
            # The chain is shared by all principals, and the answers to their calls are apart.
            told = audit_op(f"workflow/{place.principal}/{place.label}/{op}")
            await self._shared.change_outside(Script.AUDIT_APPEND, {"op": told}, {}, audit)
        keys = _keys(place.principal, place.project, place.label)
        named = {
            "log": keys.log,
            "versions": keys.versions,
            "orders": keys.orders,
            "kept": keys.kept,
            "projects": keys.projects,
            "op": keys.op(op),
        }
        args: Arguments = {
            "project": place.project,
            "label": str(place.label),
            "reader": str(view.reader),
            "seen": {str(label): number for label, number in view.seen.items()},
            "events": [_record(event) for event in events],
            "most": self._events,
            "many": self._projects,
        }
        got = await self._shared.run(call(Script.ADVANCE_WORKFLOW, named, args))
        if got.word == "moved":
            return None
        if got.word != "ok":
            raise FullError("events" if got.word == "full" else "workflows")
        label = codec.label(got.text("label"))
        return codec.reading(lambda: tuple(_event(label, record) for record in got.list("appended")))

    async def log(
        self, principal: str, project: str, known: Callable[[Label], bool], *, since: Sequence[WorkflowEvent] = ()
    ) -> tuple[WorkflowEvent, ...]:
        """Return the events of a project with `known` labels, in order.

        Only the events after those of `since`, which an earlier call returned, are read.
        """
        (flat,) = await self._shared.connection.commands(("HGETALL", _keys(principal, project).versions))
        lengths = {label: number for label, number in _numbers(flat).items() if known(label)}
        read = Counter(event.label for event in since)
        # Logs only grow: up to these lengths they are as they were at one moment, together. A shorter one was restored.
        begins = {label: read[label] if read[label] <= end else 0 for label, end in lengths.items()}
        grown = [label for label, end in lengths.items() if begins[label] < end]
        asked = [("LRANGE", _keys(principal, project, label).log, begins[label], lengths[label] - 1) for label in grown]
        replies = await self._shared.connection.commands(*asked) if asked else []
        fresh = codec.reading(
            lambda: [_event(label, one) for label, records in zip(grown, replies, strict=True) for one in records]
        )
        kept = [event for event in since if begins.get(event.label)]
        return tuple(sorted((*kept, *fresh), key=lambda event: event.order))

    async def projects(self, principal: str, known: Callable[[Label], bool], most: int) -> tuple[str, ...]:
        """Return up to `most` projects with events of `known` labels, the last changed first."""
        (flat,) = await self._shared.connection.commands(("HGETALL", _keys(principal).kept))
        labels = [label for label in _numbers(flat) if known(label)]
        asked = [("ZRANGE", _keys(principal, "", label).projects, 0, most - 1, "REV", "WITHSCORES") for label in labels]
        last = dict[str, float]()
        for reply in await self._shared.connection.commands(*asked) if asked else []:
            for name, at in codec.pairs(reply).items():
                last[text(name)] = max(float(at), last.get(text(name), 0))
        return tuple(sorted(last, key=lambda name: (-last[name], name))[:most])


def _keys(principal: str, project: str = "", label: Label = PUBLIC) -> WorkflowKeys:
    return workflow_keys(principal, project, str(label))


def _numbers(flat: list[bytes]) -> dict[Label, int]:
    return codec.reading(lambda: {codec.label(text(label)): int(one) for label, one in codec.pairs(flat).items()})


def _record(value: NewWorkflowEvent) -> Arguments:
    return stored(
        {
            **{name: getattr(value, name) for name in _PLAIN},
            "kind": kind_of(value.body),
            "body": body_json(value.body),
            "session": value.sid,
            "refs": refs.written(value.refs),
        }
    )


def _event(label: Label, record: bytes) -> WorkflowEvent:
    got = unpack(WORKFLOW_EVENT, record)
    return WorkflowEvent(
        **{name: got[name] for name in _PLAIN},
        order=got["order"],
        at=got["time"],
        label=label,
        body=body_from(got["kind"], got["body"]),
        sid=got["session"],
        refs=refs.read(got["refs"]),
    )
