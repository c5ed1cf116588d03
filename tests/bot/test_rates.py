"""How often something may be done, in one process and in several at a time."""

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.rates import RateLimiter, SharedRates, portion
from bot.store.opening import open_store
from tests.bot.clock import Clock
from tests.bot.kit import eventually
from tests.bot.uses import ProcessUses, UseTable, alone
from tests.servers import SERVERS
from tests.store.world import KEY

pytestmark = pytest.mark.anyio


async def times(limiter: RateLimiter, most: int, key: str = "a") -> int:
    """Return how many of so many uses are allowed."""
    return sum([await limiter.allows(key) for _ in range(most)])


def several(count: int, clock: Clock, limit: int) -> tuple[list[ProcessUses], list[RateLimiter]]:
    """Return so many processes of one store, and a limiter of each."""
    table = UseTable(clock)
    stores = [table.of(f"p-{number}") for number in range(count)]
    return stores, [SharedRates(store, clock).limiter("x", limit) for store in stores]


async def test_a_rate_is_kept_for_each_key_and_forgotten() -> None:
    clock = Clock()
    limiter = alone(clock, 2, seconds=10)
    assert [await limiter.allows(key) for key in "aaab"] == [True, True, False, True]
    clock.seconds = 9.9
    assert not await limiter.allows("a")
    clock.seconds = 10
    assert await limiter.allows("a")
    assert await limiter.allows("b")


async def test_a_use_that_has_a_name_counts_once_as_long_as_it_counts() -> None:
    clock = Clock()
    limiter = alone(clock, 1, seconds=10)
    assert [await limiter.allows("a", use) for use in ("one", "one", "two", "one")] == [True, True, False, True]
    clock.seconds = 10
    assert [await limiter.allows("a", use) for use in ("two", "one")] == [True, False]


async def test_processes_count_together() -> None:
    clock = Clock()
    _, (one, two) = several(2, clock, 100)
    assert await times(one, 1000) == 100
    assert await times(two, 1000) == portion(100)
    clock.seconds = 2
    assert (await times(one, 10), await times(two, 10), await times(two, 10, "b")) == (0, 0, 10)


async def test_what_was_used_elsewhere_counts_no_more_after_its_window() -> None:
    clock = Clock()
    _, (one, two) = several(2, clock, 10)
    assert await times(one, 20) == 10
    assert await times(two, 20) == 1
    clock.seconds = 71
    assert await times(two, 20) == 10


async def test_few_uses_cost_no_exchange() -> None:
    (store,), (limiter,) = several(1, Clock(), 1000)
    assert await times(limiter, portion(1000)) == portion(1000)
    assert store.exchanges == 0
    assert await times(limiter, portion(1000)) == portion(1000)
    assert store.exchanges == 1


async def test_refused_uses_ask_once_a_second_at_most() -> None:
    clock = Clock()
    stores, (one, two) = several(2, clock, 10)
    await times(one, 10)
    await times(two, 2)
    before = stores[1].exchanges
    assert await times(two, 100) == 0
    assert stores[1].exchanges <= before + 1


async def test_while_the_store_is_away_a_process_knows_its_own_uses() -> None:
    (store,), (limiter,) = several(1, Clock(), 20)
    store.away = True
    assert await times(limiter, 100) == 20


async def test_new_uses_are_exchanged_in_the_background() -> None:
    clock = Clock()
    table = UseTable(clock)
    rates = SharedRates(table.of("p-one"), clock)
    assert await rates.limiter("x", 1000).allows("a")

    async def reported() -> bool:
        return bool(table.counts)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rates.serve)
        await eventually(reported)
        tasks.cancel_scope.cancel()
    assert [count for count, _ in table.counts["x/a"].values()] == [1]


@given(
    limit=st.integers(1, 60),
    order=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), max_size=60),
    count=st.integers(1, 4),
)
async def test_processes_exceed_a_limit_by_their_portions_at_most(
    limit: int, order: Sequence[tuple[int, int]], count: int
) -> None:
    """Whatever process is asked when: each further one adds a tenth of the limit at most."""
    _, limiters = several(count, Clock(), limit)
    allowed = sum([await times(limiters[who % count], many) for who, many in order])
    assert allowed <= limit + (count - 1) * portion(limit)


async def test_stores_of_two_processes_tell_one_another(tmp_path_factory: pytest.TempPathFactory) -> None:
    url, clock = await SERVERS.at(tmp_path_factory.mktemp("uses")), Clock()
    here, there = await open_store(audit_key=KEY, url=url), await open_store(audit_key=KEY, url=url)
    one, two = (SharedRates(store.uses, clock).limiter("x", 20) for store in (here, there))
    assert await times(one, 100) == 20
    assert await times(two, 100) == portion(20)
    clock.seconds = 2
    assert (await times(one, 5), await times(two, 5)) == (0, 0)
    await here.close()
    await there.close()
