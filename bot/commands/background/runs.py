"""Commands about runs: start one, see, steer and end those there are.

A person sees their own runs at an address cleared for them; in a shared chat also the chat's runs that they started.
One that rose above the address is as absent there, and is stopped blindly (law `no_read_up`).
"""

import re
from dataclasses import dataclass
from typing import Final

from bot.access import principals
from bot.commands.command import CommandError, CommandRequest, Reply, Run, UsageError
from bot.core.errors import ArchivedError, NotFoundError
from bot.core.ids import Ids
from bot.gate.gate import Gate
from bot.operations.background.run_telling import TYPED, numbers_lines, run_line, run_lines
from bot.operations.background.runs import LONGEST_NOTE, START, KnownRun, RunOperations, RunViewer
from bot.operations.gated_calls import RefusedCall
from bot.sessions.background.run_states import Priority, RunType
from bot.sessions.background.runs import RunWish
from bot.sessions.log.event_types import AgentMessage, ToolResult, UnknownEvent, UserMessage
from bot.sessions.transcript import place
from bot.tools.history import UNKNOWN, said, source
from channels.messages import Button
from policy.labels import join_all

NONE: Final = "There are no runs of yours that may be told of here. `/runs start GOAL` starts one."
ENDED: Final = "This run has ended, and nothing about it can be changed; `/runs show ID` tells why."
STARTED: Final = "Run {run} is started. `/runs show {run}` tells how it is, `/runs stop {run}` ends it."
BLIND: Final = "If that run is yours and goes on, it ends now; it may not be told of here."
"""The answer for a run above this address's clearance, and for an absent one."""

_SHOWN: Final = 500
_LOGGED: Final = (UserMessage, AgentMessage, ToolResult, UnknownEvent)
_ALL: Final = "all"
_PRIORITIES: Final = frozenset(priority.value for priority in Priority)
_LONGEST_NUMBER: Final = 4
_OPTION: Final = re.compile(r"[a-z_]+")
_OPTIONS: Final = frozenset({"type", "slot", "hours", "to", "title"})


async def viewer(request: CommandRequest) -> RunViewer:
    """Return the viewer of runs and schedules for a command at an address."""
    standing = await request.standing(None)
    chat = principals.of_chat(request.address) if await request.in_shared_chat() else ""
    principal = request.caller.principal
    return RunViewer(principal, standing.reader, request.typed, principal, chat)


def options(argument: str, known: frozenset[str]) -> tuple[dict[str, str], str]:
    """Return the `name=value` words that a text begins with, and the rest of the text as it was typed.

    Raises UsageError: one is there twice, is empty, or has a name that looks like that of an option and is unknown.
    """
    given = dict[str, str]()
    while argument:
        word, _, rest = argument.partition(" ")
        name, is_option, value = word.partition("=")
        if not is_option or not _OPTION.fullmatch(name):
            break
        if name not in known:
            names = ", ".join(f"`{one}=`" for one in sorted(known))
            raise UsageError(f"there is no option `{name}=`: there are {names}")
        if name in given:
            raise UsageError(f"`{name}=` is there twice")
        if not value:
            raise UsageError(f"`{name}=` has no value")
        given[name], argument = value, rest.lstrip()
    return given, argument


@dataclass(frozen=True, slots=True)
class RunCommands:
    """Start, show, steer and end the caller's runs."""

    runs: RunOperations
    gate: Gate
    ids: Ids

    async def manage(self, request: CommandRequest, argument: str) -> Reply:
        """Run the subcommand in the first word of the argument; list the runs if there is none."""
        action, _, rest = argument.partition(" ")
        actions: dict[str, Run] = {
            "": self._list,
            "list": self._list,
            "start": self._start,
            "show": self._show,
            "stats": self._stats,
            "log": self._log,
            "steer": self._steer,
            "pause": self._pause,
            "resume": self._resume,
            "stop": self._stop,
        }
        if action not in actions:
            raise UsageError("there is no such action")
        try:
            return await actions[action](request, rest.strip())
        except ArchivedError:
            # It is told only of a run that they may know of.
            raise CommandError(ENDED) from None

    async def _start(self, request: CommandRequest, argument: str) -> Reply:
        """Start a run with a goal."""
        given, goal = options(argument, _OPTIONS)
        if not goal:
            raise UsageError("a run needs a goal")
        wish = RunWish(
            goal,
            type=_run_type(given.get("type")),
            title=given.get("title", "").replace("_", " "),
            slot=given.get("slot", ""),
            hours=_hours(given.get("hours")),
            deliver_to=given.get("to", ""),
        )
        standing = await request.standing(await request.state())
        run = await self.runs.start(standing, self.ids.op(), wish, request.typed)
        if isinstance(run, RefusedCall):
            return refused(request, run, START)
        return Reply(STARTED.format(run=run), request.typed, _buttons(run, "show", "stop"))

    async def _list(self, request: CommandRequest, argument: str) -> Reply:
        """List the caller's runs that may be told of here, newest first; with `all` also those that ended."""
        words = argument.split()
        ended = words[:1] == [_ALL]
        words = words[1:] if ended else words
        if len(words) > 1:
            raise UsageError("")
        page = await self.runs.page(await viewer(request), cursor="".join(words), ended=ended)
        lines = [run_line(known, await self._about(known)) for known in page.runs]
        if page.cursor:
            lines.append(f"More with `/runs list {f'{_ALL} ' if ended else ''}{page.cursor}`.")
        return Reply("\n".join(lines) or NONE, page.label.join(join_all(known.label for known in page.runs)))

    async def _show(self, request: CommandRequest, argument: str) -> Reply:
        by = await viewer(request)
        known = await self.runs.show(by, _id(argument))
        lines = run_lines(known, await self.runs.notes(by, known))
        about = await self._about(known)
        lines += [f"{'Title' if known.charter.title else 'Goal'}: {about}"] if about else []
        text = self.gate.masks.masked("\n".join(lines))
        going = () if known.over else ("resume" if known.doing == "paused" else "pause", "stop")
        return Reply(text, known.label, _buttons(known.id, "log", *going))

    async def _stats(self, request: CommandRequest, argument: str) -> Reply:
        known, numbers = await self.runs.stats(await viewer(request), _id(argument))
        return Reply("\n".join(numbers_lines(numbers)), known.label)

    async def _log(self, request: CommandRequest, argument: str) -> Reply:
        known, events = await self.runs.log(await viewer(request), _id(argument))
        lines = list[str]()
        for event in events:
            if isinstance(event.body, _LOGGED):
                what, text = said(event)
                told = self.gate.masks.masked(f"{UNKNOWN} {text}" if what == UNKNOWN else text)
                cut = told if len(told) <= _SHOWN else f"{told[:_SHOWN]} …"
                lines.append(f"{place(event, known.state)} {source(event)}, {event.label}: {cut}")
        return Reply("\n".join(lines) or "Nothing is logged yet.", known.label)

    async def _steer(self, request: CommandRequest, argument: str) -> Reply:
        """Give a run a note for its next heartbeat."""
        name, _, note = argument.partition(" ")
        first, _, rest = note.strip().partition(" ")
        named = first.lower() in _PRIORITIES
        priority, text = (Priority(first.lower()), rest.strip()) if named else (Priority.NORMAL, note.strip())
        if not text:
            raise UsageError("a note needs a text")
        if len(text) > LONGEST_NOTE:
            raise CommandError(f"a note has at most {LONGEST_NOTE} characters")
        known = await self.runs.steer(await viewer(request), name, text, priority=priority, key=self.ids.op())
        return Reply(f"The note waits for the next heartbeat of {known.id}, priority {priority.value}.", known.label)

    async def _pause(self, request: CommandRequest, argument: str) -> Reply:
        known = await self.runs.pause(await viewer(request), _id(argument))
        text = f"Run {known.id} rests until `/runs resume {known.id}`."
        return Reply(text, known.label, _buttons(known.id, "resume", "stop"))

    async def _resume(self, request: CommandRequest, argument: str) -> Reply:
        known = await self.runs.resume(await viewer(request), _id(argument))
        return Reply(f"Run {known.id} goes on.", known.label)

    async def _stop(self, request: CommandRequest, argument: str) -> Reply:
        """End a run for good, also one that may not be told of here."""
        try:
            known = await self.runs.stop(await viewer(request), _id(argument))
        except NotFoundError:
            return Reply(BLIND)
        return Reply(BLIND) if known is None else Reply(f"Run {known.id} is stopping.", known.label)

    async def _about(self, known: KnownRun) -> str:
        """Return the title of a run, or its goal; its readers may know that."""
        return self.gate.masks.masked(await self.runs.about(known))


def _buttons(run: str, *actions: str) -> tuple[Button, ...]:
    lines = {
        "show": f"/runs show {run}",
        "log": f"/runs log {run}",
        "pause": f"/runs pause {run}",
        "resume": f"/runs resume {run}",
        "stop": f"/runs stop {run}",
    }
    return tuple(Button(action.capitalize(), lines[action]) for action in actions)


def _id(argument: str) -> str:
    if len(argument.split()) != 1:
        raise UsageError("name one run")
    return argument


def _run_type(word: str | None) -> RunType:
    try:
        return RunType.AUTONOMOUS if word is None else RunType(word)
    except ValueError:
        raise UsageError("`type=` is `autonomous` or `manual`") from None


def _hours(word: str | None) -> int:
    if word is None:
        return 0
    if not (word.isascii() and word.isdecimal() and len(word) <= _LONGEST_NUMBER and int(word)):
        raise UsageError("`hours=` is a whole number from 1")
    return int(word)


def refused(request: CommandRequest, call: RefusedCall, tool: str) -> Reply:
    """Return why a call that a person asked for by a command was refused."""
    return Reply(request.explained(call.decision, call.standing, tool, TYPED), request.typed)
