"""How often a turn goes to the store and back, on each kind of store."""

# pyright: reportPrivateUsage=false

import asyncio
from dataclasses import replace

import pytest

from bot.core.clock import SystemClock
from bot.core.ids import Ids
from bot.sessions.deliveries import DeliveryState
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.scripts.loader import load_scripts
from bot.store.servers.connection import Connection
from tests.fleets import Kind
from tests.store.counting import Counting
from tests.store.world import KEY, answer, claimed, ending, fresh, item, opening

pytestmark = pytest.mark.anyio

_MOST = {Kind.ONE: 5, Kind.SENTINEL: 5, Kind.CLUSTER: 8}
"""Accept, claim, open the turn, end it, record the receipt; on a Cluster hints follow two of them, and it is looked
before the first whether its sender is asked something. A channel with rates takes one more, to ask for a turn there."""


async def test_round_trips_of_a_turn(store: RedisStore, kind: Kind) -> None:
    counting = Counting(store._shared.connection._servers)
    connection = Connection(counting, await asyncio.to_thread(load_scripts), name="p-counted")
    counted = RedisStore(connection, options=StoreOptions(), audit_key=KEY, clock=SystemClock(), ids=Ids())
    sid, trips = fresh(), 0
    for number in range(1, 4):
        # Before the last the scripts are there, and it is known where the session is filed.
        counting.trips = 0
        await counted.sessions.accept(replace(item(sid, f"d{number}"), sender=sid), unless_asked=True)
        claim = await claimed(counted, sid)
        written = await counted.sessions.record(claim, opening(claim, number, f"d{number}"))
        said = ending(written.seq, number, deliver=(answer(f"k{number}"),))
        await counted.sessions.commit(claim, said, sender=counted.process)
        trips = counting.trips
        entry = next(one for one in await counted.outbox.deliveries(sid) if one.key == f"k{number}")
        counting.trips = 0
        assert await counted.outbox.settle(entry, counted.process, DeliveryState.SENT, receipt="r", paced=False)
        trips += counting.trips
    assert trips <= _MOST[kind]
