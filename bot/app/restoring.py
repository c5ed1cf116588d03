"""Opens an installation to put a backup back: no policy is put in force, no platform is asked, and no key is made."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.app.files import opened_files
from bot.app.keys import Secrets
from bot.app.stores import opened_store
from bot.audit.anchors import AnchoredChains
from bot.audit.chain import AnchorFile, Head
from bot.audit.keys import RetiredKeys
from bot.config.model import Config
from bot.core.clock import SystemClock
from bot.core.errors import OperatorError
from bot.core.ids import Ids
from bot.files.kept import KeptFiles
from bot.operations.backups.backup import secret_files
from bot.operations.backups.folders import ANCHORS, ReturnedFiles
from bot.operations.backups.labelled import ReturnedLabels
from bot.operations.backups.restore import BackupRestorer


@dataclass(frozen=True, slots=True)
class Restoring:
    """The part that puts a backup back, and the audit chains to check afterwards."""

    restorer: BackupRestorer
    chains: AnchoredChains


@asynccontextmanager
async def restoring(
    config: Config, secrets: Secrets, environment: Mapping[str, str] = os.environ
) -> AsyncGenerator[Restoring]:
    """Open the store of a configuration for a restore, and close it in the end.

    Raises OperatorError: the data directory, its anchors, the store or the key of the bucket cannot be used.
    """
    earlier = await asyncio.to_thread(_earlier, config, secrets)
    files = ReturnedFiles(config.data_dir, await asyncio.to_thread(secret_files, config))
    bucket = await asyncio.to_thread(_bucket, config, environment)
    labelled = ReturnedLabels(files.stage, bucket, lambda: config.policy.top)
    store = await opened_store(config, secrets, SystemClock(), restoring=True)
    try:
        chains = AnchoredChains(store.audit, config.data_dir / ANCHORS, secrets.audit)
        yield Restoring(BackupRestorer(store, chains, files, labelled, earlier=earlier), chains)
    finally:
        await store.close()


def _bucket(config: Config, environment: Mapping[str, str]) -> KeptFiles | None:
    """Return the bucket that keeps files, None where they are in the data directory. Raises ConfigError."""
    if config.files.bucket is None:
        return None
    return opened_files(config, environment, Ids(), lambda: config.policy.top)


def _earlier(config: Config, secrets: Secrets) -> Mapping[str, Head] | None:
    """Return the anchored heads that are there, None if they cannot be read."""
    try:
        valid = RetiredKeys(config.data_dir, secrets.audit).valid
        return dict(AnchorFile(config.data_dir / ANCHORS, valid).heads())
    except OperatorError:
        return None
