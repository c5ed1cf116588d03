"""What a backup asks of the store, for the test of a lost reply: each prepares a call, and returns it."""

from collections.abc import Awaitable, Callable
from typing import Final

from bot.sessions.ports.backups import CopiedUnit
from bot.store.redis_store import RedisStore
from bot.store.scripts.loader import Script
from tests.store.world import answer, ending, started

Act = Callable[[RedisStore], Awaitable[object]]


async def _session(store: RedisStore) -> str:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    return claim.sid


async def _unit(store: RedisStore, sid: str) -> CopiedUnit:
    units = [one async for one in store.backups.copies() if one.sid == sid]
    return units[0]


async def _copying(store: RedisStore) -> Act:
    sid = await _session(store)

    async def act(store: RedisStore) -> object:
        return len((await _unit(store, sid)).keys)

    return act


async def _putting_back(store: RedisStore) -> Act:
    unit = await _unit(store, await _session(store))
    return lambda store: store.backups.put(unit)


async def _resting(store: RedisStore) -> Act:
    sid = await _session(store)
    return lambda store: store.backups.rest(sid)


BACKUP_CASES: Final[tuple[tuple[Script, Callable[[RedisStore], Awaitable[Act]]], ...]] = (
    (Script.COPY_KEYS, _copying),
    (Script.PUT_KEYS, _putting_back),
    (Script.REST_RESTORED, _resting),
)
