"""Unequal clocks of a store's servers: told, and no right that ended counts again where a late clock takes over."""

# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from bot.core.clock import SystemClock
from bot.core.errors import NotFoundError
from bot.sessions.approvals import ApprovalState
from bot.sessions.installation.clocks import ClockDifference, NodeClock, difference
from bot.sessions.models import Claim
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import session_keys
from bot.store.servers.clocks import StoreTime
from tests.bot.clock import Clock
from tests.bot.kit import eventually
from tests.chaos.stepped_clock import SteppedClock
from tests.fleets import ClusterFleet, Served, ask, cluster
from tests.folders import quick_folder
from tests.store.world import KEY, claimed, fresh, item, put_state, suspended

LATE_SECONDS: Final = 7.0
SHARD: Final = 0
"""The shard whose replica's clock is late."""


@dataclass
class LateFleet:
    """A Cluster of which one replica, that of a primary that tests choose sessions of, has a late clock."""

    fleet: ClusterFleet
    clock: SteppedClock

    def sid(self) -> str:
        """Return the id of a session of the shard whose clocks differ."""
        port = self.fleet.servers[SHARD].port
        return next(sid for sid in iter(fresh, "") if not _elsewhere(port, sid))

    @property
    def late(self) -> str:
        return f"127.0.0.1:{self.fleet.servers[len(self.fleet.servers) // 2 + SHARD].port}"


def _elsewhere(port: int, sid: str) -> bool:
    return ask(port, "EXISTS", session_keys(sid).state).startswith(b"-MOVED")


@pytest.fixture(scope="module")
def late() -> Iterator[LateFleet]:
    """A Cluster of which one replica has a late clock; tests before the last one change nothing of it."""
    with quick_folder() as folder:
        clock = SteppedClock(Path(folder))
        assert clock.there, "a C compiler is needed to step a server's clock"
        clock.step(-LATE_SECONDS)
        with cluster(more={3 + SHARD: clock.environment}) as fleet:
            yield LateFleet(fleet, clock)


def test_the_clock_that_is_the_furthest_away_is_told() -> None:
    clocks = (NodeClock("a", -300), NodeClock("b", 900), NodeClock("c", -2_500))
    assert difference(clocks) == ClockDifference("b", "c", 3_400, 3)
    assert difference((NodeClock("", 2_001),)) == ClockDifference("", None, 2_001, 1)
    assert difference(()) == ClockDifference(None, None, 0, 0)
    assert [ClockDifference(None, None, ms, 1).matters for ms in (0, 2_000, 2_001)] == [False, False, True]


def test_the_stores_time_is_that_of_the_clock_that_is_ahead() -> None:
    clock = Clock()
    clock.seconds = 1_000.0
    time = StoreTime(clock)
    assert time.wall_ms() == 1_000_000
    time.saw(5_000_000)
    time.saw(4_990_000)
    assert time.wall_ms() == 5_000_000
    clock.seconds += 59
    time.saw(5_045_000)
    assert time.wall_ms() == 5_059_000


def test_a_clock_that_was_set_back_is_followed_after_a_while() -> None:
    clock = Clock()
    time = StoreTime(clock)
    time.saw(9_000_000)
    for seconds in (30, 70, 90):
        clock.seconds = seconds
        time.saw(1_000_000 + seconds * 1000)
        assert time.wall_ms() == 9_000_000 + seconds * 1000
    clock.seconds = 131
    time.saw(1_131_000)
    assert time.wall_ms() == 1_131_000


def test_what_was_seen_too_long_ago_does_not_count() -> None:
    clock = Clock()
    time = StoreTime(clock)
    time.saw(9_000_000)
    clock.seconds = 500
    time.saw(1_500_000)
    assert time.wall_ms() == 1_500_000


def test_durations_go_on_while_the_machine_sleeps() -> None:
    """On Linux that is the clock that tells since the start of the machine; a process cannot put one to sleep."""
    uptime = float(Path("/proc/uptime").read_text("ascii").split()[0])
    assert abs(SystemClock().monotonic() - uptime) < 5


@pytest.mark.anyio
async def test_the_clocks_of_all_servers_are_compared(late: LateFleet) -> None:
    async with AsyncExitStack() as until:
        store = await open_store(audit_key=KEY, url=late.fleet.url)
        until.push_async_callback(store.close)

        async def all_known() -> bool:
            # A Cluster that has just begun lists a replica once that has its data.
            return len(await store.clocks()) == len(late.fleet.servers)

        await eventually(all_known)
        clocks = {one.name: one.ahead_ms for one in await store.clocks()}
        assert clocks.pop(late.late) == pytest.approx(-LATE_SECONDS * 1000, abs=1_500)
        assert all(abs(ahead) < 1_500 for ahead in clocks.values())
        found = difference(await store.clocks())
        assert found.behind == late.late
        assert found.matters


@pytest.mark.anyio
async def test_the_clock_of_one_server_is_compared(store: RedisStore) -> None:
    (found,) = await store.clocks()
    assert found.name == ""
    assert abs(found.ahead_ms) < 1_500


@pytest.mark.anyio
@pytest.mark.several_servers
async def test_replicas_are_compared_too(store: RedisStore, server: Served) -> None:
    servers = 2 if "sentinel" in server.url else 6

    async def compared() -> bool:
        return len(await store.clocks()) == servers

    # A node that is only just known to the others is not told of yet.
    await eventually(compared)


@pytest.mark.anyio
async def test_a_late_clock_that_takes_over_lets_no_right_that_ended_count_again(late: LateFleet) -> None:
    """An approval that expired stays so, times of a session do not go back, and no message waits for the difference."""
    store = await open_store(audit_key=KEY, url=late.fleet.url)
    asked, name = await suspended(store, lasts=1, sid=late.sid())
    written = await _updated(store, asked)
    waits = late.sid()
    await store.sessions.accept(item(waits))
    await put_state(store, waits, late="1")
    await _refused(store, asked, name.id)
    before = store.time.wall_ms()
    await asyncio.to_thread(late.fleet.give_to_replica, SHARD)

    await _refused(store, asked, name.id)
    # One that begins compares the clocks, as each process does that serves.
    stranger = await open_store(audit_key=KEY, url=late.fleet.url)
    await stranger.clocks()
    assert (await stranger.approvals.of(asked.sid))[0].state is ApprovalState.EXPIRED
    await _refused(stranger, asked, name.id)
    await store.sessions.accept(item(asked.sid, "d2"))
    assert await _updated(store, asked) >= written
    assert store.time.wall_ms() >= before
    # Its sender's messages were to be collected for half a second.
    assert (await claimed(store, waits)).now < before
    for one in (store, stranger):
        await one.close()


async def _refused(store: RedisStore, claim: Claim, name: str) -> None:
    with pytest.raises(NotFoundError):
        await store.approvals.resolve(claim.sid, (name,), ApprovalState.APPROVED, actor="ann", audit=())


async def _updated(store: RedisStore, claim: Claim) -> int:
    state = await store.sessions.state(claim.sid)
    assert state is not None
    return state.updated_at
