"""A session's log, walked back."""

from pathlib import Path

import pytest

from bot.sessions.transcript import backwards
from tests.harness import running

pytestmark = pytest.mark.anyio


async def test_a_log_is_walked_back_through_all_of_a_generation(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say("before")
        await person.say("/reset confirm")
        await person.say("after")
        await person.say("and after")
        state = await person.state()
        for window in (1, 2, 3, 1000):
            walked = [event.seq async for event in backwards(person.app.store.sessions, state, window=window)]
            assert walked == list(range(state.seq, state.generation_seq - 1, -1))
