"""What bounded answers may endorse is counted in one place, for each label apart, since a person's last message."""

from dataclasses import replace

import pytest

from bot.sessions.background.delegation import Charge
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC, Label, parse
from tests.store.world import fresh, item, parcel, put_state

pytestmark = pytest.mark.anyio

MOST = 40_000
HIGH = parse("CONFIDENTIAL{hr}")
DIRTY = parse("PUBLIC~")


def charge(sid: str, bits: int, *, label: Label = PUBLIC, run: str = "", until: int = 2**45) -> Charge:
    return Charge(sid, 1, run or fresh(), label, bits, until, MOST)


async def conversation(store: RedisStore) -> str:
    sid = fresh()
    await store.sessions.accept(item(sid))
    return sid


async def test_no_more_is_charged_than_may_be(store: RedisStore) -> None:
    sid = await conversation(store)
    assert [await store.delegation.endorse(charge(sid, bits)) for bits in (30_000, 10_000, 9_000, 1)] == [
        True,
        False,
        True,
        False,
    ]


async def test_exactly_as_much_as_may_be(store: RedisStore) -> None:
    sid = await conversation(store)
    assert await store.delegation.endorse(charge(sid, MOST))
    assert not await store.delegation.endorse(charge(await conversation(store), MOST + 1))


async def test_the_order_of_answers_is_counted(store: RedisStore) -> None:
    sid = await conversation(store)
    # 1,000 each and 0, 1,000, 1,585, 2,000, 2,322, 2,585, 2,808, 3,000, 3,170, 3,322 for their places, rounded up.
    found = [await store.delegation.endorse(charge(sid, 1_000)) for _ in range(13)]
    assert found.count(True) == 11


async def test_what_comes_at_once_has_no_order(store: RedisStore) -> None:
    """Its call fixes its place, so neither it nor a later answer of a background session is charged for that."""
    sid = await conversation(store)
    found = [await store.delegation.endorse(replace(charge(sid, 4_000), at_once=True)) for _ in range(11)]
    assert found.count(True) == 10
    sid = await conversation(store)
    assert await store.delegation.endorse(replace(charge(sid, MOST - 3_000), at_once=True))
    assert [await store.delegation.endorse(charge(sid, bits)) for bits in (1_000, 1_001, 1_000)] == [True, False, True]


async def test_a_run_is_charged_once(store: RedisStore) -> None:
    sid = await conversation(store)
    one = charge(sid, 30_000)
    assert [await store.delegation.endorse(one), await store.delegation.endorse(one)] == [True, True]
    assert await store.delegation.endorse(charge(sid, 9_000))


async def test_nothing_is_charged_to_what_is_not_there(store: RedisStore) -> None:
    sid = await conversation(store)
    assert not await store.delegation.endorse(charge(fresh(), 1_000))
    assert not await store.delegation.endorse(replace(charge(sid, 1_000), generation=2))


async def test_what_is_higher_does_not_count_below(store: RedisStore) -> None:
    sid = await conversation(store)
    assert await store.delegation.endorse(charge(sid, 35_000, label=HIGH))
    assert await store.delegation.endorse(charge(sid, MOST))
    assert not await store.delegation.endorse(charge(sid, 1_000, label=HIGH))
    assert await store.delegation.endorse(charge(sid, 1_000, label=parse("INTERNAL{acme}"))) is False


@pytest.mark.parametrize("heard", [True, False])
async def test_a_person_begins_anew_but_for_what_is_still_to_come(store: RedisStore, *, heard: bool) -> None:
    sid = await conversation(store)
    one = charge(sid, 35_000)
    assert await store.delegation.endorse(one)
    if heard:
        await store.delegation.receive(replace(parcel(sid), run=one.run))
    assert not await store.delegation.endorse(charge(sid, 6_000))
    await store.sessions.accept(item(sid, "d2"))
    assert await store.delegation.endorse(charge(sid, 6_000)) == heard


async def test_what_cannot_come_any_more_is_not_counted_for_ever(store: RedisStore) -> None:
    sid = await conversation(store)
    assert await store.delegation.endorse(charge(sid, MOST, until=1))
    assert not await store.delegation.endorse(charge(sid, 1_000))
    await store.sessions.accept(item(sid, "d2"))
    assert await store.delegation.endorse(charge(sid, MOST))


async def test_what_is_not_a_persons_own_word_begins_nothing_anew(store: RedisStore) -> None:
    sid = await conversation(store)
    assert await store.delegation.endorse(charge(sid, MOST, until=1))
    await store.sessions.accept(item(sid, "forward", DIRTY))
    await store.delegation.receive(parcel(sid))
    assert not await store.delegation.endorse(charge(sid, 1_000))


async def test_an_answer_that_is_held_is_not_heard(store: RedisStore) -> None:
    """Nobody below could tell that it came."""
    sid = await conversation(store)
    one = charge(sid, MOST)
    assert await store.delegation.endorse(one)
    await store.delegation.receive(replace(parcel(sid, HIGH), run=one.run))
    await store.sessions.accept(item(sid, "d2"))
    assert not await store.delegation.endorse(charge(sid, 1_000))


async def test_what_rose_is_not_heard_below_even_where_it_enters(store: RedisStore) -> None:
    sid = await conversation(store)
    one = charge(sid, MOST)
    assert await store.delegation.endorse(one)
    await put_state(store, sid, taint=str(HIGH))
    await store.delegation.receive(replace(parcel(sid, HIGH), run=one.run))
    await store.sessions.accept(item(sid, "d3"))
    assert not await store.delegation.endorse(charge(sid, 1_000))


async def test_a_message_forgets_nothing_that_is_below_it(store: RedisStore) -> None:
    sid = await conversation(store)
    assert await store.delegation.endorse(charge(sid, MOST, until=1))
    await store.sessions.accept(item(sid, "d2", HIGH))
    assert not await store.delegation.endorse(charge(sid, 1_000))


async def test_a_reset_forgets_all(store: RedisStore) -> None:
    sid = await conversation(store)
    assert await store.delegation.endorse(charge(sid, MOST))
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    assert await store.delegation.endorse(replace(charge(sid, MOST), generation=2))


async def test_what_is_to_be_held_is_held_whatever_its_label(store: RedisStore) -> None:
    sid = await conversation(store)
    before = await store.sessions.state(sid)
    await store.delegation.receive(replace(parcel(sid), run="r", hold=True))
    assert [held.label for held in await store.delegation.held(sid)] == [PUBLIC]
    after = await store.sessions.state(sid)
    assert before is not None
    assert after is not None
    assert (after.waiting_items, after.updated_at) == (before.waiting_items, before.updated_at)
