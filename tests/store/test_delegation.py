"""Sessions among themselves: a child and its task are one step, items are held or let in, slots are never leaked."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from bot.core.errors import BusyError, NotFoundError
from bot.delegation.handoff import TAKEN
from bot.sessions.background.delegation import MOST_HOPS, Arrival, Caps
from bot.sessions.deliveries import OURS, RISEN, Delivery, DeliveryState, NewDelivery, risen_key
from bot.sessions.inbox import ItemOutcome, ItemStatus, NewItem
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Status, Turn, Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.records.kinds import SLOT
from bot.store.redis_store import RedisStore
from bot.store.schema import READY, list_key, slots_key
from policy.labels import PUBLIC, Integrity, Label, parse
from tests.fleets import Served
from tests.store.world import (
    KEY,
    SECRET,
    alter,
    child,
    claimed,
    command,
    depart,
    dump,
    ending,
    event,
    fresh,
    item,
    opening,
    parcel,
    put_state,
    row,
    slot,
    started,
)

pytestmark = pytest.mark.anyio

CAPS = Caps(children=5, live=8, depth=2)


async def test_a_child_and_its_task_are_one_step(store: RedisStore) -> None:
    new = child("parent", label=SECRET)
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    assert claim.state.lineage == new.lineage
    assert claim.state.taint == PUBLIC
    assert claim.state.visibility == SECRET
    assert [(entry.label, entry.body) for entry in claim.items] == [(SECRET, new.body)]


async def test_a_child_whose_reservation_lapsed_is_not_created(store: RedisStore) -> None:
    new = child("parent", reserved=1)
    with pytest.raises(BusyError):
        await store.sessions.accept(new)
    assert await dump(store, new.sid) == {}


async def test_a_child_ends_with_its_last_turn_and_takes_nothing_more(store: RedisStore) -> None:
    new = child("parent")
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    assert await store.delegation.receive(parcel(new.sid)) is Arrival.WAITING
    await store.sessions.record(claim, opening(claim, dedupe="task"))
    state = await store.sessions.state(new.sid)
    assert state is not None
    await store.sessions.commit(claim, ending(state.seq, 1))
    between = await store.sessions.state(new.sid)
    assert between is not None
    assert (between.status, between.ended_at) == (Status.QUEUED, 0)

    claim = await claimed(store, new.sid)
    await store.sessions.record(claim, opening(claim, 2, "p1"))
    await store.sessions.commit(claim, ending(claim.state.seq + 1, 2))
    ended = await store.sessions.state(new.sid)
    assert ended is not None
    assert ended.ended_at > 0
    assert await store.delegation.receive(parcel(new.sid, dedupe="p2")) is Arrival.ENDED


async def test_a_stopped_child_that_never_ran_has_ended(store: RedisStore) -> None:
    new = child("parent")
    await store.sessions.accept(new)
    await store.sessions.stop(new.sid, actor="ann")
    state = await store.sessions.state(new.sid)
    assert state is not None
    assert state.ended_at > 0


async def test_what_flows_to_the_taint_enters_the_inbox_once(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET),)))
    sent = parcel(claim.sid, SECRET)
    assert await store.delegation.receive(sent) is Arrival.WAITING
    before = await dump(store, claim.sid)
    assert await store.delegation.receive(sent) is Arrival.WAITING
    assert await dump(store, claim.sid) == before


async def test_what_does_not_flow_is_held_and_nothing_tells_of_it(store: RedisStore) -> None:
    claim, _ = await started(store)
    before = await store.sessions.state(claim.sid)
    assert await store.delegation.receive(parcel(claim.sid, SECRET)) is Arrival.HELD
    assert await store.delegation.receive(parcel(claim.sid, SECRET)) is Arrival.HELD
    assert await store.sessions.state(claim.sid) == before
    (held,) = await store.delegation.held(claim.sid)
    assert (held.sender, held.label, held.body) == ("ann", SECRET, SessionMessage("handed over"))


async def test_what_is_held_leaves_every_other_key_as_it_was(store: RedisStore) -> None:
    """Nor is anything noted that a listing, a receipt or a sweep of lower readers could measure."""
    sid, who = fresh(), fresh()
    await store.sessions.accept(replace(item(sid), principal=who))
    await store.wake.sweep()

    async def kept() -> dict[str, object]:
        every: dict[str, object] = await dump(store, sid)
        every = {key: value for key, value in every.items() if "held" not in key}
        return every | {
            "listed": await command(store, "ZRANGE", list_key(who, "PUBLIC"), 0, -1, "WITHSCORES"),
            "ready": await command(store, "ZSCORE", READY, sid),
        }

    before = await kept()
    for report in (True, False):
        await store.delegation.receive(parcel(sid, SECRET, dedupe=f"p{report}", report=report))
    assert await kept() == before


@pytest.mark.parametrize("last", ["taken", "reported"])
async def test_a_report_is_taken_by_a_full_session_and_by_one_that_has_ended(store: RedisStore, last: str) -> None:
    new = child("parent")
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    await store.sessions.record(claim, opening(claim, dedupe="task"))
    await store.sessions.commit(claim, ending(claim.state.seq + 1, 1))
    assert await store.delegation.receive(parcel(new.sid, SECRET, dedupe=last)) is Arrival.ENDED
    before = await store.sessions.state(new.sid)
    assert await store.delegation.receive(parcel(new.sid, SECRET, report=True)) is Arrival.HELD
    assert await store.sessions.state(new.sid) == before
    (held,) = await store.delegation.held(new.sid)
    if last == "reported":
        assert await store.delegation.receive(parcel(new.sid, dedupe="p2", report=True)) is Arrival.WAITING
    await store.delegation.decide_held(new.sid, held.id, accept=True, op=fresh(), audit=())
    state = await store.sessions.state(new.sid)
    assert state is not None
    assert (state.ended_at, state.waiting_items) == (0, 2 if last == "reported" else 1)


async def test_no_read_up_what_waits_from_above_takes_no_room_of_what_is_sent_below(server: Served) -> None:
    """Else whoever sends low would see by its receipt, and by what becomes of it at last, that high ones sent much."""
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=4))
    claim, written = await started(store)
    high = parse("CONFIDENTIAL{acme}~")
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(label=high, admitted=True),)))
    for number in range(2):
        assert await store.delegation.receive(parcel(claim.sid, high, dedupe=f"high{number}")) is Arrival.WAITING
    with pytest.raises(BusyError):
        await store.delegation.receive(parcel(claim.sid, parse("CONFIDENTIAL{acme}"), dedupe="as high"))
    for label in ("PUBLIC", "CONFIDENTIAL", "PUBLIC{acme}"):
        for number in range(2):
            assert (
                await store.delegation.receive(parcel(claim.sid, parse(label), dedupe=f"{label}{number}"))
                is Arrival.WAITING
            )
        with pytest.raises(BusyError):
            await store.delegation.receive(parcel(claim.sid, parse(f"{label}~"), dedupe=f"{label} more"))
    await store.close()


async def test_a_person_lets_in_what_there_is_room_for_at_its_level(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=1))
    sid = fresh()
    await store.sessions.accept(item(sid))
    for number in range(2):
        await store.delegation.receive(parcel(sid, SECRET, dedupe=f"p{number}"))
    first, second = await store.delegation.held(sid)
    await store.delegation.decide_held(sid, first.id, accept=True, op=fresh(), audit=())
    with pytest.raises(BusyError):
        await store.delegation.decide_held(sid, second.id, accept=True, op=fresh(), audit=())
    await store.close()


async def test_no_read_up_a_session_above_its_sender_is_never_busy(server: Served) -> None:
    """What it has no room for is held there, and beyond that let go; its sender cannot tell."""
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=4, held_limit=2))
    claim, written = await started(store)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(label=SECRET, admitted=True),)))
    arrivals = [await store.delegation.receive(parcel(claim.sid, dedupe=f"p{n}", told=PUBLIC)) for n in range(6)]
    assert arrivals == [Arrival.WAITING] * 2 + [Arrival.UNTOLD] * 4
    assert set(arrivals) <= TAKEN
    assert [str(one.label) for one in await store.delegation.held(claim.sid)] == ["PUBLIC"] * 2
    # One that comes again is the same, and one that was let go left nothing.
    again = [await store.delegation.receive(parcel(claim.sid, dedupe=f"p{n}", told=PUBLIC)) for n in range(6)]
    assert again == arrivals
    with pytest.raises(BusyError):
        await store.delegation.receive(parcel(claim.sid, dedupe="as high"))
    await store.close()


async def test_no_read_up_what_is_passed_on_unseen_is_never_refused_for_room(server: Served) -> None:
    """Its sender may know of the session, and not of how much is held there at the level of what it passes on."""
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=4, held_limit=1))
    sid = fresh()
    await store.sessions.accept(item(sid))
    arrivals = [await store.delegation.receive(parcel(sid, SECRET, dedupe=f"p{n}", told=PUBLIC)) for n in range(2)]
    assert arrivals == [Arrival.HELD, Arrival.UNTOLD]
    assert await store.delegation.receive(parcel(sid, SECRET, dedupe="as high")) is Arrival.FULL
    await store.close()


async def test_no_read_up_that_a_session_above_its_sender_has_ended(store: RedisStore) -> None:
    new = child("parent", label=SECRET)
    await store.sessions.accept(new)
    await store.sessions.stop(new.sid, actor="ann")
    assert await store.delegation.receive(parcel(new.sid, told=PUBLIC)) is Arrival.UNTOLD
    assert await store.delegation.receive(parcel(new.sid)) is Arrival.ENDED
    assert await store.delegation.held(new.sid) == ()


@pytest.mark.parametrize("limit, most", [(1, 1), (7, 4), (10, 5)])
async def test_what_sessions_send_takes_no_room_of_people(server: Served, limit: int, most: int) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=limit))
    sid = fresh()
    await store.sessions.accept(item(sid))
    for number in range(most):
        assert await store.delegation.receive(parcel(sid, dedupe=f"p{number}")) is Arrival.WAITING
    with pytest.raises(BusyError):
        await store.delegation.receive(parcel(sid, dedupe="one more"))
    for number in range(1, limit):
        await store.sessions.accept(item(sid, f"i{number}"))
    with pytest.raises(BusyError):
        await store.sessions.accept(item(sid, "one more of theirs"))
    await store.close()


async def test_in_a_shared_chat_nobody_fills_the_room_of_what_sessions_send(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=16))
    sid, home = fresh(), "chat:room::team:"
    await store.sessions.accept(NewItem(sid, "d", "ann", PUBLIC, SessionMessage("x"), home, home))
    taken = Counter[str]()
    for sender in ("mel", "bob", "cy", "mel", "dee"):
        for number in range(10):
            with suppress(BusyError):
                taken[sender] += (
                    await store.delegation.receive(parcel(sid, dedupe=f"{sender}{number}", sender=sender)) in TAKEN
                )
    # As many as there is room left then; those of mel that were taken before are taken again.
    assert taken == {"mel": 8, "bob": 2, "cy": 1, "dee": 1}
    await store.close()


def noticed(deliveries: Sequence[Delivery]) -> list[tuple[str, str, Label]]:
    return [(one.key, one.text, one.label) for one in deliveries]


READS = (
    # What the parent had read, what the child reads one after another, and the label of the notice if there is one.
    ("PUBLIC", ["PUBLIC~"], None),
    ("PUBLIC", ["INTERNAL", "CONFIDENTIAL{hr}"], "PUBLIC"),
    ("PUBLIC", ["PUBLIC~", "PUBLIC{hr}"], "PUBLIC~"),
    ("CONFIDENTIAL~", ["INTERNAL", "CONFIDENTIAL~"], None),
    ("CONFIDENTIAL", ["INTERNAL", "PUBLIC{hr}", "RESTRICTED"], "INTERNAL"),
    ("CONFIDENTIAL{hr}", ["PUBLIC{hr}", "CONFIDENTIAL", "CONFIDENTIAL{acme}"], "CONFIDENTIAL{hr}"),
    ("CONFIDENTIAL{hr}", ["PUBLIC{hr}", "CONFIDENTIAL"], None),
)


@pytest.mark.parametrize("known, reads, told", READS)
async def test_one_that_rises_above_its_parent_is_told_of_once(
    store: RedisStore, known: str, reads: list[str], told: str | None
) -> None:
    new = child("parent")
    assert new.lineage is not None
    lineage = replace(new.lineage, known=parse(known))
    new = replace(new, lineage=lineage)
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    seq, rose, above = claim.state.seq, list[bool](), False
    for number, label in enumerate(reads):
        write = Write(fresh(), seq, events=(event(parse(label)),))
        if number % 2 == 0:
            write = replace(write, deliver=(NewDelivery(f"d{number}", str(new.home), "x", PUBLIC),))
        written = await store.sessions.record(claim, write, sender="me")
        assert await store.sessions.record(claim, write, sender="me") == written
        seq, taint = written.seq, written.taint
        rose.append(written.risen)
        above = above or not taint.flows_to(parse(known))
        state = await store.sessions.state(new.sid)
        assert state is not None
        assert state.risen is above
    assert sum(rose) == (told is not None)
    notices = [one for one in await store.outbox.deliveries(new.sid) if one.key == risen_key(lineage.run)]
    if told is None:
        assert notices == []
    else:
        assert noticed(notices) == [(risen_key(lineage.run), RISEN, parse(told))]
        (notice,) = notices
        assert (notice.address, notice.kind, notice.approved, notice.hops) == (new.home, "notice", OURS, MOST_HOPS)


async def test_the_notice_goes_before_what_the_same_write_says(store: RedisStore) -> None:
    new = child("parent")
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    said = NewDelivery("said", new.home, "x", SECRET)
    written = await store.sessions.record(
        claim, Write(fresh(), claim.state.seq, events=(event(SECRET),), deliver=(said,)), sender="me"
    )
    assert written.behind == {"said"}
    assert next(one.key for one in await store.outbox.take(new.sid, "me", ("session",))).endswith("-risen")


async def test_one_that_is_spawned_above_its_parent_is_never_told_of(store: RedisStore) -> None:
    new = child("parent", label=SECRET)
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    written = await store.sessions.record(claim, Write(fresh(), claim.state.seq, events=(event(SECRET),)))
    assert not written.risen
    await store.delegation.receive(parcel(new.sid, parse("RESTRICTED")))
    (held,) = await store.delegation.held(new.sid)
    await store.delegation.decide_held(new.sid, held.id, accept=True, op=fresh(), audit=())
    assert await store.outbox.deliveries(new.sid) == ()


async def test_one_that_a_person_lets_something_into_is_told_of(store: RedisStore) -> None:
    new = child("parent")
    assert new.lineage is not None
    await store.sessions.accept(new)
    await store.delegation.receive(parcel(new.sid, SECRET))
    (held,) = await store.delegation.held(new.sid)
    assert await store.outbox.deliveries(new.sid) == ()
    op = fresh()
    for _ in range(2):
        await store.delegation.decide_held(new.sid, held.id, accept=True, op=op, audit=())
    assert noticed(await store.outbox.deliveries(new.sid)) == [(risen_key(new.lineage.run), RISEN, PUBLIC)]
    state = await store.sessions.state(new.sid)
    assert state is not None
    assert state.risen


async def test_in_a_shared_chat_the_notice_is_for_whoever_asked(store: RedisStore) -> None:
    new = replace(child("parent"), sender="bea")
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    turn = Turn("t", 1, "task", "bea", claim.now)
    await store.sessions.record(claim, Write(fresh(), claim.state.seq, take=1, turn=turn, events=(event(SECRET),)))
    (notice,) = await store.outbox.deliveries(new.sid)
    assert notice.asker == "bea"


async def test_an_accepted_item_enters_with_its_label(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.delegation.receive(parcel(sid, SECRET))
    (held,) = await store.delegation.held(sid)
    await store.delegation.decide_held(sid, held.id, accept=True, op=fresh(), audit=(row(),))
    claim = await claimed(store, sid)
    assert [entry.label for entry in claim.items] == [PUBLIC, SECRET]
    assert claim.state.visibility == SECRET
    assert await store.delegation.held(sid) == ()
    assert [record.kind for record in await store.audit.records(sid)] == ["decision"]


async def test_a_refused_item_is_gone(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.delegation.receive(parcel(sid, SECRET))
    (held,) = await store.delegation.held(sid)
    await store.delegation.decide_held(sid, held.id, accept=False, op=fresh(), audit=())
    assert await store.delegation.held(sid) == ()
    with pytest.raises(NotFoundError):
        await store.delegation.decide_held(sid, held.id, accept=True, op=fresh(), audit=())
    assert (await claimed(store, sid)).state.waiting_items == 1
    assert await store.sessions.outcome(sid, "p1") == ItemOutcome(ItemStatus.HELD)


async def test_a_session_that_is_gone_or_over_takes_nothing(store: RedisStore) -> None:
    assert await store.delegation.receive(parcel(fresh())) is Arrival.ABSENT
    sid = fresh()
    await store.sessions.accept(item(sid))
    assert await store.delegation.receive(parcel(sid, generation=7)) is Arrival.RESET
    await put_state(store, sid, status="archived")
    assert await store.delegation.receive(parcel(sid)) is Arrival.ARCHIVED


async def test_a_reset_drops_what_is_held(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.delegation.receive(parcel(sid, SECRET))
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    assert await store.delegation.held(sid) == ()


async def test_it_is_noted_by_which_event_an_input_was_let_in(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.delegation.receive(parcel(sid))
    assert await store.sessions.outcome(sid, "p1") == ItemOutcome(ItemStatus.WAITING)
    claim = await claimed(store, sid)
    await store.sessions.record(claim, opening(claim))
    await store.sessions.commit(claim, ending(claim.state.seq + 1, 1))
    claim = await claimed(store, sid)
    let_in = opening(claim, 2, "p1")
    await store.sessions.record(claim, replace(let_in, events=(event(), *let_in.events)))
    assert await store.sessions.outcome(sid, "p1") == ItemOutcome(ItemStatus.TAKEN, claim.state.seq + 2)
    await store.sessions.commit(claim, ending(claim.state.seq + 2, 2))
    assert await store.sessions.outcome(sid, "p1") == ItemOutcome(ItemStatus.CONSUMED, claim.state.seq + 2)
    # Nobody sent the first, so nobody has a receipt for it.
    assert await store.sessions.outcome(sid, "d1") == ItemOutcome(ItemStatus.CONSUMED)
    assert await store.sessions.outcome(sid, "p2") is None
    assert await store.sessions.outcome(fresh(), "p1") is None


@pytest.mark.parametrize("accept", [True, False])
async def test_what_was_held_is_held_for_ever_for_its_sender(store: RedisStore, *, accept: bool) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.delegation.receive(parcel(sid, SECRET))
    assert await store.sessions.outcome(sid, "p1") == ItemOutcome(ItemStatus.HELD)
    (held,) = await store.delegation.held(sid)
    await store.delegation.decide_held(sid, held.id, accept=accept, op=fresh(), audit=())
    assert await store.sessions.outcome(sid, "p1") == ItemOutcome(ItemStatus.HELD)
    # Whoever sent it and died before it was told asks again.
    assert await store.delegation.receive(parcel(sid, SECRET)) is Arrival.HELD
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    assert await store.sessions.outcome(sid, "p1") == ItemOutcome(ItemStatus.HELD)


async def test_a_held_item_that_a_reset_dropped_was_held(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.delegation.receive(parcel(sid, SECRET))
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    assert await store.sessions.outcome(sid, "p1") == ItemOutcome(ItemStatus.HELD)


async def test_only_so_much_is_held_of_a_label(store: RedisStore) -> None:
    """What is held of one label takes no place of another's, and none of a report's."""
    sid = fresh()
    await store.sessions.accept(item(sid))
    reported = [await store.delegation.receive(parcel(sid, SECRET, dedupe=f"r{n}", report=True)) for n in range(51)]
    assert set(reported) == {Arrival.HELD}
    came = [await store.delegation.receive(parcel(sid, SECRET, dedupe=f"p{n}")) for n in range(51)]
    assert set(came[:50]) == {Arrival.HELD}
    assert came[50] is Arrival.FULL
    untrusted = replace(SECRET, integrity=Integrity.UNTRUSTED)
    assert await store.delegation.receive(parcel(sid, untrusted, dedupe="q")) is Arrival.FULL
    for n, label in enumerate(("INTERNAL", "CONFIDENTIAL", "RESTRICTED{acme,hr}")):
        assert await store.delegation.receive(parcel(sid, parse(label), dedupe=f"o{n}")) is Arrival.HELD
    assert await store.delegation.receive(parcel(sid, SECRET, dedupe="r", report=True)) is Arrival.HELD


async def test_large_items_are_held_whole(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    sent = replace(parcel(sid, SECRET), body=SessionMessage("x" * 100_000))
    await store.delegation.receive(sent)
    (held,) = await store.delegation.held(sid)
    assert held.body == sent.body
    await store.delegation.decide_held(sid, held.id, accept=True, op=fresh(), audit=())
    assert (await claimed(store, sid)).items[1].body == sent.body


@pytest.mark.parametrize("parents, live", [(1, 5), (2, 8), (40, 8)])
async def test_exactly_the_caps_are_reserved(store: RedisStore, parents: int, live: int) -> None:
    principal, names = fresh(), [fresh() for _ in range(parents)]

    async def one(number: int) -> bool:
        try:
            await store.delegation.reserve(principal, slot(parent=names[number % parents]), CAPS)
        except BusyError:
            return False
        return True

    async with asyncio.TaskGroup() as tasks:
        tried = [tasks.create_task(one(number)) for number in range(200)]
    assert sum(task.result() for task in tried) == live


async def test_a_freed_slot_is_free_and_one_that_changed_is_not_freed(store: RedisStore) -> None:
    principal, parent = fresh(), fresh()
    await store.delegation.reserve(principal, slot("r", "child", parent), CAPS)
    seen = await store.delegation.slots(principal)
    assert [(slot.run, slot.sid, slot.parent, slot.live) for slot in seen] == [("r", "child", parent, True)]
    await asyncio.sleep(0.01)
    await store.delegation.reserve(principal, slot("r", "child", parent), CAPS)
    await store.delegation.free(principal, seen)
    assert [slot.live for slot in await store.delegation.slots(principal)] == [True]
    await store.delegation.free(principal, await store.delegation.slots(principal))
    assert [slot.live for slot in await store.delegation.slots(principal)] == [False]
    one = Caps(1, 1, 1)
    await store.delegation.reserve(principal, slot("s", "other", parent), one)
    # A run that ended stays ended, so that its parent, asking again after a crash, holds no slot for it.
    await store.delegation.reserve(principal, slot("r", "child", parent), one)
    assert [slot.run for slot in await store.delegation.slots(principal) if slot.live] == ["s"]


async def test_each_pool_has_all_the_slots_whatever_integrity_has_to_do_with_it(store: RedisStore) -> None:
    principal, one = fresh(), Caps(children=1, live=2, depth=2)
    for label in ("PUBLIC", "CONFIDENTIAL{acme}", "CONFIDENTIAL", "PUBLIC{acme}"):
        for parent in ("p", "q"):
            await store.delegation.reserve(principal, slot(parent=parent, pool=parse(label)), one)
        for parent in ("p", "r"):
            with pytest.raises(BusyError):
                await store.delegation.reserve(principal, slot(parent=parent, pool=parse(f"{label}~")), one)
    pools = [str(taken.pool) for taken in await store.delegation.slots(principal)]
    assert sorted(pools) == sorted(["PUBLIC", "CONFIDENTIAL{acme}", "CONFIDENTIAL", "PUBLIC{acme}"] * 2)


async def test_a_slot_is_taken_until_its_deadline_at_most(store: RedisStore) -> None:
    principal, one = fresh(), Caps(1, 1, 1)
    first = await store.delegation.reserve(principal, slot("r", life=60_000), one)
    assert first.deadline == first.now + 60_000
    again = await store.delegation.reserve(principal, slot("r", life=90_000), one)
    assert again.deadline == first.deadline, "it was fixed when the slot was taken"
    with pytest.raises(BusyError):
        await store.delegation.reserve(principal, slot("s"), one)
    (seen,) = await store.delegation.slots(principal)
    assert (seen.live, seen.due) == (True, False)
    await alter(store, SLOT, slots_key(principal), "r", deadline=first.now - 1)
    (seen,) = await store.delegation.slots(principal)
    assert (seen.live, seen.due) == (True, True)
    second = await store.delegation.reserve(principal, slot("s", deadline=first.now + 100_000), one)
    assert second.deadline == first.now + 100_000, "no later than its parent's"


async def test_asked_for_again_from_above_a_slot_stays_where_and_as_it_is(store: RedisStore) -> None:
    principal, one = fresh(), Caps(1, 1, 1)
    first = await store.delegation.reserve(principal, slot("r", "child"), one)
    (before,) = await store.delegation.slots(principal)
    await asyncio.sleep(0.01)
    again = await store.delegation.reserve(principal, slot("r", "child", pool=SECRET), one)
    assert (again.until, again.deadline) == (first.until, first.deadline)
    assert (await store.delegation.slots(principal)) == (before,)
    # And none is taken above for it.
    await store.delegation.reserve(principal, slot("s", pool=SECRET), one)


async def test_how_long_a_slot_is_known_does_not_depend_on_when_it_was_freed(store: RedisStore) -> None:
    principal = fresh()
    reserved = await store.delegation.reserve(principal, slot("r"), CAPS)
    key = slots_key(principal)
    known = await command(store, "HPEXPIRETIME", key, "FIELDS", "1", "r")
    assert known == [reserved.deadline + 24 * 60 * 60 * 1000]
    await store.delegation.free(principal, await store.delegation.slots(principal))
    assert await command(store, "HPEXPIRETIME", key, "FIELDS", "1", "r") == known


INTERNAL = parse("INTERNAL")


async def finished(store: RedisStore, *said: Label) -> str:
    """Have a background session that was let know what is INTERNAL say something of each of these labels, and end."""
    new = child("p", label=INTERNAL)
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    written = await store.sessions.record(claim, opening(claim, dedupe="task"))
    out = tuple(NewDelivery(f"k{n}", f"console::{n}:", "x", label, "message", "t") for n, label in enumerate(said))
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=out))
    return new.sid


async def status(store: RedisStore, sid: str) -> Status:
    state = await store.sessions.state(sid)
    assert state is not None
    return state.status


@pytest.mark.parametrize(
    "said",
    [
        (),
        (PUBLIC,),
        (parse("INTERNAL~"),),
        (parse("CONFIDENTIAL"),),
        (parse("INTERNAL{acme}"),),
        (SECRET, parse("RESTRICTED")),
        (SECRET, INTERNAL),
        (PUBLIC, SECRET),
    ],
)
async def test_no_read_up_what_is_said_above_a_session_keeps_it_from_no_archive(
    store: RedisStore, said: tuple[Label, ...]
) -> None:
    """It is archived once all is settled that may be known where the session may: what else it says tells nothing."""
    sid = await finished(store, *said)
    waits = [label for label in said if label.flows_to(INTERNAL)]
    assert await status(store, sid) is (Status.IDLE if waits else Status.ARCHIVED)
    taken = await store.outbox.take(sid, "me", ("console",))
    assert len(taken) == len(said), "it is said all the same"
    for entry in taken:
        await store.outbox.settle(entry, "me", DeliveryState.SENT)
        waits = waits if not entry.label.flows_to(INTERNAL) else waits[1:]
        assert await status(store, sid) is (Status.IDLE if waits else Status.ARCHIVED)


async def test_no_read_up_a_stop_archives_though_something_above_waits(store: RedisStore) -> None:
    for label, ended in ((SECRET, Status.ARCHIVED), (PUBLIC, Status.IDLE)):
        new = child("p")
        await store.sessions.accept(new)
        claim = await claimed(store, new.sid)
        await store.outbox.put(new.sid, NewDelivery("k", "console::0:", "x", label, "message", "t"))
        await store.sessions.release(claim)
        await store.sessions.stop(new.sid, actor="ann")
        assert await status(store, new.sid) is ended


async def test_one_whose_last_word_is_in_doubt_is_archived(server: Served) -> None:
    gone = await open_store(audit_key=KEY, url=server.url)
    sid = await finished(gone, PUBLIC)
    await gone.outbox.take(sid, gone.process, ("console",))
    own = await open_store(audit_key=KEY, url=server.url)
    await depart(gone, own)
    for _ in range(2):
        await own.wake.sweep()
    (back,) = await own.outbox.take(sid, own.process, ("console",))
    assert back.state is DeliveryState.AMBIGUOUS
    assert await status(own, sid) is Status.ARCHIVED
    await own.close()
