"""Runs and schedules in words for people: a chat and the command line say the same of them."""

from typing import Final

from bot.core.clock import moment
from bot.operations.background.runs import KnownRun
from bot.operations.background.schedules import KnownSchedule
from bot.runs.statistics import RunStatistics
from bot.sessions.background.run_states import Breaker
from bot.sessions.background.runs import Note
from bot.sessions.background.schedules import ScheduleKind
from policy import explain

TYPED: Final = explain.LabelWording("Your text is labelled", "With the result")
"""The subjects of the labels where a person's own command is refused: no session has a part in it."""

_SHOWN = 80
_UNNAMED: Final = "where it was made"
"""The recipient of a schedule that names none."""


def shortened(text: str) -> str:
    """Return the beginning of a text in one line."""
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} …"


def run_line(known: KnownRun, goal: str) -> str:
    """Return a run as a listing shows it; `goal` is its masked subject, empty for none."""
    done = known.progress
    doing = known.doing if done.reason is None or not known.over else f"ended, {done.reason.value}"
    counted = f"{done.completed} done, {done.failed} failed"
    about = f": {shortened(goal)}" if goal else ""
    return f"{known.id} {doing}, {known.charter.type.value}, {counted}, taint {known.state.taint}{about}"


def run_lines(known: KnownRun, notes: tuple[Note, ...]) -> list[str]:
    """Return a run in full; `notes` are its steering notes that the reader may know."""
    state, charter, done = known.state, known.charter, known.progress
    waits = sum(not note.read_at for note in notes)
    lines = [
        f"Run {known.id}: {known.doing}, {charter.type.value}, taint {state.taint}.",
        f"Session: {state.sid}",
        f"Started: {moment(state.created_at)} UTC, deadline {moment(charter.deadline)} UTC",
        f"Slot: {charter.slot}{'' if done.initialized or known.over else ', not locked yet'}",
        f"Task: {done.task or 'none'}",
        f"Tasks: {done.completed} completed, {done.failed} failed, {done.skipped} skipped",
        f"Failures in a row: {done.consecutive}",
        f"Breaker: {_breaker(known)}",
        f"Turns: {done.turns}",
        f"Steering notes that wait: {waits}",
    ]
    if done.next_action:
        lines.append(f"Next: {shortened(done.next_action)}")
    if known.over:
        reason = "" if done.reason is None else f", {done.reason.value}"
        lines.append(f"Ended: {moment(done.ended_at)} UTC{reason}")
    return lines


def _breaker(known: KnownRun) -> str:
    done = known.progress
    if done.breaker is Breaker.CLOSED:
        return "closed"
    return f"{done.breaker.value.replace('_', '-')} since {moment(done.opened_at)} UTC"


def numbers_lines(numbers: RunStatistics) -> list[str]:
    """Return a run in numbers; an unknown number is named unknown."""

    def share(part: float | None) -> str:
        return "no tasks yet" if part is None else f"{part:.0%}"

    average = numbers.seconds_per_task
    return [
        f"Runtime: {numbers.runtime_seconds:.0f} s, {numbers.turns} turns",
        f"Completed: {numbers.completed} ({share(numbers.completion_rate)})",
        f"Failed: {numbers.failed} ({share(numbers.failure_rate)})",
        f"Skipped: {numbers.skipped} ({share(numbers.skip_rate)})",
        f"Average per task: {'no tasks yet' if average is None else f'{average:.0f} s'}",
        f"Tokens: {'unknown' if numbers.tokens is None else numbers.tokens}",
        f"Cost: {'unknown' if numbers.cost is None else f'{numbers.cost / 1_000_000:.4f}'}",
    ]


def schedule_line(known: KnownSchedule, text: str) -> str:
    """Return a schedule as a listing shows it; `text` is its title or text, masked."""
    one = known.schedule
    next_at = f"next {moment(one.next_at)} UTC" if one.next_at else "no moment left"
    rhythm = f" `{one.cron}` in {one.zone}," if one.cron else ""
    about = f": {shortened(text)}" if text else ""
    return f"{one.id} {one.kind.value},{rhythm} {next_at}, {one.status.value}{about}"


def schedule_lines(known: KnownSchedule, text: str) -> list[str]:
    """Return a schedule in full; `text` is its masked text or goal."""
    one = known.schedule
    what = "Goal" if one.kind is ScheduleKind.RUN else "Text"
    lines = [
        schedule_line(known, one.title),
        f"{what}: {text}",
        f"Label: {one.label}",
        f"Time zone: {one.zone}",
        f"Recipient: {one.deliver_to or _UNNAMED}",
        f"Made by: {'an agent, with approval' if one.by_agent else one.asker}, {moment(one.created_at)} UTC",
        f"Last: {f'{moment(one.last_at)} UTC' if one.last_at else 'never'}",
        f"Skipped: {one.skipped}, failures in a row: {one.failures}",
    ]
    if one.kind is ScheduleKind.RUN:
        lines.append(f"Overlap: {one.overlap.value}")
    if known.last_run:
        lines.append(f"Last run: {known.last_run}")
    return lines
