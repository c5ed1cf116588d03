"""Previews: an answer shown while it is written, gated and rate-limited like all texts, not durable."""

from typing import TYPE_CHECKING, Final

import anyio

from bot.access import principals
from bot.access.decision_context import DecisionContext
from bot.delivery.rate_limits import Patience, RateLimits
from bot.gate.gate import Gate
from bot.gate.results import decision_row
from bot.sessions.deliveries import SendSlot
from bot.sessions.ports.people import AuditStore
from channels.messages import Outbound
from channels.port import BusyChannelError, Channel, ChannelError
from policy.decision import Verdict
from policy.request import Hook

if TYPE_CHECKING:
    from pydantic import JsonValue

PACE_SECONDS: Final = 1.0
"""The least time between two edits of a preview."""


class Preview:
    """An answer that is still being written, shown up to the present end.

    It is shown only where no rule looks at its text, as such a rule could judge the whole differently. It must also be
    allowed unchanged. The readers are asked for again at every edit. A response that turns out to call a tool is not an
    answer, and its preview is taken back.
    """

    def __init__(
        self,
        channel: Channel | None,
        gate: Gate,
        *,
        audit: AuditStore,
        rate_limits: RateLimits,
        standing: DecisionContext,
        key: str,
    ) -> None:
        self._channel = channel if channel is not None and channel.previews else None
        self._gate = gate
        self._audit = audit
        self._rate_limits = rate_limits
        self._standing = standing
        self._key = key
        self._shown = ""
        self._next = 0.0

    async def show(self, text: str) -> None:
        """Show a text, at most one a second; an empty text takes the preview back."""
        now = anyio.current_time()
        if self._channel is None or text == self._shown or (text and now < self._next):
            return
        self._next = now + PACE_SECONDS
        if text and not await self._has_room():
            return
        if text and not await self._may_show(text):
            text = ""
        if text or self._shown:
            self._shown = text
            # A text that could not be shown is sent at the end all the same.
            try:
                await self._channel.preview(Outbound(self._standing.home, text, self._key))
            except BusyChannelError as error:
                await self._rate_limits.busy(self._turn(), error)
            except ChannelError:
                pass

    async def _has_room(self) -> bool:
        """Say whether an edit may be made now; an edit never waits, the next one shows more."""
        shared = self._standing.destination.shared
        return await self._rate_limits.wait(self._turn(), shared=shared, patience=Patience(0)) == 0

    def _turn(self) -> SendSlot:
        return SendSlot(str(self._standing.home))

    async def _may_show(self, text: str) -> bool:
        """Decide, against the present readers (hook PRE_OUTPUT)."""
        standing = self._standing
        meant = principals.meant_for(standing.principal, standing.asker, standing.home, standing.home)
        if principals.is_anothers(self._gate.document, standing.home, meant):
            return False
        destination = await self._gate.readers.destination(standing.home)
        decision = self._gate.output.beginning(self._standing, destination, text)
        if decision is None or decision.verdict is not Verdict.ALLOW:
            return False
        facts: dict[str, JsonValue] = {"session": standing.sid, "destination": str(standing.home), "preview": True}
        row = decision_row(standing, Hook.PRE_OUTPUT, decision, **facts)
        await self._audit.append((row,))
        return True
