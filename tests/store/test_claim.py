"""The scripts `claim`, `renew` and `release`: one holder at a time, fenced."""

import pytest

from bot.core.errors import ElsewhereError, LeaseLostError, ResetError, SchemaError
from bot.sessions.models import ReadPosition, Turn, Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from tests.fleets import Served
from tests.store.world import (
    KEY,
    claimed,
    command,
    dump,
    end_lease,
    ending,
    event,
    fresh,
    item,
    keys,
    put_state,
    started,
    suspended,
)

pytestmark = pytest.mark.anyio


async def test_one_worker_at_a_time(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    first = await claimed(store, sid)
    assert await store.sessions.claim(sid, "another") is None
    await store.sessions.release(first)
    assert (await claimed(store, sid)).fence == first.fence + 1


async def test_the_holder_may_ask_again(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    first = await claimed(store, sid, owner="w")
    again = await claimed(store, sid, owner="w")
    assert again.fence == first.fence


async def test_nothing_to_do_is_nothing_to_take(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert await store.sessions.claim(claim.sid, "w") is None
    assert await store.sessions.claim(fresh(), "w", idle=True) is None
    idle = await claimed(store, claim.sid, idle=True)
    assert idle.items == ()


async def test_a_session_is_claimed_by_who_serves_its_channel(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    with pytest.raises(ElsewhereError):
        await store.sessions.claim(sid, "w", channels=("pigeon", "session"))
    assert (await claimed(store, sid, owner="x")).fence == 1  # it was not taken
    assert await store.sessions.claim(sid, "w", channels=("pigeon",)) is None  # somebody has it, wherever it lives
    other = fresh()
    await store.sessions.accept(item(other))
    assert await store.sessions.claim(other, "w", channels=("pigeon", "console")) is not None


async def test_a_vanished_worker_shows_as_another_attempt(store: RedisStore) -> None:
    claim, _ = await started(store)
    await end_lease(store, claim.sid)
    second = await claimed(store, claim.sid)
    assert second.state.turn == Turn("t", 1, "d1", "ann", claim.now, attempt=2)
    assert second.fence == claim.fence + 1
    with pytest.raises(LeaseLostError):
        await store.sessions.renew(claim)


async def test_an_input_waits_while_a_turn_waits_for_people(store: RedisStore) -> None:
    claim, _ = await suspended(store)
    await store.sessions.accept(item(claim.sid, "d2"))
    assert await store.sessions.claim(claim.sid, "w") is None


async def test_a_question_past_its_time_holds_nobody(store: RedisStore) -> None:
    claim, _ = await suspended(store, lasts=-1)
    resumed = await claimed(store, claim.sid)
    assert resumed.state.turn is not None
    assert (resumed.state.turn.suspended, resumed.state.turn.attempt) == (True, 1)


async def test_a_claim_reads_from_the_last_known_event_on(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))
    resumed = await store.sessions.claim(claim.sid, "w", known=ReadPosition(1, 1, 3), idle=True)
    assert resumed is not None
    assert [one.seq for one in resumed.events] == [3]


async def test_a_long_log_comes_whole(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(claim_events=3))
    claim, written = await started(store)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=tuple(event(text=str(n)) for n in range(8))))
    await end_lease(store, claim.sid)
    resumed = await claimed(store, claim.sid)
    assert [one.seq for one in resumed.events] == list(range(1, 11))
    await store.close()


async def test_a_claim_hands_over_a_limited_number_of_inputs(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(claim_items=2))
    sid = fresh()
    for n in range(3):
        await store.sessions.accept(item(sid, f"d{n}"))
    claim = await claimed(store, sid)
    assert (len(claim.items), claim.state.waiting_items) == (2, 3)
    await store.close()


async def test_renewing_prolongs_and_tells_of_a_stop(store: RedisStore) -> None:
    claim, _ = await started(store)
    await end_lease(store, claim.sid)
    assert await store.sessions.renew(claim) is False
    assert await store.sessions.claim(claim.sid, "w") is None
    await store.sessions.stop(claim.sid, actor="ann")
    assert await store.sessions.renew(claim) is True


async def test_after_a_reset_the_claim_is_of_another_generation(store: RedisStore) -> None:
    claim, _ = await started(store)
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    before = await dump(store, claim.sid)
    with pytest.raises(ResetError):
        await store.sessions.renew(claim)
    await store.sessions.release(claim)
    assert await dump(store, claim.sid) == before


async def test_a_stale_release_changes_nothing(store: RedisStore) -> None:
    claim, _ = await started(store)
    await end_lease(store, claim.sid)
    await claimed(store, claim.sid)
    before = await dump(store, claim.sid)
    await store.sessions.release(claim)
    assert await dump(store, claim.sid) == before


async def test_releasing_a_session_that_is_gone_is_no_error(store: RedisStore) -> None:
    claim, _ = await started(store)
    await command(store, "DEL", keys(claim.sid).state)
    await store.sessions.release(claim)
    with pytest.raises(LeaseLostError):
        await store.sessions.renew(claim)


@pytest.mark.parametrize("what", ["claim", "renew", "release"])
async def test_a_newer_record_is_refused(store: RedisStore, what: str) -> None:
    claim, _ = await started(store)
    await put_state(store, claim.sid, version=3)
    before = await dump(store, claim.sid)
    calls = {
        "claim": lambda: store.sessions.claim(claim.sid, "w"),
        "renew": lambda: store.sessions.renew(claim),
        "release": lambda: store.sessions.release(claim),
    }
    with pytest.raises(SchemaError):
        await calls[what]()
    assert await dump(store, claim.sid) == before
