"""The entry point: runs the command line, and turns an error that ends it into one sentence and an exit code."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Final, cast

from bot.core.errors import EXIT_OPERATOR, LockgateError, OperatorError, StoreError

EXIT_INTERRUPTED: Final = 130
EXIT_UNEXPECTED: Final = 1


def main() -> None:
    """Run `lockgate` with the process's arguments and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str], command: Callable[[list[str]], object] | None = None) -> int:
    """Carry out a command line and return its exit code; errors are written to standard error.

    `command` takes the arguments; the default is the command line itself.
    """
    try:
        (command or _command_line)(arguments)
    except SystemExit as ended:
        return _flushed(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (LockgateError, OSError, ExceptionGroup) as error:
        return _told(error)
    return _flushed(0)


def _command_line(arguments: list[str]) -> None:
    from bot.app.early import early_store

    # A command without a log of its own tells failures itself; Python would write them to standard error once more.
    logging.getLogger().addHandler(logging.NullHandler())
    with early_store(arguments, os.environ):
        from bot.cli.main import app

        app(arguments, prog_name="lockgate")


def _told(error: Exception) -> int:
    """Report the error that ended the program: in one sentence if someone can mend it, else as it is."""
    causes = tuple(_leaves(error))
    if all(isinstance(cause, BrokenPipeError) for cause in causes):
        return _flushed(0)
    for cause in causes:
        if isinstance(cause, LockgateError):
            next_step = f"\n{cause.next_step}" if cause.next_step else ""
            sys.stderr.write(f"{cause}{next_step}\n")
            return EXIT_OPERATOR if isinstance(cause, OperatorError | StoreError) else EXIT_UNEXPECTED
    raise error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _flushed(code: int) -> int:
    """Flush the output; a reader that left early is not an error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = None  # pyright: ignore[reportAttributeAccessIssue] - the interpreter flushes it again at exit
    return code


if __name__ == "__main__":
    main()
