"""`lockgate files`: copies between local folders and a bucket, files put in by the operator, and their labels."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bot.cli.identity import as_owner
from bot.cli.output import amount, print_json, print_lines, table
from bot.cli.ready import require_none
from bot.config.model import Config
from bot.core.clock import SystemClock
from bot.core.errors import EXIT_OPERATOR
from bot.operations.files.copying import CopiedFiles, CopyFault
from bot.operations.files.keeper import LabelledPath
from bot.operations.files.places import FilesPlace

if TYPE_CHECKING:
    from pydantic import JsonValue

COPIED: Final = "copied {} and {}, {} bytes; {} there already; each file was read back with its label"
WOULD: Final = "would copy {} and {}, {} bytes; {} there already"
EXTRA: Final = "{} files and folders are there alone, such as {}"
LEFT: Final = "{} were not copied; nothing is lost, the source is as it was"
NEXT: Final = MappingProxyType(
    {
        FilesPlace.BUCKET: "next: start `lockgate run`, which uses the bucket while `files.bucket` is in config.yaml",
        FilesPlace.LOCAL: "next: take `files.bucket` out of config.yaml, then start `lockgate run`",
    }
)
FAULTS: Final = MappingProxyType(
    {
        CopyFault.UNREADABLE: "{}: it cannot be read, mend access to it",
        CopyFault.UNWRITABLE: "{}: it cannot be written there, see that no folder has that name",
        CopyFault.DIFFERENT: "{}: another file of that name is there; remove it, or replace all of them with --replace",
        CopyFault.CHANGED: "{}: it was read back otherwise, see that nothing writes there and no names differ by case",
    }
)
DONE: Final = "{}: {}"
THERE: Final = "{}: another file of that name is there; replace it with --replace"
CHANGED: Final = "{}: it was changed meanwhile; repeat the command"
_SHOWN: Final = 50


async def copy(config: Config, to: FilesPlace, *, replaces: bool, dry: bool, as_json: bool) -> int:
    """Copy all files and print the outcome; return 2 if some are not there alike.

    Raises:
        OperatorError: there is no bucket, or processes work here.
        StoreError: the store cannot be used.
    """
    if not dry:
        await asyncio.to_thread(require_none, config.data_dir, SystemClock())
    async with as_owner(config, looking=dry) as (app, caller):
        done = await app.file_keeper().copy(to, caller.principal, replaces=replaces, dry=dry)
    if as_json:
        problems: list[JsonValue] = [{"path": one.path, "fault": one.fault.value} for one in done.problems]
        counts = {"files": done.files, "folders": done.folders, "bytes": done.size, "present": done.present}
        print_json({"to": to.value, "dry_run": dry, **counts, "problems": problems, "extra": list(done.extra)})
    else:
        print_lines(_told(done, dry=dry))
        print_lines([] if dry or done.problems else [NEXT[to]])
    return EXIT_OPERATOR if done.problems else 0


async def put(config: Config, local: Path, path: str, label: str | None, *, replaces: bool) -> int:
    """Put files in and print them; return 2 if another file of a name is there.

    Raises:
        OperatorError: a path or the label cannot be used.
        StoreError: the store cannot be used.
    """
    async with as_owner(config) as (app, caller):
        found = await app.file_keeper().put(local, path, label, caller.principal, replaces=replaces)
    return _print(found, THERE)


async def label(config: Config, path: str, text: str) -> int:
    """Label files and print them; return 2 if one was changed meanwhile.

    Raises:
        OperatorError: the path or the label cannot be used.
        StoreError: the store cannot be used.
    """
    async with as_owner(config) as (app, caller):
        found = await app.file_keeper().label(path, text, caller.principal)
    return _print(found, CHANGED)


async def listed(config: Config, path: str, *, as_json: bool) -> None:
    """Print the files of a folder that the owner is cleared for. Raises OperatorError: there is no such folder."""
    async with as_owner(config, looking=True) as (app, caller):
        found = await app.file_keeper().listed(path, caller.clearance)
    if as_json:
        print_json([{"path": one.path, "label": str(one.label)} for one in found])
        return
    print_lines(table([("path", "label"), *((one.path, str(one.label)) for one in found)]))


def _print(found: Iterable[LabelledPath], otherwise: str) -> int:
    """Print files with their labels; return the exit code."""
    print_lines((DONE if one.there else otherwise).format(one.path, one.label) for one in found)
    return 0 if all(one.there for one in found) else EXIT_OPERATOR


def _told(done: CopiedFiles, *, dry: bool) -> Iterator[str]:
    files, folders = amount(done.files, "file"), amount(done.folders, "folder")
    yield (WOULD if dry else COPIED).format(files, folders, f"{done.size:,}", done.present)
    yield from (FAULTS[one.fault].format(one.path) for one in done.problems[:_SHOWN])
    if done.extra:
        yield EXTRA.format(len(done.extra), ", ".join(f"`{path}`" for path in done.extra[:5]))
    if done.problems:
        yield LEFT.format(len(done.problems))
