"""Asking at a terminal, or on a pipe line by line, and taking the default for everything with `--yes`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from bot.cli.terminal.lines import BadLine, Lines
from bot.core.errors import OperatorError
from policy.errors import meant

_T = TypeVar("_T")

Check = Callable[[str], str]
"""Return the answer that a text stands for. Raises ValueError: it stands for none, with a sentence for people."""

ENDED: Final = "the input ended, and nothing was written"
SCRIPTS: Final = "answer at a terminal, or give the answers as options: `lockgate init --help`"
_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"n", "no"})


class Asking(Protocol):
    """Where answers come from."""

    @property
    def asks(self) -> bool:
        """Whether a person is asked."""
        ...

    async def text(self, question: str, default: str, check: Check) -> str:
        """Return a checked answer; an empty line is the default. Raises OperatorError: there is none."""
        ...

    async def beside(self, waiting: Awaitable[_T]) -> _T | None:
        """Wait for something, None if an empty or any other line comes before. Raises OperatorError: as `text`."""
        ...


class Keyboard:
    """Asks a person, whose lines come from `lines`; `show` writes a text as it is."""

    asks = True

    def __init__(self, lines: Lines, show: Callable[[str], None]) -> None:
        self._lines = lines
        self._show = show

    async def text(self, question: str, default: str, check: Check) -> str:
        """Ask until an answer fits."""
        offered = f" [{default}]" if default else ""
        while True:
            self._show(f"{question}{offered}> ")
            line = await self._line()
            try:
                return check(line.strip() or default)
            except ValueError as error:
                self._show(f"  {_shown(str(error))}\n")

    async def beside(self, waiting: Awaitable[_T]) -> _T | None:
        """Wait for something or a line."""
        async with asyncio.TaskGroup() as tasks:
            coming, line = tasks.create_task(_awaited(waiting)), tasks.create_task(self._line())
            done, others = await asyncio.wait({coming, line}, return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                other.cancel()
        if coming in done:
            return coming.result()
        line.result()
        return None

    async def _line(self) -> str:
        while isinstance(line := await self._lines.next(), BadLine):
            self._show(f"  {_shown(line.reason)}\n> ")
        if line is None:
            self._show("\n")
            raise OperatorError(ENDED, next_step=SCRIPTS)
        return line


class Defaults:
    """Takes the default for every question."""

    asks = False

    async def text(self, question: str, default: str, check: Check) -> str:
        """Return the default. Raises OperatorError: it does not fit."""
        try:
            return check(default)
        except ValueError as error:
            raise OperatorError(f"{question.lower()}: {error}", next_step=SCRIPTS) from None

    async def beside(self, waiting: Awaitable[_T]) -> _T | None:
        """Wait for it."""
        return await waiting


async def chosen(asking: Asking, question: str, options: Sequence[str], default: str) -> str:
    """Ask for one of several words; the beginning of one is enough."""

    def check(text: str) -> str:
        found = [one for one in options if text and one.startswith(text.lower())]
        exact = [one for one in found if one == text.lower()]
        if len(exact or found) != 1:
            raise ValueError(f"choose one of {', '.join(options)}{meant(text, options)}")
        return (exact or found)[0]

    return await asking.text(f"{question}: {', '.join(options)}", default, check)


async def agreed(asking: Asking, question: str, *, default: bool) -> bool:
    """Ask for a yes or a no."""

    def check(text: str) -> str:
        if text.lower() not in _YES | _NO:
            raise ValueError("answer yes or no")
        return text.lower()

    return await asking.text(question, "yes" if default else "no", check) in _YES


async def given(asking: Asking, option: str | None, question: str, *, default: str, check: Check) -> str:
    """Return the answer that an option of the command line gives, else ask.

    Raises OperatorError: the option's value does not fit.
    """
    if option is None:
        return await asking.text(question, default, check)
    try:
        return check(option)
    except ValueError as error:
        # Its value is not repeated: it may be a key that was pasted.
        raise OperatorError(str(error), next_step=SCRIPTS) from None


async def _awaited(waiting: Awaitable[_T]) -> _T:
    return await waiting


def _shown(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
