"""The script `accept`: an input enters its session's inbox once, in order."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest

from bot.core.errors import ArchivedError, BusyError, DedupeConflictError, ForeignError, SchemaError
from bot.sessions.inbox import Accepted, ItemStatus, NewItem
from bot.sessions.log.events import EventType
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Status, Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC, parse
from tests.clocks import CLOCKS
from tests.fleets import Served
from tests.store.world import HOME, KEY, SECRET, claimed, command, dump, ending, fresh, item, keys, put_state, started

pytestmark = pytest.mark.anyio


async def test_first_input_creates_the_session(store: RedisStore) -> None:
    sid = fresh()
    accepted = await store.sessions.accept(item(sid, label=SECRET, creation=parse("INTERNAL")))
    state = await store.sessions.state(sid)
    assert accepted == Accepted(1, ItemStatus.WAITING, duplicate=False)
    assert state is not None
    assert (state.status, state.seq, state.generation, state.waiting_items) == (Status.QUEUED, 1, 1, 1)
    assert (state.taint, state.creation, state.inbox_label) == (PUBLIC, parse("INTERNAL"), SECRET)
    assert (state.home, state.principal) == (HOME, "ann")
    (created,) = await store.sessions.events(sid)
    assert (created.seq, created.type, created.label) == (1, EventType.SESSION_CREATED, parse("INTERNAL"))
    assert created.ts == state.created_at


async def test_a_session_takes_nothing_in_for_another_principal(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    before = await dump(store, sid)
    with pytest.raises(ForeignError):
        await store.sessions.accept(replace(item(sid, "d2"), principal="ben", sender="ben"))
    assert await dump(store, sid) == before
    # What was taken in before is known all the same, whoever tells it again.
    assert (await store.sessions.accept(replace(item(sid), principal="ben"))).duplicate


async def test_inputs_keep_their_order_and_their_labels_join(store: RedisStore) -> None:
    sid = fresh()
    for n, text in enumerate(("PUBLIC", "INTERNAL{hr}", "CONFIDENTIAL{acme}~"), 1):
        assert (await store.sessions.accept(item(sid, f"d{n}", parse(text)))).position == n
    claim = await claimed(store, sid)
    assert [(one.position, one.dedupe, str(one.label)) for one in claim.items] == [
        (1, "d1", "PUBLIC"),
        (2, "d2", "INTERNAL{hr}"),
        (3, "d3", "CONFIDENTIAL{acme}~"),
    ]
    assert str(claim.state.inbox_label) == "CONFIDENTIAL{acme,hr}~"


async def test_a_redelivery_is_the_same_input(store: RedisStore) -> None:
    sid = fresh()
    first = NewItem(sid, "d1", "ann", PUBLIC, SessionMessage("hello", "chat:1", opens=True), HOME, "ann")
    again = NewItem(sid, "d1", "ann", PUBLIC, SessionMessage("hello", "chat:1", opens=True), HOME, "ann")
    await store.sessions.accept(first)
    before = await dump(store, sid)
    assert await store.sessions.accept(again) == Accepted(1, ItemStatus.WAITING, duplicate=True)
    assert await dump(store, sid) == before


async def test_a_redelivery_tells_what_became_of_the_input(store: RedisStore) -> None:
    claim, written = await started(store)
    assert (await store.sessions.accept(item(claim.sid))).status is ItemStatus.TAKEN
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert (await store.sessions.accept(item(claim.sid))).status is ItemStatus.CONSUMED


async def test_the_same_key_with_another_body_is_refused(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    with pytest.raises(DedupeConflictError):
        await store.sessions.accept(item(sid, text="something else"))


async def test_a_full_inbox_is_busy_and_takes_no_key(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=1))
    sid = fresh()
    await store.sessions.accept(item(sid))
    with pytest.raises(BusyError):
        await store.sessions.accept(item(sid, "d2"))
    await store.sessions.stop(sid, actor="ann")
    assert not (await store.sessions.accept(item(sid, "d2"))).duplicate
    await store.close()


async def test_what_waits_of_another_level_takes_no_room(server: Served) -> None:
    """Also in a chat of many, where each has as much room as is left at the level of what they say."""
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=2))
    home = "chat:room::team:"
    for principal in ("ann", home):
        sid = fresh()

        async def say(label: str, dedupe: str, *, sid: str = sid, principal: str = principal) -> bool:
            try:
                await store.sessions.accept(
                    NewItem(sid, dedupe, "ann", parse(label), SessionMessage("x"), home, principal)
                )
            except BusyError:
                return False
            return True

        for label in ("PUBLIC", "CONFIDENTIAL", "CONFIDENTIAL{acme}", "PUBLIC{acme}"):
            taken = [await say(text, f"{text} {n}") for n in range(2) for text in (label, f"{label}~")]
            # In a chat one person alone has half of it.
            assert sum(taken) == (2 if principal == "ann" else 1), label
    await store.close()


async def test_in_a_shared_chat_nobody_fills_the_inbox_of_all(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(inbox_limit=8))
    sid, home = fresh(), "chat:room::team:"
    taken = Counter[str]()
    for sender in ("ann", "bob", "cy", "ann", "dee"):
        for number in range(10):
            said = NewItem(sid, f"{sender}{number}", sender, PUBLIC, SessionMessage("é" * 50), home, home)
            with suppress(BusyError):
                taken[sender] += not (await store.sessions.accept(said)).duplicate
    # As many as there is room left then, down to the last place.
    assert taken == {"ann": 4, "bob": 2, "cy": 1, "dee": 1}
    # What is one's own may be filled.
    mine = fresh()
    for number in range(8):
        await store.sessions.accept(item(mine, f"d{number}"))
    await store.close()


async def test_an_archived_session_takes_nothing(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await put_state(store, sid, status="archived")
    with pytest.raises(ArchivedError):
        await store.sessions.accept(item(sid, "d2"))
    assert await store.sessions.claim(sid, "w", idle=True) is None


async def test_a_newer_record_is_refused_and_kept(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await put_state(store, sid, version=3)
    before = await dump(store, sid)
    with pytest.raises(SchemaError, match="version `2`"):
        await store.sessions.accept(item(sid, "d2"))
    with pytest.raises(SchemaError):
        await store.sessions.state(sid)
    assert await dump(store, sid) == before


async def test_a_failed_session_is_queued_again(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await put_state(store, sid, status="failed")
    await store.sessions.accept(item(sid, "d2"))
    state = await store.sessions.state(sid)
    assert state is not None
    assert state.status is Status.QUEUED


async def left(store: RedisStore, sid: str) -> int:
    """Return how many milliseconds the dedupe keys still live, -1 if for ever."""
    found: int = await command(store, "PTTL", keys(sid).inputs)
    return found


async def test_dedupe_keys_are_forgotten_when_all_inputs_have_ended(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.accept(item(claim.sid, "d2"))
    written = await store.sessions.record(claim, Write(fresh(), written.seq, settle=((2, ItemStatus.REJECTED),)))
    assert await left(store, claim.sid) == -1
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert 0 < await left(store, claim.sid) <= StoreOptions().keep_ms + CLOCKS
    await store.sessions.accept(item(claim.sid, "d3"))
    assert await left(store, claim.sid) == -1


async def test_a_waiting_input_keeps_the_dedupe_keys(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.accept(item(claim.sid, "d2"))
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert await left(store, claim.sid) == -1
    await store.sessions.stop(claim.sid, actor="ann")
    assert 0 < await left(store, claim.sid) <= StoreOptions().keep_ms + CLOCKS


async def test_of_many_dedupe_keys_each_is_forgotten_by_itself(store: RedisStore) -> None:
    claim, written = await started(store)
    for n in range(2, 18):
        await store.sessions.accept(item(claim.sid, f"d{n}"))
    await store.sessions.commit(claim, ending(written.seq, 1))
    times: list[int] = await command(store, "HPTTL", keys(claim.sid).inputs, "FIELDS", 2, "d1", "d2")
    assert 0 < times[0] <= StoreOptions().keep_ms
    assert times[1] == -1


async def test_a_session_may_not_bear_the_name_of_the_other_chain(store: RedisStore) -> None:
    with pytest.raises(ValueError, match="audit"):
        await store.sessions.accept(item("audit"))


@pytest.mark.parametrize("text", ["\ud800\udc00 lone \ud83d", "nul \0 and \x1b", "é😀", "x" * 10_000_000])
async def test_any_text_comes_back_as_it_went(store: RedisStore, text: str) -> None:
    sid, odd = fresh(), "who \ud800\n 1 2"
    await store.sessions.accept(NewItem(sid, odd, odd, PUBLIC, SessionMessage(text), odd, odd))
    claim = await claimed(store, sid)
    (got,) = claim.items
    assert (got.dedupe, got.sender, got.body) == (odd, odd, SessionMessage(text))
    assert (claim.state.home, claim.state.principal) == (odd, odd)
    assert (await store.sessions.accept(NewItem(sid, odd, odd, PUBLIC, SessionMessage(text), odd, odd))).duplicate
