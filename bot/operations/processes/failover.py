"""The reaction to a failover of the store: losses are found, mended where they can be, and told.

Each process looks every two seconds whether the servers changed. Then it compares its knowledge with the store. At the
next look it has its latest inputs accepted again, and the messages that it carried between sessions. Lost ones are
taken once more, after other processes could note the losses of their sessions. Denials that the store forgot are put
back.

A loss is a warning of the log, which doctor shows and the owner is told, each as far as the session's label lets them.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bot.access.labelling import CONFIGURED
from bot.audit.anchors import OUTSIDE
from bot.core.errors import AskedError, OperatorError, RequestError, SchemaError, SealedError, StoreError
from bot.delivery.sweep import SWEEP_SECONDS
from bot.operations.backups.denials import Denials
from bot.policy_state import PolicyReloader
from bot.sessions.audit import AuditRow
from bot.sessions.installation.losses import LOG_TRUNCATED, Loss
from bot.sessions.ports.store import Store
from policy.labels import Label

LOST: Final = "the store lost writes that it had acknowledged"
TOOK_OVER: Final = "another server of the store serves, or it was started again"
ACCEPTED_AGAIN: Final = "inputs that the store lost were accepted again"
STEP: Final = "if no server of the store failed, look for tampering; docs/several-machines.md tells how to lose less"
RIGHTS: Final = f"{LOG_TRUNCATED}: changes of rights were lost, denials among them were put back"
RIGHTS_STEP: Final = "repeat the changes of users, chats and tokens that `lockgate policy who` lacks"

_STORE: Final = "store"
_LOGGER: Final = logging.getLogger(__name__)

Counted = Callable[[Label | None], None]
"""Counts a loss of a session with a label, None for one of the chain `audit`."""


class FailoverWatch:
    """Looks after losses of the store, for one process."""

    def __init__(self, store: Store, reloader: PolicyReloader) -> None:
        self._store, self._reloader = store, reloader
        self._compare = self._accept = False
        self._counted = list[Counted]()
        self._found = list[Loss]()

    def also(self, counted: Counted) -> None:
        """Have losses counted, too."""
        self._counted.append(counted)

    async def serve(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                # The store is away: the rest is done later.
                with suppress(StoreError):
                    await self.look()
            except Exception:
                _LOGGER.exception("losses of the store could not be looked for")
            await asyncio.sleep(SWEEP_SECONDS)

    async def look(self) -> None:
        """Look once. Raises StoreError: the next look goes on."""
        if self._accept:
            await self._accept_again()
        if await self._store.losses.took_over():
            _LOGGER.info(TOOK_OVER)
            self._compare = True
        if self._compare:
            await self._store.losses.look()
            await self._keep_denials()
            self._compare, self._accept = False, True
        self._found += self._store.losses.taken()
        while self._found:
            await self._report(self._found[0])
            del self._found[0]

    async def _accept_again(self) -> None:
        """Have the inputs and parcels accepted that the store lost; those that it has are the same ones."""
        count = 0
        for item, unless_asked in self._store.losses.recent():
            # The session may be full, archived, gone or damaged by now.
            with suppress(RequestError, AskedError, SealedError, SchemaError):
                count += not (await self._store.sessions.accept(item, unless_asked=unless_asked)).duplicate
        for parcel in self._store.losses.parcels():
            # On a Cluster its target may have lost it, while its sender knows that it arrived.
            with suppress(RequestError, SchemaError):
                await self._store.delegation.receive(parcel)
        self._accept = False
        if count:
            _LOGGER.warning(ACCEPTED_AGAIN, extra={"count": count})

    async def _keep_denials(self) -> None:
        """Put back the denials that the store lost, and tell that other changes of rights are lost."""
        known = await self._reloader.lost_changes()
        if known is None:
            return
        tokens, overrides = known
        # Others do the same: the first of them puts them back.
        with suppress(OperatorError, RequestError):
            await Denials(tokens, overrides).kept(self._store, _STORE, LOG_TRUNCATED)
        await self._reloader.open()
        facts = {"subject": _STORE, "cause": RIGHTS, "step": RIGHTS_STEP, "label": CONFIGURED, "alert": True}
        _LOGGER.warning(LOST, extra=facts)

    async def _report(self, loss: Loss) -> None:
        if loss.deleted:
            # Another process may have been first.
            with suppress(RequestError):
                await self._store.lifecycle.delete(loss.sid, (AuditRow(LOG_TRUNCATED, _STORE, {"deleted": True}),))
        if loss.gone:
            row = AuditRow(LOG_TRUNCATED, _STORE, {"session": loss.sid, "kept": 0, "lost": loss.lost})
            await self._store.audit.append_once(row, f"gone-{loss.sid}")
        for counted in self._counted:
            counted(loss.label)
        about = {"session": loss.sid, "kept": loss.kept, "lost": loss.lost}
        facts = {"subject": _STORE, "cause": _cause(loss), "step": STEP, "label": loss.label or CONFIGURED}
        _LOGGER.warning(LOST, extra={**facts, **about, "alert": True})


def _cause(loss: Loss) -> str:
    """Return the kind of a loss in words that do not depend on the session: equal failures are told once."""
    if loss.sid == OUTSIDE:
        lost = "the newest rows of the audit outside sessions were lost"
    elif loss.deleted:
        lost = "the deletion of a session was lost, and was repeated"
    elif loss.gone:
        lost = "a session was lost"
    elif loss.reset:
        lost = "the reset of a session was lost"
    else:
        lost = "the newest events of a session were lost"
    return f"{LOG_TRUNCATED}: {lost}"
