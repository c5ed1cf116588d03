"""What a session's record counts for its limits: active time, turns without a person, and its own token budget."""

import asyncio

import pytest

from bot.core.errors import LeaseLostError, ResetError
from bot.sessions.budgets import Lack, Shortage, Whose
from bot.sessions.limits import TokenAllowance
from bot.sessions.models import Claim, SessionState
from bot.store.redis_store import RedisStore
from tests.store.world import claimed, command, end_lease, ending, fresh, item, keys, moment, opening, parcel, started

pytestmark = pytest.mark.anyio

NEVER = Shortage(Whose.SESSION, Lack.NEVER)
USED = Shortage(Whose.SESSION, Lack.USED)
HELD = Shortage(Whose.SESSION, Lack.HELD)


def allowance(claim: Claim, tokens: int = 100) -> TokenAllowance:
    """Return a budget as the holder of a claim uses it."""
    return TokenAllowance(claim.sid, claim.state.generation, claim.fence, tokens)


async def state(store: RedisStore, sid: str) -> SessionState:
    """Return a session that is there."""
    found = await store.sessions.state(sid)
    assert found is not None
    return found


async def test_what_is_set_aside_and_used_never_exceeds_the_budget(store: RedisStore) -> None:
    claim, _ = await started(store)
    own, budgets = allowance(claim), store.budgets
    assert await budgets.reserve_of_session("a", 101, own) == NEVER
    assert await budgets.reserve_of_session("a", 60, own) is None
    assert await budgets.reserve_of_session("a", 60, own) is None  # the same again
    assert await budgets.reserve_of_session("b", 41, own) == HELD
    await budgets.charge_session("a", 30, own)
    await budgets.charge_session("a", 30, own)  # the same again
    assert await budgets.reserve_of_session("b", 71, own) == USED
    assert await budgets.reserve_of_session("b", 70, own) is None


async def test_what_a_worker_that_died_had_set_aside_is_charged_in_full(store: RedisStore) -> None:
    claim, _ = await started(store)
    assert await store.budgets.reserve_of_session("a", 60, allowance(claim)) is None
    await end_lease(store, claim.sid)
    second = await claimed(store, claim.sid)
    for late in (
        store.budgets.charge_session("a", 1, allowance(claim)),
        store.budgets.reserve_of_session("b", 1, allowance(claim)),
    ):
        with pytest.raises(LeaseLostError):
            await late
    assert await store.budgets.reserve_of_session("c", 41, allowance(second)) == USED
    assert await store.budgets.reserve_of_session("c", 40, allowance(second)) is None


async def test_a_reset_begins_the_budget_anew(store: RedisStore) -> None:
    claim, _ = await started(store)
    assert await store.budgets.reserve_of_session("a", 60, allowance(claim)) is None
    await store.budgets.charge_session("a", 60, allowance(claim))
    assert await store.budgets.reserve_of_session("b", 40, allowance(claim)) is None
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    with pytest.raises(ResetError):
        await store.budgets.charge_session("b", 40, allowance(claim))
    await store.sessions.accept(item(claim.sid, "d2"))
    assert await store.budgets.reserve_of_session("c", 100, allowance(await claimed(store, claim.sid))) is None


async def test_what_was_used_before_there_was_a_limit_counts(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))  # 30 tokens
    await store.sessions.accept(item(claim.sid, "d2"))
    second = await claimed(store, claim.sid)
    assert await store.budgets.reserve_of_session("a", 71, allowance(second)) == USED
    assert await store.budgets.reserve_of_session("a", 70, allowance(second)) is None


async def test_a_session_without_a_budget_stores_nothing_of_it(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))
    fields = await command(store, "HKEYS", keys(claim.sid).state)
    assert not {b"si", b"tn", b"ts"} & set(fields)


async def test_a_turn_counts_for_how_long_each_worker_had_it(store: RedisStore) -> None:
    claim, _ = await started(store)
    await asyncio.sleep(0.2)
    await store.sessions.renew(claim)
    await end_lease(store, claim.sid)
    rested = await moment(store)
    await asyncio.sleep(0.2)  # nobody works on it
    second = await claimed(store, claim.sid)
    assert second.state.turn is not None
    first_part = second.state.turn.active
    assert first_part <= rested - claim.now
    await asyncio.sleep(0.2)
    await store.sessions.release(second)
    rested = await moment(store)
    await asyncio.sleep(0.2)
    third = await claimed(store, claim.sid)
    assert third.state.turn is not None
    assert 200 <= third.state.turn.active - first_part <= rested - second.now
    assert (third.state.turn.attempt, third.state.turn.handed) == (3, 1)


async def test_turns_without_a_persons_message_are_counted_and_one_counts_anew(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert (await state(store, claim.sid)).turns_alone == 0
    for n in range(1, 4):
        await store.delegation.receive(parcel(claim.sid, dedupe=f"p{n}"))
        claim = await claimed(store, claim.sid)
        position, dedupe = claim.items[0].position, claim.items[0].dedupe
        written = await store.sessions.record(claim, opening(claim, position, dedupe))
        await store.sessions.commit(claim, ending(written.seq, position))
        assert (await state(store, claim.sid)).turns_alone == n
    await store.sessions.accept(item(claim.sid, "d2"))
    claim = await claimed(store, claim.sid)
    position = claim.items[0].position
    written = await store.sessions.record(claim, opening(claim, position, "d2"))
    await store.sessions.commit(claim, ending(written.seq, position))
    assert (await state(store, claim.sid)).turns_alone == 0
