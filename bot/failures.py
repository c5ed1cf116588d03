"""The failures of the last hour, for `/doctor`: models, platforms, servers and the store, in all processes of a store.

They come from logged warnings that name a `subject`. A failure has a label: that of the session it happened for, or of
the configuration if no session is concerned; if neither is known, the highest. The number of repetitions is not shown.
Processes share their failures in the vault, for as long as they count.
"""

import json
import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from bot.access.labelling import CONFIGURED
from bot.core.clock import Clock
from bot.core.logs import OURS, in_session
from channels.port import ChannelVault, LostValueError, VaultError
from policy.errors import LabelTextError
from policy.labels import Label, parse

HOUR: Final = 3600.0
"""For how many seconds a failure is reported."""

_MOST: Final = 100
_PREFIX: Final = "failures/"
_OPEN: Final = ("channels.", "bot.store.")
"""Loggers of failures that concern everyone, unless they happen within a session."""


_Kind: TypeAlias = tuple[str, str, Label | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure.

    Args:
        subject: The name of the thing that failed.
        cause: Why it failed.
        address: Its address, empty for none.
        step: How the operator mends it, empty if they need not.
        label: Its label, None if unknown.
        at: Its time, in seconds since 1970.
    """

    subject: str
    cause: str
    address: str
    step: str
    label: Label | None
    at: float

    @property
    def where(self) -> str:
        """The thing that failed, and its address."""
        return f"{self.subject} at {self.address}" if self.address else self.subject

    @property
    def kind(self) -> _Kind:
        """The key of failures that are reported as one, the newest of them."""
        return self.where, self.cause, self.label


class Failures(logging.Handler):
    """Takes failures from the log. `name` is this process's at the store."""

    def __init__(self, vault: Callable[[], ChannelVault], clock: Clock, name: str) -> None:
        super().__init__(logging.WARNING)
        self._vault = vault
        self._clock = clock
        self._key = f"{_PREFIX}{name}"
        self._known: dict[_Kind, Failure] = {}
        self._to_tell: dict[_Kind, Failure] = {}
        self._shared = 0
        self._taken = 0

    @contextmanager
    def listening(self) -> Generator[None]:
        """Take failures from the lines that are logged in a block."""
        loggers = [logging.getLogger(name) for name in OURS]
        for logger in loggers:
            logger.addHandler(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a failure."""
        given = record.__dict__
        subject, cause = given.get("subject", ""), given.get("cause") or str(record.msg)
        if not subject:
            return
        label = given.get("label")
        if label is None and record.name.startswith(_OPEN) and not in_session():
            label = CONFIGURED
        failure = Failure(
            subject,
            cause,
            given.get("address", ""),
            given.get("step", ""),
            label,
            record.created,
        )
        self._known.pop(failure.kind, None)
        self._known[failure.kind] = failure
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        self._taken += 1
        if given.get("alert"):
            self._to_tell[failure.kind] = failure

    def newest(self) -> tuple[Failure, ...]:
        """Return the failures of this process within the last hour, newest last."""
        since = self._clock.wall_ms() / 1000 - HOUR
        return tuple(one for one in tuple(self._known.values()) if one.at >= since)

    def to_tell(self) -> tuple[Failure, ...]:
        """Return the failures to tell the owner, once: those that were logged as an `alert`."""
        told, self._to_tell = self._to_tell, {}
        return tuple(told.values())

    async def share(self) -> None:
        """Share the failures of this process with others, if there are new ones."""
        taken = self._taken
        if taken == self._shared:
            return
        written = json.dumps([_written(one) for one in self.newest()]).encode()
        with suppress(VaultError):
            await self._vault().put(self._key, written, HOUR)
            self._shared = taken

    async def all(self) -> tuple[Failure, ...]:
        """Return the failures of any process within the last hour, the newest of each kind, newest first."""
        found = {one.kind: one for one in await self.elsewhere()}
        for one in self.newest():
            if one.kind not in found or found[one.kind].at < one.at:
                found[one.kind] = one
        return tuple(sorted(found.values(), key=lambda one: -one.at))

    async def elsewhere(self) -> list[Failure]:
        """Return the failures of other processes, oldest first; none while the store is away."""
        vault, found, since = self._vault(), list[Failure](), self._clock.wall_ms() / 1000 - HOUR
        with suppress(VaultError):
            for name in await vault.names(_PREFIX):
                # Those of a process with another key of the vault hide no others.
                with suppress(LostValueError):
                    written = None if name == self._key else await vault.get(name)
                    found += _read(written or b"[]")
        return sorted((one for one in found if one.at >= since), key=lambda one: one.at)


def _written(failure: Failure) -> dict[str, str | float]:
    return {
        "subject": failure.subject,
        "cause": failure.cause,
        "address": failure.address,
        "step": failure.step,
        "label": "" if failure.label is None else str(failure.label),
        "at": failure.at,
    }


def _read(written: bytes) -> Iterator[Failure]:
    """Yield the failures that another process wrote, as far as this one can read them."""
    found: object = json.loads(written)
    for one in cast("list[dict[str, str]]", found if isinstance(found, list) else []):
        with suppress(KeyError, TypeError, ValueError, LabelTextError):
            label = parse(one["label"]) if one["label"] else None
            yield Failure(one["subject"], one["cause"], one["address"], one["step"], label, float(one["at"]))
