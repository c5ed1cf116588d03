"""How often somebody may ask: a minute's worth at once, then one after another, and each for itself."""

import pytest

from bot.api.entrance.request_rates import RequestRates, network
from tests.bot.clock import Clock


def test_a_minute_s_worth_comes_at_once_and_the_next_when_it_is_told() -> None:
    clock = Clock()
    rates = RequestRates(clock)
    assert [rates.use("a", 3) for _ in range(3)] == [0, 0, 0]
    waits = rates.use("a", 3)
    assert waits == 20
    assert rates.spent("a", 3) == waits
    clock.seconds += waits - 1
    assert rates.use("a", 3) == 1
    clock.seconds += 1
    assert (rates.spent("a", 3), rates.use("a", 3)) == (0, 0)
    assert rates.use("a", 3) == 20


def test_each_has_a_rate_of_its_own() -> None:
    rates = RequestRates(Clock())
    assert rates.use("a", 1) == 0
    assert rates.use("a", 1) == 60
    assert rates.use("b", 1) == 0


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
