"""How the command line ends: one sentence and its code."""

from collections.abc import Iterator

import pytest

from bot import __main__ as entry
from bot.core.errors import BusyError, OperatorError, StoreGoneError


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
