"""Another session key while processes work: a place never has two sessions, and each conversation keeps its id."""

import asyncio
from pathlib import Path

import pytest

from bot.access.session_ids import SessionIds
from bot.core.clock import SystemClock
from bot.core.errors import SealedError
from bot.core.ids import Ids, session_id
from bot.core.keys import KeySeries
from bot.sessions.deliveries import Conversation
from bot.sessions.exports import ImportedEvent, ImportedSession
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.scripts.loader import load_scripts
from bot.store.servers.connection import Connection
from channels.messages import Address
from policy.labels import PUBLIC
from tests.store.counting import Counting
from tests.store.world import KEY, answer, event, fresh, item, row

pytestmark = pytest.mark.anyio

OLD, NEW = KeySeries((b"o" * 32,)), KeySeries((b"n" * 32, b"o" * 32))


def ids(store: RedisStore, keys: KeySeries) -> SessionIds:
    return SessionIds(store.lifecycle, keys, SystemClock())


def somewhere() -> Address:
    return Address("console", "ann", thread=fresh())


async def begin(names: SessionIds, store: RedisStore, address: Address) -> str:
    """Accept a message as a process does that has these names; return the id of its session, empty if refused."""
    sid = await names.likely(address, "ann")
    try:
        await store.sessions.accept(item(sid))
    except SealedError:
        return ""
    return sid


async def test_no_race_gives_a_place_two_sessions(store: RedisStore, other: RedisStore) -> None:
    """A process that does not know the newest key yet either began the session for both, or is refused."""
    stale, ahead = ids(store, OLD), ids(other, NEW)
    old_first, places = 0, [somewhere() for _ in range(40)]
    for n, place in enumerate(places):
        runs = [begin(stale, store, place), begin(ahead, other, place)]
        # As they come, each is ahead for some.
        first, second = await asyncio.gather(*(runs if n % 2 else reversed(runs)))
        by_old, by_new = (first, second) if n % 2 else (second, first)
        under = [session_id(key, str(place)) for key in NEW.all]
        begun = await other.lifecycle.begun(under)
        assert begun == {by_new}
        assert by_old in {"", by_new}
        old_first += by_new == under[1]
    # Both ways were seen, whatever the race did.
    mine, theirs = somewhere(), somewhere()
    assert await begin(stale, store, mine) == await begin(ahead, other, mine) == session_id(b"o" * 32, str(mine))
    assert await begin(ahead, other, theirs) == session_id(b"n" * 32, str(theirs))
    assert not await begin(stale, store, theirs)


async def test_nothing_begins_under_an_id_that_was_given_up(store: RedisStore) -> None:
    place = somewhere()
    sid = session_id(b"o" * 32, str(place))
    await ids(store, NEW).likely(place, "ann")
    taken = ImportedSession(sid, "ann", str(place), PUBLIC, (ImportedEvent(0, event()),), None, None)
    for attempt in (
        store.sessions.accept(item(sid)),
        store.outbox.put(sid, answer(), Conversation(str(place), "ann", "")),
        store.sessions.import_session(taken, (row(),)),
    ):
        with pytest.raises(SealedError):
            await attempt
    assert await store.sessions.state(sid) is None
    with pytest.raises(SealedError, match="another process has a newer session key"):
        await ids(store, OLD).unsealed(sid, place, "ann")
    # A look alone gives nothing up: people may ask for any name.
    looked = somewhere()
    await ids(store, NEW).first(looked)
    assert await begin(ids(store, OLD), store, looked)


async def test_conversations_keep_their_ids_and_new_ones_are_under_the_new_key(
    store: RedisStore, tmp_path: Path
) -> None:
    mine, theirs = [await asyncio.to_thread(KeySeries.read, tmp_path, "session") for _ in range(2)]
    here, there = ids(store, mine), ids(store, theirs)
    known, old = somewhere(), mine.current
    sid = await begin(here, store, known)
    await theirs.fresh()
    await asyncio.to_thread(mine.rotate)
    waited, between = somewhere(), await here.imported("import:ann:top", known.thread)
    await here.likely(waited, "ann")
    taken = ImportedSession(between, "ann", str(known), PUBLIC, (ImportedEvent(0, event()),), None, None)
    assert await store.sessions.import_session(taken, (row(),))
    await asyncio.to_thread(mine.rotate)
    assert len(set(mine.all)) == 3
    assert mine.all[2] == old
    assert await begin(here, store, known) == sid
    # The file is known, and an id that was named before the second rotation is not used after it.
    assert await here.imported("import:ann:top", known.thread) == between
    assert await begin(here, store, waited) == session_id(mine.current, str(waited))
    unknown = somewhere()
    new = await begin(here, store, unknown)
    assert new == session_id(mine.current, str(unknown))
    # The other process is refused there, looks for the key at once, and goes on where the first one did.
    assert theirs.current == old
    assert not await begin(there, store, unknown)
    assert await there.unsealed(session_id(old, str(unknown)), unknown, "ann") == new
    assert await begin(there, store, known) == sid
    # A conversation that ends goes on in a session of the newest key; the chain of its sessions leads there.
    await store.lifecycle.archive(sid, actor="ann", audit=(row(),))
    after, ended = await here.found(known, "ann")
    assert (after, ended) == (session_id(mine.current, str(known), "ann", 1), (sid,))
    assert await there.follower(sid, known, "ann") == after
    assert sid in here.every(known)


async def test_one_key_costs_no_round_trip_and_several_cost_one_for_a_place(store: RedisStore) -> None:
    counting = Counting(store._shared.connection._servers)  # pyright: ignore[reportPrivateUsage] - counts
    connection = Connection(counting, await asyncio.to_thread(load_scripts), name="p-counted")
    counted = RedisStore(connection, options=StoreOptions(), audit_key=KEY, clock=SystemClock(), ids=Ids())
    alone, several, place = ids(counted, OLD), ids(counted, NEW), somewhere()
    assert await alone.likely(place, "ann") == session_id(b"o" * 32, str(place))
    assert counting.trips == 0
    # The script may have to be loaded first.
    await several.first(somewhere())
    counting.trips = 0
    for _ in range(3):
        assert await several.likely(place, "ann") == session_id(b"n" * 32, str(place))
    assert counting.trips == 1
