"""The embedded store begins to load before the command line is imported: with many sessions both take seconds.

Only for the two commands that answer people, and only where there are records to load. It imports little.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bot.app.first_run import require_private
from bot.config.file.source import place_of
from bot.core.errors import OperatorError, StoreError
from bot.store.servers.embedded_server import Supervisor

_SERVING: Final = frozenset({"chat", "run"})
_CONFIG: Final = "--config"
_HELP: Final = "--help"


@contextmanager
def early_store(arguments: Sequence[str], environment: Mapping[str, str]) -> Generator[None]:
    """Let the store of a command line begin to load while the block carries the command out, and leave it in the end.

    The block reports a configuration or a store that cannot be used.
    """
    supervisor: Supervisor | None = None
    with suppress(OperatorError, StoreError, OSError):
        data = _serving_in(arguments, environment)
        if data is not None and (data / "store" / "appendonlydir").is_dir():
            require_private(data)
            supervisor = Supervisor(data)
            supervisor.begin()
    try:
        yield
    finally:
        if supervisor is not None:
            supervisor.detach_blocking()


def _serving_in(arguments: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    """Return the data directory of a command that answers people from an embedded store, None for any other."""
    rest = list(arguments)
    config: Path | None = None
    while rest and rest[0].startswith(_CONFIG):
        name, _, value = rest.pop(0).partition("=")
        if name != _CONFIG or not (value or rest):
            return None
        config = Path(value or rest.pop(0))
    if not rest or rest[0] not in _SERVING or _HELP in rest:
        return None
    place = place_of(config, environment)
    return place.data_dir if place.embedded else None
