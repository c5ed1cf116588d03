"""What somebody else than the owner is told at the console."""

from pathlib import Path

import pytest

from bot.access.pairing import ASK_OWNER
from tests.harness import running


@pytest.mark.anyio
async def test_a_stranger_at_the_console_learns_one_sentence(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as typist:
        typist.account = "console:user-eve"
        told = [(await typist.say(text)).strip() for text in ("hello", "/status", "/taint", "hello?")]
        # Further attempts of that hour are not answered.
        assert told == [ASK_OWNER.format(account="console:user-eve"), "", "", ""]
