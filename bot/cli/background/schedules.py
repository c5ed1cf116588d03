"""`lockgate schedules`: the schedules and reminders of the installation, as its owner sees, rests and ends them."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from bot.cli.background.runs import managing
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.clock import moment
from bot.operations.background.run_telling import schedule_lines, shortened
from bot.operations.background.schedules import KnownSchedule

_WHAT: Final = "schedule"
_NAMES: Final = "`lockgate schedules list` names them"


class ScheduleAct(StrEnum):
    """An operator's action on a schedule."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


_DONE: Final = MappingProxyType(
    {
        ScheduleAct.PAUSE: "{} rests",
        ScheduleAct.RESUME: "{} is in force",
        ScheduleAct.CANCEL: "{} is cancelled, the runs that it started go on",
    }
)


async def list_schedules(config: Config, *, as_json: bool) -> None:
    """Print the schedules and reminders that the owner is cleared for, oldest first."""
    async with managing(config, what=_WHAT, names=_NAMES, looking=True) as at:
        listed = await at.app.schedules.listed(at.by)
        told = [(known, at.app.gate.masks.masked(known.schedule.title or known.schedule.text)) for known in listed]
    if as_json:
        print_json([_document(known, text) for known, text in told])
        return
    heads = ("schedule", "principal", "kind", "status", "next (UTC)", "when", "zone", "label", "about")
    print_lines(table([heads, *(_row(known, text) for known, text in told)]))


async def show_schedule(config: Config, name: str, *, as_json: bool) -> None:
    """Print one schedule. Raises OperatorError: the owner is not cleared for any such schedule."""
    async with managing(config, what=_WHAT, names=_NAMES, looking=True) as at:
        known = await at.app.schedules.show(at.by, name)
        text = at.app.gate.masks.masked(known.schedule.text)
    if as_json:
        print_json(_document(known, text))
    else:
        print_lines(schedule_lines(known, text))


async def change_schedule(config: Config, name: str, act: ScheduleAct) -> None:
    """Let a schedule rest or be in force, or forget it.

    Raises OperatorError: the owner is not cleared for any such schedule, or it does not allow that.
    """
    async with managing(config, what=_WHAT, names=_NAMES) as at:
        schedules = at.app.schedules
        does = {
            ScheduleAct.PAUSE: schedules.pause,
            ScheduleAct.RESUME: schedules.resume,
            ScheduleAct.CANCEL: schedules.cancel,
        }
        known = await does[act](at.by, name)
    print_lines([_DONE[act].format(known.schedule.id)])


def _row(known: KnownSchedule, text: str) -> tuple[str, ...]:
    one = known.schedule
    return (
        one.id,
        one.principal,
        one.kind.value,
        one.status.value,
        moment(one.next_at) if one.next_at else "-",
        one.cron or "once",
        one.zone,
        str(one.label),
        shortened(text),
    )


def _document(known: KnownSchedule, text: str) -> dict[str, JsonValue]:
    one = known.schedule
    return {
        "id": one.id,
        "principal": one.principal,
        "kind": one.kind.value,
        "status": one.status.value,
        "title": one.title or None,
        "text": text,
        "label": str(one.label),
        "cron": one.cron or None,
        "time_zone": one.zone,
        "next_at": one.next_at or None,
        "deliver_to": one.deliver_to or None,
        "overlap": one.overlap.value,
        "by_agent": one.by_agent,
        "created_at": one.created_at,
        "last_at": one.last_at or None,
        "last_run": known.last_run or None,
        "failures": one.failures,
        "skipped": one.skipped,
    }
