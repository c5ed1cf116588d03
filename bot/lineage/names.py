"""The ids by which items are traced, as listings show them and people type them."""

import re
from typing import Final

from bot.core.errors import RequestError
from bot.sessions.refs import WorkflowRef, written

FORMS: Final = (
    "`SESSION`, `SESSION-SEQ` (an event), `SESSION/KEY` (a delivery), `CHAIN:ROW` (of the audit), `run:ID`, "
    "`schedule:ID`, `workflow:PROJECT`, `mem_ID`, `skill_ID`, `file:FOLDER/NAME` or `file:workspace/NAME@SESSION`"
)
"""The accepted forms, for people who typed another one."""

_SESSION: Final = r"[a-z2-7]{32}"
_ROW: Final = re.compile(r"(?!(?:file|run|schedule|workflow|webhook):)[^\s:]+:[^\s:/]+")
_FILE: Final = "file:"
_RUN: Final = "run:"
_SCHEDULE: Final = "schedule:"
_WORKFLOW: Final = "workflow:"
_WEBHOOK: Final = "webhook:"
_EVENT: Final = re.compile(rf"({_SESSION})-([1-9][0-9]{{0,15}})")
_DELIVERY: Final = re.compile(rf"({_SESSION})/(.+)")
_WITHIN: Final = re.compile(rf"(?:(?:call|held|approval|input) )?({_SESSION})(?:[-/ ]|$)")
_WORKSPACE: Final = re.compile(rf"(workspace/.+)@({_SESSION})(?:#[0-9a-f]+)?")


class LineageNameError(RequestError):
    """The typed text is not an id that can be traced."""

    code = "lineage_id"

    def __init__(self) -> None:
        super().__init__("this is no id that can be traced", next_step=f"write {FORMS}")


def event_id(sid: str, seq: int) -> str:
    """Return the id of an event, as the HTTP API names it."""
    return f"{sid}-{seq}"


def delivery_id(sid: str, key: str) -> str:
    """Return the id of a delivery of a session."""
    return f"{sid}/{key}"


def call_name(sid: str, call: str) -> str:
    """Return the name by which references find a call of a session."""
    return f"call {sid} {call}"


def held_name(sid: str, ref: str) -> str:
    """Return the name by which references find an item that a session holds."""
    return f"held {sid} {ref}"


def approval_name(sid: str, approval: str) -> str:
    """Return the name by which references find a question to people."""
    return f"approval {sid} {approval}"


def input_name(sid: str, dedupe: str) -> str:
    """Return the name by which references find the message that an input became."""
    return f"input {sid} {dedupe}"


def run_name(run: str) -> str:
    """Return the id of a run or background session by the id that it was given."""
    return f"{_RUN}{run}"


def schedule_id(schedule: str) -> str:
    """Return the id of a schedule or reminder."""
    return f"{_SCHEDULE}{schedule}"


def webhook_id(webhook: str, sid: str) -> str:
    """Return the id of a webhook that was sent events of a session."""
    return f"{_WEBHOOK}{webhook}@{sid}"


def file_id(path: str, sid: str, version: str = "") -> str:
    """Return the id of a file by its path, in a version; one of a workspace is named by its session, too."""
    where = f"@{sid}" if is_workspace(path) else ""
    return f"{_FILE}{path}{where}#{version}" if version else f"{_FILE}{path}{where}"


def is_workspace(path: str) -> bool:
    """Say whether a path is in a session's own folder."""
    return path.startswith("workspace/")


def file_named(name: str) -> tuple[str, str, str] | None:
    """Return the path, session and version that the id of a file names, None for another id."""
    if not name.startswith(_FILE):
        return None
    path, _, version = name.removeprefix(_FILE).partition("#")
    if found := _WORKSPACE.fullmatch(path):
        return found[1], found[2], version
    return path, "", version


def event_named(name: str) -> tuple[str, int] | None:
    """Return the session and seq that the id of an event names, None for another id."""
    found = _EVENT.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def delivery_named(name: str) -> str | None:
    """Return the session that the id of a delivery names, None for another id."""
    found = _DELIVERY.fullmatch(name)
    return found[1] if found else None


def session_named(name: str) -> str | None:
    """Return the session that an id names as a whole, None for another id."""
    return name if re.fullmatch(_SESSION, name) else None


def run_named(name: str) -> str | None:
    """Return the run that an id names, None for another id."""
    return name.removeprefix(_RUN) if name.startswith(_RUN) else None


def schedule_named(name: str) -> str | None:
    """Return the schedule that an id names, None for another id."""
    return name.removeprefix(_SCHEDULE) if name.startswith(_SCHEDULE) else None


def workflow_id(project: str, principal: str) -> str:
    """Return the id of a workflow: a project is a principal's own."""
    return f"{_WORKFLOW}{project}@{principal}"


def workflow_state(ref: WorkflowRef) -> str:
    """Return the name of a state of a workflow, which people do not type."""
    return f"state {written((ref,))}"


def workflow_named(name: str) -> tuple[str, str] | None:
    """Return the project that an id names, and the principal, empty for any; None for another id."""
    if not name.startswith(_WORKFLOW):
        return None
    project, _, principal = name.removeprefix(_WORKFLOW).partition("@")
    return project, principal


def knowledge_named(name: str) -> bool:
    """Say whether an id is of a memory or a skill."""
    return name.startswith(("mem_", "skill_"))


def session_in(name: str) -> str:
    """Return the session that an event, call or delivery belongs to by its id or name, empty for other items."""
    found = _WITHIN.match(name)
    return found[1] if found else ""


def is_found_anywhere(name: str) -> bool:
    """Say whether an id is of an item that no session, principal or folder names: it is found by searching all."""
    return name.startswith(_WEBHOOK)


def row_named(name: str) -> bool:
    """Say whether an id is of a row of the audit."""
    return _ROW.fullmatch(name) is not None
