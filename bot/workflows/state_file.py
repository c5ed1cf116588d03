"""The state file and the hand-off as texts: written alike each time, and read with every doubt.

A file of schema 1.0, 2.0 or none is migrated as it is read: it loses `lock`, `stale_threshold_ms` and the steps'
`claim`. Its other fields that 3.0 does not have are kept among the decisions. A newer one is refused.
"""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, cast

from bot.core.invisible import spelled
from bot.sessions.workflows.definitions import LONGEST_TITLE, WorkflowDefinition
from bot.sessions.workflows.document import (
    SCHEMA_VERSION,
    LoggedDecision,
    OpenFinding,
    StepStatus,
    WorkflowDocument,
    WorkflowStep,
)
from bot.workflows.errors import NewerSchemaError

HANDOFF_LINES: Final = 59
"""Lines of a hand-off at most."""

_DEEPEST: Final = 32
_OLDER: Final = frozenset({"1.0", "2.0", ""})
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DROPPED: Final = frozenset({"lock", "stale_threshold_ms", "$schema", "version"})
_FIELDS: Final = frozenset(
    (
        *("schema_version", "workflow", "revision", "project", "branch", "updated", "current_step"),
        *("steps", "decisions", "decision_log", "open_findings", "review_audit"),
    )
)
_KEPT: Final = ("branch", "current_step", "decisions", "decision_log", "open_findings", "review_audit")
"""The fields that keep their values, beside steps, where a file of an older schema does not have them."""

_OLD_WORDS: Final = MappingProxyType(
    {"": "pending", "not_started": "pending", "in-progress": "in_progress", "completed": "complete", "done": "complete"}
)
"""How statuses were called before 3.0."""


class BrokenStateError(Exception):
    """A text is not a state of a workflow; the error's text is the reason."""


def rendered(document: WorkflowDocument) -> str:
    """Return a document as the text of its state file."""
    text = json.dumps(document_object(document), indent=2, ensure_ascii=False) + "\n"
    # A text that no file can hold is written as it will be read back.
    return text.encode("utf-8", "replace").decode("utf-8")


def document_object(document: WorkflowDocument) -> dict[str, Any]:
    """Return a document as an object of JSON, in the order of the schema; an empty field of a step is null."""
    return {
        "schema_version": document.schema_version,
        "workflow": document.workflow,
        "revision": document.revision,
        "project": document.project,
        "branch": document.branch,
        "updated": document.updated,
        "current_step": document.current_step,
        "steps": {
            name: {
                "name": step.name,
                "status": step.status.value,
                "sub_step": step.sub_step or None,
                "started": step.started or None,
                "completed": step.completed or None,
                "artifacts": list(step.artifacts),
                "context_files_used": list(step.context_files_used),
            }
            for name, step in document.steps.items()
        },
        "decisions": dict(document.decisions),
        "decision_log": [
            {"id": one.id, "step": one.step, "title": one.title, "choice": one.choice, "rationale": one.rationale}
            for one in document.decision_log
        ],
        "open_findings": [{"id": one.id, "step": one.step, "text": one.text} for one in document.open_findings],
        "review_audit": dict(document.review_audit),
    }


def moment(text: str) -> datetime:
    """Return a time of a document, the earliest there is for the empty text.

    Raises BrokenStateError: it is not a time.
    """
    if not text:
        return _NO_TIME
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BrokenStateError(f"`{text[:40]}` is no time of ISO 8601") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def parsed(
    text: str, project: str, definition: WorkflowDefinition, before: WorkflowDocument | None = None
) -> WorkflowDocument:
    """Read the text of a project's state file, and migrate an older schema than 3.0.

    A missing field of an older one is as in the state `before`: such a schema has no word for some of them.

    Raises:
        BrokenStateError: it is not a state, or of another project, or does not fit the definition.
        NewerSchemaError: it is of a newer version.
    """
    try:
        whole = json.loads(text, parse_constant=_number, parse_float=_number)
    except (ValueError, RecursionError):
        raise BrokenStateError("it is no JSON" if text.strip() else "it is empty") from None
    _require_plain(whole)
    got = _object(whole, "it")
    version = _version(got)
    named = _text(got, "project")
    if named != project:
        raise BrokenStateError(f"it is of the project `{named[:LONGEST_TITLE]}`")
    migrates = version != SCHEMA_VERSION
    if migrates and before is not None:
        got = _over(document_object(before), got)
    updated = _text(got, "updated")
    moment(updated)
    steps = dict(_steps(_object(got.get("steps", {}), "`steps`"), definition, migrates=migrates))
    return WorkflowDocument(
        project=project,
        branch=_text(got, "branch"),
        updated=updated,
        current_step=_current(got, definition),
        steps=MappingProxyType(steps),
        decisions=MappingProxyType(_decisions(got, migrates=migrates)),
        decision_log=tuple(_log(got)),
        open_findings=tuple(_findings(got)),
        review_audit=MappingProxyType(dict(_object(got.get("review_audit", {}), "`review_audit`"))),
        workflow=_text(got, "workflow"),
        revision=_revision(got),
    )


def refuse_newer(text: str) -> None:
    """Refuse the text of a state file that is of a newer version. Raises NewerSchemaError: it is."""
    try:
        whole = json.loads(text)
        if isinstance(whole, dict):
            _version(cast("dict[str, Any]", whole))
    except (ValueError, RecursionError, BrokenStateError):
        return


def handoff(document: WorkflowDocument, definition: WorkflowDefinition) -> str:
    """Return the hand-off at a gate: the workflow's state, and paths of its artifacts, in less than 60 lines."""
    steps = document.steps
    head = [
        f"# Hand-off: {document.project}",
        "",
        f"- Workflow: {definition.title}",
        f"- Updated: {document.updated}",
        f"- Branch: {_line(document.branch) or 'none'}",
        f"- Next step: {_next(document)}",
        f"- Open findings: {len(document.open_findings)}",
        "",
        "## Steps",
        "",
        *[f"- {name} {step.name}: {step.status.value}" for name, step in steps.items()],
    ]
    head = _fitted(head, HANDOFF_LINES * 2 // 3, "- ... and {} more steps, see 00-session-state.json")
    paths = [f"- {_line(path)}" for step in steps.values() for path in step.artifacts]
    room = HANDOFF_LINES - len(head) - 3
    body = _fitted(paths, room, "- ... and {} more, see 00-session-state.json") or ["- none"]
    return "\n".join([*head, "", "## Artifacts", "", *body]) + "\n"


def _number(text: str) -> float:
    """Read a number. Raises ValueError: it is none that JSON has."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _require_plain(whole: object) -> None:
    """Refuse a value that cannot be written again. Raises BrokenStateError: it is too deep, or has half a character."""
    level = [whole]
    for _ in range(_DEEPEST):
        below = list[object]()
        for value in level:
            if isinstance(value, str):
                _require_whole(value)
            elif isinstance(value, dict):
                parts = cast("dict[str, object]", value)
                below += [*parts, *parts.values()]
            elif isinstance(value, list):
                below += cast("list[object]", value)
        if not below:
            return
        level = below
    raise BrokenStateError(f"it is more than {_DEEPEST} levels deep")


def _require_whole(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BrokenStateError("it has half a character") from None


def _line(text: str) -> str:
    """Return a text that others wrote as a part of a line of ours."""
    return spelled(" ".join(text.split()))


def _fitted(lines: list[str], room: int, rest: str) -> list[str]:
    return lines if len(lines) <= room else [*lines[: room - 1], rest.format(len(lines) - room + 1)]


def _next(document: WorkflowDocument) -> str:
    step = document.steps.get(document.current_step)
    return f"{document.current_step} {step.name}" if step is not None and step.open else "none"


def _revision(got: Mapping[str, Any]) -> int:
    """Return the revision that a file was made from; 0 where it does not say, as in one written by hand."""
    found = got.get("revision", 0)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def _version(got: Mapping[str, Any]) -> str:
    """Return the version of a state file.

    Raises:
        BrokenStateError: it is none that is read.
        NewerSchemaError: it is none that is read.
    """
    version = str(got.get("schema_version", got.get("version", "")))
    if version in {SCHEMA_VERSION, *_OLDER}:
        return version
    if not _is_newer(version):
        raise BrokenStateError(f"`{version[:40]}` is no version of the schema")
    raise NewerSchemaError(
        f"the state file is of schema {version[:40]}, and this program knows {SCHEMA_VERSION}",
        next_step="upgrade lockgate, or move the file away",
    )


def _is_newer(version: str) -> bool:
    """Say whether a text is a version above ours."""
    parts = version.split(".")
    if not all(part.isdecimal() and len(part) < len("10000") for part in parts):
        return False
    return tuple(map(int, parts)) > tuple(map(int, SCHEMA_VERSION.split(".")))


def _over(before: Mapping[str, Any], got: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a file of an older schema with its missing fields from the state before it."""
    there, said = before["steps"], _object(got.get("steps"), "`steps`")
    steps = {name: {**there.get(name, {}), **_object(said.get(name), f"step `{name}`")} for name in {**there, **said}}
    return {**{name: before[name] for name in _KEPT}, **got, "steps": steps}


def _current(got: Mapping[str, Any], definition: WorkflowDefinition) -> str:
    value = got.get("current_step") or definition.steps[0].id
    name = str(value) if isinstance(value, int) else value
    if not isinstance(name, str) or definition.step(name) is None:
        raise BrokenStateError("its `current_step` is no step of the workflow")
    return name


def _steps(
    got: Mapping[str, Any], definition: WorkflowDefinition, *, migrates: bool
) -> Iterator[tuple[str, WorkflowStep]]:
    for name in got:
        if definition.step(name) is None:
            raise BrokenStateError(f"it has a step `{name[:LONGEST_TITLE]}`, which the workflow has not")
    for step in definition.steps:
        if step.id not in got and not migrates:
            raise BrokenStateError(f"it has no step `{step.id}`")
        said = _object(got.get(step.id, {}), f"step `{step.id}`")
        word = _text(said, "status")
        word = _OLD_WORDS.get(word, word) if migrates else word
        if word not in set(StepStatus):
            raise BrokenStateError(f"step `{step.id}` has a status that there is not")
        sub_step = _text(said, "sub_step")
        if sub_step and sub_step not in step.sub_steps:
            if not migrates:
                raise BrokenStateError(f"step `{step.id}` has no sub-step `{sub_step[:LONGEST_TITLE]}`")
            sub_step = ""
        yield (
            step.id,
            WorkflowStep(
                step.name,
                StepStatus(word),
                sub_step,
                _time(said, "started"),
                _time(said, "completed"),
                _texts(said, "artifacts"),
                _texts(said, "context_files_used"),
            ),
        )


def _decisions(got: Mapping[str, Any], *, migrates: bool) -> dict[str, Any]:
    decisions = dict(_object(got.get("decisions", {}), "`decisions`"))
    if migrates:
        more = {name: value for name, value in got.items() if name not in _FIELDS | _DROPPED}
        decisions = {**{name: value for name, value in more.items() if value not in (None, "")}, **decisions}
    return decisions


def _log(got: Mapping[str, Any]) -> Iterator[LoggedDecision]:
    for place, one in enumerate(_list(got, "decision_log")):
        said = _object(one, f"decision {place + 1}")
        yield LoggedDecision(*(_text(said, name) for name in ("id", "step", "title", "choice", "rationale")))


def _findings(got: Mapping[str, Any]) -> Iterator[OpenFinding]:
    for place, one in enumerate(_list(got, "open_findings")):
        if isinstance(one, str):
            yield OpenFinding("", "", one)
            continue
        said = _object(one, f"finding {place + 1}")
        yield OpenFinding(*(_text(said, name) for name in ("id", "step", "text")))


def _object(value: object, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BrokenStateError(f"{what} is no object")
    return cast("dict[str, Any]", value)


def _list(got: Mapping[str, Any], name: str) -> list[Any]:
    value: object = got.get(name) or []
    if not isinstance(value, list):
        raise BrokenStateError(f"`{name}` is no list")
    return cast("list[Any]", value)


def _text(got: Mapping[str, Any], name: str) -> str:
    value = got.get(name)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BrokenStateError(f"`{name}` is no text")
    return value


def _time(got: Mapping[str, Any], name: str) -> str:
    found = _text(got, name)
    moment(found)
    return found


def _texts(got: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = _list(got, name)
    if not all(isinstance(one, str) for one in values):
        raise BrokenStateError(f"`{name}` is no list of texts")
    return tuple(values)
