"""The scripts `put`, `take` and `settle`: what waits to be said is said once."""

from dataclasses import replace

import anyio
import pytest

from bot.core.errors import NotFoundError, SchemaError
from bot.sessions.background.delegation import Arrival
from bot.sessions.deliveries import Conversation, Delivery, DeliveryState
from bot.sessions.models import SessionQuery, Status, Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.records.kinds import DELIVERY
from bot.store.redis_store import RedisStore
from bot.store.schema import LETTERS
from policy.labels import PUBLIC
from tests.clocks import CLOCKS
from tests.fleets import Served
from tests.store.world import (
    KEY,
    alter,
    answer,
    command,
    dump,
    ending,
    fresh,
    keys,
    pass_time,
    put_state,
    row,
    started,
    state_field,
)

pytestmark = pytest.mark.anyio
CONSOLE = ("console",)


async def said(store: RedisStore, *addresses: str, sender: str = "") -> str:
    """Commit an answer to each address."""
    claim, written = await started(store)
    deliver = tuple(answer(f"k{n}", address=address) for n, address in enumerate(addresses))
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=deliver), sender=sender)
    return claim.sid


def shown(deliveries: tuple[Delivery, ...]) -> list[tuple[str, DeliveryState, int]]:
    return [(one.key, one.state, one.attempt) for one in deliveries]


async def test_entries_come_oldest_first_and_once(store: RedisStore) -> None:
    sid = await said(store, *(["console::ann:"] * 12))
    assert [one.key for one in await store.outbox.take(sid, "me", CONSOLE)] == [f"k{n}" for n in range(12)]
    assert await store.outbox.take(sid, "me", CONSOLE) == ()
    assert await store.outbox.take(sid, "you", CONSOLE) == ()


async def test_a_sender_takes_only_what_it_can_send(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", "my%20chat:w:c:", "slack:w:c:t")
    assert shown(await store.outbox.take(sid, "me", ("my chat", "console"))) == [
        ("k0", DeliveryState.SENDING, 1),
        ("k1", DeliveryState.SENDING, 1),
    ]
    assert await store.outbox.take(sid, "me", ()) == ()
    assert [one.key for one in await store.outbox.take(sid, "you", ("slack",))] == ["k2"]


async def test_claimed_with_the_commit(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", sender="me")
    assert await store.outbox.take(sid, "you", CONSOLE) == ()
    (entry,) = await store.outbox.deliveries(sid)
    assert await store.outbox.settle(entry, "me", DeliveryState.SENT, audit=(row(),))
    assert shown(await store.outbox.deliveries(sid)) == [("k0", DeliveryState.SENT, 1)]


async def test_what_the_channel_calls_it_is_kept_with_it(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", "slack:w:c:t", "town::b:")
    first, second, third = await store.outbox.take(sid, "me", ("console", "slack", "town"))
    assert (first.receipt, second.receipt) == ("", "")
    await store.outbox.settle(first, "me", DeliveryState.SENT, receipt="-100/7 = a")
    await store.outbox.settle(second, "me", DeliveryState.PENDING, failed=True)
    (again,) = await store.outbox.take(sid, "me", ("slack",))
    await store.outbox.settle(again, "me", DeliveryState.SENT, arrival=Arrival.WAITING, receipt="17.5")
    await store.outbox.settle(third, "me", DeliveryState.FAILED)
    kept = [(one.receipt, one.failures, one.arrival) for one in await store.outbox.deliveries(sid)]
    assert kept == [("-100/7 = a", 0, None), ("17.5", 1, Arrival.WAITING), ("", 0, None)]


async def test_settling_needs_the_hold(store: RedisStore) -> None:
    sid = await said(store, "console::ann:")
    (entry,) = await store.outbox.take(sid, "me", CONSOLE)
    assert not await store.outbox.settle(entry, "you", DeliveryState.SENT, audit=(row(),))
    assert not await store.outbox.settle(replace(entry, attempt=9), "me", DeliveryState.SENT)
    assert not await store.outbox.settle(replace(entry, key="other"), "me", DeliveryState.SENT)
    assert not await store.outbox.settle(replace(entry, sid=fresh()), "me", DeliveryState.SENT)
    assert await store.outbox.settle(entry, "me", DeliveryState.SENT, audit=(row(),))
    assert await store.outbox.settle(entry, "me", DeliveryState.SENT, audit=(row(),))
    assert not await store.outbox.settle(entry, "me", DeliveryState.FAILED)
    assert len(await store.audit.records(sid)) == 1


async def test_an_entry_given_back_is_taken_again(store: RedisStore) -> None:
    sid = await said(store, "console::ann:")
    (entry,) = await store.outbox.take(sid, "me", CONSOLE)
    assert await store.outbox.settle(entry, "me", DeliveryState.PENDING)
    assert await store.outbox.settle(entry, "me", DeliveryState.PENDING)
    assert shown(await store.outbox.take(sid, "you", CONSOLE)) == [("k0", DeliveryState.SENDING, 2)]
    assert not await store.outbox.settle(entry, "me", DeliveryState.SENT)


async def test_what_another_session_did_with_an_entry_is_kept(store: RedisStore) -> None:
    sid = await said(store, "session:w:c:1", "session:w:c:1", sender="me")
    full, there = await store.outbox.deliveries(sid)
    assert await store.outbox.settle(full, "me", DeliveryState.FAILED, arrival=Arrival.FULL)
    assert await store.outbox.settle(there, "me", DeliveryState.SENT, arrival=Arrival.WAITING)
    assert [one.arrival for one in await store.outbox.deliveries(sid)] == [Arrival.FULL, Arrival.WAITING]


async def test_an_entry_begins_the_conversation_in_which_it_is_said(store: RedisStore) -> None:
    sid, begins = fresh(), Conversation("console::ann:", "ann", "pinned")
    with pytest.raises(NotFoundError):
        await store.outbox.put(sid, answer())
    await store.outbox.put(sid, answer(), begins)
    await store.outbox.put(sid, answer("k2"), replace(begins, agent="another"))
    state = await store.sessions.state(sid)
    assert state is not None
    told = (state.home, state.principal, state.agent, state.status, state.visibility, state.undelivered)
    assert told == ("console::ann:", "ann", "pinned", Status.IDLE, PUBLIC, 2)
    assert [event.seq for event in await store.sessions.events(sid)] == [1]
    assert sid in [one.sid for one in (await store.index.listed(SessionQuery("ann", PUBLIC))).sessions]
    await store.lifecycle.delete(sid, ())
    with pytest.raises(NotFoundError):
        await store.outbox.put(sid, answer("k3"), begins)


async def test_an_entry_is_put_there_once_and_found_by_the_sweep(store: RedisStore) -> None:
    sid = await said(store)
    new = replace(answer(text="x" * 40_000), hops=1)
    await store.outbox.put(sid, new)
    before = await dump(store, sid)
    await store.outbox.put(sid, new)
    assert await dump(store, sid) == before
    assert sid in await store.wake.sweep()
    (entry,) = await store.outbox.take(sid, "me", CONSOLE)
    assert (entry.text, entry.generation, entry.hops, entry.attempt) == (new.text, 1, 1, 1)
    with pytest.raises(NotFoundError):
        await store.outbox.put(fresh(), new)


async def test_an_entry_put_into_forgetting_outboxes_stays(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", sender="me")
    (entry,) = await store.outbox.deliveries(sid)
    await store.outbox.settle(entry, "me", DeliveryState.SENT)
    assert await command(store, "PTTL", keys(sid).outbox) > 0
    await store.outbox.put(sid, answer("k2"))
    assert await command(store, "PTTL", keys(sid).outbox) == -1


async def test_a_vanished_sender_leaves_doubt_once(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(send_lease_ms=0))
    sid = await said(store, "console::ann:")
    (entry,) = await store.outbox.take(sid, "me", CONSOLE)
    assert await store.outbox.take(sid, "you", ()) == ()
    (doubtful,) = await store.outbox.take(sid, "you", CONSOLE)
    assert doubtful == replace(entry, state=DeliveryState.AMBIGUOUS)
    assert await store.outbox.take(sid, "third", CONSOLE) == ()
    assert not await store.outbox.settle(entry, "me", DeliveryState.SENT)
    assert await store.outbox.settle(doubtful, "you", DeliveryState.AMBIGUOUS)
    assert await store.outbox.settle(doubtful, "you", DeliveryState.SENT)
    await store.close()


async def left(store: RedisStore, key: str) -> int:
    """Return how many milliseconds a key still lives, -1 if for ever."""
    found: int = await command(store, "PTTL", key)
    return found


async def test_settled_entries_are_forgotten_in_time(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", "console::ann:", sender="me")
    one, other = await store.outbox.deliveries(sid)
    await store.outbox.settle(one, "me", DeliveryState.WITHHELD)
    assert await left(store, keys(sid).outbox) == -1
    await store.outbox.settle(other, "me", DeliveryState.SENT)
    assert 0 < await left(store, keys(sid).outbox) <= StoreOptions().keep_ms + CLOCKS


async def test_a_new_entry_is_not_forgotten_with_settled_ones(store: RedisStore) -> None:
    claim, written = await started(store)
    written = await store.sessions.record(claim, Write(fresh(), written.seq, deliver=(answer("k1"),)), sender="me")
    (entry,) = await store.outbox.deliveries(claim.sid)
    await store.outbox.settle(entry, "me", DeliveryState.SENT)
    await store.sessions.record(claim, Write(fresh(), written.seq, deliver=(answer("k2"),)), sender="me")
    assert await left(store, keys(claim.sid).outbox) == -1


async def test_an_entry_in_doubt_is_not_forgotten(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", "console::ann:", sender="me")
    one, other = await store.outbox.deliveries(sid)
    await store.outbox.settle(one, "me", DeliveryState.AMBIGUOUS)
    await store.outbox.settle(other, "me", DeliveryState.SENT)
    assert await left(store, keys(sid).outbox) == -1
    await store.outbox.settle(one, "me", DeliveryState.SENT)
    assert 0 < await left(store, keys(sid).outbox) <= StoreOptions().keep_ms + CLOCKS


async def test_what_was_in_doubt_and_is_sent_is_not_looked_for_any_more(own: RedisStore) -> None:
    sid = await said(own, *(["console::ann:"] * 2), sender="me")
    one, other = await own.outbox.deliveries(sid)
    await own.outbox.settle(one, "me", DeliveryState.AMBIGUOUS)
    await own.outbox.settle(one, "me", DeliveryState.SENT)
    await own.outbox.settle(other, "me", DeliveryState.SENT)
    await own.outbox.dead()
    await own.wake.sweep()
    assert await command(own, "SMEMBERS", LETTERS) == []


async def test_an_entry_in_doubt_goes_with_its_generation(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", sender="me")
    (old,) = await store.outbox.deliveries(sid)
    await store.outbox.settle(old, "me", DeliveryState.AMBIGUOUS)
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    assert 0 < await left(store, keys(sid).outbox) <= StoreOptions().keep_ms + CLOCKS
    await store.outbox.put(sid, answer("k1"))
    (new,) = await store.outbox.take(sid, "me", CONSOLE)
    await store.outbox.settle(new, "me", DeliveryState.AMBIGUOUS)
    times: list[int] = await command(store, "HPTTL", keys(sid).outbox, "FIELDS", 2, "k0", "k1")
    assert 0 < times[0] <= StoreOptions().keep_ms
    assert times[1] == -1
    await store.outbox.decide_dead(new, again=False, audit=())
    assert 0 < await left(store, keys(sid).outbox) <= StoreOptions().keep_ms + CLOCKS
    assert await state_field(store, sid, "dead_until") is None


async def test_among_many_entries_one_in_doubt_goes_with_its_generation(store: RedisStore) -> None:
    sid = await said(store, *(["console::ann:"] * 17), sender="me")
    old, *_ = await store.outbox.deliveries(sid)
    await store.outbox.settle(old, "me", DeliveryState.AMBIGUOUS)
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    await store.outbox.put(sid, answer("k17"))
    times: list[int] = await command(store, "HPTTL", keys(sid).outbox, "FIELDS", 2, old.key, "k17")
    assert 0 < times[0] <= StoreOptions().keep_ms
    assert times[1] == -1


async def test_an_entry_in_doubt_is_not_tried_again_after_a_reset(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", sender="me")
    (old,) = await store.outbox.deliveries(sid)
    await store.outbox.settle(old, "me", DeliveryState.AMBIGUOUS)
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    for _ in range(2):
        assert await store.outbox.settle(old, "me", DeliveryState.PENDING)
    assert [one.state for one in await store.outbox.deliveries(sid)] == [DeliveryState.CANCELLED]
    assert await store.outbox.take(sid, "me", CONSOLE) == ()


async def calls(store: RedisStore, name: str) -> int:
    """Return how often the servers ran a command."""
    stats: bytes = await command(store, "INFO", "commandstats")
    lines = [line for line in stats.decode().splitlines() if line.startswith(f"cmdstat_{name}:")]
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines)


async def test_settling_does_not_read_all_that_was_said_before(own: RedisStore) -> None:
    sid = await said(own, "console::ann:", sender="me")
    (entry,) = await own.outbox.deliveries(sid)
    before = await calls(own, "hgetall")
    await own.outbox.settle(entry, "me", DeliveryState.SENT)
    assert await calls(own, "hgetall") - before == 1  # the session's record


async def test_of_many_entries_each_is_forgotten_by_itself(store: RedisStore) -> None:
    sid = await said(store, *(["console::ann:"] * 17), sender="me")
    entry, other, *_ = await store.outbox.deliveries(sid)
    await store.outbox.settle(entry, "me", DeliveryState.SENT)
    times: list[int] = await command(store, "HPTTL", keys(sid).outbox, "FIELDS", 2, entry.key, other.key)
    assert 0 < times[0] <= StoreOptions().keep_ms
    assert times[1] == -1


async def test_nothing_to_take(store: RedisStore) -> None:
    assert await store.outbox.take(fresh(), "me", CONSOLE) == ()
    assert await store.outbox.deliveries(fresh()) == ()


async def test_a_newer_record_is_refused(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", sender="me")
    (entry,) = await store.outbox.deliveries(sid)
    await put_state(store, sid, version=3)
    before = await dump(store, sid)
    with pytest.raises(SchemaError):
        await store.outbox.take(sid, "me", CONSOLE)
    with pytest.raises(SchemaError):
        await store.outbox.settle(entry, "me", DeliveryState.SENT)
    assert await dump(store, sid) == before


async def test_a_newer_entry_is_refused(store: RedisStore) -> None:
    sid = await said(store, "console::ann:")
    await alter(store, DELIVERY, keys(sid).outbox, "k0", version=3)
    with pytest.raises(SchemaError):
        await store.outbox.deliveries(sid)


async def test_events_of_a_turn_and_its_answer_are_one_step(store: RedisStore) -> None:
    claim, written = await started(store)
    write = Write(fresh(), written.seq, deliver=(answer(),))
    await store.sessions.record(claim, write, sender="me")
    assert shown(await store.outbox.deliveries(claim.sid)) == [("k1", DeliveryState.SENDING, 1)]


async def wait(store: RedisStore, sid: str, milliseconds: int, key: str = "k0") -> None:
    """Let a sender take an entry, fail and give it back."""
    entry = next(one for one in await store.outbox.take(sid, "me", CONSOLE) if one.key == key)
    assert await store.outbox.settle(entry, "me", DeliveryState.PENDING, wait=milliseconds, failed=True)


async def test_an_entry_given_back_for_later_is_left_until_then(store: RedisStore) -> None:
    sid = await said(store, "console::ann:")
    await wait(store, sid, 60_000)
    assert await store.outbox.take(sid, "you", CONSOLE) == ()
    assert sid not in await store.wake.sweep()
    assert (await store.outbox.deliveries(sid))[0].failures == 1
    await pass_time(store, sid, "k0")
    assert sid in await store.wake.sweep()
    assert shown(await store.outbox.take(sid, "you", CONSOLE)) == [("k0", DeliveryState.SENDING, 2)]


async def test_nothing_overtakes_what_waits_for_its_address(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", "console::ann:", "console::bob:")
    first, second, other = await store.outbox.take(sid, "me", CONSOLE)
    await store.outbox.settle(first, "me", DeliveryState.PENDING, wait=60_000)
    await store.outbox.settle(second, "me", DeliveryState.PENDING)
    await store.outbox.settle(other, "me", DeliveryState.PENDING)
    assert [one.key for one in await store.outbox.take(sid, "you", CONSOLE)] == ["k2"]
    await pass_time(store, sid, "k0")
    assert [one.key for one in await store.outbox.take(sid, "you", CONSOLE)] == ["k0", "k1"]


async def test_a_commit_is_not_given_what_stands_behind_an_older_one(store: RedisStore) -> None:
    claim, written = await started(store)
    written = await store.sessions.record(claim, Write(fresh(), written.seq, deliver=(answer("k1"),)), sender="other")
    new = (answer("k2"), answer("k3", address="console::bob:"))
    written = await store.sessions.commit(claim, ending(written.seq, 1, deliver=new), sender="me")
    assert written.behind == {"k2"}
    states = {one.key: one.state for one in await store.outbox.deliveries(claim.sid)}
    assert states == {"k1": DeliveryState.SENDING, "k2": DeliveryState.PENDING, "k3": DeliveryState.SENDING}


async def test_nothing_stands_behind_for_a_commit_that_sends_nothing(store: RedisStore) -> None:
    claim, written = await started(store)
    written = await store.sessions.record(claim, Write(fresh(), written.seq, deliver=(answer("k1"),)))
    assert written.behind == frozenset()
    assert (await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer("k2"),)))).behind == frozenset()


async def test_dead_letters_are_found_and_kept_for_longer(store: RedisStore) -> None:
    sid = await said(store, *(["console::ann:"] * 4), sender="me")
    ends = (DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.AMBIGUOUS)
    for entry, state in zip(await store.outbox.deliveries(sid), ends, strict=True):
        await store.outbox.settle(entry, "me", state)
    assert [one.state for state, one in await store.outbox.dead() if state.sid == sid] == list(ends[1:])
    times: list[int] = await command(store, "HPTTL", keys(sid).outbox, "FIELDS", 4, "k0", "k1", "k2", "k3")
    day, week = StoreOptions().keep_ms, StoreOptions().keep_dead_ms
    assert 0 < times[0] <= day < min(times[1:3]) <= week
    assert times[3] == -1


async def test_among_many_entries_each_is_kept_for_its_own_time(store: RedisStore) -> None:
    sid = await said(store, *(["console::ann:"] * 20), sender="me")
    entries = await store.outbox.deliveries(sid)
    ends = (DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.AMBIGUOUS, DeliveryState.FAILED)
    for entry, state in zip(entries, ends, strict=False):
        await store.outbox.settle(entry, "me", state)
    await store.outbox.decide_dead(entries[3], again=False, audit=())
    times: list[int] = await command(store, "HPTTL", keys(sid).outbox, "FIELDS", 5, "k0", "k1", "k2", "k3", "k4")
    day, week = StoreOptions().keep_ms, StoreOptions().keep_dead_ms
    assert 0 < times[0] <= day < times[1] <= week
    assert times[2] == -1  # until somebody decides
    assert 0 < times[3] <= day
    assert times[4] == -1  # it is still to be said


async def test_when_the_last_dead_letter_is_let_go_all_go_a_day_later(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", sender="me")
    (entry,) = await store.outbox.deliveries(sid)
    await store.outbox.settle(entry, "me", DeliveryState.AMBIGUOUS)
    assert await command(store, "PTTL", keys(sid).outbox) == -1
    await store.outbox.decide_dead(entry, again=False, audit=())
    assert 0 < await command(store, "PTTL", keys(sid).outbox) <= StoreOptions().keep_ms + CLOCKS


async def test_the_sweep_finds_dead_letters_of_which_the_hint_is_lost(own: RedisStore) -> None:
    failed, doubtful, vanished, reset, fine = [await said(own, "console::ann:", sender="me") for _ in range(5)]
    for sid, state in ((failed, "failed"), (doubtful, "ambiguous"), (reset, "failed"), (fine, "sent")):
        await own.outbox.settle((await own.outbox.deliveries(sid))[0], "me", DeliveryState(state))
    await pass_time(own, vanished, "k0")
    await own.outbox.take(vanished, "you", CONSOLE)
    await own.sessions.reset(reset, op=fresh(), actor="ann", audit=())
    sids = {failed, doubtful, vanished, reset, fine}
    await command(own, "SREM", LETTERS, *sids)
    assert {state.sid for state, _ in await own.outbox.dead()} & sids == set()
    await own.wake.sweep()
    noted: list[bytes] = await command(own, "SMEMBERS", LETTERS)
    assert {name.decode() for name in noted} & sids == {failed, doubtful, vanished}
    assert {state.sid for state, _ in await own.outbox.dead()} & sids == {failed, doubtful, vanished}


async def test_what_became_too_old_is_not_looked_for_any_more(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(keep_dead_ms=1))
    sid = await said(store, "console::ann:", sender="me")
    await store.outbox.settle((await store.outbox.deliveries(sid))[0], "me", DeliveryState.FAILED)
    await anyio.sleep(0.002)
    await store.outbox.dead()
    await store.wake.sweep()
    assert not await command(store, "SISMEMBER", LETTERS, sid)
    await store.close()


async def test_two_who_look_at_once_both_find_a_dead_letter(own: RedisStore) -> None:
    sid = await said(own, "console::ann:", sender="me")
    await own.outbox.settle((await own.outbox.deliveries(sid))[0], "me", DeliveryState.FAILED)
    found = list[int]()

    async def look() -> None:
        for _ in range(30):
            found.append(len(await own.outbox.dead()))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(look)
    assert found == [1] * 90


async def test_what_dies_while_somebody_looks_is_found_afterwards(own: RedisStore) -> None:
    sid = await said(own, *(["console::ann:"] * 40), sender="me")

    async def die(entry: Delivery, later: int) -> None:
        for _ in range(later):
            await command(own, "PING")
        await own.outbox.settle(entry, "me", DeliveryState.FAILED)

    for n, entry in enumerate(await own.outbox.deliveries(sid)):
        await command(own, "SADD", LETTERS, sid)
        async with anyio.create_task_group() as group:
            group.start_soon(own.outbox.dead)
            group.start_soon(die, entry, n % 4)
        assert [one.key for _, one in await own.outbox.dead()] == [entry.key]
        await own.outbox.decide_dead(entry, again=False, audit=())


async def test_a_session_without_dead_letters_is_not_looked_at_again(own: RedisStore) -> None:
    sid = await said(own, "console::ann:", sender="me")
    (entry,) = await own.outbox.deliveries(sid)
    await own.outbox.settle(entry, "me", DeliveryState.FAILED)
    await own.outbox.decide_dead(entry, again=False, audit=())
    await command(own, "SADD", LETTERS, sid, fresh())
    assert await own.outbox.dead() == ()
    assert await command(own, "SMEMBERS", LETTERS) == []


async def test_a_dead_letter_is_tried_again_or_let_go_once(store: RedisStore) -> None:
    sid = await said(store, *(["console::ann:"] * 2), sender="me")
    one, other = await store.outbox.deliveries(sid)
    await store.outbox.settle(one, "me", DeliveryState.FAILED)
    await store.outbox.settle(other, "me", DeliveryState.EXPIRED)
    await store.outbox.decide_dead(one, again=True, audit=(row(),))
    await store.outbox.decide_dead(other, again=False, audit=(row(),))
    for letter in (one, other):
        with pytest.raises(NotFoundError):
            await store.outbox.decide_dead(letter, again=True, audit=(row(),))
    assert len(await store.audit.records(sid)) == 2
    assert sid in await store.wake.sweep()
    assert [again.key for again in await store.outbox.take(sid, "you", CONSOLE)] == ["k0"]
    assert (await store.outbox.deliveries(sid))[1].state is DeliveryState.CANCELLED
    assert sid not in {state.sid for state, _ in await store.outbox.dead()}
    assert await command(store, "HPTTL", keys(sid).outbox, "FIELDS", 1, "k0") == [-1]


async def test_a_reset_leaves_no_dead_letter_to_be_tried_again(store: RedisStore) -> None:
    sid = await said(store, "console::ann:", sender="me")
    (entry,) = await store.outbox.deliveries(sid)
    await store.outbox.settle(entry, "me", DeliveryState.FAILED)
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    assert sid not in {state.sid for state, _ in await store.outbox.dead()}
    with pytest.raises(NotFoundError):
        await store.outbox.decide_dead(entry, again=True, audit=())


async def test_what_is_said_again_with_a_mark_is_not_decided_on(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(send_lease_ms=1000))
    sid = await said(store, "console::ann:")
    await store.outbox.take(sid, "me", CONSOLE)
    await pass_time(store, sid, "k0")
    (doubtful,) = await store.outbox.take(sid, "you", CONSOLE)
    with pytest.raises(NotFoundError):
        await store.outbox.decide_dead(doubtful, again=True, audit=())
    await pass_time(store, sid, "k0")
    await store.outbox.decide_dead(doubtful, again=False, audit=())
    await store.close()
