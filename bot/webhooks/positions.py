"""How far a webhook came in its sessions, as a process knows that has the right to send for it.

It is read once and noted in the store after each event. If the outcome of a note is unknown, the position is read
again. A process that lost the right unnoticed may be behind: its notes change nothing then, and an event may be sent a
second time, under its id.
"""

from collections import OrderedDict
from dataclasses import replace
from typing import Final

from bot.sessions.ports.webhooks import WebhookStore
from bot.sessions.webhooks import DeadEvent, WebhookPosition

MOST_DEAD: Final = 200
"""How many events that were not taken are kept of a webhook, the newest."""

_REMEMBERED: Final = 4096
"""Of how many sessions of a webhook it is remembered how far it came."""


class WebhookPositions:
    """The positions of one webhook. Every coroutine raises StoreError."""

    def __init__(self, store: WebhookStore, webhook: str) -> None:
        self._store, self._webhook = store, webhook
        self._known = OrderedDict[str, WebhookPosition | None]()

    async def read(self, sids: tuple[str, ...]) -> dict[str, WebhookPosition]:
        """Return the store's positions in several sessions."""
        return await self._store.positions(self._webhook, sids)

    async def of(self, sid: str, enabled_at: int) -> WebhookPosition | None:
        """Return the position in a session; tries before the webhook was enabled no longer count."""
        if sid not in self._known:
            self.passed(sid, (await self.read((sid,))).get(sid))
        at = self._known[sid]
        if at is not None and at.attempt and at.tried_at < enabled_at:
            return WebhookPosition(at.seq, closed=at.closed)
        return at

    def passed(self, sid: str, at: WebhookPosition | None) -> None:
        """Keep how far it came without a note."""
        self._known[sid] = at
        self._known.move_to_end(sid)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def note(self, sid: str, at: WebhookPosition, *, now: int = 0, wait: int = 0) -> None:
        """Note how far it came; the next is tried `wait` milliseconds after `now`, on the store's clock."""
        self._known.pop(sid, None)
        await self._store.note(self._webhook, sid, at, wait=wait)
        self.passed(sid, replace(at, retry_at=now + wait, tried_at=now) if at.attempt else at)

    async def give_up(self, dead: DeadEvent) -> None:
        """Go on behind an event that was not taken."""
        self._known.pop(dead.sid, None)
        await self._store.give_up(dead, MOST_DEAD)
        self.passed(dead.sid, WebhookPosition(dead.seq))

    async def forget(self, sid: str) -> None:
        """Forget a session that was deleted."""
        self._known.pop(sid, None)
        await self._store.forget(self._webhook, sid)
