"""`lockgate backup` and `lockgate restore`: the data of an installation in one file, and its return."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.access.authorize import Ingress, Refusal, authorize
from bot.audit.anchors import OUTSIDE, AnchoredChains
from bot.audit.chain import Broken
from bot.audit.keys import RetiredKeys
from bot.cli.identity import account, as_owner, person
from bot.cli.output import amount, print_lines
from bot.cli.ready import require_none
from bot.config.model import Config
from bot.core.clock import SystemClock, moment
from bot.core.errors import OperatorError
from bot.operations.backups.archive import ArchiveReader
from bot.operations.backups.restore import CheckedBackup, RestoredBackup
from bot.operations.backups.restore import check as checked
from bot.operations.backups.values import BackupCounts
from policy.request import Role

if TYPE_CHECKING:
    from bot.app.keys import Secrets

MADE: Final = "{}: {}"
WITHOUT: Final = "not in it: {}"
LEFT_OUT: Final = "{} links and special files are not in it"
WHOLE: Final = "{}: whole, of {} UTC, by version {}; {}"
RESTORED: Final = "restored {}, as of {} UTC"
ROLLED_BACK: Final = "the audit is as of then; a row of the chain `audit` says that it was restored"
SHORTENED: Final = "chains that end before an anchor kept here, or differ from it: {}"
DENIED: Final = "{} tokens, accounts and chats that were revoked or blocked since stay so"
RENAMED: Final = "`{}` is a folder that had the name of a file, which only a bucket allows"
RIGHTS: Final = "other rights are as of then; compare `lockgate token list` and `lockgate policy who` with your wishes"
STOPPED: Final = "{} with an open turn or waiting messages, which were stopped: {}"
DOUBTFUL: Final = "{} texts waited to be sent and may have been sent since; `/deadletter list` shows them"
ASIDE: Final = "the files that were here are in `{}`"
CONFIGURED: Final = "the configuration of that time is in `restored-config`; compare it with yours"
_TAMPERED: Final = 3


async def backup(config: Config, file: Path, *, files: bool) -> None:
    """Write a backup into a new file, with `files` also the file root and the workspaces.

    Raises:
        OperatorError: the file is there, or something cannot be read or written.
        StoreError: the store cannot be used.
    """
    async with as_owner(config) as (app, caller):
        made = await app.backup().make(file, caller.principal, app.gate.document.digest, files=files)
    print_lines([MADE.format(file, _counted(made.counts))])
    print_lines(WITHOUT.format(one) for one in made.manifest.missing)
    print_lines([LEFT_OUT.format(made.left_out)] if made.left_out > 0 else [])


def check(config: Config, file: Path) -> None:
    """Check a backup and print its counts; nothing is written.

    Raises OperatorError: it was changed or cut off, or another key belongs to it.
    """
    from bot.app.keys import Secrets

    secrets = Secrets.existing(config, os.environ)
    with ArchiveReader(file, _valid(config, secrets)) as reader:
        backup = checked(reader, secrets.needed)
    made = moment(backup.manifest.made)
    print_lines([WHOLE.format(file, made, backup.manifest.version, _counted(backup.counts))])
    print_lines(WITHOUT.format(one) for one in backup.manifest.missing)


async def restore(config: Config, file: Path, *, replaces: bool) -> int:
    """Put a backup back and check all audit chains; return 3 if one does not hold.

    Raises:
        OperatorError: the file is refused, or something is here that must not be replaced.
        StoreError: the store cannot be used.
    """
    from bot.app.keys import Secrets
    from bot.app.restoring import restoring

    actor = await asyncio.to_thread(_owner, config)
    secrets = await asyncio.to_thread(Secrets.existing, config, os.environ)
    with await asyncio.to_thread(ArchiveReader, file, _valid(config, secrets)) as reader:
        backup = await asyncio.to_thread(checked, reader, secrets.needed)
        async with restoring(config, secrets) as opened:
            done = await opened.restorer.restore(reader, backup, actor, replaces=replaces)
            print_lines(_told(done))
            broken, count = await _verified(opened.chains)
    print_lines(f"{name}: tampered with, {one.reason}" for name, one in broken)
    print_lines([f"{count - len(broken)} of {count} chains intact"])
    return _TAMPERED if broken else 0


def _valid(config: Config, secrets: "Secrets") -> tuple[bytes, ...]:
    """Return the audit keys that are not retired here."""
    return RetiredKeys(config.data_dir, secrets.audit).valid()


def _owner(config: Config) -> str:
    """Return the principal who restores.

    Raises OperatorError: they are not the owner, or processes run on the data directory.
    """
    data = config.data_dir
    who = account(person(data if data.exists() else data.parent))
    caller = authorize(config.policy, who, Ingress.COMMAND, Role.OWNER)
    if isinstance(caller, Refusal):
        step = "run this as the user who owns the data directory"
        raise OperatorError(f"{who} is not the owner here", next_step=step)
    require_none(data, SystemClock())
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    return caller.principal


async def _verified(chains: AnchoredChains) -> tuple[list[tuple[str, Broken]], int]:
    names = sorted({OUTSIDE, *await chains.names()})
    results = [(name, await chains.verify(name)) for name in names]
    return [(name, one) for name, one in results if isinstance(one, Broken)], len(results)


def _told(done: RestoredBackup) -> Iterator[str]:
    backup: CheckedBackup = done.backup
    yield RESTORED.format(_counted(backup.counts), moment(backup.manifest.made))
    yield ROLLED_BACK
    if done.shortened:
        yield SHORTENED.format(done.shortened)
    if done.denied:
        yield DENIED.format(done.denied)
    yield from (RENAMED.format(path) for path in done.renamed)
    yield RIGHTS
    if done.stops:
        yield STOPPED.format(amount(done.stops, "session"), _listed(done.stopped, done.stops))
    if done.doubtful:
        yield DOUBTFUL.format(done.doubtful)
    if done.aside:
        yield ASIDE.format(done.aside)
    if done.configured:
        yield CONFIGURED
    yield from (WITHOUT.format(one) for one in backup.manifest.missing)


def _counted(counts: BackupCounts) -> str:
    sessions, records, files = counts.sessions, counts.keys, counts.files
    return f"{amount(sessions, 'session')}, {amount(records, 'record')} in the store and {amount(files, 'file')}"


def _listed(some: Iterable[str], count: int) -> str:
    names = list(some)
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
