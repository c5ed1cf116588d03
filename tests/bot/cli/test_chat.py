"""What somebody else than the owner is told at the console."""

from pathlib import Path

import pytest

from tests.harness import running


@pytest.mark.anyio
async def test_a_stranger_at_the_console_learns_one_sentence(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as typist:
        typist.account = "console:user-eve"
        told = [(await typist.say(text)).strip() for text in ("hello", "/status", "/taint", "hello?")]
        # Each further attempt is answered less often.
        assert told == ["you are not known here", "you are not known here", "", "you are not known here"]
