"""The client's memories, against a real API."""

from pathlib import Path

import pytest

from lockgate.client import Client
from lockgate.errors import ApiError
from tests.bot.api.kit import served

pytestmark = pytest.mark.anyio


async def test_memories_are_taught_found_corrected_and_forgotten(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, Client(host.url, await host.token()) as client:
        made = await client.memories.learn("The ferry leaves at nine.", domain="harbor", key="a")
        assert await client.memories.learn("The ferry leaves at nine.", domain="harbor", key="a") == made
        await client.memories.learn("Tea is at five.")
        (found,) = (await client.memories.recall("ferry", domain="harbor", limit=1)).memories
        assert (found.id, found.text, found.domain, found.label) == (
            made.id,
            "The ferry leaves at nine.",
            "harbor",
            "PUBLIC",
        )
        assert len((await client.memories.recall("tea ferry")).memories) == 2
        page = await client.memories.list(limit=1)
        assert page.cursor is not None
        assert (await client.memories.list(cursor=page.cursor)).memories == (found,)
        right = await client.memories.correct(made.id, "The ferry leaves at ten.", key="b")
        assert await client.memories.correct(made.id, "The ferry leaves at ten.", key="b") == right
        known = await client.memories.get(right.id)
        assert (known.corrects, known.uses, known.state) == (made.id, 0, "kept")
        for _ in range(2):
            await client.memories.forget(right.id)
        assert (await client.memories.get(right.id)).text is None
        with pytest.raises(ApiError) as absent:
            await client.memories.get("mem_0")
        assert absent.value.code == "not_found"
