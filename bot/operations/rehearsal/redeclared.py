"""The facts of a recorded call under another policy.

A tool declares the facts of a call from its arguments and the policy. The audit keeps no arguments. So it keeps which
parts of the policy the facts came from, and this module looks the same parts up in another policy. A tool of a plugin
may look at any part: its facts are known again only while the parts are the same.
"""

from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling, recipients
from bot.sessions.background.delegation import SESSION
from bot.tools.base import ToolCaller
from channels.messages import Address
from policy.document.model import Document
from policy.labels import PUBLIC, Label
from policy.request import DeclaredCall, Effect, ToolFacts

_MESSAGE: Final = "message"
_SPAWN: Final = "sessions_spawn"
_STANDING: Final = frozenset({"runs_start", "schedule_create"})
_BY_CEILING: Final = _STANDING | {
    _SPAWN,
    "memory",
    "schedule_cancel",
    "session",
    "session_increment_completed",
    "session_update",
    "sessions_send",
    "skill",
    "steering_heartbeat",
    "workflow",
}
"""The tools whose sink may know what their caller may."""

_BY_ARGUMENTS: Final = frozenset(
    {
        "admit",
        "ask_user",
        "current_time",
        "inspect",
        "list_files",
        "read_file",
        "schedules_list",
        "session_get_state",
        "session_get_stats",
        "session_status",
        "sessions_history",
        "sessions_list",
        "simulate_tool_call",
        "summarize",
        "web_fetch",
        "write_file",
    }
)
"""The tools whose facts come from their arguments, their session and the named folder alone."""

FAMILIAR: Final = _BY_CEILING | _BY_ARGUMENTS | {_MESSAGE}
"""The tools whose facts are known under any policy."""


class NoFolderError(Exception):
    """The folder that a call names is not in the policy, so the call is refused."""


@dataclass(frozen=True, slots=True)
class PastCaller:
    """The caller of a recorded call under the policy, where they were, and the label of their words."""

    caller: ToolCaller
    home: Address
    taint: Label


def redeclared(document: Document, past: PastCaller, call: DeclaredCall) -> DeclaredCall:
    """Return a call as its tool declares it under a policy.

    Raises NoFolderError: the policy does not have its folder.
    """
    tool = call.tool
    if call.folder is not None:
        return _in_folder(document, call, *call.folder)
    if tool.server or tool.name not in _BY_CEILING | {_MESSAGE}:
        return call
    place = Address.parse(call.place) if call.place else None
    if place is not None and place.channel == SESSION:
        place = None
    known = None if place is None else labelling.expected(document, place).clearance
    if tool.name == _MESSAGE or (tool.name == "memory" and place is not None):
        clearance = known
    elif tool.clearance is None:
        clearance = None
    else:
        clearance = past.caller.ceiling if place is None else past.caller.ceiling.meet(known or PUBLIC)
    consequential = tool.consequential if place is None else _consequential(document, past, tool, place)
    return replace(call, tool=replace(tool, clearance=clearance, consequential=consequential))


def _in_folder(document: Document, call: DeclaredCall, name: str, beside: Label) -> DeclaredCall:
    folder = document.folders.get(name)
    if folder is None:
        raise NoFolderError
    if call.tool.effect is Effect.WRITE:
        return replace(call, tool=replace(call.tool, clearance=folder.clearance))
    return replace(call, result=folder.label.join(beside))


def _consequential(document: Document, past: PastCaller, tool: ToolFacts, place: Address) -> bool:
    own = recipients.stays(document, past.caller, past.home, place)
    if tool.name == _MESSAGE:
        cleared = labelling.expected(document, place).clearance
        return not (cleared is not None and past.taint.flows_to(cleared) and own)
    if tool.name == _SPAWN:
        return not own
    if tool.name in _STANDING:
        return tool.asks or past.taint.untrusted or not own
    return tool.consequential
