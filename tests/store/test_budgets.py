"""Budgets: set aside at most what is left, counted once, given back by who vanished, and new every day."""

import asyncio
from dataclasses import replace

import pytest

from bot.core.errors import SchemaError
from bot.sessions.budgets import DAY_MS, Budgets, Lack, Shortage, Spender, Spent, Whose
from bot.store.records.fields import RecordType, Value
from bot.store.records.form import pack, unpack
from bot.store.records.kinds import PORTION, RESERVATION, SPENT
from bot.store.redis_store import RedisStore
from bot.store.schema import BudgetKeys, budget_keys, chat_account, person_account
from policy.labels import PUBLIC, parse
from tests.store.world import SECRET, command, fresh

pytestmark = pytest.mark.anyio

LIFE = 60_000
HUNDRED = Budgets(person=100)


def spender(chat: str = "") -> Spender:
    """Return somebody who used nothing so far; his name needs to be encoded."""
    return Spender(f"ann %/ {fresh()}", chat, PUBLIC)


async def reserve(
    store: RedisStore, reservation: str, who: Spender, tokens: int, budgets: Budgets = HUNDRED
) -> Shortage | None:
    return await store.budgets.reserve_tokens(reservation, who, tokens, budgets=budgets, life=LIFE)


async def spent(store: RedisStore, *names: str) -> list[Spent]:
    return [one for one in await store.budgets.spent_today() if one.name in names]


def keys_of(who: Spender) -> BudgetKeys:
    """Return the keys of a person's account."""
    return budget_keys(person_account(who.person))


async def change(store: RedisStore, kind: RecordType, key: str, field: str, **changes: Value) -> None:
    """Change fields of a record of a hash."""
    record = unpack(kind, await command(store, "HGET", key, field))
    await command(store, "HSET", key, field, pack(kind, record | changes))


async def now_of(store: RedisStore) -> int:
    """Return the server's time in milliseconds."""
    seconds, micros = await command(store, "TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def test_no_more_is_set_aside_than_is_left_however_many_ask(store: RedisStore, other: RedisStore) -> None:
    ann = spender()
    asked = [one.budgets.reserve_tokens(fresh(), ann, 30, budgets=HUNDRED, life=LIFE) for one in (store, other) * 5]
    answers = await asyncio.gather(*asked)
    assert answers.count(None) == 3
    assert set(answers) == {None, Shortage(Whose.PERSON, Lack.HELD)}
    assert await reserve(store, fresh(), spender(), 30) is None


async def test_what_was_used_counts_in_the_place_of_what_was_set_aside(store: RedisStore) -> None:
    ann, first, second = spender(), fresh(), fresh()
    assert await reserve(store, first, ann, 90) is None
    await store.budgets.settle_tokens(first, ann, 40, complete=True)
    assert await reserve(store, second, ann, 61) == Shortage(Whose.PERSON, Lack.USED)
    assert await reserve(store, second, ann, 60) is None
    await store.budgets.settle_tokens(second, ann, 60, complete=False)
    assert await spent(store, ann.person) == [Spent(Whose.PERSON, ann.person, PUBLIC, 100, complete=False)]
    assert await reserve(store, fresh(), ann, 1) == Shortage(Whose.PERSON, Lack.USED)
    assert await reserve(store, fresh(), ann, 101) == Shortage(Whose.PERSON, Lack.NEVER)


async def test_each_pool_has_all_of_it_whatever_integrity_has_to_do_with_it(store: RedisStore) -> None:
    chat, limits = f"chat:room::{fresh()}:", Budgets(person=100, chat=100)
    ann = spender(chat)
    pools = ("PUBLIC", "CONFIDENTIAL{acme}", "CONFIDENTIAL", "PUBLIC{acme}")
    for label in pools:
        here, name = replace(ann, label=parse(label)), fresh()
        assert await reserve(store, name, here, 60, limits) is None
        untrusted = replace(ann, label=parse(f"{label}~"))
        assert await reserve(store, fresh(), untrusted, 41, limits) == Shortage(Whose.PERSON, Lack.HELD)
        await store.budgets.settle_tokens(name, here, 60, complete=True)
        assert await reserve(store, fresh(), untrusted, 41, limits) == Shortage(Whose.PERSON, Lack.USED)
    found = await spent(store, ann.person, chat)
    assert sorted(str(one.label) for one in found) == sorted([*pools, *pools])
    assert {one.tokens for one in found} == {60}


async def test_what_came_back_is_not_known_whoever_asks_next(own: RedisStore) -> None:
    """A reader of one pool is told the same before and after somebody of another pool set tokens aside."""
    ann, gone = spender(f"chat:room::{fresh()}:"), fresh()
    assert await reserve(own, gone, ann, 10) is None
    now = await now_of(own)
    for till, told in ((now - DAY_MS, 0), (now - 1, 2)):
        for account in (person_account(ann.person), chat_account(ann.chat)):
            lapsed = pack(RESERVATION, {"lapses": till, "tokens": 10, "pool": "PUBLIC", "op": "x"})
            await command(own, "HSET", budget_keys(account).spending, gone, lapsed)
        before = await own.budgets.spent_today()
        assert [(one.label, one.tokens, one.complete) for one in before] == [(PUBLIC, 0, False)] * told
        assert await reserve(own, fresh(), replace(ann, label=SECRET), 1) is None
        assert await own.budgets.spent_today() == before


async def test_a_chat_and_all_together_have_a_budget_of_their_own(own: RedisStore) -> None:
    chat, limits = f"chat:room::{fresh()}:", Budgets(chat=100, all=250)
    for number in range(2):
        ann, name = spender(chat), fresh()
        assert await reserve(own, name, ann, 50, limits) is None, number
        await own.budgets.settle_tokens(name, ann, 50, complete=True)
    assert await reserve(own, fresh(), spender(chat), 1, limits) == Shortage(Whose.CHAT, Lack.USED)
    assert await spent(own, chat) == [Spent(Whose.CHAT, chat, PUBLIC, 100, complete=True)]
    # Another chat, or nobody's, is not held up by it, until all of it is used.
    assert await reserve(own, fresh(), spender(f"{chat}2"), 100, limits) is None
    assert await reserve(own, fresh(), spender(), 51, limits) == Shortage(Whose.ALL, Lack.HELD)
    assert await reserve(own, fresh(), spender(), 50, limits) is None


async def test_what_is_only_set_aside_is_told_from_what_is_used_and_comes_after_it(own: RedisStore) -> None:
    """A budget that is used up is used up, whatever another one waits for."""
    ann, ben, first = spender(), spender(), fresh()
    limits = Budgets(person=60, all=100)
    assert await reserve(own, first, ann, 60, limits) is None
    assert await reserve(own, fresh(), ann, 30, limits) == Shortage(Whose.PERSON, Lack.HELD)
    assert await reserve(own, fresh(), ben, 50, limits) == Shortage(Whose.ALL, Lack.HELD)
    assert await reserve(own, fresh(), ann, 61, limits) == Shortage(Whose.PERSON, Lack.NEVER)
    await own.budgets.settle_tokens(fresh(), ben, 50, complete=True)
    assert await reserve(own, fresh(), ann, 51, limits) == Shortage(Whose.ALL, Lack.USED)
    assert await reserve(own, fresh(), ann, 50, limits) == Shortage(Whose.PERSON, Lack.HELD)
    await own.budgets.settle_tokens(first, ann, 10, complete=True)
    assert await reserve(own, fresh(), ann, 40, limits) is None


async def test_what_a_vanished_worker_set_aside_comes_back_and_is_not_known(store: RedisStore) -> None:
    ann, gone = spender(), fresh()
    assert await reserve(store, gone, ann, 100) is None
    assert await reserve(store, fresh(), ann, 100) is not None
    await change(store, RESERVATION, keys_of(ann).spending, gone, lapses=await now_of(store) - 1)
    after = fresh()
    assert await reserve(store, after, ann, 50) is None
    assert await spent(store, ann.person) == [Spent(Whose.PERSON, ann.person, PUBLIC, 0, complete=False)]
    # It was only slow: what it used counts all the same.
    await store.budgets.settle_tokens(gone, ann, 70, complete=True)
    assert await spent(store, ann.person) == [Spent(Whose.PERSON, ann.person, PUBLIC, 70, complete=False)]


async def test_a_new_day_begins_with_nothing_used(own: RedisStore) -> None:
    ann, name, over = spender(), fresh(), fresh()
    assert await reserve(own, name, ann, 80) is None
    await own.budgets.settle_tokens(name, ann, 80, complete=True)
    assert await reserve(own, over, ann, 20) is None
    spent_key = keys_of(ann).spent
    today = await now_of(own) // DAY_MS
    await change(own, PORTION, spent_key, "portion", day=today - 1)
    assert await own.budgets.spent_today() == ()
    # What is set aside over midnight is still so, and counts on the day it is settled.
    assert await reserve(own, fresh(), ann, 81) == Shortage(Whose.PERSON, Lack.HELD)
    await own.budgets.settle_tokens(over, ann, 20, complete=True)
    assert await own.budgets.spent_today() == (Spent(Whose.PERSON, ann.person, PUBLIC, 20, complete=True),)
    assert unpack(PORTION, await command(own, "HGET", spent_key, "portion"))["day"] == today
    # A clock that goes back begins no day anew.
    await change(own, PORTION, spent_key, "portion", day=today + 1)
    assert await reserve(own, fresh(), ann, 81) == Shortage(Whose.PERSON, Lack.USED)


async def test_a_newer_programs_counts_are_refused(own: RedisStore) -> None:
    ann, chat = spender(), f"chat:room::{fresh()}:"
    keys, newer = keys_of(ann), pack(SPENT, {"version": 99})
    await own.budgets.settle_tokens(fresh(), ann, 1, complete=True)
    await command(own, "HSET", keys.spending, "of a newer one", newer)
    for who in (ann, replace(ann, chat=chat)):
        with pytest.raises(SchemaError, match="99"):
            await reserve(own, fresh(), who, 1)
    # What was set aside at the chat was given back.
    assert await command(own, "EXISTS", budget_keys(chat_account(chat)).spending) == 0
    await command(own, "HSET", keys.spent, "portion", newer)
    with pytest.raises(SchemaError):
        await own.budgets.settle_tokens(fresh(), ann, 1, complete=True)
    with pytest.raises(SchemaError):
        await own.budgets.spent_today()
