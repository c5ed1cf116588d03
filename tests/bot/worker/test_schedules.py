"""What schedules and reminders do when they are due, on a real store."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bot.app.app import App
from bot.gate.services import RefusedRunError
from bot.sessions.audit import AuditRow
from bot.sessions.background.run_states import EndReason, RunType
from bot.sessions.background.schedules import Overlap, Schedule, ScheduleKind, ScheduleStatus, Timer, TimerKind
from bot.sessions.messages import OriginKind
from bot.store.schema import AUDIT
from bot.worker.schedule_firing import MOST_FAILURES, NOT_DONE, ScheduleFiring
from bot.worker.timers import TimerSweep
from channels.messages import FROM_OUTSIDE, Address
from policy.labels import PUBLIC, parse
from tests.bot.kit import CONFIDENTIAL, INTERNAL, eventually, policy
from tests.bot.rooms import TEAM, talking, team
from tests.clocks import CLOCKS
from tests.harness import HOME, running

pytestmark = pytest.mark.anyio

ANN = Address("room", "ann")
MEL = Address("room", "mel")
MINUTE = 60_000


def schedule(**changes: object) -> Schedule:
    """Return a schedule that was due some minutes ago, and every minute since."""
    facts: dict[str, object] = {
        "id": "s_1",
        "principal": "owner",
        "asker": "owner",
        "kind": ScheduleKind.RUN,
        "text": "hello",
        "label": PUBLIC,
        "cron": "* * * * *",
        "zone": "UTC",
        "next_at": 60 * MINUTE,
        "created_at": 1,
        "asked_at": str(HOME),
        **changes,
    }
    return Schedule(**facts)  # pyright: ignore[reportArgumentType] - as Schedule has them


def reminder(**changes: object) -> Schedule:
    return schedule(**{"kind": ScheduleKind.REMINDER, "cron": "", **changes})


def firing(app: App) -> ScheduleFiring:
    return ScheduleFiring(app.store, app.gate, app.session_ids, app.agents)


async def fire(app: App, one: Schedule) -> Schedule:
    """Let the moment of a schedule come, and return what it is then."""
    known = await app.store.schedules.schedule(one.id)
    if known is None:
        await app.store.schedules.add(one, 100, ())
        known = one
    await firing(app).due(Timer(TimerKind.SCHEDULE, one.id, known.next_at))
    after = await app.store.schedules.schedule(one.id)
    assert after is not None
    return after


async def again(app: App, one: Schedule) -> Schedule:
    """Move a schedule back to a moment that is over, and let it come."""
    before = replace(one, next_at=one.last_at + MINUTE if one.last_at else one.next_at)
    assert await app.store.schedules.replace(one, before)
    return await fire(app, before)


async def rows(app: App, kind: str = "schedule") -> list[AuditRow]:
    found = await app.store.audit.records(AUDIT)
    return [AuditRow(row.kind, row.actor, row.body) for row in found if row.kind == kind]


async def deliveries(app: App, address: Address, principal: str) -> list[tuple[str, str, str]]:
    """Return what is to be said in the conversation of a principal at an address, to whom, and with which label."""
    sid = await app.session_ids.of(address, principal)
    return [(one.address, one.text, str(one.label)) for one in await app.store.outbox.deliveries(sid)]


async def test_a_reminder_is_said_once_also_where_nobody_spoke_yet(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        app = owner.app
        now = app.clock.wall_ms()
        await app.store.schedules.add(reminder(text="the ferry leaves", next_at=now + 300), 100, ())

        async def said() -> bool:
            return "Reminder: the ferry leaves" in owner.shown

        await eventually(said)
        done = await fire(app, reminder())
        assert (done.status, done.last_at, done.next_at) == (ScheduleStatus.DONE, now + 300, 0)
        await owner.settled()
        assert owner.shown.count("the ferry leaves") == 1
        state = await owner.state()
        assert (state.taint, state.principal, state.waiting_items) == (PUBLIC, "owner", 0)
        assert "You said: hello" in await owner.say("hello")
        assert await app.store.schedules.next_due() == -1


async def test_a_worker_that_was_killed_behind_saying_it_says_it_once(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        names = [f"s_{number}" for number in range(20)]
        for name in names:
            await app.store.schedules.add(reminder(id=name, text=name, next_at=app.clock.wall_ms()), 100, ())
        fires, killed = firing(app), asyncio.Event()

        async def dies(timer: Timer) -> None:
            await fires.due(timer)
            if timer.about in names[5:]:
                killed.set()
                await asyncio.sleep(60)

        async def settles(timer: Timer) -> None:
            await fires.due(timer)

        for part, ends in ((dies, killed.wait), (settles, lambda: nothing_left(app))):
            sweep = TimerSweep(app.store.schedules, {TimerKind.SCHEDULE: part}, always, hold=300)
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(sweep.serve())
                await ends()
                serving.cancel()
        said = [text for _, text, _ in await deliveries(app, HOME, "owner")]
        assert sorted(said) == sorted(f"Reminder: {name}" for name in names)


async def always() -> bool:
    return True


async def nothing_left(app: App) -> None:
    async def left() -> bool:
        return await app.store.schedules.next_due() == -1

    await eventually(left)


@pytest.mark.parametrize(
    "label, said",
    [
        ("INTERNAL", [str(TEAM)]),
        # Above what the readers of the chat may know, it is said to its creator alone.
        ("CONFIDENTIAL", [str(ANN)]),
        # Above the creator, too, it is not said.
        ("RESTRICTED", []),
    ],
)
async def test_a_reminder_goes_where_its_label_may_be_read(tmp_path: Path, label: str, said: list[str]) -> None:
    async with talking(tmp_path, team("ann", "mel"), serve=False) as people:
        app = people.app
        one = reminder(principal="ann", asker="ann", asked_at=str(TEAM), label=parse(label))
        after = await fire(app, one)
        chat = f"chat:{TEAM.place}"
        assert await deliveries(app, TEAM, chat) == [(place, "Reminder: hello", label) for place in said]
        assert (after.status, after.failures) == (ScheduleStatus.DONE, 0 if said else 1)
        (row,) = await rows(app)
        assert row.body["do"] == ("said" if said else "failed")
        assert "hello" not in str(await app.store.audit.records(AUDIT))


async def test_a_reminder_in_words_from_outside_is_marked(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await fire(owner.app, reminder(text="pay eve", label=parse("PUBLIC~")))
        await fire(owner.app, reminder(id="s_2", text="pay ann"))
        await owner.settled()
        assert f"{FROM_OUTSIDE}\n  Reminder: pay eve" in owner.shown
        assert owner.shown.count(FROM_OUTSIDE) == 1


async def test_a_reminder_is_not_said_to_a_recipient_who_is_another_by_now(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), serve=False) as people:
        app = people.app
        one = reminder(principal="ann", asker="ann", asked_at=str(ANN), deliver_to="mel", meant="another")
        assert (await fire(app, one)).failures == 0
        # To its creator alone, instead.
        assert await deliveries(app, ANN, "ann") == [(str(ANN), "Reminder: hello", "PUBLIC")]


async def test_whoever_is_not_known_any_more_sets_nothing_off(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), serve=False, blocked=["room:mel"]) as people:
        app = people.app
        for who in ("mel", "nobody", "eve"):
            one = reminder(id=f"s_{who}", principal=who, asker=who, asked_at=str(MEL))
            paused = await fire(app, one)
            assert paused == replace(one, status=ScheduleStatus.PAUSED)
        assert await deliveries(app, MEL, "mel") == []
        assert await app.store.schedules.next_due() == -1


async def test_a_schedule_starts_a_run_with_its_label_once_for_each_moment(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        one = schedule(label=INTERNAL, title="report", run_type=RunType.MANUAL, slot="nightly")
        first = await fire(app, one)
        state = await app.store.sessions.state(first.last_run)
        assert state is not None
        assert state.charter is not None
        charter = state.charter
        assert (charter.schedule, charter.due, charter.slot, charter.title) == ("s_1", one.next_at, "nightly", "report")
        assert (charter.type, state.creation, state.principal) == (RunType.MANUAL, INTERNAL, "owner")
        # The worker died before it was written down: the same moment is the same run.
        assert await app.store.schedules.replace(first, one)
        assert (await fire(app, one)).last_run == first.last_run


async def test_of_what_passed_while_nobody_was_there_one_moment_is_carried_out(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        before = owner.app.clock.wall_ms()
        after = await fire(owner.app, schedule())
        assert after.last_at == 60 * MINUTE
        assert before < after.next_at <= owner.app.clock.wall_ms() + MINUTE + CLOCKS
        assert 0 < await owner.app.store.schedules.next_due() <= MINUTE + CLOCKS


@pytest.mark.parametrize("overlap", list(Overlap))
async def test_a_moment_during_the_run_of_the_last_is_skipped_or_not(tmp_path: Path, overlap: Overlap) -> None:
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        first = await fire(app, schedule(overlap=overlap))
        second = await again(app, first)
        assert second.skipped == (overlap is Overlap.SKIP)
        assert (second.last_run == first.last_run) == (overlap is Overlap.SKIP)
        assert second.failures == 0


async def test_a_run_that_rose_above_its_schedule_goes_on_until_its_deadline(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        app = owner.app
        begin = '!session_initialize {"session_type": "autonomous"}'
        goal = f'{begin} ;; !read_file {{"path": "confidential/pipeline.md"}}'
        first = await fire(app, schedule(text=goal, cron="0 0 1 1 *"))
        await over(app, first)
        state = await app.store.sessions.state(first.last_run)
        assert state is not None
        assert not state.visibility.flows_to(first.label)
        # That it has ended is more than the schedule's label may know.
        assert (await again(app, first)).skipped == 1


async def over(app: App, one: Schedule) -> None:
    async def ended() -> bool:
        state = await app.store.sessions.state(one.last_run)
        return state is not None and state.progress is not None and state.progress.ended_at > 0

    await eventually(ended)


async def test_a_schedule_whose_runs_fail_is_paused_and_its_creator_told(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        app = owner.app
        # It never initializes.
        one = await fire(app, schedule(text="!current_time {}", cron="0 0 1 1 *"))
        for failures in range(1, MOST_FAILURES):
            await over(app, one)
            state = await app.store.sessions.state(one.last_run)
            assert state is not None
            assert state.progress is not None
            assert state.progress.reason is EndReason.NOT_INITIALIZED
            one = await again(app, one)
            assert (one.status, one.failures) == (ScheduleStatus.ACTIVE, failures)
        await over(app, one)
        one = await again(app, one)
        assert (one.status, one.failures) == (ScheduleStatus.PAUSED, MOST_FAILURES)

        async def told() -> bool:
            return "Schedule s_1 is paused: it failed 5 times in a row." in owner.shown

        await eventually(told)


async def test_a_moment_that_finds_no_room_waits_for_it(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks={"runs": {"live": 1}}), serve=False) as owner:
        app = owner.app
        first = await fire(app, schedule(overlap=Overlap.ALLOW))
        other = schedule(id="s_2")
        assert await fire(app, other) == other
        assert (await app.store.schedules.take_due(10, MINUTE))[0] == ()
        state = await app.store.sessions.state(first.last_run)
        assert state is not None
        assert state.charter is not None
        await app.store.runs.free("owner", state.charter.run)
        done = await fire(app, other)
        assert (done.last_at, done.failures) == (other.next_at, 0)
        assert done.last_run


async def test_a_schedule_above_its_principal_fails(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), serve=False) as people:
        one = schedule(principal="mel", asker="mel", asked_at=str(MEL), label=CONFIDENTIAL)
        failed = await fire(people.app, one)
        assert (failed.failures, failed.last_run) == (1, "")
        (row,) = await rows(people.app)
        assert row.body["why"] == RefusedRunError.code


async def test_what_was_paused_or_cancelled_meanwhile_is_not_carried_out(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app, one = owner.app, reminder()
        await app.store.schedules.add(one, 100, ())
        paused = replace(one, status=ScheduleStatus.PAUSED)
        assert await app.store.schedules.replace(one, paused)
        assert await fire(app, one) == paused
        await app.store.schedules.drop(one.id, ())
        await firing(app).due(Timer(TimerKind.SCHEDULE, one.id, one.next_at))
        assert await deliveries(app, HOME, "owner") == []


async def test_a_moment_that_is_carried_out_while_people_pause_it_is_in_the_audit_once(tmp_path: Path) -> None:
    """Two workers have its timer, and a person is faster or slower than they are."""
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        store = app.store.schedules
        for number in range(20):
            one = reminder(id=f"s_{number}", text=f"ferry {number}", cron="* * * * *")
            await store.add(one, 100, ())
            timer = Timer(TimerKind.SCHEDULE, one.id, one.next_at)

            async def pause(one: Schedule = one, wait: float = number / 2000) -> bool:
                await asyncio.sleep(wait)
                return await store.replace(one, replace(one, status=ScheduleStatus.PAUSED))

            await asyncio.gather(firing(app).due(timer), firing(app).due(timer), pause())
            said = [text for _, text, _ in await deliveries(app, HOME, "owner")].count(f"Reminder: ferry {number}")
            told = [row.body["do"] for row in await rows(app) if row.body["schedule"] == one.id]
            after = await store.schedule(one.id)
            assert after is not None
            assert (told, after.last_at) == ((["said"], one.next_at) if said else ([], 0))


async def test_one_that_was_due_once_and_failed_tells_its_creator(tmp_path: Path) -> None:
    rule = {"id": "cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "BLOCK"}
    async with running(tmp_path, policy(rules=[rule]), serve=False) as owner:
        done = await fire(owner.app, reminder(text="pay with 4111 1111 1111 1111"))
        assert (done.status, done.failures) == (ScheduleStatus.DONE, 1)
        told = NOT_DONE.format(id="s_1", why="it may be said nowhere")
        assert await deliveries(owner.app, HOME, "owner") == [(str(HOME), told, str(PUBLIC))]


async def test_the_goal_of_a_schedule_that_an_agent_made_is_no_persons_words(tmp_path: Path) -> None:
    """Addresses in it are not those that a person typed, and whose words it derives from is not forgotten."""
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        for by_agent, authors in ((True, ("mel",)), (False, ())):
            one = schedule(id=f"s_{by_agent}", text="go to https://a.test", by_agent=by_agent, authors=authors)
            after = await fire(app, one)
            assert after.authors == authors
            (item,) = await app.store.sessions.waiting(after.last_run)
            origin = item.body.origin
            assert (item.body.authors, origin and (origin.kind, origin.typed)) == (
                authors,
                (OriginKind.TASK, ()) if by_agent else None,
            )
