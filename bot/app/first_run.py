"""The first run: the data directory, and a few classified files so that the gate can be seen working."""

import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bot.core.errors import OperatorError
from bot.files.areas import Area, begin_root

_PRIVATE: Final = 0o700

RECORDS: Final = "workspace"
"""Name of the folder within the data directory that the records of runs are committed in, unless another is named."""

EXAMPLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "public/welcome.md": """# Welcome

Harbour & Lock builds control systems for canals and small ports. Our office is at Quay Street 4 and is open
Monday to Friday, 8:30 to 17:00. Write to hello@harbourlock.example for anything else.
""",
        "internal/handbook.md": """# Staff handbook, the short version

- The weekly meeting is on Tuesday at 9:30 in the big room. Notes go to the shared folder the same day.
- Travel under 400 is booked by yourself, above that ask your lead first.
- The staging lock in Delft is free for tests after 18:00; write your name on the board beside it.
""",
        "confidential/pipeline.md": """# Sales pipeline, this quarter

| customer          | work                        | value     | stage             |
|-------------------|-----------------------------|-----------|-------------------|
| Port of Veldhaven | gate controls, two chambers | 1,240,000 | contract in draft |
| Oostkanaal        | sensor refit                |   310,000 | offer sent        |
| Brightwater Ltd   | acquisition talks           | not fixed | board only        |
""",
    }
)
"""The files of a first run, by their paths in the file root."""


def seed(data_dir: Path, *, examples: bool = True) -> None:
    """Make the data directory (for its owner alone) and the files of a first run; nothing there is touched.

    The files are written only where there is no file root yet, so that one deleted later stays deleted, and without
    `examples` not at all. Several processes may do so at once.

    Raises OperatorError: the directory cannot be made or used.
    """
    with _made(data_dir):
        (data_dir / Area.SESSIONS).mkdir(mode=_PRIVATE, exist_ok=True)
        if examples:
            begin_root(data_dir, EXAMPLES)


def make_bare(data_dir: Path) -> None:
    """Make the data directory, and nothing in it, for a command that only looks. Raises OperatorError: as `seed`."""
    with _made(data_dir):
        pass


@contextmanager
def _made(data_dir: Path) -> Generator[None]:
    try:
        data_dir.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        require_private(data_dir)
        yield
    except FileExistsError:
        raise OperatorError(f"{data_dir}: not a directory", next_step="name another one with `data_dir`") from None
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise OperatorError(f"{data_dir}: cannot be used, {reason}", next_step="check its permissions") from None


def require_private(data_dir: Path) -> None:
    """Refuse a data directory that others may change.

    Raises OperatorError: group or others may write there.
    """
    mode = data_dir.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OperatorError(f"{data_dir}: others may write there", next_step=f"run `chmod 700 {data_dir}`")
