"""How a simulator is started by hand: its options, and one line with the next step in the place of a traceback."""

import argparse
import asyncio
import errno
import os
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NoReturn, cast

MISUSED = 2
"""The exit code where the person has to mend something."""


class Options(argparse.ArgumentParser):
    """Options of a simulator; a wrong one ends it with one line."""

    def __init__(self, about: str | None, port: int) -> None:
        super().__init__(description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
        self.add_argument("--port", type=_port, default=port, help="the port to serve on, 0 for any")

    def error(self, message: str) -> NoReturn:
        """End with the fault and how to see the options."""
        ended(f"{message.replace(chr(39), chr(96))}: `--help` lists the options")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"`{text}` is no port, name one from 0 to 65535")
    return int(text)


def address(text: str) -> str:
    """Return an address to send to, as an option has it; empty for none."""
    if text and not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"`{text}` is no address, begin it with http:// or https://")
    return text


def play(playing: Coroutine[Any, Any, None], port: int) -> None:
    """Play until it ends or is interrupted; a port that cannot be had ends it with one line."""
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(playing)
    except (OSError, ExceptionGroup) as error:
        fault = _fault(error)
        if fault is None:
            raise
        ended(_told(fault, port))


def _fault(error: BaseException) -> OSError | None:
    """Return the fault of the machine in an error or a group of them, None if there is none."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_fault, cast("BaseExceptionGroup[BaseException]", error).exceptions)), None)
    return error if isinstance(error, OSError) else None


def _told(fault: OSError, port: int) -> str:
    match fault.errno:
        case errno.EADDRINUSE:
            return f"port {port} is taken: end the program there, or choose another with `--port`"
        case errno.EACCES:
            return f"port {port} is not for this user: choose one above 1023 with `--port`"
        case _:
            reason = os.strerror(fault.errno).lower() if fault.errno else "unknown error"
            return f"port {port} cannot be listened at, {reason}: choose another with `--port`"


def ended(line: str) -> NoReturn:
    """End the program with a line on standard error."""
    sys.stderr.write(f"{line}\n")
    raise SystemExit(MISUSED)
