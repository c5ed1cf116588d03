"""How a session takes inputs while a turn runs, and the withdrawal of inputs that wait."""

from bot.sessions.audit import AuditRow
from bot.sessions.inbox import InboxItem, QueueMode
from bot.store.calls import Arguments
from bot.store.scripts.loader import Script
from bot.store.sessions import refuse_change
from bot.store.shared import SessionChange, Shared


class RedisQueue:
    """Implements the port `QueueStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def set_mode(self, sid: str, mode: QueueMode, audit: tuple[AuditRow, ...]) -> None:
        """Set how a session takes inputs while a turn runs."""
        stored = None if mode is QueueMode.COLLECT else mode.value
        await self._changed(sid, Script.QUEUE_MODE, {"mode": stored}, audit)

    async def withdraw(self, sid: str, item: InboxItem, audit: tuple[AuditRow, ...]) -> None:
        """Cancel an input that waits."""
        args = {"position": item.position, "dedupe": item.dedupe, "keep": self._shared.options.keep_ms}
        await self._changed(sid, Script.WITHDRAW, args, audit)

    async def _changed(self, sid: str, script: Script, args: Arguments, audit: tuple[AuditRow, ...]) -> None:
        """Change a session together with audit rows. Raises NotFoundError: it is not there."""
        refuse_change(await self._shared.change(SessionChange(script, sid, args, self._shared.ids.op()), audit))
