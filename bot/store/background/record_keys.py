"""The part of the store for the encryption keys of run records."""

from base64 import b64decode, b64encode

from bot.store.calls import session_call
from bot.store.schema import session_keys
from bot.store.scripts.loader import Script
from bot.store.shared import Shared


class RedisRecordKeys:
    """Implements the port `RecordKeys`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def record_key(self, sid: str, fresh: bytes = b"") -> bytes | None:
        """Return a session's key, the fresh one if it had none."""
        args = {"fresh": b64encode(fresh).decode("ascii") or None}
        got = await self._shared.run(session_call(Script.RECORD_KEY, session_keys(sid), args))
        return b64decode(got.text("key")) or None
