"""The part of the store that is about what waits while a turn runs."""

from bot.core.errors import NotFoundError
from bot.sessions.audit import AuditRow
from bot.sessions.inbox import InboxItem, QueueMode
from bot.store.base import Part
from bot.store.keys import session_keys
from bot.store.link import Arg, Reply
from bot.store.scripts import Script
from bot.store.wire import raw, text


class Queueing(Part):
    """Implements the port `QueueStore`."""

    async def set_mode(self, sid: str, mode: QueueMode, audit: tuple[AuditRow, ...]) -> None:
        """Say how a session takes what comes while a turn runs."""
        keys = session_keys(sid)
        stored = "" if mode is QueueMode.COLLECT else mode.value
        await self._changed(sid, Script.QUEUE_MODE, [keys.state, keys.audit], [stored], audit)

    async def withdraw(self, sid: str, item: InboxItem, audit: tuple[AuditRow, ...]) -> None:
        """Cancel an input that waits."""
        keys = session_keys(sid)
        names = [keys.state, keys.inbox, keys.idem, keys.audit]
        args: list[Arg] = [item.position, raw(item.dedupe), self._options.keep_ms]
        await self._changed(sid, Script.WITHDRAW, names, args, audit)

    async def _changed(
        self, sid: str, script: Script, names: list[str], args: list[Arg], audit: tuple[AuditRow, ...]
    ) -> None:
        """Change something of a session with the rows that tell of it. Raises NotFoundError: it is not there."""
        op = session_keys(sid).op(self._ids.op())

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._link.script(script, [*names, op], [*args, *rows])

        reply = await self._chaining(sid, audit, run)
        if reply[0] == b"none":
            raise NotFoundError
        self._saw_head(sid, (int(reply[1]), text(reply[2])))
