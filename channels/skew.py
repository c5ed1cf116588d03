"""Whether the clock of this machine is right, by the time that a platform's answers bear."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from channels.base import Trouble

_SKEW: Final = 60
"""Seconds; answers take their time, too."""


def skewed(headers: Mapping[str, str], now_ms: int, meant: str) -> tuple[Trouble, ...]:
    """Return what is wrong with a clock that shows `now_ms`, in milliseconds since 1970, nothing if it is right.

    `headers` are those of an answer that just came, by names in lower case. `meant` says what a wrong clock does there.
    """
    try:
        away = now_ms / 1000 - parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (TypeError, ValueError):
        return ()
    if abs(away) <= _SKEW:
        return ()
    told = f"the clock of this machine is {abs(away):.0f} s {'ahead' if away > 0 else 'behind'}"
    return (Trouble(told, f"let it be set over the network, {meant}"),)
