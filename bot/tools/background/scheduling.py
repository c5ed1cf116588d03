"""`schedule_create`, `schedules_list` and `schedule_cancel`: work or texts at a later moment.

An agent makes a schedule with a person's approval, at any taint of its session, so that no text it read can act later
on unasked. A schedule keeps the label of the session that made it. Only those to whose clearance that label flows know
of it, and a session that has read more changes nothing about it.
"""

import json
from typing import Annotated, Final

from pydantic import Field, JsonValue

from bot.access import labelling, recipients
from bot.core.errors import NotFoundError, RequestError
from bot.schedules.keeper import ScheduleKeeper, ScheduleMaker, ScheduleWish
from bot.sessions.background.schedules import Overlap, Schedule, ScheduleKind
from bot.sessions.refs import CallRef, ScheduleRef
from bot.tools.background.run_starting import standing_work
from bot.tools.base import (
    Arguments,
    CallFacts,
    Content,
    Identifier,
    Recipient,
    RefusedCallError,
    Result,
    RoleMark,
    Time,
    ToolContext,
    ToolServices,
)
from bot.tools.message import recipient
from policy.labels import PUBLIC, Label, join_all
from policy.request import ArgumentRole, Effect

ONLY: Final = "only schedules that the caller's level may know of are listed"
"""The last words of every listing, whether or not anything was left out."""

ABOVE: Final = (
    "this session has read more than that schedule may show; cancel it from another conversation or by command"
)
FOR_RUNS: Final = "`overlap` is for schedules that start runs"


class CreateArguments(Arguments):
    """Arguments of `schedule_create`."""

    kind: Annotated[ScheduleKind, RoleMark(ArgumentRole.IDENTIFIER)] = Field(description="start a run, or say a text")
    when: Time = Field(
        min_length=1,
        max_length=200,
        description="such as `in 20 minutes`, `tomorrow 9:00`, `every weekday 9:00`, or a cron line of five fields",
    )
    text: Content = Field(
        min_length=1, max_length=40_000, description="the goal of the run, or the text of the reminder"
    )
    time_zone: Identifier = Field(
        default="", max_length=64, description="such as Europe/Berlin; as configured if omitted"
    )
    deliver_to: Recipient = Field(
        default="", max_length=128, description="a recipient who is told, as `message` names them; else here"
    )
    overlap: Overlap | None = Field(default=None, description="while the run before goes on; skip by default")
    title: str = Field(default="", max_length=200)


class CancelArguments(Arguments):
    """Arguments of `schedule_cancel`."""

    id: Identifier = Field(min_length=1, max_length=64, description="as `schedules_list` tells it")


class ListSchedulesArguments(Arguments):
    """Arguments of `schedules_list`: there are none."""


class ScheduleCreate:
    """Make a schedule or a reminder."""

    name = "schedule_create"
    description = "Make a schedule that starts runs, or a reminder that is said. A person is asked first."
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = CreateArguments

    def __init__(self, keeper: ScheduleKeeper) -> None:
        self._keeper = keeper

    def declare(self, arguments: CreateArguments, context: ToolContext) -> CallFacts:
        """Declare the result as the sink: it may know everything that its principal may."""
        if arguments.kind is ScheduleKind.REMINDER and arguments.overlap is not None:
            raise RefusedCallError(FOR_RUNS)
        return standing_work(context, arguments.deliver_to)

    async def run(self, arguments: CreateArguments, context: ToolContext, services: ToolServices) -> Result:
        """Have it kept, with the label of the call's session; the call's key makes it the same schedule."""
        to = arguments.deliver_to
        if to and not services.leads_to(recipient(context, to)):
            return Result(recipients.CHANGED, failed=True)
        wish = ScheduleWish(
            kind=arguments.kind,
            when=arguments.when,
            text=arguments.text,
            time_zone=arguments.time_zone,
            title=arguments.title,
            deliver_to=to,
            overlap=arguments.overlap or Overlap.SKIP,
        )
        maker = ScheduleMaker(
            principal=context.caller.principal,
            asker=context.caller.asker,
            ceiling=context.caller.ceiling,
            label=_known_by(context),
            asked_at=_asked_at(context),
            by_agent=bool(context.session.turn),
            authors=context.session.authors,
            refs=(CallRef(context.call, context.session.sid),) if context.call else (),
        )
        try:
            made = await self._keeper.make(maker, wish, context.key)
        except RequestError as error:
            return _refused(error)
        told = {"id": made.id, "next_at": made.next_at, "time_zone": made.zone}
        return Result(json.dumps(told), refs=(ScheduleRef(made.id),))


class SchedulesList:
    """List the schedules of the caller's principal that its level may know of, oldest first."""

    name = "schedules_list"
    description = "List your schedules and reminders: their texts, times and places."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = ListSchedulesArguments

    def __init__(self, keeper: ScheduleKeeper) -> None:
        self._keeper = keeper

    def declare(self, arguments: ListSchedulesArguments, context: ToolContext) -> CallFacts:
        """Declare the caller's own taint: nothing above it is told."""
        return CallFacts(result=context.session.taint)

    async def run(self, arguments: ListSchedulesArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return them with the sentence that every listing ends with. How their runs fare is not told."""
        found = await self._keeper.listed(context.caller.principal, context.session.taint)
        label = _heard(context, *(one.label for one in found))
        if not services.permits(label):
            found, label = (), context.session.taint
        told: list[JsonValue] = [_entry(one, services) for one in found]
        return Result(json.dumps({"schedules": told, "note": ONLY}, ensure_ascii=False), label)


class ScheduleCancel:
    """Cancel a schedule of the caller's principal; a run that it started goes on."""

    name = "schedule_cancel"
    description = "Cancel a schedule or reminder of yours. A run that it started goes on."
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = CancelArguments

    def __init__(self, keeper: ScheduleKeeper) -> None:
        self._keeper = keeper

    def declare(self, arguments: CancelArguments, context: ToolContext) -> CallFacts:
        """Declare the caller's knowledge as the sink; text that an attacker may have written ends nothing unasked."""
        return CallFacts(result=context.session.taint, clearance=context.caller.ceiling, consequential=True, once=True)

    async def run(self, arguments: CancelArguments, context: ToolContext, services: ToolServices) -> Result:
        """Have it forgotten, if it shows no less than the session has read; absent and too high are one answer.

        All who could see a schedule see that it is gone, so a session that has read more would tell them something.
        """
        principal, reader = context.caller.principal, context.session.taint
        try:
            found = await self._keeper.find(principal, reader, arguments.id)
            label = _heard(context, found.label)
            if not services.permits(label):
                raise NotFoundError
            if not _known_by(context).flows_to(found.label):
                return Result(ABOVE, label, failed=True)
            await self._keeper.cancel(principal, reader, arguments.id, context.caller.asker)
        except RequestError as error:
            return _refused(error)
        return Result(json.dumps({"id": found.id, "status": "cancelled"}), label)


def _known_by(context: ToolContext) -> Label:
    """Return the label of a call's schedule: the session's taint, joined in a turn with its visibility."""
    session = context.session
    return session.taint.join(session.visibility) if session.turn else session.taint


def _asked_at(context: ToolContext) -> str:
    """Return the address from which a schedule is asked for; nobody reads where a background session lives."""
    claim = context.session.claim
    background = None if claim is None else claim.state.background
    return str(context.session.home) if background is None else background.asked_at


def _heard(context: ToolContext, *labels: Label) -> Label:
    """Return the label of a text about schedules: in a shared chat any member may have worded them."""
    session, principal = context.session, context.caller.principal
    worded = (labelling.members_words(context.document, principal, session.home, label) for label in labels)
    return join_all(worded, session.taint)


def _entry(schedule: Schedule, services: ToolServices) -> dict[str, JsonValue]:
    return {
        "id": schedule.id,
        "kind": schedule.kind.value,
        "status": schedule.status.value,
        "next_at": schedule.next_at or None,
        "cron": schedule.cron or None,
        "time_zone": schedule.zone,
        "title": services.mask(schedule.title) or None,
        "text": services.mask(schedule.text),
        "deliver_to": schedule.deliver_to or None,
        "created": schedule.created_at,
    }


def _refused(error: RequestError) -> Result:
    """Return why something is refused, with the next step if there is one."""
    return Result(f"{error}; {error.next_step}" if error.next_step else str(error), failed=True)
