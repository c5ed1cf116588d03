"""Schedules as they are made, listed and ended, on a real store."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bot.app.app import App
from bot.core.errors import BusyError, NotFoundError, RequestError
from bot.schedules import keeper
from bot.schedules.keeper import ScheduleKeeper, ScheduleMaker, ScheduleWish
from bot.sessions.background.schedules import Schedule, ScheduleKind, ScheduleStatus
from bot.store.schema import AUDIT
from channels.messages import Address
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, INTERNAL, TOP
from tests.bot.rooms import talking, team
from tests.harness import HOME, running

pytestmark = pytest.mark.anyio

MINUTE = 60_000
FRIDAY = 1_795_775_400_000
"""10:30 of the 27th of November 2026, UTC."""


def maker(label: Label = PUBLIC, principal: str = "owner") -> ScheduleMaker:
    return ScheduleMaker(principal, principal, TOP, label, str(HOME))


def wish(when: str = "every day 9:00", **more: str) -> ScheduleWish:
    return ScheduleWish(ScheduleKind.REMINDER, when, "the ferry leaves", **more)  # pyright: ignore[reportArgumentType] - texts


def kept(app: App, most: int = 100, now: Callable[[], int] = lambda: FRIDAY) -> ScheduleKeeper:
    document = app.gate.document
    return ScheduleKeeper(app.store.schedules, document=lambda: document, now=now, most=most, time_zone="Europe/Berlin")


async def test_a_schedule_is_made_once_for_its_key(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        keeps = kept(owner.app)
        made = await keeps.make(maker(INTERNAL), wish(), "k")
        assert await keeps.make(maker(), wish("in 20 minutes"), "k") == made
        assert await owner.app.store.schedules.schedule(made.id) == made
        told = (made.cron, made.zone, made.label, made.created_at, made.asked_at, made.status)
        assert told == ("0 9 * * *", "Europe/Berlin", INTERNAL, FRIDAY, str(HOME), ScheduleStatus.ACTIVE)
        # 9:00 in Berlin is 8:00 in UTC.
        assert made.next_at == FRIDAY + (21 * 60 + 30) * MINUTE
        there = await keeps.make(maker(), wish(time_zone="America/New_York"), "k2")
        assert there.next_at == FRIDAY + (3 * 60 + 30) * MINUTE


@pytest.mark.parametrize(
    "refused, because",
    [
        (wish("soon"), "names no moment"),
        (wish("today 9:00"), "has passed"),
        (wish(time_zone="Nowhere"), "unknown time zone"),
        (wish(deliver_to="nobody"), "unknown recipient"),
        (wish(deliver_to="guest"), "may not be told"),
    ],
)
async def test_what_cannot_be_is_refused(tmp_path: Path, refused: ScheduleWish, because: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        with pytest.raises(RequestError, match=because):
            await kept(owner.app).make(maker(INTERNAL), refused, "k")
        assert await owner.app.store.schedules.of("owner") == ()


async def test_a_program_names_who_hears_its_reminder(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        keeps, program = kept(owner.app), replace(maker(), asked_at=str(Address("api", "owner")))
        with pytest.raises(RequestError, match="nobody hears") as refused:
            await keeps.make(program, wish(), "k1")
        assert "`deliver_to`" in refused.value.next_step
        assert (await keeps.make(program, wish(deliver_to="owner"), "k2")).deliver_to == "owner"


async def test_a_recipient_keeps_what_it_meant(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), serve=False) as people:
        made = await kept(people.app).make(maker(), wish(deliver_to="mel"), "k")
        assert "room::mel:" in made.meant


async def test_schedules_are_counted_in_the_pool_of_their_label(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        keeps = kept(owner.app, most=1)
        first = await keeps.make(maker(), wish(), "k1")
        with pytest.raises(BusyError):
            await keeps.make(maker(), wish(), "k2")
        await keeps.make(maker(CONFIDENTIAL), wish(), "k3")
        # One that rests leaves its place, and has to find one again.
        await keeps.pause("owner", TOP, first.id, "owner")
        await keeps.make(maker(), wish(), "k4")
        with pytest.raises(BusyError):
            await keeps.resume("owner", TOP, first.id, "owner")


async def test_what_is_above_the_reader_or_anothers_is_absent(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        keeps = kept(owner.app)
        low = await keeps.make(maker(), wish(), "k1")
        high = await keeps.make(maker(CONFIDENTIAL), wish(), "k2")
        assert await keeps.listed("owner", INTERNAL) == (low,)
        assert set(await keeps.listed("owner", CONFIDENTIAL)) == {low, high}
        assert await keeps.listed("ann", TOP) == ()
        for principal, reader, name in (("owner", INTERNAL, high.id), ("ann", TOP, low.id), ("owner", TOP, "s_0")):
            with pytest.raises(NotFoundError):
                await keeps.find(principal, reader, name)
            for change in (keeps.pause, keeps.resume, keeps.cancel):
                with pytest.raises(NotFoundError):
                    await change(principal, reader, name, "owner")


async def test_a_schedule_rests_goes_on_and_is_cancelled(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app, now = owner.app, [FRIDAY]
        keeps, store = kept(app, now=lambda: now[0]), app.store.schedules
        made = await keeps.make(maker(), wish(), "k")
        rests = await keeps.pause("owner", PUBLIC, made.id, "owner")
        assert rests == await keeps.pause("owner", PUBLIC, made.id, "owner")
        assert rests == replace(made, status=ScheduleStatus.PAUSED)
        assert await store.next_due() == -1
        now[0] += 3 * 24 * 60 * MINUTE
        goes_on = await keeps.resume("owner", PUBLIC, made.id, "owner")
        assert goes_on == await keeps.resume("owner", PUBLIC, made.id, "owner")
        # What passed meanwhile is left out.
        assert goes_on == replace(made, next_at=made.next_at + 3 * 24 * 60 * MINUTE)
        assert await keeps.cancel("owner", PUBLIC, made.id, "owner") == goes_on
        assert await store.schedule(made.id) is None
        assert [row.body["do"] for row in await app.store.audit.records(AUDIT) if row.kind == "schedule"] == [
            "add",
            "pause",
            "resume",
            "cancel",
        ]
        assert "ferry" not in str(await app.store.audit.records(AUDIT))


async def test_one_whose_moment_has_passed_does_not_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        now = [FRIDAY]
        keeps, store = kept(owner.app, now=lambda: now[0]), owner.app.store.schedules
        made = await keeps.make(maker(), wish("in 20 minutes"), "k")
        await keeps.pause("owner", PUBLIC, made.id, "owner")
        assert (await keeps.resume("owner", PUBLIC, made.id, "owner")).next_at == made.next_at
        rests = await keeps.pause("owner", PUBLIC, made.id, "owner")
        now[0] += 20 * MINUTE
        with pytest.raises(RequestError, match=keeper.DONE):
            await keeps.resume("owner", PUBLIC, made.id, "owner")
        assert await store.replace(rests, done(rests))
        with pytest.raises(RequestError, match=keeper.DONE):
            await keeps.pause("owner", PUBLIC, made.id, "owner")


def done(schedule: Schedule) -> Schedule:
    return replace(schedule, status=ScheduleStatus.DONE, next_at=0)
