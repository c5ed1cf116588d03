"""How often something may be done."""

from bot.core.rate_limiter import RateLimiter
from tests.bot.clock import Clock


def test_a_rate_is_kept_for_each_key_and_forgotten() -> None:
    clock = Clock()
    limiter = RateLimiter(clock, 2, seconds=10)
    assert [limiter.allows("a"), limiter.allows("a"), limiter.allows("a"), limiter.allows("b")] == [
        True,
        True,
        False,
        True,
    ]
    clock.seconds = 9.9
    assert not limiter.allows("a")
    clock.seconds = 10
    assert limiter.allows("a")
    assert limiter.allows("b")


def test_a_use_that_has_a_name_counts_once_as_long_as_it_counts() -> None:
    clock = Clock()
    limiter = RateLimiter(clock, 1, seconds=10)
    assert [limiter.allows("a", use) for use in ("one", "one", "two", "one")] == [True, True, False, True]
    clock.seconds = 10
    assert [limiter.allows("a", use) for use in ("two", "one")] == [True, False]
