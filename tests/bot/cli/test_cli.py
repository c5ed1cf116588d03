"""The command line's parts that need no process of their own: lines, progress, who sits there, how it ends."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot import __main__ as entry
from bot.cli import identity
from bot.cli.console import BadLine, ConsoleView, LineReader
from bot.cli.output import table
from bot.core.errors import BusyError, OperatorError, StoreGoneError
from policy.labels import PUBLIC, parse
from tests.bot.kit import bang, note
from tests.harness import running

LONGEST = 10


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


class Gone(io.BytesIO):
    def readline(self, size: int | None = -1, /) -> bytes:
        raise OSError


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
        assert history.startswith("· going on, taint CONFIDENTIAL~\nyou: hello\n  You said: hello\nyou: !read_file")
        assert "Veldhaven" not in history
        shown.clear()
        await view.follow(parse("RESTRICTED~"))
        assert shown == [
            "· read_file allowed, taint CONFIDENTIAL~",
            "· message refused by no_write_down",
            "· a call refused by unknown_is_worst",
        ]


@pytest.mark.anyio
async def test_a_stranger_at_the_console_learns_one_sentence(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as typist:
        typist.account = "console:user-eve"
        told = [(await typist.say(text)).strip() for text in ("hello", "/status", "/taint", "hello?")]
        # The more often he tries, the more seldom he is answered.
        assert told == ["you are not known here", "you are not known here", "", "you are not known here"]


def test_who_owns_the_data_directory_is_the_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity.person(tmp_path) == "owner"
    assert identity.account("owner") == "console:owner"
    real = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    monkeypatch.setenv("LOGNAME", "owner")
    assert identity.person(tmp_path) == "user-owner"


def test_a_table_has_aligned_columns_and_nothing_a_terminal_obeys() -> None:
    assert table([("a", "b"), ("long", "\x1b[2J"), ("x\ny", "")]) == ["a     b", "long  \\x1b[2J", "x y"]


@pytest.mark.parametrize(
    "error,code,told",
    [
        (OperatorError("broken", next_step="mend it"), 2, "broken\nmend it\n"),
        (ExceptionGroup("two", [ExceptionGroup("in", [StoreGoneError("gone")]), ValueError()]), 2, "gone\n"),
        (BusyError(), 1, "busy, try again in a moment\n"),
        (BrokenPipeError(), 0, ""),
        (ExceptionGroup("pipes", [BrokenPipeError()]), 0, ""),
    ],
)
def test_an_error_ends_with_one_sentence_and_its_code(
    error: Exception, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(_: list[str]) -> None:
        raise error

    assert entry.run([], command=failing) == code
    assert capsys.readouterr().err == told


def test_an_error_of_ours_is_not_hidden() -> None:
    def failing(_: list[str]) -> None:
        raise ExceptionGroup("ours", [ValueError("a bug")])

    with pytest.raises(ExceptionGroup):
        entry.run([], command=failing)


def exits() -> Iterator[tuple[BaseException, int]]:
    yield SystemExit(3), 3
    yield SystemExit(None), 0
    yield SystemExit("said"), 1
    yield KeyboardInterrupt(), 130


@pytest.mark.parametrize("ended,code", list(exits()))
def test_every_way_to_end_has_its_code(ended: BaseException, code: int) -> None:
    def ending(_: list[str]) -> None:
        raise ended

    assert entry.run([], command=ending) == code
    assert entry.run([], command=lambda _: None) == 0
