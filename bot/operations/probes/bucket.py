"""Trying the bucket: whether it keeps the guarantees that labelled files need."""

import asyncio
from collections.abc import Mapping

from bot.config.files import BucketSettings
from bot.config.model import Config
from bot.core.errors import ConfigError
from bot.core.ids import Ids
from bot.files.bucket_access import CONDITIONS, opened_objects, probed
from bot.files.port import UnavailableError
from bot.operations.diagnostics import Diagnosis


async def bucket(config: Config, environment: Mapping[str, str], ids: Ids) -> list[Diagnosis]:
    """Write, read and delete an object under a name of its own, if files are in a bucket."""
    settings = config.files.bucket
    return [] if settings is None else await asyncio.to_thread(_tried, settings, environment, ids)


def _tried(settings: BucketSettings, environment: Mapping[str, str], ids: Ids) -> list[Diagnosis]:
    subject = "probe of the bucket"
    try:
        lacking = list(probed(opened_objects(settings, environment), ids.op()))
    except (ConfigError, UnavailableError) as error:
        return [Diagnosis(subject, str(error), error.next_step)]
    if not lacking:
        return [Diagnosis(subject, note="it writes on a condition and keeps metadata")]
    return [Diagnosis(subject, problem, CONDITIONS) for problem in lacking]
