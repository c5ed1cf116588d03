"""Memories as they are kept, listed, corrected and forgotten, on a real store."""

from dataclasses import replace

import pytest

from bot.core.errors import CursorError, DedupeConflictError, FullError, NotFoundError, RequestError
from bot.knowledge import keeper
from bot.knowledge.keeper import Learner, MemoryKeeper, row
from bot.sessions.knowledge.memories import LONGEST_DOMAIN, LONGEST_TEXT, MOST_CORRECTIONS, MemoryState
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP
from tests.store.world import fresh

pytestmark = pytest.mark.anyio

NOW = 1_795_775_400_000


def learner(label: Label = PUBLIC, principal: str = "", reader: Label = TOP) -> Learner:
    return Learner(principal or fresh(), "ann", label, reader)


def kept(store: RedisStore, most: int = 100, now: int = NOW) -> MemoryKeeper:
    return MemoryKeeper(store.memories, now=lambda: now, most=most)


async def seen(keeps: MemoryKeeper, principal: str, reader: Label) -> list[str]:
    return [memory.text async for memory in keeps.every(principal, reader)]


async def test_a_memory_is_kept_once_for_its_key(store: RedisStore) -> None:
    keeps, who = kept(store), learner(INTERNAL)
    made = await keeps.learn(who, "tea at four", f"{who.principal}/k", domain="tea")
    assert (
        await keeps.learn(replace(who, label=CONFIDENTIAL), "tea at four", f"{who.principal}/k", domain="tea") == made
    )
    assert await keeps.find(who.principal, TOP, made.id) == made
    assert (made.text, made.domain, made.label, made.learned_at, made.asker) == (
        *("tea at four", "tea", INTERNAL, NOW),
        "ann",
    )


@pytest.mark.parametrize(
    "text, domain, why",
    [
        (" \n", "", keeper.WORDLESS),
        ("x" * (LONGEST_TEXT + 1), "", keeper.TOO_LONG),
        ("x", "y" * (LONGEST_DOMAIN + 1), keeper.DOMAIN_TOO_LONG),
        *(("x", domain, keeper.DOMAIN_UNSEEN) for domain in ("a\nb", "a\u200bb", "\u202ea")),
    ],
)
async def test_a_memory_has_words_and_not_too_many(store: RedisStore, text: str, domain: str, why: str) -> None:
    keeps, who = kept(store), learner()
    with pytest.raises(RequestError) as refused:
        await keeps.learn(who, text, fresh(), domain=domain)
    assert str(refused.value) == why
    old = await keeps.learn(who, "tea at four", fresh())
    with pytest.raises(RequestError, match=why):
        await keeps.correct(who, old.id, text, fresh(), domain=domain)


async def test_as_many_are_kept_as_may_at_each_label(store: RedisStore) -> None:
    keeps, who = kept(store, most=1), learner()
    await keeps.learn(who, "one", fresh())
    with pytest.raises(FullError):
        await keeps.learn(who, "two", fresh())
    # What anybody may have written takes no room of what is TRUSTED.
    await keeps.learn(replace(who, label=DIRTY), "two", fresh())
    high = await keeps.learn(replace(who, label=CONFIDENTIAL), "three", fresh())
    # What is forgotten gives its room back.
    await keeps.forget(who.principal, TOP, high.id, actor="ann")
    await keeps.learn(replace(who, label=CONFIDENTIAL), "four", fresh())


async def test_a_key_is_of_one_memory_and_tells_nothing_of_what_is_above(store: RedisStore) -> None:
    keeps, who, key = kept(store), learner(), fresh()
    old = await keeps.learn(who, "one", key, domain="a")
    for text, domain in (("two", "a"), ("one", "b")):
        with pytest.raises(DedupeConflictError):
            await keeps.learn(who, text, key, domain=domain)
    right = fresh()
    new = await keeps.correct(who, old.id, "uno", right)
    assert await keeps.correct(who, old.id, "uno", right) == new
    for text, domain in (("dos", None), ("uno", "b")):
        with pytest.raises(DedupeConflictError):
            await keeps.correct(who, old.id, text, right, domain=domain)
    high = fresh()
    await keeps.learn(replace(who, label=CONFIDENTIAL), "secret", high)
    low = replace(who, label=PUBLIC, reader=PUBLIC)
    same, other = [await keeps.learn(low, text, high) for text in ("secret", "guess")]
    assert same == other
    gone = await keeps.forget(who.principal, TOP, new.id, actor="ann")
    assert (await keeps.learn(who, "anything", right)).id == gone.id


async def test_what_was_corrected_often_is_to_be_learned_anew(store: RedisStore) -> None:
    keeps, who = kept(store, most=MOST_CORRECTIONS + 2), learner()
    last = first = await keeps.learn(who, "tea at 0", fresh())
    for number in range(MOST_CORRECTIONS):
        last = await keeps.correct(who, last.id, f"tea at {number + 1}", fresh())
    with pytest.raises(RequestError, match=keeper.TOO_OFTEN):
        await keeps.correct(who, last.id, "tea at noon", fresh())
    await keeps.forget(who.principal, TOP, last.id, actor="ann")
    assert (await keeps.find(who.principal, TOP, first.id)).text == ""
    assert await seen(keeps, who.principal, TOP) == []


async def test_who_does_not_decide_changes_what_they_taught_alone(store: RedisStore) -> None:
    keeps, ann = kept(store), replace(learner(), decides=False)
    bea = replace(ann, asker="bea")
    name = (await keeps.learn(ann, "tea at four", fresh())).id
    for refused in (
        keeps.correct(bea, name, "tea at five", fresh()),
        keeps.forget(ann.principal, TOP, name, actor="bea", decides=False),
    ):
        with pytest.raises(RequestError, match=keeper.NOT_YOURS):
            await refused
    theirs = await keeps.correct(replace(bea, decides=True), name, "tea at five", fresh())
    # What would be erased with it was taught by another.
    with pytest.raises(RequestError, match=keeper.NOT_YOURS):
        await keeps.forget(ann.principal, TOP, theirs.id, actor="bea", decides=False)
    assert await seen(keeps, ann.principal, TOP) == ["tea at five"]
    await keeps.forget(ann.principal, TOP, theirs.id, actor="bea")
    assert await seen(keeps, ann.principal, TOP) == []


async def test_a_correction_is_later_than_what_it_corrects_on_every_clock(store: RedisStore) -> None:
    who = learner()
    old = await kept(store, now=NOW + 500).learn(who, "tea at four", fresh())
    new = await kept(store).correct(replace(who, label=CONFIDENTIAL), old.id, "tea at five", fresh())
    assert new.learned_at > old.learned_at
    assert await seen(kept(store), who.principal, TOP) == ["tea at five"]
    assert await seen(kept(store), who.principal, PUBLIC) == ["tea at four"]


async def test_what_a_correction_above_stands_for_stays_hidden_when_that_is_corrected(store: RedisStore) -> None:
    keeps, who = kept(store), learner()
    old = await keeps.learn(who, "tea at four", fresh())
    above = replace(who, label=CONFIDENTIAL)
    second = await keeps.correct(above, old.id, "tea at five", fresh())
    third = await keeps.correct(above, second.id, "tea at six", fresh())
    assert (third.label, third.corrects) == (CONFIDENTIAL, second.id)
    assert await seen(keeps, who.principal, TOP) == ["tea at six"]
    # Where the correction is forgotten, what it stood for is known again.
    await keeps.forget(who.principal, TOP, third.id, actor="ann")
    assert (await keeps.find(who.principal, TOP, second.id)).text == ""
    assert await seen(keeps, who.principal, TOP) == ["tea at four"]


async def test_what_does_not_count_any_more_is_not_corrected(store: RedisStore) -> None:
    keeps, who = kept(store), learner()
    old = await keeps.learn(who, "tea at four", fresh())
    await keeps.correct(who, old.id, "tea at five", fresh())
    for name in (old.id, "mem_0", "", "x" * 1000):
        with pytest.raises(NotFoundError):
            await keeps.correct(who, name, "tea at six", fresh())
    with pytest.raises(NotFoundError):
        await keeps.correct(replace(who, principal=fresh()), old.id, "x", fresh())


async def test_a_page_ends_where_the_next_begins(store: RedisStore) -> None:
    who = learner()
    for number in range(7):
        label = (PUBLIC, CONFIDENTIAL)[number % 2]
        await kept(store, now=NOW + number).learn(replace(who, label=label), str(number), fresh())
    keeps, cursor, shown = kept(store), "", list[str]()
    while True:
        page = await keeps.listed(who.principal, TOP, after=cursor, limit=2)
        shown += [memory.text for memory in page.memories]
        cursor = page.cursor
        if not cursor:
            break
    assert shown == list("6543210")
    low = await keeps.listed(who.principal, PUBLIC, limit=4)
    assert ([memory.text for memory in low.memories], low.cursor) == (list("6420"), "")
    (first, *_) = (await keeps.listed(who.principal, TOP)).memories
    above = (await keeps.listed(who.principal, TOP)).memories[1].id
    with pytest.raises(CursorError):
        await keeps.listed(who.principal, PUBLIC, after=above)
    # It goes on where it was, also behind what was forgotten meanwhile.
    await keeps.forget(who.principal, TOP, first.id, actor="ann")
    assert [memory.text for memory in (await keeps.listed(who.principal, TOP, after=first.id)).memories] == list(
        "543210"
    )


async def test_a_listing_goes_on_behind_what_was_corrected_meanwhile(store: RedisStore) -> None:
    keeps, who = kept(store), learner()
    first = await kept(store, now=NOW - 1).learn(who, "rain", fresh())
    old = await keeps.learn(who, "tea at four", fresh())
    await keeps.correct(replace(who, label=CONFIDENTIAL), old.id, "tea at five", fresh())
    for reader in (PUBLIC, TOP):
        assert (await keeps.listed(who.principal, reader, after=old.id)).memories == (first,)


async def test_the_audit_tells_what_was_done_and_nothing_of_the_words(store: RedisStore) -> None:
    keeps, who = kept(store), learner(INTERNAL)
    made = await keeps.learn(who, "tea at four", fresh(), domain="tea")
    new = await keeps.correct(who, made.id, "tea at five", fresh())
    await keeps.forget(who.principal, TOP, new.id, actor="bea")
    rows = [
        one for one in await store.audit.records(AUDIT, limit=100_000) if one.body.get("principal") == who.principal
    ]
    told = [(one.kind, one.actor, one.body["do"], one.body["memory"], one.body.get("corrects")) for one in rows]
    assert told == [
        ("memory", "ann", "learn", made.id, None),
        ("memory", "ann", "correct", new.id, made.id),
        ("memory", "bea", "forget", new.id, None),
    ]
    assert "tea" not in str(rows)
    assert row(made, "ann", "learn").body["label"] == "INTERNAL"
    assert (await keeps.find(who.principal, TOP, made.id)).state is MemoryState.FORGOTTEN
