"""The console: lines that are read, and progress that is shown."""

import io
from pathlib import Path

import pytest

from bot.cli.terminal.lines import BadLine, LineReader
from bot.cli.terminal.view import ABOVE, ConsoleView
from policy.labels import PUBLIC, parse
from tests.bot.kit import bang, note
from tests.harness import running

LONGEST = 10


class Gone(io.BytesIO):
    def readline(self, size: int | None = -1, /) -> bytes:
        raise OSError


async def lines(raw: bytes) -> list[str | BadLine]:
    reader = LineReader(io.BytesIO(raw), LONGEST)
    found: list[str | BadLine] = []
    while (line := await reader.next()) is not None:
        found.append(line)
    return found


@pytest.mark.anyio
@pytest.mark.parametrize(
    "raw,expected",
    [
        (b"", []),
        (b"a\n\nb\r\nc", ["a", "", "b", "c"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"a\tb\n", ["a\tb"]),
        ("ä".encode() * LONGEST + b"\n", ["ä" * LONGEST]),
        ("💧".encode() * LONGEST + b"\r\n", ["💧" * LONGEST]),
    ],
)
async def test_lines_are_read_one_by_one(raw: bytes, expected: list[str]) -> None:
    assert await lines(raw) == expected


@pytest.mark.anyio
@pytest.mark.parametrize(
    "raw,reason",
    [
        (b"x" * 11, "that line is longer than 10 characters, it was not sent"),
        (b"x" * 42, "that line is longer than 10 characters, it was not sent"),
        (b"x" * 1_000_000, "that line is longer than 10 characters, it was not sent"),
        (b"\xff", "that line is not UTF-8, it was not sent"),
        (b"\xed\xa0\x80", "that line is not UTF-8, it was not sent"),
        (b"a\x1bb", "that line holds control characters, it was not sent"),
        (b"a\rb", "that line holds control characters, it was not sent"),
        (b"\x00", "that line holds control characters, it was not sent"),
        ("\x85".encode(), "that line holds control characters, it was not sent"),
    ],
)
async def test_a_bad_line_is_one_sentence_and_the_next_is_read(raw: bytes, reason: str) -> None:
    assert await lines(raw + b"\nnext\n") == [BadLine(reason), "next"]


@pytest.mark.anyio
async def test_an_input_that_breaks_has_ended() -> None:
    assert await LineReader(Gone(), LONGEST).next() is None


@pytest.mark.anyio
async def test_nothing_is_read_before_it_is_asked_for() -> None:
    stream = io.BytesIO(b"one\ntwo\n")
    reader = LineReader(stream, LONGEST)
    reader.ask()
    reader.ask()
    assert await reader.next() == "one"
    assert stream.tell() == len(b"one\n")


@pytest.mark.anyio
async def test_progress_is_told_in_constant_words_and_only_to_who_may_know(tmp_path: Path) -> None:
    shown: list[str] = []

    async def show(text: str) -> None:
        shown.append(text)

    async with running(tmp_path) as typist:
        tools = frozenset(tool.name for tool in typist.app.gate.tools)
        view = ConsoleView(typist.app.store.sessions, typist.sid, show, tools)
        await view.open(PUBLIC)
        await typist.say("hello")
        await view.follow(PUBLIC)
        assert shown == []
        await typist.say(bang("read_file", path="confidential/pipeline.md"))
        await typist.say(note("guest", "x"))
        await typist.say(bang("forged_name"))
        low = ConsoleView(typist.app.store.sessions, typist.sid, show, tools)
        await low.open(PUBLIC)
        (history,) = shown
        assert history.startswith(f"· going on, taint {ABOVE}\nyou: hello\n  You said: hello\nyou: !read_file")
        assert "Veldhaven" not in history
        shown.clear()
        await view.follow(parse("RESTRICTED~"))
        assert shown == [
            "── taint PUBLIC → CONFIDENTIAL~ by read_file ──",
            "· read_file allowed, taint CONFIDENTIAL~",
            "· message refused by no_write_down",
            "· a call refused by unknown_is_worst",
        ]
