"""What adapters keep is theirs again as it was, once where it counts once, and nobody reads it in the store."""

import anyio
import pytest

from bot.core.errors import StoreGoneError, StoreRefusedError
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.records.form import pack
from bot.store.records.kinds import KEPT
from bot.store.redis_store import RedisStore
from bot.store.schema import VAULT, encode
from channels.port import VaultError
from tests.clocks import CLOCKS
from tests.store.world import KEY, command, fresh, kill, pid_of

pytestmark = pytest.mark.anyio

NEWER = bytes(range(1, 33))
TOKEN = b"xoxb-secret"


async def stored(store: RedisStore, name: str) -> bytes | None:
    return await command(store, "HGET", VAULT, encode(name))


async def test_what_is_kept_comes_back_as_it_was_until_it_is_deleted(store: RedisStore, other: RedisStore) -> None:
    here, there, name = store.vault([KEY]), other.vault([KEY]), f"token/{fresh()}"
    assert await here.get(name) is None
    for value in (TOKEN, b"", bytes(range(256)), b"x" * 100_000):
        await here.put(name, value)
        assert await there.get(name) == value
    await there.delete(name)
    await there.delete(name)
    assert await here.get(name) is None


async def test_nothing_of_a_value_is_in_the_store_in_clear(own: RedisStore) -> None:
    vault = own.vault([KEY])
    await vault.put("token/T1", TOKEN)
    assert await vault.swap("token/T1", TOKEN, TOKEN + b" again")
    keys: list[bytes] = await command(own, "KEYS", "*")
    assert keys
    for key in keys:
        assert TOKEN not in await command(own, "DUMP", key)
    kept = await stored(own, "token/T1")
    assert kept is not None
    assert TOKEN not in kept


async def test_its_time_ends(store: RedisStore) -> None:
    vault, name, longer = store.vault([KEY]), fresh(), fresh()
    await vault.put(name, b"short", 0.05)
    await vault.put(longer, b"short", 0.05)
    await vault.put(longer, b"for ever")
    await anyio.sleep(0.1)
    assert await vault.get(name) is None
    assert not await vault.swap(name, b"short", b"more")
    assert await vault.get(longer) == b"for ever"


async def test_of_all_who_swap_the_same_one_is_told_so(store: RedisStore, other: RedisStore) -> None:
    name, told = fresh(), list[bool]()
    await store.vault([KEY]).put(name, b"once")

    async def swap(holder: RedisStore) -> None:
        told.append(await holder.vault([KEY]).swap(name, b"once", None))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(swap, store)
            tasks.start_soon(swap, other)
    assert told.count(True) == 1
    assert await store.vault([KEY]).get(name) is None


async def test_a_swap_wants_what_is_there(store: RedisStore) -> None:
    vault, name = store.vault([KEY]), fresh()
    assert not await vault.swap(name, b"something", b"else")
    assert await vault.swap(name, None, b"first")
    assert not await vault.swap(name, None, b"second")
    assert await vault.swap(name, b"first", b"second", 60)
    assert await vault.get(name) == b"second"
    assert 0 < (await command(store, "HPTTL", VAULT, "FIELDS", 1, encode(name)))[0] <= 60_000 + CLOCKS


async def test_names_are_found_by_how_they_begin(store: RedisStore) -> None:
    vault, prefix = store.vault([KEY]), f"{fresh()}/é*["
    for name in ("b", "a", "c"):
        await vault.put(prefix + name, b"x")
    await vault.delete(f"{prefix}c")
    assert await vault.names(prefix) == (f"{prefix}a", f"{prefix}b")


async def test_another_key_opens_nothing(store: RedisStore) -> None:
    name = fresh()
    await store.vault([KEY]).put(name, TOKEN)
    stranger = store.vault([NEWER])
    with pytest.raises(VaultError, match="no key of this installation"):
        await stranger.get(name)
    with pytest.raises(VaultError):
        await stranger.swap(name, TOKEN, b"mine")
    assert await store.vault([KEY]).get(name) == TOKEN


async def test_one_thing_is_not_handed_out_as_another(store: RedisStore) -> None:
    """Whoever can write the store can move what is kept, and it does not open there."""
    vault, one, another = store.vault([KEY]), fresh(), fresh()
    await vault.put(one, TOKEN)
    await command(store, "HSET", VAULT, encode(another), await stored(store, one) or b"")
    with pytest.raises(VaultError, match="under another name"):
        await vault.get(another)


@pytest.mark.parametrize("record", [pack(KEPT, {"token": "x"}), b"not a record", b"", b"\x81\xa1v\x63"])
async def test_what_cannot_be_read_is_told(store: RedisStore, record: bytes) -> None:
    vault, name = store.vault([KEY]), fresh()
    await command(store, "HSET", VAULT, encode(name), record)
    with pytest.raises(VaultError):
        await vault.get(name)
    await vault.renew()
    assert await stored(store, name) == record
    await vault.delete(name)


async def test_a_new_key_takes_over_what_an_old_one_closed(own: RedisStore) -> None:
    old, both, new = own.vault([KEY]), own.vault([NEWER, KEY]), own.vault([NEWER])
    await old.put("lasting", TOKEN)
    await old.put("short", TOKEN, 60)
    assert await both.get("lasting") == TOKEN
    with pytest.raises(VaultError):
        await new.get("lasting")
    await own.renew_vault([NEWER, KEY])
    assert await new.get("lasting") == await new.get("short") == TOKEN
    assert await command(own, "HPTTL", VAULT, "FIELDS", 1, "lasting") == [-1]
    assert 0 < (await command(own, "HPTTL", VAULT, "FIELDS", 1, "short"))[0] <= 60_000 + CLOCKS
    renewed = await stored(own, "lasting")
    await both.renew()
    assert await stored(own, "lasting") == renewed


@pytest.mark.one_server("it kills the server and nothing takes over")
async def test_a_store_that_is_away_is_told_as_that(own: RedisStore) -> None:
    assert own.server is not None
    store = await open_store(audit_key=KEY, url=own.server.url, options=StoreOptions(timeout=5))
    kill(pid_of(own))
    vault = store.vault([KEY])
    for asked in (vault.get("x"), vault.put("x", b""), vault.delete("x"), vault.names("")):
        with pytest.raises(VaultError, match="does not answer"):
            await asked
    with pytest.raises(StoreGoneError, match="does not answer"):
        await store.renew_vault([NEWER, KEY])
    await store.close()


async def test_a_store_that_is_full_is_told_as_that_when_a_new_key_takes_over(own: RedisStore) -> None:
    await own.vault([KEY]).put("token", TOKEN)
    await command(own, "CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(StoreRefusedError, match="memory limit") as caught:
        await own.renew_vault([NEWER, KEY])
    assert "maxmemory" in caught.value.next_step
    await command(own, "CONFIG", "SET", "maxmemory", 0)
    assert await own.vault([KEY]).get("token") == TOKEN
