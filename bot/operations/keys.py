"""The keys of an installation: which there are, another audit or session key, and the end of older audit keys.

A rotation puts another key in force; rows that the old one signed keep their proof. Retirement ends an old key: it
proves only the rows that are there now, its exports are unknown, and a later row that it signed breaks its chain.

Another session key names the sessions that begin from now on. Older ones stay: the sessions that began under them are
found by them alone, so none is retired. All changes are rows of the chain `audit`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bot.audit.anchors import AnchoredChains
from bot.core.clock import Clock
from bot.core.errors import LockgateError, OperatorError
from bot.core.ids import key_name
from bot.core.keys import FOLLOWED_MS, KeySeries
from bot.operations.signing import ExportKey
from bot.sessions.audit import AuditRow
from bot.sessions.ports.people import AuditStore
from channels.port import Lease

AUDIT: Final = "audit"
SESSION: Final = "session"
VAULT: Final = "vault"
ROW: Final = "key"
RIGHT: Final = "keys"
"""The right to change keys."""


class KeyState(StrEnum):
    """Whether a key is used for new things, still proves rows or finds earlier sessions, or proves old rows alone."""

    IN_FORCE = "in force"
    OLD = "old"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key by its use and its name, which tells nothing of it."""

    use: str
    name: str
    state: KeyState


@dataclass(frozen=True, slots=True)
class RetiredAuditKeys:
    """Keys that were retired: their names, the public keys of their exports, and the number of chains."""

    names: tuple[str, ...]
    public: tuple[str, ...]
    chains: int


class KeyKeeper:
    """Lists and changes keys.

    `names` are the names of all newest keys by their use, `sessions` the session keys. `agree` compares the keys here
    with those of the installation, and tells other processes that they changed. `rights` lets one process of all change
    keys at a time. Of two machines that change them at once, one would lose its new key to get that of the other.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        chains: AnchoredChains,
        audit: AuditStore,
        clock: Clock,
        names: Mapping[str, str],
        *,
        sessions: KeySeries,
        agree: Callable[[], Awaitable[None]],
        rights: Lease,
    ) -> None:
        self._chains, self._audit, self._clock = chains, audit, clock
        self._names, self._sessions, self._agree, self._rights = names, sessions, agree, rights

    async def listed(self) -> tuple[ListedKey, ...]:
        """Return all keys. Raises OperatorError: they cannot be read."""
        retired = await asyncio.to_thread(self._chains.retired.names)
        found = list[ListedKey]()
        for key in self._chains.keys.all:
            name = key_name(key)
            old = KeyState.RETIRED if name in retired else KeyState.OLD
            found.append(ListedKey(AUDIT, name, KeyState.IN_FORCE if key == self._chains.keys.current else old))
        for key in self._sessions.all:
            newest = key == self._sessions.current
            found.append(ListedKey(SESSION, key_name(key), KeyState.IN_FORCE if newest else KeyState.OLD))
        others = ((use, name) for use, name in self._names.items() if use not in {AUDIT, SESSION})
        return (*found, *(ListedKey(use, name, KeyState.IN_FORCE) for use, name in others))

    async def rotate(self, actor: str) -> ListedKey:
        """Put another audit key in force, and audit it under that key.

        Raises:
            OperatorError: the keys come from the environment, or cannot be written.
            OtherKeysError: another machine changed them, and nothing is changed here.
            StoreError: the store cannot be written; a new key that was made is in force all the same.
        """
        if not self._chains.keys.rotatable:
            raise OperatorError(
                "LOCKGATE_AUDIT_KEY has the audit key",
                next_step="put a new key before it there, with a comma between, and restart every process",
            )
        async with self._alone():
            old = key_name(self._chains.keys.current)
            await self._chains.rotate()
            await self._agree()
            new = key_name(self._chains.keys.current)
            await self._audit.append((_rotated(actor, AUDIT, old, new),))
        return ListedKey(AUDIT, new, KeyState.IN_FORCE)

    async def rotate_session(self, actor: str) -> ListedKey:
        """Put another session key in force, and audit it.

        Raises:
            OperatorError: the keys come from the environment, or cannot be written.
            OtherKeysError: another machine changed them, and nothing is changed here.
            StoreError: the store cannot be written; a new key that was made is in force all the same.
        """
        if not self._sessions.rotatable:
            raise OperatorError(
                "LOCKGATE_SESSION_KEY has the session key",
                next_step="put a new key before it there, with a comma between, and restart every process",
            )
        async with self._alone():
            old = key_name(self._sessions.current)
            await asyncio.to_thread(self._sessions.rotate)
            await self._agree()
            new = key_name(self._sessions.current)
            await self._audit.append((_rotated(actor, SESSION, old, new),))
        return ListedKey(SESSION, new, KeyState.IN_FORCE)

    async def retire(self, actor: str) -> RetiredAuditKeys:
        """Retire all older audit keys, and audit it.

        Raises:
            OperatorError: there is none, or processes may still sign with one.
            StoreError: the store cannot be read or written.
        """
        async with self._alone():
            keys = await asyncio.to_thread(self._chains.retired.unretired)
            if not keys:
                raise OperatorError(
                    "there is no older audit key", next_step="`lockgate keys rotate audit` makes a new one"
                )
            since = self._clock.wall_ms() - await asyncio.to_thread(self._chains.keys.since_ms)
            if since < FOLLOWED_MS:
                left = (FOLLOWED_MS - since) // 1000 + 1
                raise OperatorError(
                    "processes may still sign with the old audit key", next_step=f"repeat it in {left} seconds"
                )
            names = tuple(map(key_name, keys))
            chains = await self._chains.retire(keys)
            await self._agree()
            public = tuple(ExportKey(key).public for key in keys)
            row = AuditRow(ROW, actor, {"change": "retire", "key": AUDIT, "old": list(names), "chains": chains})
            await self._audit.append((row,))
        return RetiredAuditKeys(names, public, chains)

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """Change keys as the only process, with those that the installation has now. Raises OtherKeysError."""
        failed: LockgateError | None = None
        async with self._rights.hold(RIGHT):
            try:
                await self._agree()
                yield
            except LockgateError as error:
                # A right is given back in a group of tasks, which would wrap it.
                failed = error
        if failed is not None:
            raise failed


def _rotated(actor: str, use: str, old: str, new: str) -> AuditRow:
    return AuditRow(ROW, actor, {"change": "rotate", "key": use, "old": old, "new": new})
