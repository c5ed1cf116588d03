"""Tokens are kept without a secret, counted among the changes of who may what, and their names are given once."""

import pytest

from bot.core.errors import BusyError, NotFoundError, SchemaError
from bot.sessions.api_tokens import ApiToken, NewSecret, NewToken, Scope
from bot.sessions.audit import AuditRow
from bot.store.programs.tokens import MOST_TOKENS
from bot.store.records.kinds import TOKEN
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, OVERRIDES, PAIRINGS, POLICY, TOKENS
from policy.document.overrides import AccessChange
from policy.labels import parse
from tests.store.world import alter, command, fresh

pytestmark = pytest.mark.anyio

ROW = (AuditRow("token", "ann", {"change": "create"}),)
HOUR = 3_600_000
INTERNAL = parse("INTERNAL{hr}~")


async def clear(store: RedisStore) -> None:
    """Forget what other tests left."""
    await command(store, "DEL", OVERRIDES, PAIRINGS, POLICY, TOKENS)


def new(name: str, life: int = 0, **more: int) -> NewToken:
    return NewToken(name, f"i-{name}", Scope.STEER, INTERNAL, f"d-{name}", created_by="ann", life=life, **more)


async def test_a_token_reads_back_as_it_was_made(store: RedisStore, other: RedisStore) -> None:
    await clear(store)
    await store.policy.put_policy("one", "p-x", ())
    before = await store.audit.head(AUDIT)
    made = await store.tokens.create(new("ci", HOUR, per_minute=7), ROW)
    assert made is not None
    assert made.expires_at - made.created_at == HOUR
    assert made == ApiToken(
        "ci",
        "i-ci",
        Scope.STEER,
        INTERNAL,
        "d-ci",
        created_at=made.created_at,
        expires_at=made.expires_at,
        created_by="ann",
        per_minute=7,
    )
    assert await other.tokens.tokens() == (made,)
    head = await other.policy.read_policy()
    assert head is not None
    assert (head.digest, head.over) == ("one", 1)
    assert abs(other.tokens.now_ms() - made.created_at) < HOUR
    assert (await store.audit.head(AUDIT))[0] == before[0] + 1


async def test_a_name_is_never_given_again(store: RedisStore, other: RedisStore) -> None:
    await clear(store)
    assert await store.tokens.create(new("ci"), ROW) is not None
    before = await store.audit.head(AUDIT)
    assert await other.tokens.create(new("ci"), ROW) is None
    await other.tokens.revoke("ci", ROW)
    assert await store.tokens.create(new("ci"), ROW) is None
    assert (await store.audit.head(AUDIT))[0] == before[0] + 1


async def test_a_rotated_token_has_one_secret_and_a_revoked_one_none(store: RedisStore) -> None:
    await clear(store)
    made = await store.tokens.create(new("ci", HOUR), ROW)
    assert made is not None
    rotated = await store.tokens.rotate("ci", NewSecret("i-2", "d-2", 2 * HOUR), ROW)
    assert (rotated.id, rotated.digest, rotated.created_at) == ("i-2", "d-2", made.created_at)
    assert rotated.expires_at >= made.expires_at + HOUR
    assert (await store.tokens.rotate("ci", NewSecret("i-3", "d-3", 0), ROW)).expires_at == 0
    revoked = await store.tokens.revoke("ci", ROW)
    assert revoked.revoked
    assert revoked.digest == ""
    for refused in (store.tokens.revoke("ci", ROW), store.tokens.rotate("ci", NewSecret("i-4", "d-4", 0), ROW)):
        with pytest.raises(NotFoundError):
            await refused
    with pytest.raises(NotFoundError):
        await store.tokens.revoke("none", ROW)
    assert await store.tokens.tokens() == (revoked,)
    assert (await store.access.overrides())[0] == 4


async def test_a_change_of_access_that_did_not_know_of_a_token_is_made_anew(store: RedisStore) -> None:
    await clear(store)
    assert await store.tokens.create(new("ci"), ROW) is not None
    assert await store.access.override(AccessChange(accounts={"chat:x": True}), 0, ROW) is None
    assert await store.access.override(AccessChange(accounts={"chat:x": True}), 1, ROW) == 2
    assert (await store.policy.put_policy("one", "p-x", ())).over == 2


async def test_there_are_no_more_than_each_process_can_know(store: RedisStore) -> None:
    await clear(store)
    others = [part for number in range(MOST_TOKENS - 1) for part in (f"other-{number}", "x")]
    await command(store, "HSET", TOKENS, *others)
    assert await store.tokens.create(new("last"), ROW) is not None
    with pytest.raises(BusyError):
        await store.tokens.create(new("more"), ROW)
    assert len(await command(store, "HKEYS", TOKENS)) == MOST_TOKENS
    await clear(store)


async def test_a_newer_programs_tokens_are_refused_and_left(store: RedisStore) -> None:
    await clear(store)
    name = fresh()
    assert await store.tokens.create(new(name), ROW) is not None
    await alter(store, TOKEN, TOKENS, name, version=99)
    try:
        with pytest.raises(SchemaError):
            await store.tokens.tokens()
        with pytest.raises(SchemaError):
            await store.tokens.revoke(name, ROW)
    finally:
        await clear(store)
