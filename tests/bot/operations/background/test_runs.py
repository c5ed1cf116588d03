"""Runs and schedules as their operations tell of them: an operator's, a shared chat's, and what is given back."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import ArchivedError, NotFoundError
from bot.operations.background.runs import RunViewer
from bot.sessions.background.run_states import RunType
from bot.sessions.background.runs import RunOrder, RunWish, StartedRun, run_home
from bot.sessions.background.schedules import Schedule, ScheduleKind
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from policy.labels import PUBLIC, Label, parse
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

CHAT = "chat:telegram::-1005:"
TOP = parse("RESTRICTED~")
OPERATOR = RunViewer("", TOP, PUBLIC, "owner")
ANN = RunViewer("ann", PUBLIC, PUBLIC, "ann")


async def made(person: Person, key: str, principal: str = "ann", asker: str = "", label: Label = PUBLIC) -> StartedRun:
    """Start a run past the gate."""
    wish = RunWish(f"Do {key}.", type=RunType.MANUAL)
    return await person.app.run_starter.mint_run(RunOrder(wish, key, principal, asker or principal, label))


async def risen(person: Person, run: StartedRun, principal: str = "ann") -> None:
    """Let a run rise, by what comes into its inbox."""
    home = str(run_home(principal, run.run))
    item = NewItem(run.sid, "up", principal, parse("CONFIDENTIAL"), SessionMessage("up"), home, principal)
    await person.app.store.sessions.accept(item)


async def test_an_operator_sees_all_runs_in_pages_and_names_any(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        runs = person.app.runs
        started = [await made(person, f"job {n}", f"p{n % 2}") for n in range(3)]
        await person.send("hello")
        first = await runs.page(OPERATOR, limit=2)
        rest = await runs.page(OPERATOR, cursor=first.cursor, limit=2)
        assert [one.id for one in (*first.runs, *rest.runs)] == [one.run for one in reversed(started)]
        assert (bool(first.cursor), rest.cursor) == (True, "")
        assert (await runs.show(OPERATOR, started[0].run)).state.sid == started[0].sid
        assert await runs.about(await runs.show(OPERATOR, started[0].sid)) == "Do job 0."
        low = replace(OPERATOR, reader=PUBLIC)
        await risen(person, started[0], "p0")
        assert len((await runs.page(low)).runs) == 2
        for name in (started[0].run, person.sid, "x" * 1000):
            with pytest.raises(NotFoundError):
                await runs.show(low, name)


async def test_a_stop_gives_back_what_may_be_known_of_and_has_it_recorded(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        store, runs = person.app.store, person.app.runs
        low, high = await made(person, "low"), await made(person, "high", label=parse("INTERNAL"))
        inside = replace(ANN, reader=TOP)
        for run in (low, high):
            stopped = await runs.stop(inside, run.run)
            assert stopped is not None
            assert stopped.doing == "ended"
            with pytest.raises(ArchivedError):
                await runs.stop(inside, run.run)
        # What is typed where PUBLIC is said may be known of in both pools.
        assert {place.run: place.live for place in await store.runs.slots("ann")} == {low.run: False, high.run: False}
        above = await made(person, "above")
        await risen(person, above)
        assert await runs.stop(replace(ANN, typed=parse("INTERNAL")), above.run) is None
        state = await store.sessions.state(above.sid)
        assert state is not None
        assert state.ended_at
        places = {place.run: place.live for place in await store.runs.slots("ann")}
        assert places[above.run], "what is typed above its pool gives nothing back there"
        due, _ = await store.schedules.take_due(10, 1000)
        assert {timer.about for timer in due if timer.kind == "record"} == {low.sid, high.sid, above.sid}


async def test_in_a_shared_chat_those_who_set_its_runs_going_see_them(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        runs, here = person.app.runs, replace(ANN, chat=CHAT)
        theirs, others = await made(person, "hers", CHAT, "ann"), await made(person, "his", CHAT, "ben")
        own = await made(person, "own")
        assert {one.id for one in (await runs.page(here)).runs} == {theirs.run, own.run}
        assert [one.id for one in (await runs.page(ANN)).runs] == [own.run]
        assert (await runs.show(here, theirs.run)).id == theirs.run
        for by, run in ((here, others), (ANN, theirs)):
            with pytest.raises(NotFoundError):
                await runs.show(by, run.run)
            with pytest.raises(NotFoundError):
                await runs.stop(by, run.run)


async def test_a_schedule_tells_of_its_last_run_as_that_may_be_told_of(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        app, run = person.app, await made(person, "due")
        later = app.clock.wall_ms() + 3_600_000
        whose, line = ("ann", "ann"), ("0 7 * * *", "UTC")
        low = Schedule("s_1", *whose, ScheduleKind.RUN, "Report.", PUBLIC, *line, later, 1, "", last_run=run.sid)
        high = replace(low, id="s_2", label=parse("CONFIDENTIAL"), last_run="")
        chats = replace(low, id="s_3", principal=CHAT, last_run="")
        for one in (low, high, chats):
            await app.store.schedules.add(one, 10, ())
        assert [(one.schedule.id, one.last_run) for one in await app.schedules.listed(ANN)] == [("s_1", run.run)]
        await risen(person, run)
        assert (await app.schedules.show(ANN, "s_1")).last_run == ""
        assert len(await app.schedules.listed(OPERATOR)) == 3
        assert {one.schedule.id for one in await app.schedules.listed(replace(ANN, chat=CHAT))} == {"s_1", "s_3"}
        for name in ("s_2", "s_3", "s_0"):
            with pytest.raises(NotFoundError):
                await app.schedules.cancel(ANN, name)
        await app.schedules.cancel(OPERATOR, "s_2")
        assert len(await app.schedules.listed(OPERATOR)) == 2
