"""The newest memories, those of some ids, and how many there are, as far as a reader may know, on a real store."""

from typing import Final

import pytest

from bot.access.labelling import untrusted
from bot.core.errors import StoreGoneError
from bot.knowledge.recall import KnowledgeSearch
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC, Label, parse
from tests.bot.knowledge.test_recall import INTERNAL, SECRET, Watched, learn, searching
from tests.store.world import fresh

# pyright: reportPrivateUsage=false

pytestmark = pytest.mark.anyio


EVERYTHING: Final = untrusted(SECRET)


async def newest(
    search: KnowledgeSearch, who: str, reader: Label = EVERYTHING, limit: int = 99, domain: str = ""
) -> list[str]:
    return [one.text for one in await search.newest(who, reader, limit=limit, domain=domain)]


async def test_the_newest_are_told_in_their_order_as_far_as_they_may(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    labels = (PUBLIC, SECRET, INTERNAL, parse("PUBLIC~"))
    for number in range(8):
        domain = ("", "office", "home")[number % 3]
        await learn(store, who, str(number), labels[number % 4], at=100 + number, domain=domain)
    async with searching(watched) as search:
        assert await newest(search, who, limit=0) == []
        assert watched.calls == []
        assert await newest(search, who) == list("76543210")
        assert await newest(search, who, limit=3) == list("765")
        assert await newest(search, who, PUBLIC) == list("40")
        assert await newest(search, who, domain="office", limit=3) == list("764")
        assert await newest(search, fresh()) == []
        watched.calls.clear()
        await newest(search, who, INTERNAL)
        assert watched.calls == ["versions", "memories"]
        watched.gone = True
        with pytest.raises(StoreGoneError):
            await newest(search, who)


async def test_what_is_corrected_or_forgotten_is_not_among_them(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    old, gone = await learn(store, who, "old", at=7), await learn(store, who, "gone", at=9)
    first = await learn(store, who, "first", at=1)
    above = await learn(store, who, "above", SECRET, at=8, corrects=old.id)
    async with searching(watched) as search:
        assert await newest(search, who, limit=2) == ["gone", "above"]
        assert await newest(search, who, PUBLIC, limit=2) == ["gone", "old"]
        # It is told as it is now, even where nobody told the index.
        watched.old = await store.memories.versions(who)
        await store.memories.forget(gone, ())
        assert await newest(search, who, limit=3) == ["above", "first"]
        watched.old = None
        assert await newest(search, who, limit=2) == ["above", "first"]
        ids = (first.id, gone.id, above.id, old.id, "mem_0", first.id)
        assert await search.named(who, SECRET, ids[:5]) == (first, above, old)
        assert await search.named(who, PUBLIC, ids[:5]) == (first, old)
        assert await search.named(fresh(), SECRET, ids) == ()


async def test_as_many_are_counted_as_a_reader_may_know_of(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    made = [await learn(store, who, str(number)) for number in range(4)]
    async with searching(watched) as search:

        async def counts() -> list[int]:
            return [await search.counted(who, reader) for reader in (PUBLIC, INTERNAL, SECRET)]

        assert await search.counted(fresh(), SECRET) == 0
        assert await counts() == [4, 4, 4]
        # A correction of its own label, then one from above, which stands for one there and hides none below.
        await learn(store, who, "new", corrects=made[0].id)
        assert await counts() == [4, 4, 4]
        above = await learn(store, who, "above", SECRET, corrects=made[1].id)
        assert await counts() == [4, 4, 4]
        await learn(store, who, "more", SECRET)
        await learn(store, who, "of one that is not there", INTERNAL, corrects="mem_0")
        assert await counts() == [4, 5, 6]
        await store.memories.forget(above, ())
        assert await counts() == [4, 5, 6]
        await store.memories.forget(made[2], ())
        assert await counts() == [3, 4, 5]
        # What did not change is not counted again, and no index that was left is asked for it.
        watched.calls.clear()
        assert await counts() == [3, 4, 5]
        assert watched.calls == ["versions"] * 3


async def test_not_all_counts_are_remembered(store: RedisStore) -> None:
    people = [fresh() for _ in range(300)]
    await learn(store, people[-1], "tea")
    async with searching(store.memories) as search:
        counted = [await search.counted(who, PUBLIC) for who in people]
        assert counted == [0] * 299 + [1]
        assert len(search._counts) == 256
