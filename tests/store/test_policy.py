"""The policy in force at the store: put there with its audit row in one step, newer each time, read along."""

from collections.abc import Awaitable, Callable

import pytest

from bot.audit.chain import Intact, verify
from bot.core.errors import SchemaError
from bot.sessions.audit import AuditRow, PolicyHead
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, POLICY
from tests.store.world import SIGNERS, answer, claimed, command, ending, fresh, item, started

pytestmark = pytest.mark.anyio


def told(digest: str) -> tuple[AuditRow, ...]:
    return (AuditRow("policy", "start", {"in_force": digest}),)


async def put(store: RedisStore, digest: str, *, only_if_none: bool = False) -> PolicyHead:
    return await store.policy.put_policy(digest, "p-x", told(digest), only_if_none=only_if_none)


async def test_a_policy_is_put_in_force_with_its_audit_row_and_is_newer_each_time(store: RedisStore) -> None:
    await command(store, "DEL", POLICY)
    assert await store.policy.read_policy() is None
    before = await store.audit.head(AUDIT)
    first, second = await put(store, "one"), await put(store, "two")
    assert (first.digest, second.digest, second.process) == ("one", "two", "p-x")
    assert second.at > first.at
    assert await store.policy.read_policy() == second == store.policy.policy_head
    records = await store.audit.records(AUDIT, after=before[0])
    assert [record.body["in_force"] for record in records] == ["one", "two"]
    assert isinstance(
        verify(
            AUDIT,
            await store.audit.records(AUDIT),
            claimed=await store.audit.head(AUDIT),
            anchor=(0, ""),
            signers=SIGNERS,
        ),
        Intact,
    )


async def test_its_version_grows_even_if_the_clock_goes_back(store: RedisStore) -> None:
    first = await put(store, "one")
    await command(store, "HSET", POLICY, "time", first.at + 100_000)
    assert (await put(store, "two")).at == first.at + 100_001
    await command(store, "DEL", POLICY)


async def test_one_that_is_there_may_be_left_as_it_is(store: RedisStore) -> None:
    first = await put(store, "one")
    before = await store.audit.head(AUDIT)
    assert await put(store, "two", only_if_none=True) == first
    assert await store.audit.head(AUDIT) == before
    await command(store, "DEL", POLICY)
    assert (await put(store, "two", only_if_none=True)).digest == "two"


async def test_a_newer_programs_policy_is_refused(store: RedisStore) -> None:
    await put(store, "one")
    await command(store, "HSET", POLICY, "version", 99)
    try:
        with pytest.raises(SchemaError):
            await store.policy.read_policy()
        with pytest.raises(SchemaError):
            await put(store, "two")
    finally:
        await command(store, "DEL", POLICY)


async def _ready(store: RedisStore) -> None:
    await store.wake.ready(wait=0.001)


async def _claim(store: RedisStore) -> None:
    assert await store.sessions.claim(fresh(), fresh()) is None


async def _take(store: RedisStore) -> None:
    await store.outbox.take(fresh(), fresh(), ("console",))


async def _commit(store: RedisStore) -> None:
    claim, written = await started(store)
    await command(store, "HSET", POLICY, "digest", "two")
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)), sender="p-x")


@pytest.mark.parametrize("exchange", [_ready, _claim, _take, _commit])
async def test_what_has_to_know_it_reads_it_along(
    store: RedisStore, exchange: Callable[[RedisStore], Awaitable[None]]
) -> None:
    await put(store, "one")
    await command(store, "HSET", POLICY, "digest", "two")
    await exchange(store)
    assert store.policy.policy_head is not None
    assert store.policy.policy_head.digest == "two"
    await command(store, "DEL", POLICY)


async def hinted(store: RedisStore, sid: str) -> bool:
    """Say whether a session is marked ready, among those that other tests left."""
    while found := await store.wake.ready(wait=1):
        if sid in found:
            return True
    return False


async def test_a_hint_that_is_not_followed_is_there_again(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    assert await hinted(store, sid)
    await store.wake.again(())
    await store.wake.again((sid,))
    assert await hinted(store, sid)
    await claimed(store, sid)
