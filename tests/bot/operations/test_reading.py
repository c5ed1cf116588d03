"""What programs read is noted once in ten minutes, by all processes together."""

from pathlib import Path

import pytest

from bot.operations.reading import NOTED_SECONDS, ReadingKind, SessionReader
from tests.bot.clock import Clock
from tests.clocks import CLOCKS
from tests.harness import running
from tests.store.world import command

pytestmark = pytest.mark.anyio


async def test_a_reading_is_noted_again_when_its_time_is_over_here_and_in_the_store(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say("hello")
        store, clock, state = person.app.store, Clock(), await person.state()
        readers = [SessionReader(store, clock, str) for _ in range(2)]

        async def noted() -> int:
            for reader in readers:
                await reader.noted("owner", state, ReadingKind.RECORD)
            return len([row for row in await store.audit.records("audit", limit=1000) if row.kind == "read"])

        assert await noted() == 1
        clock.seconds += NOTED_SECONDS
        # By this process's clock alone: the store keeps the row for as long by its own.
        assert await noted() == 1
        (kept,) = await command(store, "KEYS", "*read-*")
        assert 0 < await command(store, "PTTL", kept) <= NOTED_SECONDS * 1000 + CLOCKS
        await command(store, "DEL", kept)
        clock.seconds += NOTED_SECONDS - 1
        assert await noted() == 1
        clock.seconds += 1
        assert await noted() == 2
