"""The sweep of timers on a real store: whatever is due is set off, whoever dies."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.app.app import App
from bot.sessions.background.schedules import Timer, TimerKind
from bot.worker.timers import TimerSweep
from tests.bot.kit import eventually
from tests.harness import running

pytestmark = pytest.mark.anyio

MINUTE = 60_000


@dataclass
class Parts:
    """What timers set off: notes of each that it was done, and does what a test says."""

    done: list[Timer] = field(default_factory=list[Timer])
    does: Callable[[Timer], Awaitable[None]] | None = None

    async def __call__(self, timer: Timer) -> None:
        if self.does is not None:
            await self.does(timer)
        self.done.append(timer)

    @property
    def counts(self) -> Counter[str]:
        return Counter(timer.about for timer in self.done)


async def always() -> bool:
    return True


def sweep(app: App, parts: Parts, in_force: Callable[[], Awaitable[bool]] = always, hold: int = 500) -> TimerSweep:
    return TimerSweep(app.store.schedules, dict.fromkeys(TimerKind, parts), in_force, hold=hold)


@asynccontextmanager
async def sweeping(*sweeps: TimerSweep) -> AsyncGenerator[None]:
    """Let some workers sweep."""
    async with asyncio.TaskGroup() as tasks:
        serving = [tasks.create_task(one.serve()) for one in sweeps]
        try:
            yield
        finally:
            for one in serving:
                one.cancel()


async def set_all(app: App, names: list[str], due: int, kind: TimerKind = TimerKind.SCHEDULE) -> None:
    async with asyncio.TaskGroup() as tasks:
        for place, name in enumerate(names):
            # All of them within a minute.
            tasks.create_task(app.store.schedules.set_timer(Timer(kind, name, due - place * MINUTE // len(names))))


async def test_two_thousand_due_in_one_minute_are_set_off_once_by_whatever_worker(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app, one, another = owner.app, Parts(), Parts()
        names = [f"s{number}" for number in range(2000)]
        await set_all(app, names, app.store.tokens.now_ms())
        async with sweeping(sweep(app, one, hold=60_000), sweep(app, another, hold=60_000)):
            await eventually(lambda: nothing_left(app))
        assert one.counts + another.counts == dict.fromkeys(names, 1)
        assert one.done
        assert another.done


async def nothing_left(app: App) -> bool:
    return await app.store.schedules.next_due() == -1


async def test_what_a_worker_took_that_was_killed_is_set_off_by_another(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app, begun = owner.app, asyncio.Event()

        async def hangs(timer: Timer) -> None:
            if timer.about in {"s3", "s7"}:
                begun.set()
                await asyncio.sleep(60)

        names = [f"s{number}" for number in range(200)]
        await set_all(app, names, app.store.tokens.now_ms())
        killed, heir = Parts(does=hangs), Parts()
        async with sweeping(sweep(app, killed)):
            await begun.wait()
        async with sweeping(sweep(app, heir)):
            await eventually(lambda: nothing_left(app))
        assert set(killed.counts) | set(heir.counts) == set(names)
        assert heir.counts["s3"] == heir.counts["s7"] == 1
        # It is told when that was due, and not when it was due again.
        (again,) = [timer for timer in heir.done if timer.about == "s3"]
        assert again.due < app.store.tokens.now_ms()


@pytest.mark.parametrize("kind", list(TimerKind))
async def test_each_kind_has_its_part(tmp_path: Path, kind: TimerKind) -> None:
    async with running(tmp_path, serve=False) as owner:
        parts = {one: Parts() for one in TimerKind}
        timer = Timer(kind, "about", 1)
        await owner.app.store.schedules.set_timer(timer)
        async with sweeping(TimerSweep(owner.app.store.schedules, parts, always)):
            await eventually(lambda: nothing_left(owner.app))
        assert {one: part.done for one, part in parts.items()} == {one: [timer] * (one is kind) for one in TimerKind}


async def test_what_fails_is_tried_again_and_keeps_nothing_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, serve=False) as owner:
        app, tries = owner.app, Counter[str]()

        async def fails(timer: Timer) -> None:
            tries[timer.about] += 1
            if timer.about == "bad" and tries["bad"] == 1:
                raise ValueError("a bug")

        parts = Parts(does=fails)
        await set_all(app, ["bad", "good"], app.store.tokens.now_ms())
        with caplog.at_level(logging.ERROR):
            async with sweeping(sweep(app, parts, hold=100)):
                await eventually(lambda: nothing_left(app))
        assert tries["bad"] == 2
        assert parts.counts == {"bad": 1, "good": 1}
        assert "a timer could not be carried out" in caplog.text


async def test_one_that_is_set_anew_meanwhile_stays(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        later = app.store.tokens.now_ms() + 60 * MINUTE

        async def again(timer: Timer) -> None:
            await app.store.schedules.set_timer(replace(timer, due=later))

        parts = Parts(does=again)
        await app.store.schedules.set_timer(Timer(TimerKind.PROBE, "about", 1))
        async with sweeping(sweep(app, parts)):
            await eventually(lambda: done(parts))
        assert await app.store.schedules.next_due() > 50 * MINUTE


async def done(parts: Parts) -> bool:
    return bool(parts.done)


async def test_nothing_is_set_off_while_another_policy_is_in_force(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        asked, parts = asyncio.Event(), Parts()

        async def never() -> bool:
            asked.set()
            return False

        await owner.app.store.schedules.set_timer(Timer(TimerKind.PROBE, "about", 1))
        async with sweeping(sweep(owner.app, parts, never)):
            await asked.wait()
            await asyncio.sleep(0.05)
        assert not parts.done
        assert await owner.app.store.schedules.next_due() == 0


async def test_one_that_is_due_in_a_second_waits_for_it(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app, moments = owner.app, list[int]()

        async def noted(_timer: Timer) -> None:
            moments.append(app.clock.wall_ms())

        due = app.clock.wall_ms() + 700
        await app.store.schedules.set_timer(Timer(TimerKind.PROBE, "about", due))
        async with sweeping(sweep(app, Parts(does=noted))):
            await eventually(lambda: nothing_left(app))
        assert moments[0] >= due
