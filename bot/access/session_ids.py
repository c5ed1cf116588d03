"""Which session a person's words at an address belong to.

An address has one session at a time, so that accepting a message is one script. A private chat may be another person's
one day: an account is taken from somebody, or the configuration calls them by another name. What was said before is not
the new one's to read (law `no_read_up`), nor may it be forgotten for them (law `taint_never_falls`). The session stays
as it is, for the person it was, and the other begins one of their own at the same address.

A session that is archived or deleted takes nothing any more. Its chat goes on in the session of the next generation
root: the first one that is still open. Ids are computed, so nothing has to note which one that is; a process remembers
it, and finds out again where another process has ended it.
"""

from collections import OrderedDict
from typing import Final

from bot.core.ids import session_id
from bot.sessions.ports import LifecycleStore
from channels.messages import Address

_REMEMBERED: Final = 4096


class SessionIds:
    """Names sessions under the key of an installation."""

    def __init__(self, store: LifecycleStore, key: bytes) -> None:
        self._store = store
        self._key = key
        # Of addresses whose first session is not the one in use; most have no other.
        self._roots: OrderedDict[tuple[Address, str], int] = OrderedDict()

    def first(self, address: Address) -> str:
        """Return the id of the first session of an address, whoever began it."""
        return session_id(self._key, str(address))

    def likely(self, address: Address, principal: str) -> str:
        """Return the id of the session in which a principal speaks at an address, as far as this process knows."""
        root = self._roots.get((address, principal), -1)
        return self.first(address) if root < 0 else session_id(self._key, str(address), principal, root)

    async def of(self, address: Address, principal: str) -> str:
        """Return the id of the session in which a principal speaks at an address. Raises StoreError."""
        root = self._roots.get((address, principal), -1)
        while True:
            sid = self.first(address) if root < 0 else session_id(self._key, str(address), principal, root)
            holder = await self._store.holder(sid)
            if holder is None or (holder.principal == principal and holder.open):
                break
            # The first is anybody's; where it is another's, a principal's own begin at 0.
            root = 1 if root < 0 and holder.principal == principal else root + 1
        # One that is not begun is not remembered: the one before may be restored.
        if root >= 0 and holder is not None:
            self._roots[address, principal] = root
            self._roots.move_to_end((address, principal))
            if len(self._roots) > _REMEMBERED:
                self._roots.popitem(last=False)
        return sid

    async def reopens(self, sid: str, address: Address, principal: str) -> bool:
        """Say whether a session that is archived could be spoken in again: its chat went on in no other since.

        Raises StoreError.
        """
        return await self._store.holder(sid) is not None and await self._next(sid, address, principal) is None

    async def _next(self, sid: str, address: Address, principal: str) -> str | None:
        """Return the id of the session that came after one, None if there is none."""
        root = -1
        while True:
            this = self.first(address) if root < 0 else session_id(self._key, str(address), principal, root)
            holder = await self._store.holder(this)
            if holder is None:
                return None
            following = 1 if root < 0 and holder.principal == principal else root + 1
            if this == sid:
                after = session_id(self._key, str(address), principal, following)
                return None if await self._store.holder(after) is None else after
            root = following
