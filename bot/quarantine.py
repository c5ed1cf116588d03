"""Sessions that cannot be worked, or accept no inputs: left alone for a growing pause, so that others are not affected.

Operators are told once, by one row of the audit and one line of the log, and by `lockgate doctor` for as long as it
lasts. It ends when the session can be worked again, or when an operator lets it out. Other people are not told: a
record that cannot be read may be of a session of any label.
"""

import logging
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from bot.core.errors import SchemaError, StoreGoneError, StoreRefusedError
from bot.core.logs import bound
from bot.sessions.audit import AuditRow
from bot.sessions.models import SCHEMA, Doing, Quarantined
from bot.sessions.ports.sessions import LifecycleStore, QuarantineStore

QUARANTINED: Final = "a session is in quarantine"
RELEASED: Final = "a session is out of quarantine"
_LOGGER: Final = logging.getLogger(__name__)


class Quarantine:
    """Knows the sessions in quarantine, as of the last read."""

    def __init__(self, store: QuarantineStore, lifecycle: LifecycleStore) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._known: dict[tuple[str, Doing], tuple[Quarantined, float]] = {}

    def rests(self, sid: str) -> bool:
        """Say whether a session must not be worked now; a newer program than the one that failed may try."""
        known, until = self._known.get((sid, Doing.WORK), (None, 0.0))
        return known is not None and known.schema >= SCHEMA and anyio.current_time() < until

    def tries(self, sid: str) -> int:
        """Return how often a session in quarantine could not be worked."""
        known, _ = self._known.get((sid, Doing.WORK), (None, 0.0))
        return 0 if known is None else known.tries

    def due(self) -> tuple[str, ...]:
        """Return the sessions whose pause is over: they must be tried, even without a hint."""
        return tuple(sid for sid, doing in self._known if doing is Doing.WORK and not self.rests(sid))

    async def refresh(self) -> None:
        """Read the sessions that other processes put there or let out. Raises StoreError."""
        self._known = {(one.sid, one.doing): _until(one) for one in await self._store.quarantined()}

    async def put(self, sid: str, doing: Doing, error: Exception) -> None:
        """Note that an operation failed for a session. Raises StoreError.

        One that failed by the store as a whole tells nothing of the session.
        """
        if isinstance(error, StoreGoneError) or (isinstance(error, StoreRefusedError) and not error.alone):
            return
        kind, where = type(error).__name__, _where(error)
        body: dict[str, str] = {"session": sid, "doing": doing.value, "error": kind, "where": where}
        one, new = await self._store.add(
            sid, doing, error=kind, where=where, audit=(AuditRow("quarantined", doing.value, {**body}),)
        )
        self._known[sid, doing] = _until(one)
        if doing is Doing.WORK:
            # A readable session is shown as failed, until a worker works it or a message comes.
            with suppress(SchemaError):
                await self._lifecycle.fail(sid)
        if new:
            with bound(session=sid):
                _LOGGER.error(QUARANTINED, exc_info=error, extra={"subject": doing.value, "kind": kind, "where": where})

    async def done(self, sid: str, doing: Doing) -> None:
        """Note that an operation succeeded for a session; a store request is made only for one in quarantine.

        Raises StoreError.
        """
        if self._known.pop((sid, doing), None) is not None:
            row = AuditRow("released", doing.value, {"session": sid, "doing": doing.value})
            if await self._store.unquarantine(sid, doing, (row,)):
                with bound(session=sid):
                    _LOGGER.warning(RELEASED, extra={"subject": doing.value})

    async def release(self, sid: str, actor: str) -> bool:
        """Let a session out, so that it is tried at once; return whether it was in. Raises StoreError."""
        released = False
        for doing in Doing:
            row = AuditRow("released", actor, {"session": sid, "doing": doing.value})
            released |= await self._store.unquarantine(sid, doing, (row,))
        return released

    async def all(self) -> Sequence[Quarantined]:
        """Return all sessions in quarantine. Raises StoreError."""
        return await self._store.quarantined()


def _until(one: Quarantined) -> tuple[Quarantined, float]:
    return one, anyio.current_time() + one.rest / 1000


def _where(error: Exception) -> str:
    """Return the place in the program where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
