"""A record that cannot be read ends a script before it wrote anything."""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from bot.core.errors import SchemaError
from bot.sessions.models import Claim, Write
from bot.store.redis_store import RedisStore
from bot.store.schema import session_keys
from tests.store.world import answer, command, dump, ending, fresh, item, started, suspended

pytestmark = pytest.mark.anyio

JUNK: Final = b"\xc1junk"


async def spoil(store: RedisStore, sid: str, kept: str) -> None:
    """Make every record of a hash one that nobody can read."""
    key: str = getattr(session_keys(sid), kept)
    for field in await command(store, "HKEYS", key) or [b"junk"]:
        await command(store, "HSET", key, field, JUNK)


async def a_turn(store: RedisStore) -> Claim:
    claim, written = await started(store)
    await store.sessions.record(claim, Write(fresh(), written.seq, deliver=(answer(),), release=False))
    await store.sessions.accept(item(claim.sid, "d2"))
    return claim


async def a_question(store: RedisStore) -> Claim:
    return (await suspended(store))[0]


async def reset(store: RedisStore, claim: Claim) -> None:
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())


async def stop(store: RedisStore, claim: Claim) -> None:
    await store.sessions.stop(claim.sid, actor="ann")


async def end(store: RedisStore, claim: Claim) -> None:
    head = await store.sessions.state(claim.sid)
    assert head is not None
    await store.sessions.commit(claim, ending(head.seq, 1))


Step = Callable[[RedisStore, Claim], Awaitable[None]]


@pytest.mark.parametrize(
    "stage, kept, step",
    [
        (a_turn, "inputs", reset),
        (a_turn, "inputs", stop),
        (a_turn, "inputs", end),
        (a_turn, "outbox", reset),
        (a_question, "approvals", reset),
        (a_question, "approvals", stop),
    ],
)
async def test_a_record_that_cannot_be_read_ends_a_step_before_it_wrote(
    store: RedisStore, stage: Callable[[RedisStore], Awaitable[Claim]], kept: str, step: Step
) -> None:
    claim = await stage(store)
    await spoil(store, claim.sid, kept)
    before = await dump(store, claim.sid)
    with pytest.raises(SchemaError):
        await step(store, claim)
    assert await dump(store, claim.sid) == before
