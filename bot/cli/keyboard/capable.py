"""Says whether a terminal can be edited on, without importing the editor's library."""

import sys
from collections.abc import Mapping
from typing import Final

_PLAIN: Final = frozenset({"", "dumb", "unknown"})


def editable(environment: Mapping[str, str]) -> bool:
    """Say whether standard input and output are a terminal that obeys control sequences."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environment.get("TERM", "").lower() not in _PLAIN
