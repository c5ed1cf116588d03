"""Another audit key while processes write: old rows and new ones hold, and a retired key proves nothing new."""

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

from bot.audit.anchors import AnchoredChains
from bot.audit.chain import AnchorFile, Broken, Intact
from bot.core.clock import SystemClock
from bot.core.errors import OperatorError
from bot.core.keys import FOLLOWED_MS, KeySeries
from bot.operations.keys import KeyKeeper, KeyState
from bot.sessions.models import Write
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT
from tests.bot.kit import eventually
from tests.store.world import command, event, fresh, keys, row, started

pytestmark = pytest.mark.anyio

Retired: TypeAlias = tuple[AnchoredChains, bytes, str]
NAMES = {"audit": "", "session": "abc"}


async def ring(tmp_path: Path) -> KeySeries:
    return await asyncio.to_thread(KeySeries.read, tmp_path / "keys", "audit")


async def agreed() -> None:
    """Tell no other process: what they are told is tested in tests/bot/app/test_machines.py."""


def keeping(chains: AnchoredChains, store: RedisStore) -> KeyKeeper:
    sessions = KeySeries((b"s" * 32,))
    return KeyKeeper(chains, store.audit, SystemClock(), NAMES, sessions=sessions, agree=agreed, rights=store.rights)


async def opened(url: str, audit_keys: KeySeries | bytes) -> RedisStore:
    return await open_store(audit_key=audit_keys, url=url)


async def written(store: RedisStore, rows: int = 3) -> str:
    claim, done = await started(store)
    for _ in range(rows):
        done = await store.sessions.record(claim, Write(fresh(), done.seq, events=(event(),), audit=(row(),)))
    return claim.sid


async def test_rows_of_old_and_new_keys_hold_while_processes_write(own_url: str, tmp_path: Path) -> None:
    mine, theirs = await ring(tmp_path), await ring(tmp_path)
    here, there = await opened(own_url, mine), await opened(own_url, theirs)
    chains = AnchoredChains(here.audit, tmp_path / "anchors", mine)
    watching = AnchoredChains(there.audit, tmp_path / "anchors", theirs)
    sid, ended = await written(here), asyncio.Event()
    await watching.anchor()
    await chains.anchor()

    async def writing() -> None:
        while not ended.is_set():
            await there.audit.append((row(),))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(writing())
        keeper = keeping(chains, here)
        first = mine.current
        made = await keeper.rotate("ann")
        assert [one.state for one in await keeper.listed()] == [KeyState.IN_FORCE, KeyState.OLD, KeyState.IN_FORCE]
        # The other process signs with the old key until it looks, for two seconds at most.

        async def followed() -> bool:
            return theirs.current != first

        await eventually(followed)
        ended.set()
    assert theirs.current == mine.current
    await there.audit.append((row("by the new key"),))
    await watching.anchor()
    for chain in (sid, AUDIT):
        for one in (chains, watching):
            assert isinstance(await one.verify(chain), Intact)
    told = [one.body for one in await here.audit.records(AUDIT) if one.kind == "key"]
    assert [(one["change"], one["new"]) for one in told] == [("rotate", made.name)]
    alone = AnchoredChains(here.audit, tmp_path / "none", mine.current)
    assert isinstance(await alone.verify(sid), Broken), "its rows are of the old key"
    await here.close()
    await there.close()


@pytest.fixture
async def retired(own_url: str, tmp_path: Path) -> AsyncIterator[Retired]:
    """Yield chains whose first key was retired, that key, and a session with its rows."""
    mine = await ring(tmp_path)
    first, store = mine.current, await opened(own_url, mine)
    sid = await written(store)
    chains = AnchoredChains(store.audit, tmp_path / "anchors", mine)
    keeper = keeping(chains, store)
    with pytest.raises(OperatorError, match="there is no older audit key"):
        await keeper.retire("ann")
    await keeper.rotate("ann")
    with pytest.raises(OperatorError, match="processes may still sign with the old audit key"):
        await keeper.retire("ann")
    long_ago = SystemClock().wall_ms() - FOLLOWED_MS
    await asyncio.to_thread(os.utime, tmp_path / "keys" / "audit", ns=(long_ago * 10**6, long_ago * 10**6))
    assert len((await keeper.retire("ann")).names) == 1
    assert isinstance(await chains.verify(sid), Intact)
    assert isinstance(await chains.verify(AUDIT), Intact)
    yield chains, first, sid
    await store.close()


async def test_a_row_of_a_retired_key_is_found(own: RedisStore, own_url: str, retired: Retired) -> None:
    chains, first, sid = retired
    thief = await opened(own_url, first)
    other = await written(thief)
    assert await chains.verify(other) == Broken(1, "record 1 was signed with a key that was retired before")
    head, _ = await thief.audit.head(AUDIT)
    await thief.audit.append((row(),))
    assert await chains.verify(AUDIT) == Broken(
        head + 1, f"record {head + 1} was signed with a key that was retired before"
    )
    # What was there before cannot be written anew with it either.
    key, last = keys(sid).audit, (await thief.audit.records(sid))[-1]
    await command(own, "LTRIM", key, 0, -2)
    await command(own, "HSET", keys(sid).state, "an", last.n - 1, "ah", last.previous)
    found = await chains.verify(sid)
    assert found == Broken(last.n, f"the chain ends at {last.n - 1}, but {last.n} records were anchored")
    await thief.close()


async def test_anchors_of_a_retired_key_are_refused_and_the_next_key_keeps_all_proof(
    retired: Retired, tmp_path: Path
) -> None:
    chains, first, sid = retired
    # A second rotation signs all that is kept anew.
    await chains.rotate()
    assert isinstance(await chains.verify(sid), Intact)

    def forged() -> None:
        (tmp_path / "anchors").unlink(missing_ok=True)
        AnchorFile(tmp_path / "anchors", first).record({sid: (1, "x")})

    await asyncio.to_thread(forged)
    with pytest.raises(OperatorError, match="the audit key is another one"):
        await chains.anchored()


async def test_keys_of_the_environment_are_retired_with_all_that_they_signed(own_url: str, tmp_path: Path) -> None:
    first, given = b"o" * 32, KeySeries((b"n" * 32, b"o" * 32))
    before = await opened(own_url, first)
    sid = await written(before)
    await AnchoredChains(before.audit, tmp_path / "anchors", first).anchor()
    await before.close()
    after = await opened(own_url, given)
    chains = AnchoredChains(after.audit, tmp_path / "anchors", given)
    keeper = keeping(chains, after)
    with pytest.raises(OperatorError, match="LOCKGATE_AUDIT_KEY has the audit key"):
        await keeper.rotate("ann")
    await keeper.retire("ann")
    assert sid in await chains.anchored()
    assert isinstance(await chains.verify(sid), Intact)
    await after.close()


def test_keys_of_the_environment_cannot_be_rotated_and_are_read_newest_first(tmp_path: Path) -> None:
    given = KeySeries((b"n" * 32, b"o" * 32))
    assert (given.current, given.rotatable, given.reload()) == (b"n" * 32, False, False)
    with pytest.raises(OperatorError, match="is not in a file"):
        given.rotate()
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "audit.old").write_bytes(b"short")
    with pytest.raises(OperatorError, match="does not hold whole keys"):
        KeySeries.read(tmp_path / "keys", "audit")


def test_each_of_two_rotations_at_once_keeps_the_key_of_the_other(tmp_path: Path) -> None:
    rings = [KeySeries.read(tmp_path, "audit") for _ in range(8)]
    with ThreadPoolExecutor(len(rings)) as pool:
        list(pool.map(KeySeries.rotate, rings))
    made = {one.current for one in rings}
    assert len(made) == len(rings)
    assert made <= {*KeySeries.read(tmp_path, "audit").all}


def test_a_process_makes_no_key_when_its_file_is_taken_away(tmp_path: Path) -> None:
    ring = KeySeries.read(tmp_path, "audit")
    before = ring.current
    (tmp_path / "audit").rename(tmp_path / "away")
    assert not ring.reload()
    with pytest.raises(OperatorError, match="there is no"):
        ring.rotate()
    assert ring.current == before
    assert not (tmp_path / "audit").exists()
