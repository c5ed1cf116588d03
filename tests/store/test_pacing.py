"""The scripts `pace` and `pause_delivery`: how fast, in whose turn, and where not at all."""

from dataclasses import replace

import pytest

from bot.sessions.deliveries import EVERYWHERE, DeliveryPause, DeliveryState, Rate, SendSlot
from bot.store.redis_store import RedisStore
from bot.store.schema import pace_keys
from tests.clocks import CLOCKS
from tests.store.world import answer, command, ending, fresh, item, started

pytestmark = pytest.mark.anyio
SLOW = (Rate("chat", 60_000, 2),)
FREE = (Rate("chat", 1, 1000),)


def turn(key: str = "", place: str = "", channel: str = "") -> SendSlot:
    return SendSlot(f"{channel or fresh()}:w:{place or fresh()}:", fresh() if key else "", key)


async def test_a_rate_lets_its_burst_through_and_then_tells_how_long(store: RedisStore) -> None:
    asked = turn()
    assert [await store.rate_limits.pace(asked, SLOW) for _ in range(2)] == [0, 0]
    assert 59_000 < (await store.rate_limits.pace(asked, SLOW) or 0) <= 60_000
    assert await store.rate_limits.pace(replace(asked, address=turn().address), SLOW) == 0


async def test_threads_of_a_chat_share_its_rate(store: RedisStore) -> None:
    asked = turn()
    thread = replace(asked, address=f"{asked.address}9")
    assert [await store.rate_limits.pace(one, SLOW) for one in (asked, thread)] == [0, 0]
    assert await store.rate_limits.pace(thread, SLOW)


async def test_a_rate_of_the_channel_counts_for_all_its_chats(store: RedisStore) -> None:
    channel, one = fresh(), (Rate(EVERYWHERE, 60_000, 1),)
    assert await store.rate_limits.pace(turn(channel=channel), one) == 0
    assert await store.rate_limits.pace(turn(channel=channel), one)
    assert await store.rate_limits.pace(turn(), one) == 0


async def test_all_rates_have_to_have_room(store: RedisStore) -> None:
    asked, both = turn(), (*FREE, Rate("group", 60_000, 1))
    assert await store.rate_limits.pace(asked, both) == 0
    assert await store.rate_limits.pace(asked, both)


async def test_one_at_a_time_in_a_place_until_it_is_settled(store: RedisStore) -> None:
    claim, written = await started(store)
    place = f"{fresh()}:w:c:"
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer("k", address=place),)), sender="me")
    (entry,) = await store.outbox.deliveries(claim.sid)
    first, second = SendSlot(place, claim.sid, "k"), SendSlot(place, fresh(), "k")
    assert await store.rate_limits.pace(first, FREE) == 0
    assert await store.rate_limits.pace(second, FREE)
    await store.outbox.settle(entry, "me", DeliveryState.SENT)
    assert await store.rate_limits.pace(second, FREE) == 0


async def test_who_waits_keeps_the_turn_before_other_sessions(store: RedisStore) -> None:
    first, second = turn("k", "c", "x" + fresh()), fresh()
    await store.rate_limits.pause(first, DeliveryPause.TEXT, 30_000)
    later = replace(first, sid=second)
    assert 29_000 < (await store.rate_limits.pace(later, FREE) or 0) <= 30_000
    assert await store.rate_limits.pace(first, FREE) == 0


async def test_a_turn_that_nobody_takes_is_over_after_a_while(store: RedisStore) -> None:
    first = turn("k")
    await store.rate_limits.pause(first, DeliveryPause.TEXT, -20_000)
    assert await store.rate_limits.pace(replace(first, sid=fresh()), FREE) == 0


async def test_a_silent_place_and_a_silent_channel(store: RedisStore) -> None:
    channel = fresh()
    asked, elsewhere = turn(channel=channel), turn(channel=channel)
    await store.rate_limits.pause(asked, DeliveryPause.PLACE, 60_000)
    await store.rate_limits.pause(asked, DeliveryPause.PLACE, 1_000)
    assert (await store.rate_limits.pace(asked, FREE) or 0) > 59_000
    assert await store.rate_limits.pace(elsewhere, FREE) == 0
    await store.rate_limits.pause(asked, DeliveryPause.CHANNEL, 30_000)
    assert 29_000 < (await store.rate_limits.pace(elsewhere, FREE) or 0) <= 30_000
    assert await store.rate_limits.pace(turn(), FREE) == 0


async def test_a_dead_address_is_dead_until_somebody_is_heard_in_its_place(store: RedisStore) -> None:
    asked = turn("k")
    thread = replace(asked, address=f"{asked.address}9")
    assert await store.rate_limits.pace(asked, FREE) == 0
    await store.rate_limits.pause(asked, DeliveryPause.ADDRESS, 60_000)
    assert await store.rate_limits.pace(asked, FREE) is None
    assert await store.rate_limits.pace(thread, FREE) == 0
    await store.rate_limits.pause(thread, DeliveryPause.TEXT, -20_000)
    await store.rate_limits.heard(thread.address)
    assert await store.rate_limits.pace(asked, FREE) == 0
    await store.rate_limits.pause(asked, DeliveryPause.ADDRESS, 60_000)
    await store.sessions.accept(replace(item(fresh()), home=asked.address))
    assert await store.rate_limits.pace(asked, FREE) == 0


@pytest.mark.parametrize("key", ["k", ""])
async def test_an_address_that_writes_while_a_text_fails_there_is_not_dead(store: RedisStore, key: str) -> None:
    """A person writes between the platform's answer that nobody is there and the note of it."""
    asked = turn(key) if key else SendSlot(turn().address)
    assert await store.rate_limits.pace(asked, FREE) == 0
    await store.sessions.accept(replace(item(fresh()), home=asked.address))
    await store.rate_limits.pause(asked, DeliveryPause.ADDRESS, 60_000)
    assert await store.rate_limits.pace(asked, FREE) == 0
    await store.rate_limits.pause(asked, DeliveryPause.ADDRESS, 60_000)
    assert await store.rate_limits.pace(asked, FREE) is None


async def test_all_of_it_is_forgotten(store: RedisStore) -> None:
    asked = turn("k")
    await store.rate_limits.pace(asked, (*FREE, Rate(EVERYWHERE, 1, 1000)))
    await store.rate_limits.pause(asked, DeliveryPause.CHANNEL, 1000)
    keys = pace_keys(asked.address)
    for key in (keys.channel, keys.place):
        assert 0 < await command(store, "PTTL", key) <= 3_601_000 + CLOCKS
    assert 0 < await command(store, "PTTL", keys.gone) <= 60_000 + CLOCKS
    await store.rate_limits.pause(asked, DeliveryPause.ADDRESS, 60_000)
    assert 0 < await command(store, "PTTL", keys.gone) <= 60_000 + CLOCKS


async def test_a_place_where_a_text_waits_is_forgotten_an_hour_later(store: RedisStore) -> None:
    asked = turn("k")
    await store.rate_limits.pause(asked, DeliveryPause.TEXT, 60_000)
    assert 3_600_000 < await command(store, "PTTL", pace_keys(asked.address).place) <= 3_660_000 + CLOCKS
