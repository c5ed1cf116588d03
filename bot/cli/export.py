"""`lockgate export`: a session as a signed file, and whether such a file is as it was made."""

import asyncio
import os
import stat
import sys
from pathlib import Path
from typing import Final

from bot.access.decision_context import DecisionContext
from bot.cli import identity
from bot.cli.identity import as_owner
from bot.cli.output import print_lines
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.gate.results import explained
from bot.operations.export import EXPORTED
from bot.sessions.exports import VerifiedExport
from channels.console import OWNER

EXIT_CHANGED: Final = 3
_PRIVATE: Final = 0o600


async def export(config: Config, sid: str, out: Path | None) -> None:
    """Write a session's export to a new file, for its owner alone, or to the standard output.

    Raises OperatorError: there is no such session that the owner is cleared for, a rule refuses it, or the file cannot
    be made.
    """
    async with as_owner(config) as (app, caller):
        state = await app.store.sessions.state(sid)
        if state is None or not state.visibility.flows_to(caller.clearance):
            raise OperatorError("there is no such session", next_step="`lockgate sessions list` names them")
        address = identity.address(OWNER)
        standing = DecisionContext.of_caller(
            caller, address, await app.gate.readers.destination(address), app.clock.wall_ms()
        )
        if out is not None and await asyncio.to_thread(os.path.lexists, out):
            raise _exists(out)
        made = await app.exporter.export(standing, state, operator=True)
        if made.text is None:
            raise OperatorError(explained(made.decision, standing.reader, "export", EXPORTED))
    if out is None:
        sys.stdout.write(made.text)
        return
    await asyncio.to_thread(_write, out, made.text)
    print_lines([f"exported {made.entries} entries of {sid}, labelled {made.label}, to {out}"])


async def verify(config: Config, path: Path) -> int:
    """Check a file and print what was found; return 3 if it is not as it was made.

    Raises OperatorError: it cannot be read.
    """
    file = await asyncio.to_thread(_read, path)
    async with as_owner(config) as (app, _):
        found = app.exporter.verified(file)
    if isinstance(found, VerifiedExport):
        print_lines([f"{path}: intact, {found.entries} entries of {found.sid}"])
        return 0
    print_lines([f"{path}: not as it was exported, {found.reason}"])
    return EXIT_CHANGED


def _exists(path: Path) -> OperatorError:
    return OperatorError(f"`{path}` is there already", next_step="name another file, none is overwritten")


def _write(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise _unusable("write", path, error) from error
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # Half an export is none.
        path.unlink(missing_ok=True)
        raise _unusable("write", path, error) from error


def _read(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OperatorError(f"`{path}` is not a file", next_step="name one that `lockgate export` made")
        return path.read_bytes()
    except OSError as error:
        raise _unusable("read", path, error) from error


def _unusable(what: str, path: Path, error: OSError) -> OperatorError:
    reason = (error.strerror or "unknown error").lower()
    return OperatorError(f"cannot {what} `{path}`, {reason}", next_step="mend access to it or name another file")
