"""The part of the store that counts."""

from bot.store.base import Part
from bot.store.keys import count_key, count_op
from bot.store.scripts import Script


class Counts(Part):
    """Implements the port `CountStore`."""

    async def count(self, name: str, life: int) -> int:
        """Count one more."""
        reply = await self._link.script(Script.COUNT, [count_op(name, self._ids.op()), count_key(name)], [life])
        return int(reply[1])

    async def keep(self, name: str, life: int) -> None:
        """Let a count go on, or forget it."""
        key = count_key(name)
        await self._link.commands(("PEXPIRE", key, life) if life else ("UNLINK", key))
