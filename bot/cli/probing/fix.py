"""`lockgate doctor --fix`: mending safe things, and saying of each that it was done.

A change is safe that takes nothing away from people. Modes become narrower, and a folder is made where none is. A
webhook goes that this bot set or that fails.
"""

import stat
from collections.abc import Sequence

from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.operations.diagnostics import Diagnosis
from bot.operations.probes.machine import narrow, open_files
from channels.port import Platform, Probing


def files(config: Config) -> list[Diagnosis]:
    """Make the data directory if there is none, and take rights of others off it and off secrets. It blocks.

    No link among the secrets is followed.

    Raises OperatorError: one of them cannot be changed by this user.
    """
    done = list[Diagnosis]()
    try:
        if not config.data_dir.exists():
            config.data_dir.mkdir(mode=0o700, parents=True)
            done.append(fixed("data directory", f"made {config.data_dir}"))
        elif config.data_dir.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            config.data_dir.chmod(0o700)
            done.append(fixed("data directory", f"`chmod 700 {config.data_dir}`"))
        for path, wanted in open_files(config):
            if narrow(path, wanted):
                done.append(fixed("file modes", f"`chmod {wanted:o} {path}`"))
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        told = f"`{error.filename}` cannot be mended, {reason}"
        raise OperatorError(told, next_step="run this as the user who owns it") from None
    return done


async def platforms(made: Sequence[Platform]) -> list[Diagnosis]:
    """Mend safe things at platforms."""
    return [
        fixed(f"channel {adapter.name}", done)
        for adapter in made
        if isinstance(adapter, Probing)
        for done in await adapter.mend()
    ]


def fixed(subject: str, done: str) -> Diagnosis:
    """Return the finding for a thing that was mended."""
    return Diagnosis(subject, details={"fixed": done})
