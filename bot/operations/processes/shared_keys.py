"""The keys of this process, compared with those of the installation: at the start, and again and again after that.

The store has the names of the keys that all processes use (`bot.sessions.installation.keys`). A process that lacks one
of them, or uses an older one, does not start. One that notices it later, such as after a rotation on another machine,
stops: its messages wait for other processes, and it signs no row. It goes on as soon as it has the keys.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bot.audit.keys import RetiredKeys
from bot.core.errors import OtherKeysError, StoreError
from bot.core.ids import key_name
from bot.core.keys import KeySeries
from bot.sessions.audit import AuditRow
from bot.sessions.installation.keys import InstallationKeys, KeyUse, agreed
from bot.sessions.ports.people import AuditStore, InstallationKeyStore

if TYPE_CHECKING:
    from pydantic import JsonValue

Tell = Callable[[str], Awaitable[None]]

_LOGGER: Final = logging.getLogger(__name__)

STOPPED: Final = "{}: this process stopped serving"
AGAIN: Final = "this process has the keys of the installation again, and serves"

_LOOK_SECONDS: Final = 5.0
_TRIES: Final = 20


class SharedKeys:
    """The keys of a process. `vault` are those of adapters' values, and `place` tells people where they all are."""

    def __init__(
        self,
        store: InstallationKeyStore,
        *,
        audit: KeySeries,
        retired: RetiredKeys,
        session: KeySeries,
        vault: tuple[bytes, ...],
        place: str,
    ) -> None:
        self._store, self._place = store, place
        self._audit, self._retired, self._session, self._vault = audit, retired, session, vault
        self._problem: OtherKeysError | None = None
        # The store compares with the names that were read last.
        self._alone = asyncio.Lock()

    @property
    def problem(self) -> OtherKeysError | None:
        """Why this process may not serve, None if it may."""
        return self._problem

    async def agree(self) -> None:
        """Compare the keys of this process with those of the installation, and tell the store of newer ones.

        Raises:
            OtherKeysError: This process lacks a key, or uses an older one.
            StoreError: The store does not answer.
        """
        async with self._alone:
            for _ in range(_TRIES):
                known = await self._store.read()
                own = await asyncio.to_thread(self._own)
                after = agreed(own, known)
                if known is not None and after.compared == known.compared:
                    return
                if await self._store.put(after):
                    return
        raise StoreError("other processes change the keys of the installation", next_step="try again")

    async def compare(self) -> None:
        """Compare them as `agree` does, and tell the store nothing: nothing is written with them. Raises as `agree`."""
        async with self._alone:
            known = await self._store.read()
        if known is not None:
            agreed(await asyncio.to_thread(self._own), known)

    async def adopt(self, audit: AuditStore, actor: str) -> InstallationKeys:
        """Make the keys of this process those of the installation, and audit it: the other ones are lost.

        Raises StoreError.
        """
        async with self._alone:
            for _ in range(_TRIES):
                known, own = await self._store.read(), await asyncio.to_thread(self._own)
                after = own if known is None else replace(own, retired=own.retired | known.retired & set(own.audit))
                if await self._store.put(after):
                    before = None if known is None else _told(known)
                    row = AuditRow("key", actor, {"change": "adopt", "before": before, "now": _told(after)})
                    await audit.append((row,))
                    return after
        raise StoreError("other processes change the keys of the installation", next_step="try again")

    async def follow(self, tell: Tell, seconds: float = _LOOK_SECONDS) -> None:
        """Compare every so many seconds, until cancelled; `tell` is called when this process stops and goes on."""
        while True:
            await asyncio.sleep(seconds)
            # Without the store nothing is signed or served either.
            with suppress(StoreError):
                await self._look(tell)

    async def _look(self, tell: Tell) -> None:
        try:
            await self.agree()
        except OtherKeysError as error:
            self._store.bar(error)
            before, self._problem = self._problem, error
            if str(before) != str(error):
                facts = {"subject": "keys", "cause": str(error), "step": error.next_step}
                _LOGGER.warning("a process stopped serving", extra=facts)
                await tell(STOPPED.format(error))
                await tell(error.next_step)
            return
        self._store.bar(None)
        if self._problem is not None:
            self._problem = None
            await tell(AGAIN)

    def _own(self) -> InstallationKeys:
        """Return the keys that this process has now. It blocks. Raises OperatorError: they cannot be read."""
        self._audit.reload()
        self._session.reload()
        names = [tuple(map(key_name, keys)) for keys in (self._audit.all, self._session.all, self._vault)]
        audit, session, vault = names
        retired = self._retired.names() & set(audit)
        return InstallationKeys(audit, session, vault, frozenset(retired), self._place)


def _told(keys: InstallationKeys) -> "dict[str, JsonValue]":
    """Return the names of keys as a row of the audit has them."""
    return {use.value: " ".join(keys.of(use)) for use in KeyUse}
