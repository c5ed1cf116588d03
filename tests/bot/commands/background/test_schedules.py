"""Commands about schedules and reminders: where a moment ends, and the life of one of each."""

import re
from pathlib import Path

import pytest

from bot.commands.background.schedules import NONE, separated
from bot.commands.command import CommandError, UsageError
from channels.messages import Address
from tests.bot.commands.kit import COUPLE
from tests.harness import Person, running

NOW = 1_795_600_000_000
"""A Wednesday in November 2026."""


@pytest.mark.parametrize(
    "typed, when, text",
    [
        ("in 20 minutes 3 boats leave", "in 20 minutes", "3 boats leave"),
        ("tomorrow 9:00 Call\nAnn.", "tomorrow 9:00", "Call\nAnn."),
        ("2026-12-01 08:30 Pay.", "2026-12-01 08:30", "Pay."),
        ("every weekday 7:30   Report what came in.", "every weekday 7:30", "Report what came in."),
        ("0 7 * * 1-5 Report.", "0 7 * * 1-5", "Report."),
        ("in 20 minutes", "in 20 minutes", ""),
    ],
)
def test_as_many_words_as_name_a_moment_belong_to_it(typed: str, when: str, text: str) -> None:
    assert separated(typed, "UTC", NOW) == (when, text)


@pytest.mark.parametrize(
    "typed, where, why",
    [
        ("2020-01-01 08:30 Pay.", "UTC", "has passed"),
        ("some day Pay.", "UTC", "tomorrow 9:00"),
        ("tomorrow 9:00 Pay.", "Mars/Olympus", "unknown time zone"),
    ],
)
def test_what_is_no_moment_is_told_why(typed: str, where: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        separated(typed, where, NOW)
    with pytest.raises(UsageError):
        separated("", where, NOW)


@pytest.mark.anyio
async def test_a_schedule_and_a_reminder_are_made_seen_rested_and_cancelled(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        assert NONE in await owner.say("/schedule")
        made = await owner.say("/schedule zone=Europe/Berlin title=The_report 0 7 * * 1-5 Report what came in.")
        run = re.findall(r"`/schedule show (\S+)`", made)[0]
        told = await owner.say("/remind in 20 minutes The ferry leaves.")
        reminder = re.findall(r"`/schedule show (\S+)`", told)[0]
        listed = await owner.say("/schedule list")
        assert f"{run} run, `0 7 * * 1-5` in Europe/Berlin, next " in listed
        assert "The ferry leaves." in listed
        shown = await owner.say(f"/schedule show {run}")
        assert "Goal: Report what came in.\n" in shown
        assert "Overlap: skip" in shown
        assert f"{run} rests until" in await owner.say(f"/schedule pause {run}")
        assert "no moment left, paused" in await owner.say("/schedule") or "paused" in await owner.say("/schedule")
        assert f"{run} goes on" in await owner.say(f"/schedule resume {run}")
        # Another's is as absent.
        assert NONE in await bea.say("/schedule")
        for action in ("show", "pause", "resume", "cancel"):
            assert await bea.say(f"/schedule {action} {run}") == await bea.say(f"/schedule {action} s_0")
        assert await owner.say("/remind list") == await owner.say("/schedule list")
        for command, one in (("schedule", run), ("remind", reminder)):
            assert f"{one} is cancelled" in await owner.say(f"/{command} cancel {one}")
        assert NONE in await owner.say("/schedule")


@pytest.mark.anyio
async def test_what_does_not_fit_is_answered_with_the_usage(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for odd, why in (
            ("list x", ""),
            ("show", "Name one schedule"),
            ("in 20 minutes", "what is to be done"),
            ("overlap=often in 20 minutes go", "`skip` or `allow`"),
            ("zones=UTC in 20 minutes go", "there are `overlap=`, `title=`, `to=`, `zone=`"),
        ):
            told = await owner.say(f"/schedule {odd}")
            assert why in told
            assert "Write it as `/schedule [" in told
        assert "Write it as `/remind [" in await owner.say("/remind in 20 minutes")
        assert "overlaps with none" in await owner.say("/remind overlap=allow in 20 minutes Go.")
