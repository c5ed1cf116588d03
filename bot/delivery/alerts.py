"""Alerts to the owner in private about failures that only they can mend, such as a refused key or a wrong name.

The person who asked in a chat reads one sentence without details. An alert has the label of the session that met with
the failure, so it is sent to chats cleared for that. Each label is counted apart: once an hour for each failure. The
console may have no reader; there the turn's own notice reports it.
"""

import asyncio
from contextlib import suppress
from typing import Final

from bot.access import labelling, principals
from bot.access.authorize import Caller, Ingress
from bot.access.decision_context import DecisionContext
from bot.core.clock import Clock
from bot.core.errors import StoreError
from bot.delivery.outbox import Outbox
from bot.failures import HOUR, Failure, Failures
from bot.gate.gate import Gate
from bot.sessions.ports.accounts import CountStore
from policy.labels import Label
from policy.request import Role

TOLD: Final = "{where}: {cause}; {step}"

_SECONDS: Final = 1.0
_HOUR_MS: Final = round(HOUR * 1000)


class Alerts:
    """Tells owners of failures, and shares failures with other processes."""

    def __init__(self, failures: Failures, store: CountStore, *, gate: Gate, outbox: Outbox, clock: Clock) -> None:
        self._failures = failures
        self._store = store
        self._gate = gate
        self._outbox = outbox
        self._clock = clock

    async def serve(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(_SECONDS)
            await self._failures.share()
            for failure in self._failures.to_tell():
                with suppress(StoreError):
                    await self._tell(failure)

    async def _tell(self, failure: Failure) -> None:
        """Tell the owners of a failure, unless they were told of it within the hour."""
        label = self._gate.document.top if failure.label is None else failure.label.join(labelling.CONFIGURED)
        name = f"mend/{failure.where}/{failure.cause}/{label}"
        if await self._store.count(name, _HOUR_MS) > 1:
            return
        text = TOLD.format(where=failure.where, cause=failure.cause, step=failure.step)
        told = False
        for owner, person in self._gate.document.principals.items():
            if person.role is Role.OWNER:
                told |= await self._told(Caller(owner, person.role, person.clearance, Ingress.COMMAND), text, label)
        if not told:
            await self._store.keep(name, 0)

    async def _told(self, owner: Caller, text: str, label: Label) -> bool:
        """Tell one owner at the first place where that may be said; return whether it was."""
        for home in labelling.private_places(self._gate.document, owner.principal, label):
            if home.channel == principals.CONSOLE or home.channel not in self._outbox.channels:
                continue
            destination = await self._gate.readers.destination(home)
            if destination.shared:
                continue
            standing = DecisionContext.of_caller(owner, home, destination, self._clock.wall_ms())
            if await self._outbox.tell(standing, text, (), label):
                return True
        return False
