"""`lockgate export` and `lockgate import`: a session as a signed file, checking one, and bringing it back."""

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
from bot.operations.importing import ImportRefusedError
from bot.sessions.exports import MOST_BYTES, BrokenExport, VerifiedExport
from channels.console import OWNER
from policy.errors import nearest

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
        made = await app.exporter.export(standing, state, whole=True)
        if made.text is None:
            raise OperatorError(explained(made.decision, standing.reader, "export", EXPORTED))
    if out is None:
        sys.stdout.write(made.text)
        return
    await asyncio.to_thread(_write, out, made.text)
    print_lines([f"exported {made.entries} entries of {sid}, labelled {made.label}, to {out}"])


async def verify(config: Config, path: Path) -> int:
    """Check a file and print the result; return 3 if it was changed.

    Raises OperatorError: it cannot be read.
    """
    file = await asyncio.to_thread(_read, path)
    async with as_owner(config, looking=True) as (app, _):
        found = app.exporter.verified(file)
        whole = isinstance(found, VerifiedExport)
        signer = await asyncio.to_thread(app.importer.signer, found.key) if whole else None
    if isinstance(found, BrokenExport):
        print_lines([f"{path}: not as it was exported, {found.reason}"])
        return EXIT_CHANGED
    if signer is None:
        print_lines([f"{path}: signed by an installation that is not known here, its key is {found.key}"])
        return EXIT_CHANGED
    by = f", signed by `{signer}`" if signer else ""
    print_lines([f"{path}: intact, {found.entries} entries of {found.sid}{by}"])
    return 0


async def public_key(config: Config) -> None:
    """Print the public key that signs the exports of this installation, for others to name under `imports.keys`."""
    async with as_owner(config, looking=True) as (app, _):
        print_lines([await asyncio.to_thread(app.exporter.public_key)])


async def bring(config: Config, path: Path, principal: str | None, *, at_top: bool) -> None:
    """Import an export as an archived session, of the owner if no `principal` is named.

    Raises OperatorError: the file cannot be read, is damaged or of a stranger, or is above one of these people.
    """
    file = await asyncio.to_thread(_read, path, MOST_BYTES + 1)
    async with as_owner(config) as (app, caller):
        known = app.gate.document.principals
        if principal is not None and principal not in known:
            raise OperatorError(f"there is no principal `{principal}`{nearest(principal, known)}")
        owner = principal or caller.principal
        try:
            made = await app.importer.bring(file, owner, caller.principal, caller.clearance, at_top=at_top)
        except ImportRefusedError as error:
            raise OperatorError(str(error), next_step=error.next_step) from None
    if made.known:
        print_lines([f"{path} was imported before, as {made.sid}"])
    else:
        print_lines([f"imported {made.entries} entries as {made.sid}, labelled {made.label}, archived"])


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


def _read(path: Path, most: int = -1) -> bytes:
    """Return a file, or as much of it as the first `most` bytes."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OperatorError(f"`{path}` is not a file", next_step="name one that `lockgate export` made")
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise _unusable("read", path, error) from error


def _unusable(what: str, path: Path, error: OSError) -> OperatorError:
    reason = (error.strerror or "unknown error").lower()
    return OperatorError(f"cannot {what} `{path}`, {reason}", next_step="mend access to it or name another file")
