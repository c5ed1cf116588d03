"""Commands about schedules and reminders: make one, see and end those there are.

The moment stands before the task, in words or as a line of cron: as many words as name one belong to it. A text typed
here keeps the label of this address for ever.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Final

from bot.commands.background.runs import options, refused, viewer
from bot.commands.command import CommandError, CommandRequest, Reply, Run, UsageError
from bot.core.clock import moment
from bot.core.ids import Ids
from bot.gate.gate import Gate
from bot.operations.background.run_telling import schedule_line, schedule_lines
from bot.operations.background.schedules import CREATE, KnownSchedule, ScheduleOperations
from bot.operations.gated_calls import RefusedCall
from bot.schedules.calendar import WhenError, zone
from bot.schedules.keeper import ScheduleWish
from bot.schedules.phrases import parse
from bot.sessions.background.schedules import Overlap, ScheduleKind
from channels.messages import Button
from policy.labels import join_all

NONE: Final = (
    "There are no schedules of yours that may be told of here."
    " `/schedule MOMENT GOAL` and `/remind MOMENT TEXT` make one."
)
MADE: Final = "Schedule {id} is due {next} UTC. `/schedule show {id}` tells more, `/schedule cancel {id}` ends it."

_WORD: Final = re.compile(r"\S+")
_MOST_WORDS: Final = 8
"""Words that a moment has at most."""

_OPTIONS: Final = frozenset({"zone", "to", "title", "overlap"})


@dataclass(frozen=True, slots=True)
class ScheduleCommands:
    """Make, show and end the caller's schedules and reminders; `time_zone` is the usual one."""

    schedules: ScheduleOperations
    gate: Gate
    ids: Ids
    time_zone: str

    async def schedule(self, request: CommandRequest, argument: str) -> Reply:
        """Run the subcommand in the first word: list, show or end schedules; or else make one that starts a run."""
        return await self._managed(request, ScheduleKind.RUN, argument)

    async def remind(self, request: CommandRequest, argument: str) -> Reply:
        """Do the same; or else have something said here, or to a recipient, at a moment or again and again."""
        return await self._managed(request, ScheduleKind.REMINDER, argument)

    async def _managed(self, request: CommandRequest, kind: ScheduleKind, argument: str) -> Reply:
        action, _, rest = argument.partition(" ")
        actions: dict[str, Run] = {
            "": self._list,
            "list": self._list,
            "show": self._show,
            "pause": self._pause,
            "resume": self._resume,
            "cancel": self._cancel,
        }
        if action in actions:
            return await actions[action](request, rest.strip())
        return await self._make(request, kind, argument)

    async def _make(self, request: CommandRequest, kind: ScheduleKind, argument: str) -> Reply:
        given, rest = options(argument, _OPTIONS)
        where = given.get("zone", "") or self.time_zone
        # The table of a zone is read from a file.
        when, text = await asyncio.to_thread(separated, rest, where, request.now)
        if not text:
            raise UsageError("after the moment say what is to be done")
        wish = ScheduleWish(
            kind,
            when,
            text,
            time_zone=given.get("zone", ""),
            title=given.get("title", "").replace("_", " "),
            deliver_to=given.get("to", ""),
            overlap=_overlap(given.get("overlap"), kind),
        )
        standing = await request.standing(await request.state())
        made = await self.schedules.create(standing, self.ids.op(), wish, request.typed)
        if isinstance(made, RefusedCall):
            return refused(request, made, CREATE)
        text = MADE.format(id=made.id, next=moment(made.next_at))
        return Reply(text, request.typed, _buttons(made.id, "show", "cancel"))

    async def _list(self, request: CommandRequest, argument: str) -> Reply:
        if argument:
            raise UsageError("")
        known = await self.schedules.listed(await viewer(request))
        lines = [schedule_line(one, self._masked(one.schedule.title or one.schedule.text)) for one in known]
        return Reply("\n".join(lines) or NONE, join_all(one.label for one in known))

    async def _show(self, request: CommandRequest, argument: str) -> Reply:
        known = await self.schedules.show(await viewer(request), _id(argument))
        rests = known.schedule.status.value == "paused"
        text = self._masked("\n".join(schedule_lines(known, known.schedule.text)))
        return Reply(text, known.label, _buttons(known.schedule.id, "resume" if rests else "pause", "cancel"))

    async def _pause(self, request: CommandRequest, argument: str) -> Reply:
        return _told(
            await self.schedules.pause(await viewer(request), _id(argument)),
            "Schedule {} rests until `/schedule resume {}`.",
        )

    async def _resume(self, request: CommandRequest, argument: str) -> Reply:
        return _told(await self.schedules.resume(await viewer(request), _id(argument)), "Schedule {} goes on.")

    async def _cancel(self, request: CommandRequest, argument: str) -> Reply:
        return _told(await self.schedules.cancel(await viewer(request), _id(argument)), "Schedule {} is cancelled.")

    def _masked(self, text: str) -> str:
        return self.gate.masks.masked(text)


def separated(text: str, where: str, now: int) -> tuple[str, str]:
    """Return the moment that a text begins with, and the rest of the text as it was typed.

    As many words as name a moment in the time zone `where`, seen from `now` in milliseconds since the epoch, belong to
    it.

    Raises:
        CommandError: none names one.
        UsageError: the text is empty.
    """
    ends = [word.end() for word in _WORD.finditer(text)][:_MOST_WORDS]
    if not ends:
        raise UsageError("")
    errors = list[WhenError]()
    for end in reversed(ends):
        try:
            parse(text[:end], zone(where), now)
        except WhenError as error:
            errors.append(error)
        else:
            return text[:end], text[end:].strip()
    # The error about a single word says least: more words may name a moment that has passed.
    reason = next((error for error in errors if str(error) != str(errors[-1])), errors[-1])
    raise CommandError(f"{reason}{f'; {reason.next_step}' if reason.next_step else ''}")


def _told(known: KnownSchedule, sentence: str) -> Reply:
    name = known.schedule.id
    return Reply(sentence.format(name, name), known.label)


def _buttons(schedule: str, *actions: str) -> tuple[Button, ...]:
    lines = {
        "show": f"/schedule show {schedule}",
        "pause": f"/schedule pause {schedule}",
        "resume": f"/schedule resume {schedule}",
        "cancel": f"/schedule cancel {schedule}",
    }
    return tuple(Button(action.capitalize(), lines[action]) for action in actions)


def _id(argument: str) -> str:
    if len(argument.split()) != 1:
        raise UsageError("name one schedule or reminder")
    return argument


def _overlap(word: str | None, kind: ScheduleKind) -> Overlap:
    try:
        wanted = Overlap.SKIP if word is None else Overlap(word)
    except ValueError:
        raise UsageError("`overlap=` is `skip` or `allow`") from None
    if word is not None and kind is ScheduleKind.REMINDER:
        raise CommandError("a reminder is said at once, so it overlaps with none")
    return wanted
