"""All webhooks of a process: which it may send for, and which of their sessions changed.

Every process that answers programs sends. A webhook is sent for by one process at a time, by a right that is leased in
the store. One exchange keeps all of a process's rights, and takes a few more that are free, so processes that begin
together share them. One that dies leaves its webhooks to the others when the lease is over. A right is a matter of
order and of load: a process that lost one unnoticed may send an event a second time, under its id.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

from bot.core.errors import SchemaError, StoreError
from bot.sessions.audit import AuditRow
from bot.sessions.ports.changes import Changed
from bot.sessions.webhooks import ProgramWebhook
from bot.webhooks.delivery import SendingParts, WebhookDelivery

LEASE_SECONDS: Final = 2.0
"""How long a right lasts. With a look, it moves within three seconds after a crash, as every duty does."""

LOOK_SECONDS: Final = 2 / 3
"""How often rights are kept, and new webhooks found."""

SWEEP_SECONDS: Final = 60.0
"""How often sessions that changed are looked for where no hint came, and webhooks of programs that are no more."""

_MORE: Final = 8
"""How many webhooks a process takes besides at one look."""

_REMEMBERED: Final = 65_536
"""Of how many sessions it is remembered whose they are, which never changes."""


class _Running:
    """A webhook that is sent for here, and the event that ends that."""

    def __init__(self, delivery: WebhookDelivery) -> None:
        self.delivery = delivery
        self.scope = anyio.CancelScope()
        self.over = False

    async def serve(self) -> None:
        try:
            with self.scope:
                await self.delivery.serve()
        finally:
            self.over = True


class WebhookSender:
    """Sends for webhooks; `holder` names this process and this run of it."""

    def __init__(self, parts: SendingParts, holder: str) -> None:
        self._parts, self._holder = parts, holder
        self._running = dict[str, _Running]()
        self._idle = tuple[ProgramWebhook, ...]()
        self._owners = OrderedDict[str, str]()
        self._until = 0.0

    async def serve(self) -> None:
        """Run until cancelled, and leave the webhooks to others then."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow)
                tasks.start_soon(self._sweep)
                while True:
                    await self._look(tasks.start_soon)
                    await anyio.sleep(LOOK_SECONDS)
        finally:
            with anyio.CancelScope(shield=True), suppress(StoreError):
                await self._parts.store.webhooks.give_back(self._holder)

    def _held(self) -> bool:
        return self._parts.clock.monotonic() < self._until

    async def _look(self, spawn: Callable[..., object]) -> None:
        """Keep the rights, and send for those webhooks whose token counts."""
        begun, held = self._parts.clock.monotonic(), ()
        try:
            if await self._parts.asks_in_force():
                held = await self._parts.store.webhooks.hold(self._holder, round(LEASE_SECONDS * 1000), _MORE)
                # The lease may end as early as that: it began when the store answered, and not when it was asked.
                self._until = begun + LEASE_SECONDS
        except StoreError:
            # A held right stays so for its time.
            if self._held():
                return
        live = {one.id: one for one in held if self._parts.tokens.of(one.owner) is not None}
        self._idle = tuple(one for one in held if one.id not in live)
        for name in [name for name, one in self._running.items() if one.over or name not in live]:
            self._running.pop(name).scope.cancel()
        for name, webhook in live.items():
            known = self._running.get(name)
            if known is not None:
                known.delivery.renew(webhook)
            else:
                self._running[name] = _Running(WebhookDelivery(webhook, self._parts, self._held))
                spawn(self._running[name].serve)

    async def _follow(self) -> None:
        """Tell webhooks what changes."""
        async with self._parts.store.changes.watching() as feed:
            while True:
                await self._tell(await feed.next())

    async def _sweep(self) -> None:
        """Look for recent changes, in case their hints were lost, and forget webhooks of revoked programs."""
        seconds = self._parts.sweep_seconds
        while True:
            await anyio.sleep(seconds)
            since = self._parts.now() - round(2 * seconds * 1000)
            for one in list(self._running.values()):
                with suppress(StoreError):
                    await one.delivery.catch_up(since)
            with suppress(StoreError):
                await self._forget_revoked()

    async def _forget_revoked(self) -> None:
        """Forget the webhooks of programs whose token counts no more for good; one that expired may be rotated."""
        if not self._idle:
            return
        revoked = {token.name for token in await self._parts.store.tokens.tokens() if token.revoked}
        for one in [one for one in self._idle if one.owner in revoked]:
            told = {"do": "drop", "webhook": one.id, "url": one.url}
            await self._parts.store.audit.append((AuditRow("webhook", "revoked", {**told}),))
            await self._parts.store.webhooks.drop(one.id)
            await self._parts.secrets.drop(one.id)

    async def _tell(self, changed: Changed) -> None:
        if changed.everything:
            for one in list(self._running.values()):
                with suppress(StoreError):
                    await one.delivery.catch_up()
        if not self._running:
            return
        for sid in changed.sids:
            with suppress(StoreError):
                owner = await self._owner(sid)
                for one in self._running.values():
                    if one.delivery.principal == owner:
                        one.delivery.look(sid)

    async def _owner(self, sid: str) -> str:
        """Return whose a session is, empty for one that cannot be read."""
        if sid not in self._owners:
            try:
                state = await self._parts.store.sessions.state(sid)
            except SchemaError:
                state = None
            if state is None:
                return ""
            self._owners[sid] = state.principal
            if len(self._owners) > _REMEMBERED:
                self._owners.popitem(last=False)
        return self._owners[sid]
