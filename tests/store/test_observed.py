"""What is said in a shared chat and not to the bot: kept once, bounded, and forgotten with the conversation."""

import asyncio

import pytest

from bot.sessions.inbox import NewObserved
from bot.store.inbox import observed
from bot.store.inbox.observed import LIFE_MS
from bot.store.redis_store import RedisStore
from bot.store.schema import session_keys
from policy.labels import PUBLIC
from tests.clocks import CLOCKS
from tests.store.world import SECRET, command, fresh, item, row

pytestmark = pytest.mark.anyio


async def kept(store: RedisStore, sid: str, *, after: str = "", most: int = 50, later: int = 0) -> list[str]:
    """Return the texts that are kept beside a session, as somebody finds them who looks `later` by so many ms."""
    seconds, micros = await command(store, "TIME")
    now = int(seconds) * 1000 + int(micros) // 1000
    found = await store.observed.heard(sid, after=after, until=now, now=now + later, most=most)
    return [one.text for one in found]


async def said(store: RedisStore, sid: str, *texts: str, most: int = 50) -> None:
    for text in texts:
        await store.observed.observe(sid, NewObserved(text, "chat:ann", SECRET, text), most)


async def test_a_text_told_again_is_kept_once_also_when_it_is_gone(store: RedisStore) -> None:
    sid = fresh()
    await said(store, sid, "one", "two", "three", "one", most=2)
    assert await kept(store, sid) == ["two", "three"]
    (two, _) = await store.observed.heard(sid, after="", until=2**45, now=LIFE_MS, most=2)
    assert (two.account, two.label) == ("chat:ann", SECRET)
    assert await kept(store, sid, after=two.id) == ["three"]
    assert await kept(store, sid, most=1) == ["three"]


async def test_what_a_text_may_begin_is_kept_with_it(store: RedisStore) -> None:
    sid = fresh()
    for text, opens in (("one", "7"), ("two", "")):
        await store.observed.observe(sid, NewObserved(text, "chat:ann", SECRET, text, opens), 5)
    found = await store.observed.heard(sid, after="", until=2**45, now=LIFE_MS, most=9)
    assert [(one.text, one.opens) for one in found] == [("one", "7"), ("two", "")]


async def test_what_was_said_behind_a_message_is_not_for_it(store: RedisStore) -> None:
    sid = fresh()
    await said(store, sid, "before")
    await store.sessions.accept(item(sid))
    claim = await store.sessions.claim(sid, "w")
    assert claim is not None
    await asyncio.sleep(0.01)
    await said(store, sid, "behind")
    found = await store.observed.heard(sid, after="", until=claim.items[0].accepted_at, now=claim.now, most=9)
    assert [one.text for one in found] == ["before"]


async def test_nothing_is_kept_for_longer_than_a_day(store: RedisStore) -> None:
    sid = fresh()
    await said(store, sid, "old")
    keys = session_keys(sid)
    for key in (keys.observed, keys.observed_ids):
        assert 0 < await command(store, "PTTL", key) <= LIFE_MS + CLOCKS
    assert await kept(store, sid, later=LIFE_MS - 60_000) == ["old"]
    assert await kept(store, sid, later=LIFE_MS + 60_000) == []


async def test_a_reset_forgets_what_was_observed(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await said(store, sid, "one")
    await store.sessions.reset(sid, op=fresh(), actor="ann", audit=(row(),))
    assert await kept(store, sid) == []
    await said(store, sid, "one", "two")
    assert await kept(store, sid) == ["two"], "what was told before the reset is told again"


async def test_to_be_observed_begins_no_session(store: RedisStore) -> None:
    sid = fresh()
    await said(store, sid, "one")
    assert await store.sessions.state(sid) is None
    await store.sessions.accept(item(sid, label=PUBLIC))
    state = await store.sessions.state(sid)
    assert state is not None
    assert state.visibility == PUBLIC


async def test_few_dedupe_keys_are_remembered(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "_REMEMBERED", 3)
    sid = fresh()
    await said(store, sid, *"abcdef")
    assert await command(store, "ZCARD", session_keys(sid).observed_ids) == 3
