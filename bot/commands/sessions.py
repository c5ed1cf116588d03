"""Commands that list, read, name and export the caller's own sessions.

Their answers are compared with the clearance of the answering address, and enter no context (law `no_read_up`).
"""

from dataclasses import dataclass
from typing import Final

from bot.access import labelling
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.core.clock import moment
from bot.core.errors import CursorError, NotFoundError
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON
from bot.history.dividers import divider, is_divider
from bot.operations.export import EXPORTED, Exporter
from bot.sessions.log.events import Event
from bot.sessions.models import SessionKind, SessionQuery, SessionState, Title
from bot.sessions.ports.sessions import SessionIndex, SessionStore
from bot.sessions.transcript import place, transcript
from bot.sessions.visibility import visible
from bot.tools.history import MESSAGE, said, shortened, source
from bot.tools.sessions import ONLY, entry, title_for
from policy.labels import Label, join_all

NOTHING_SAID: Final = "Nothing was said yet."
LONGEST_TITLE: Final = 100

_PAGE: Final = 20
_TOOLS: Final = "tools"
_ALL: Final = "all"
_FILTERS: Final = frozenset({"kind", "active"})
_LONGEST_NUMBER: Final = 9


@dataclass(frozen=True, slots=True)
class SessionCommands:
    """List, read, name and export the caller's sessions."""

    sessions: SessionStore
    index: SessionIndex
    gate: Gate
    exporter: Exporter

    async def list_sessions(self, request: CommandRequest, argument: str) -> Reply:
        """List the caller's sessions that this address is cleared for, newest first; with `all` also archived ones."""
        filters, words = _filters(argument.split())
        archived = words[:1] == [_ALL]
        words = words[1:] if archived else words
        if len(words) > 1:
            raise UsageError("")
        standing = await request.standing(None)
        active = filters.get("active")
        asked = SessionQuery(
            standing.principal,
            standing.reader,
            cursor="".join(words),
            limit=_PAGE,
            kind=_kind(filters.get("kind")),
            since=0 if active is None else request.now - _seconds(active) * 1000,
            archived=archived,
        )
        page = await self.index.listed(asked)
        titles = {state.sid: title_for(state, standing.reader) for state in page.sessions}
        lines = [self._listed(request, state, titles[state.sid]) for state in page.sessions]
        if page.cursor:
            again = " ".join(
                (
                    *([_ALL] if archived else []),
                    *(f"{name}={value}" for name, value in filters.items()),
                    page.cursor,
                )
            )
            lines.append(f"More with `/sessions {again}`.")
        told = (state.visibility for state in page.sessions)
        label = join_all((*told, *(title.label for title in titles.values() if title is not None)))
        return Reply("\n".join([*lines, ONLY]), label)

    async def history(self, request: CommandRequest, argument: str) -> Reply:
        """Show the transcript of this session or another one of the caller's, from the end or before a place."""
        words = argument.split()
        tools = words[-1:] == [_TOOLS]
        words = words[:-1] if tools else words
        if len(words) > 2:  # noqa: PLR2004 - the session and the place
            raise UsageError("")
        standing = await request.standing(None)
        state = await self._asked_for(request, words[0] if words else request.sid, standing.reader)
        before = _place(words[1]) if words[1:] else None
        if state is None:
            return Reply(NOTHING_SAID)
        found = await transcript(
            self.sessions, state, standing.reader, before=before, limit=_PAGE, tools=tools, beside=is_divider
        )
        lines = [self._entry(event, state) for event in found.events] or [NOTHING_SAID]
        if found.before is not None:
            lines.append(f"Before these: `/history {state.sid} {found.before}{f' {_TOOLS}' if tools else ''}`")
        return Reply("\n".join(lines), join_all((event.label for event in found.events), state.visibility))

    async def rename(self, request: CommandRequest, argument: str) -> Reply:
        """Give this conversation a title, which keeps the label of a text typed here; without one, take it away."""
        title = " ".join(argument.split())
        if len(title) > LONGEST_TITLE:
            raise CommandError(f"a title has at most {LONGEST_TITLE} characters")
        if await request.state() is None:
            raise CommandError("this conversation has not begun, so there is nothing to name yet")
        label = labelling.inbound(self.gate.document, request.address, request.caller.role, authored=True)
        await self.sessions.name(request.sid, Title(title, label) if title else None)
        return Reply(f"This conversation is called {title}." if title else "This conversation has no title.", label)

    async def _asked_for(self, request: CommandRequest, sid: str, reader: Label) -> SessionState | None:
        """Return the record of the session of this address, None before it began, or of another of the caller's.

        Raises NotFoundError: there is none of that id that may be told of here.
        """
        if sid == request.sid:
            return await request.state()
        state = await visible(self.sessions, sid, request.caller.principal, reader)
        if state is None:
            raise NotFoundError
        return state

    def _listed(self, request: CommandRequest, state: SessionState, title: Title | None) -> str:
        text = None if title is None else self.gate.masks.masked(title.text)
        told = entry(state, text)
        called = "" if text is None else f" {text}"
        here = " (this one)" if state.sid == request.sid else ""
        return (
            f"{state.sid}{called}{here}\n"
            f"- {told['kind']} on {told['channel']}, {state.status}, taint {state.taint}, "
            f"{moment(state.updated_at)} UTC"
        )

    def _entry(self, event: Event, state: SessionState) -> str:
        if line := divider(event):
            return self.gate.masks.masked(line)
        what, text = said(event)
        # A model's name for a tool may be as long as any text, and hold as much.
        told = "" if what == MESSAGE else f", {shortened(self.gate.masks.masked(what))}"
        shown = shortened(self.gate.masks.masked(text)).replace("\n", "\n  ")
        return f"{place(event, state)}. {source(event)}{told}, {event.label}, {moment(event.ts)} UTC\n  {shown}"

    async def export(self, request: CommandRequest, argument: str) -> Reply:
        """Show an export of this conversation or of another that this address is cleared for."""
        words = argument.split()
        if len(words) > 1:
            raise UsageError("")
        standing = await request.standing(None)
        state = await self._asked_for(request, words[0] if words else request.sid, standing.reader)
        if state is None:
            return Reply(NOTHING_SAID)
        made = await self.exporter.export(standing, state)
        if made.text is None:
            return Reply(request.explained(made.decision, standing, "/export", EXPORTED), state.visibility)
        shown = self.gate.output.reply(standing, standing.destination, made.text, made.label)
        # One changed character, and the signature would not fit any more.
        whole = shown.decision.verdict in MAY_GO_ON and shown.text == made.text
        if len(made.text) > LARGEST or not whole:
            command = f"lockgate export {state.sid} --out FILE"
            return Reply(f"This export cannot be shown whole here, the owner makes it with `{command}`.", made.label)
        return Reply(made.text, made.label)


def _filters(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the filters among some words, by name, and the other words.

    Raises UsageError: there is no such filter, or it is there twice.
    """
    filters, others = dict[str, str](), list[str]()
    for word in words:
        name, given, value = word.partition("=")
        if not given:
            others.append(word)
        elif name in filters or name not in _FILTERS:
            raise UsageError("")
        else:
            filters[name] = value
    return filters, others


def _kind(word: str | None) -> SessionKind | None:
    try:
        return None if word is None else SessionKind(word)
    except ValueError:
        raise UsageError("") from None


def _seconds(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) <= _LONGEST_NUMBER and int(word)):
        raise UsageError("")
    return int(word)


def _place(word: str) -> int:
    """Read a place in a transcript as `/history` writes it.

    Raises CursorError: it is none.
    """
    if not (word.isascii() and word.isdecimal() and 0 < len(word) <= _PAGE):
        raise CursorError
    return int(word)


LARGEST: Final = 20_000
"""Characters of an export that a chat shows."""
