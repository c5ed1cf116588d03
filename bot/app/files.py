"""The labelled files of an application, as its configuration has them: in the data directory, or in a bucket."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from bot.app.first_run import EXAMPLES
from bot.config.model import Config
from bot.core.errors import StoreError
from bot.core.ids import Ids
from bot.files.bucket_access import opened_objects
from bot.files.kept import KeptFiles
from bot.files.local import LocalFiles
from bot.files.port import LabelledFiles, UnavailableError
from bot.operations.files.keeper import FileKeeper
from bot.operations.files.places import FilesPlace
from bot.operations.lifecycle import SessionLifecycle
from bot.sessions.ports.store import Store
from policy.document.model import Document
from policy.labels import Label


def opened_files(config: Config, environment: Mapping[str, str], ids: Ids, top: Callable[[], Label]) -> KeptFiles:
    """Return the labelled files; `top` returns the highest label of the policy in force.

    Raises ConfigError: the library for buckets is not installed, or a variable with the key is not set.
    """
    if config.files.bucket is None:
        return LocalFiles(config.data_dir, top)
    objects = opened_objects(config.files.bucket, environment)
    from bot.files.bucket import BucketFiles

    return BucketFiles(objects, top, ids.op)


def file_keeper(config: Config, files: KeptFiles, document: Callable[[], Document], store: Store) -> FileKeeper:
    """Return the part that moves and labels files for the operator; `files` are those in use."""
    places = {FilesPlace.LOCAL: LocalFiles(config.data_dir, lambda: document().top)}
    bucket = {} if config.files.bucket is None else {FilesPlace.BUCKET: files}
    return FileKeeper(files, {**places, **bucket}, document, store)


async def tidy(files: LabelledFiles, lifecycle: SessionLifecycle) -> None:
    """Put the files of a first run into an empty bucket, and erase the workspaces of sessions that were deleted.

    A store or a bucket that is away is there again at another start.
    """
    with suppress(StoreError, UnavailableError):
        await asyncio.to_thread(files.begin, EXAMPLES)
        await lifecycle.clear()
