"""Completes a line that a person types: commands, their actions, session ids and paths of the file root.

A person is shown nothing that they could not list. Commands are those of their role, sessions those of `/sessions`.
Names of files are shown where the gate would allow `list_files`, up to the label that may be told at the address (law
`no_read_up`).
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from bot.access.authorize import Caller, Ingress, at_least, authorize
from bot.commands.command import CommandRequest
from bot.commands.table import Command, CommandTable
from bot.files import locations
from bot.files.locations import FileLocation
from bot.files.port import AbsentError, LabelledFiles, UnavailableError
from bot.gate.gate import Gate
from bot.sessions.models import SessionQuery
from bot.sessions.ports.sessions import SessionIndex
from bot.tools.sessions import title_for
from channels.messages import Address
from policy.decision import Verdict
from policy.document.reading import WORKSPACE
from policy.labels import Label

MOST: Final = 50
"""Suggestions that are made at once."""

_LISTS: Final = "list_files"
_SESSION: Final = "SESSION"
_WORD: Final = re.compile(r"[^\s\"'`(){}\[\],]*\Z")
_ACTION: Final = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text that may replace the last `replaced` characters, with a description."""

    text: str
    replaced: int
    about: str = ""


class Suggestions:
    """Makes suggestions for callers at their addresses."""

    def __init__(self, commands: CommandTable, gate: Gate, index: SessionIndex, files: LabelledFiles) -> None:
        self._commands = commands
        self._gate = gate
        self._index = index
        self._files = files

    async def of(self, account: str, address: Address, sid: str, text: str) -> tuple[Suggestion, ...]:
        """Return the completions of the end of a text; an unknown account gets none.

        Raises StoreError: the store cannot be asked.
        """
        caller = authorize(self._gate.document, account, Ingress.COMMAND)
        if not isinstance(caller, Caller) or "\n" in text:
            return ()
        request = self._commands.request(caller, address, sid)
        word = _last(text)
        before = text[: len(text) - len(word)]
        if text.startswith("/") and not before:
            return _fitting(word, ((f"/{one.name}", one.help) for one in self._commands.offered(request)))
        command = self._command(request, before)
        found = () if command is None else _fitting(word, self._actions(request, command, before))
        if command is not None and _SESSION in command.usage:
            found += await self._sessions(request, word)
        return (*found, *await self._paths(request, word))[:MOST]

    def _command(self, request: CommandRequest, before: str) -> Command | None:
        """Return the command that a line begins with, if it is offered to the caller."""
        name = before.split(maxsplit=1)[:1]
        offered = self._commands.offered(request) if before.startswith("/") else []
        return next((one for one in offered if [f"/{one.name}"] == name), None)

    def _actions(self, request: CommandRequest, command: Command, before: str) -> Iterator[tuple[str, str]]:
        """Yield the first words of a command's arguments, those that the caller's role may give."""
        if before.strip() == f"/{command.name}":
            for action in actions(command.usage):
                if at_least(request.caller.role, command.needed(action)):
                    yield action, ""

    async def _sessions(self, request: CommandRequest, word: str) -> tuple[Suggestion, ...]:
        """Return the caller's sessions, by the beginning of the id or a part of the title."""
        reader = (await request.standing(None)).reader
        asked = SessionQuery(request.caller.principal, reader, limit=MOST, archived=True)
        found = list[Suggestion]()
        for state in (await self._index.listed(asked)).sessions:
            title = title_for(state, reader)
            called = "" if title is None else self._gate.masks.masked(title.text)
            if state.sid.startswith(word) or (word and word.lower() in called.lower()):
                found.append(Suggestion(state.sid, len(word), called or state.kind))
        return tuple(found)

    async def _paths(self, request: CommandRequest, word: str) -> tuple[Suggestion, ...]:
        """Return the folders of the file root, or the names in one of them."""
        document = self._gate.document
        folder, _, name = word.rpartition("/")
        if not folder:
            return _fitting(word, ((f"{one}/", "folder") for one in (*sorted(document.folders), WORKSPACE)))
        state = await request.state()
        standing = await request.standing(state)
        place = self._place(folder, request.sid, 0 if state is None else state.generation)
        if place is None or not place.floor.flows_to(standing.reader) or await request.above(state):
            return ()
        told = await self._gate.calls.simulate(standing, _LISTS, {"path": folder}, standing.reader)
        if told["verdict"] != Verdict.ALLOW.name:
            return ()
        names = await asyncio.to_thread(partial(self._names, place, standing.reader))
        fitting = ((f"{folder}/{one}", about) for one, about in names if one.startswith(name) and one.isprintable())
        return tuple(Suggestion(one, len(word), about) for one, about in fitting)

    def _place(self, folder: str, sid: str, generation: int) -> FileLocation | None:
        if folder == WORKSPACE:
            return locations.workspace(sid, generation)
        known = self._gate.document.folders.get(folder)
        if known is not None:
            return locations.shared(folder, known.label)
        return locations.named(folder, sid, generation, self._gate.document)

    def _names(self, place: FileLocation, reader: Label) -> list[tuple[str, str]]:
        try:
            return [(name, str(label)) for name, label in self._files.list(place, reader)]
        except (AbsentError, UnavailableError):
            return []


def actions(usage: str) -> tuple[str, ...]:
    """Return the words that a usage line lists as the first argument."""
    found = list[str]()
    # An alternative begins the arguments, or stands behind a bracket or a bar of the first level; `a=b|c` is one word.
    depth, begins, values = 0, True, False
    for part in re.findall(r"\[|\]|\||[^\s\[\]|]+", usage.partition(" ")[2]):
        if part in "[]":
            depth += 1 if part == "[" else -1
            begins, values = part == "[" and depth == 1, values and depth > 0
        elif part == "|":
            begins = depth <= 1 and not values
        else:
            values = values or ("=" in part and begins)
            if begins and _ACTION.fullmatch(part):
                found.append(part)
            begins = False
    return tuple(dict.fromkeys(found))


def _last(text: str) -> str:
    """Return the last word of a text, without the quotes and brackets of JSON."""
    match = _WORD.search(text)
    return "" if match is None else match.group()


def _fitting(word: str, known: Iterable[tuple[str, str]]) -> tuple[Suggestion, ...]:
    return tuple(Suggestion(text, len(word), about) for text, about in known if text.startswith(word) and text != word)
