"""How often somebody may ask: a minute's worth at once, then one after another, and each for itself."""

import pytest

from bot.api.entrance.request_rates import RequestRates, network
from bot.rates import SharedRates, portion
from tests.bot.clock import Clock
from tests.bot.uses import UseTable

pytestmark = pytest.mark.anyio


def processes(clock: Clock, count: int = 1) -> list[tuple[RequestRates, SharedRates]]:
    """Return the rates of so many processes of one store, and what exchanges them."""
    table, made = UseTable(clock), list[tuple[RequestRates, SharedRates]]()
    for number in range(count):
        rates = SharedRates(table.of(f"p-{number}"), clock)
        made.append((RequestRates(rates.uses("programs"), clock), rates))
    return made


async def test_a_minute_s_worth_comes_at_once_and_the_next_when_it_is_told() -> None:
    clock = Clock()
    ((rates, _),) = processes(clock)
    assert [await rates.use("a", 3) for _ in range(3)] == [0, 0, 0]
    waits = await rates.use("a", 3)
    assert waits == 20
    assert rates.spent("a", 3) == waits
    clock.seconds += waits - 1
    assert await rates.use("a", 3) == 1
    clock.seconds += 1
    assert (rates.spent("a", 3), await rates.use("a", 3)) == (0, 0)
    assert await rates.use("a", 3) == 20


async def test_each_has_a_rate_of_its_own() -> None:
    ((rates, _),) = processes(Clock())
    assert await rates.use("a", 1) == 0
    assert await rates.use("a", 1) == 60
    assert await rates.use("b", 1) == 0


async def test_processes_count_together() -> None:
    """The second process lets in a tenth more, and the time heals both alike."""
    clock = Clock()
    (one, _), (two, _) = processes(clock, 2)
    assert sum([not await one.use("a", 60) for _ in range(200)]) == 60
    assert sum([not await two.use("a", 60) for _ in range(200)]) == portion(60)
    clock.seconds = 30
    allowed = sum([not await one.use("a", 60) for _ in range(200)])
    assert 30 - portion(60) <= allowed <= 30


@pytest.mark.parametrize(
    "host,network_of",
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("a-socket", "a-socket"),
    ],
)
def test_whoever_has_half_a_network_has_one_rate(host: str, network_of: str) -> None:
    assert network(host) == network_of
