"""The files of a storm: written on one machine, read on the other, with the label that their writer gave them.

Each text names the input whose turn wrote it, and steps before and after a call tell the machine of a turn. The law
`stored_things_keep_their_label` holds if what is read has at least the label that its writer's session had.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.sessions.log.event_types import ToolCall, ToolOutcome, ToolResult
from bot.sessions.log.events import Event
from policy.labels import PUBLIC, Label, join_all
from tests.chaos.machines.plan import NAMES, SHARED
from tests.chaos.storm_laws import Checked

_WRITTEN: Final = re.compile(r"written-\d+-\d+;")
_AT: Final = re.compile(rf" at ({'|'.join(NAMES)})$")


@dataclass(frozen=True, slots=True)
class LeftChat:
    """What is left in the log of a chat."""

    number: int
    events: tuple[Event, ...]


@dataclass(slots=True)
class FilesSeen:
    """How many texts were `written`, `read`, and read on the `other` machine, and how many `turns` each machine had.

    A turn that went from one machine to the other is `both`'s, and counts for no file. `shared` are those that were
    read in the shared folder.
    """

    written: int = 0
    read: int = 0
    shared: int = 0
    other: int = 0
    turns: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class _Writing:
    """The place where a text was written: on a machine, by a session of a label."""

    machine: str
    label: Label


def files_seen(chats: Sequence[LeftChat], found: Checked) -> FilesSeen:
    """Look at all calls that wrote or read a file."""
    seen, writings = FilesSeen(), dict[str, _Writing]()
    turns = {chat.number: _machines(chat.events) for chat in chats}
    for chat in chats:
        seen.turns.update(turns[chat.number].values())
        for text, writing in _writings(chat.events, turns[chat.number]):
            writings[text] = writing
            seen.written += 1
    for chat in chats:
        kept = set[str]()
        for event, path, body in _file_calls(chat.events):
            where, texts = f"c{chat.number}", _WRITTEN.findall(body.text) if body.outcome is ToolOutcome.OK else []
            if body.tool == "write_file":
                kept |= {path} if body.outcome is ToolOutcome.OK and not path.startswith(f"{SHARED}/") else set()
                continue
            holds = bool(texts) or path not in kept or not body.outcome.ran
            found.law("files_are_found_everywhere", where, holds=holds, found=(path, body))
            seen.read += bool(texts)
            seen.shared += bool(texts) and path.startswith(f"{SHARED}/")
            for writing in (writings[text] for text in texts if text in writings):
                seen.other += {turns[chat.number].get(event.turn, ""), writing.machine} == set(NAMES)
                holds, facts = writing.label.flows_to(event.label), (path, texts, writing, event.label)
                found.law("stored_things_keep_their_label", where, holds=holds, found=facts)
    return seen


def _machines(events: Iterable[Event]) -> dict[str, str]:
    """Return the machine of each turn, by what its steps tell."""
    told = dict[str, set[str]]()
    for event in events:
        if isinstance(event.body, ToolResult) and (at := _AT.search(event.body.text)):
            told.setdefault(event.turn, set()).add(at[1])
    return {turn: next(iter(names)) if len(names) == 1 else "both" for turn, names in told.items()}


def _writings(events: Sequence[Event], machines: dict[str, str]) -> Iterable[tuple[str, _Writing]]:
    """Yield each text that was written, with the label that its session had then."""
    label, calls = PUBLIC, dict[str, tuple[str, Label]]()
    for event in events:
        body = event.body
        if isinstance(body, ToolCall) and body.tool == "write_file":
            calls[body.call] = str((body.arguments or {}).get("text", "")), label
        if isinstance(body, ToolResult) and body.call in calls and body.outcome is ToolOutcome.OK:
            text, then = calls[body.call]
            yield text, _Writing(machines.get(event.turn, ""), then)
        if event.admitted:
            label = join_all((label, event.label))


def _file_calls(events: Sequence[Event]) -> Iterable[tuple[Event, str, ToolResult]]:
    """Yield each result of a call that wrote or read a file, with its path."""
    paths = dict[str, str]()
    for event in events:
        body = event.body
        if isinstance(body, ToolCall) and body.tool in {"read_file", "write_file"}:
            paths[body.call] = str((body.arguments or {}).get("path", ""))
        if isinstance(body, ToolResult) and body.call in paths:
            yield event, paths[body.call], body
