"""Events and definitions of workflows as JSON, and back.

A kind that this program does not know is kept as it is. Anything else that cannot be read raises ValueError, or a kind
of it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_origin

from bot.sessions.workflows.definitions import StepDefinition, WorkflowDefinition
from bot.sessions.workflows.events import (
    DecisionMade,
    FileTakenIn,
    FindingAdded,
    FindingRemoved,
    StateRecovered,
    StepCompleted,
    StepSkipped,
    StepStarted,
    SubStepDone,
    UnknownBody,
    WorkflowBody,
    WorkflowStarted,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Made = TypeVar("_Made", bound="DataclassInstance")

KINDS: Final[Mapping[str, type[WorkflowBody]]] = MappingProxyType(
    {
        "started": WorkflowStarted,
        "step_started": StepStarted,
        "sub_step_done": SubStepDone,
        "step_completed": StepCompleted,
        "step_skipped": StepSkipped,
        "decided": DecisionMade,
        "finding_added": FindingAdded,
        "finding_removed": FindingRemoved,
        "file_taken_in": FileTakenIn,
        "recovered": StateRecovered,
    }
)
"""The name of each kind of event where it is stored and shown."""

_NAMES: Final = MappingProxyType({kind: name for name, kind in KINDS.items()})


def kind_of(body: WorkflowBody) -> str:
    """Return the name of a kind of event."""
    return body.kind if isinstance(body, UnknownBody) else _NAMES[type(body)]


def body_json(body: WorkflowBody) -> str:
    """Write the content of an event, without empty fields."""
    if isinstance(body, UnknownBody):
        return body.text
    return json.dumps(_lean(asdict(body)), ensure_ascii=False, separators=(",", ":"))


def body_from(kind: str, text: str) -> WorkflowBody:
    """Read the content of an event. Raises ValueError: it cannot be read."""
    known = KINDS.get(kind)
    if known is None:
        return UnknownBody(kind, text)
    got = _object(json.loads(text))
    if known is WorkflowStarted:
        definition, branch = definition_from(_object(got.get("definition"))), got.get("branch", "")
        return _made(known, {"definition": definition, "branch": branch})
    return _made(known, got)


def definition_object(definition: WorkflowDefinition) -> dict[str, Any]:
    """Return a definition as a JSON object, without empty fields."""
    return _lean(asdict(definition))


def definition_from(got: Mapping[str, Any]) -> WorkflowDefinition:
    """Read a definition. Raises ValueError: it cannot be read."""
    steps = tuple(_made(StepDefinition, _object(step)) for step in got.get("steps", ()))
    named = {name: got.get(name, "") for name in ("name", "title", "digest")}
    return _made(WorkflowDefinition, {**named, "steps": steps})


def _made(kind: type[_Made], got: Mapping[str, Any]) -> _Made:
    """Make a value of texts, numbers, flags and lists of texts. Raises ValueError: something is of another type."""
    parts = dict[str, Any]()
    for field in fields(kind):
        if field.name not in got:
            continue
        value = got[field.name]
        if field.type == tuple[str, ...]:
            value = _texts(value)
        elif not isinstance(value, get_origin(field.type) or cast("type", field.type)):
            raise ValueError(field.name)
        parts[field.name] = value
    try:
        return kind(**parts)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _lean(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object without empty fields."""
    return {name: _part(part) for name, part in value.items() if part not in ("", (), False)}


def _part(part: object) -> object:
    if isinstance(part, dict):
        return _lean(cast("dict[str, Any]", part))
    return list(map(_part, cast("tuple[object, ...]", part))) if isinstance(part, tuple) else part


def _object(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    raise ValueError("no object")


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        texts = tuple(one for one in cast("list[object]", value) if isinstance(one, str))
        if len(texts) == len(cast("list[object]", value)):
            return texts
    raise ValueError("no list of texts")
