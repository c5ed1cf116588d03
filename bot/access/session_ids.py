"""The session that a person's words at an address belong to.

An address has one session at a time, so that accepting a message is one script. A private chat may pass to another
person: an account gets a new owner, or the configuration renames its owner. The new owner may not read the earlier
messages (law `no_read_up`), nor may these be forgotten for them (law `taint_never_falls`). The session stays with the
person it belonged to, and the other person begins one of their own at the same address.

An archived or deleted session takes no more inputs. Its chat continues in the session of the next generation root: the
first one that is still open. Ids are computed, so no record of the current root is needed. A process remembers it, and
finds it again after another process ended that session. A platform may redeliver a message that an ended session had
taken. So a process remembers which sessions of a chat ended lately, for as long as redelivery is possible.

There may be several session keys. A place, such as an address, has an id under each of them, and at most one of these
ids has a session: it goes on there. Where none has one, the newest key names the session to begin. The store first
seals the older ids, each in one step in which none began there. So a process that does not know the newest key yet is
refused at the store, and no race gives a place two sessions. With one key nothing is asked.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

from bot.core.clock import Clock
from bot.core.errors import SealedError
from bot.core.ids import session_id
from bot.core.keys import KeySeries
from bot.sessions.models import Holder, Status
from bot.sessions.ports.sessions import LifecycleStore
from channels.messages import Address

_REMEMBERED: Final = 4096

LATELY_MS: Final = 24 * 60 * 60 * 1000
"""For how many milliseconds after its end a session knows its inputs."""


@dataclass(frozen=True, slots=True)
class _InUse:
    """The generation root that a chat uses, and its sessions that ended lately with the times, in epoch ms."""

    root: int
    ended: tuple[tuple[str, int], ...]


class _Named(NamedTuple):
    """The names of a place that a session's id is made of."""

    address: str
    principal: str = ""
    root: int = 0


class SessionIds:
    """Names sessions under the keys of an installation."""

    def __init__(self, store: LifecycleStore, keys: KeySeries, clock: Clock) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock
        # The ids of places under several keys, once no other can have a session, and the keys for which that holds.
        self._settled = (keys.all, OrderedDict[_Named, str]())
        # Of addresses whose first session is not the one in use; most have no other.
        self._roots: OrderedDict[tuple[Address, str], _InUse] = OrderedDict()

    def newest(self, address: Address) -> str:
        """Return the id that the first session of an address has under the newest key known here."""
        return session_id(self._keys.current, str(address))

    def every(self, address: Address) -> tuple[str, ...]:
        """Return the ids that the first session of an address may have, the newest first."""
        return tuple(session_id(key, str(address)) for key in self._keys.all)

    async def first(self, address: Address, *, begins: bool = False) -> str:
        """Return the id of the first session of an address, of any principal.

        `begins` is set where that session may begin now. Raises StoreError.
        """
        return await self._id(_Named(str(address)), begins=begins)

    async def imported(self, kind: str, digest: str) -> str:
        """Return the id of a session that is imported: the same for the same file. Raises StoreError."""
        return await self._id(_Named(kind, digest), begins=True)

    async def likely(self, address: Address, principal: str) -> str:
        """Return the id of the session in which a principal speaks at an address, as far as this process knows.

        Raises StoreError.
        """
        known = self._roots.get((address, principal))
        return await self._under(-1 if known is None else known.root, address, principal)

    async def unsealed(self, sid: str, address: Address, principal: str) -> str:
        """Return the same as `likely` after the store refused to begin a session under the id `sid`.

        Raises:
            SealedError: this process cannot know the newer key.
            StoreError: the store cannot be used.
        """
        await asyncio.to_thread(self._keys.reload)
        again = await self.likely(address, principal)
        if again == sid:
            raise SealedError
        return again

    def ended(self, address: Address, principal: str) -> tuple[str, ...]:
        """Return the ids of a principal's sessions at an address that ended lately, as far as this process knows."""
        return self._lately(self._roots.get((address, principal)))

    async def of(self, address: Address, principal: str) -> str:
        """Return the id of the session in which a principal speaks at an address. Raises StoreError."""
        sid, _ = await self.found(address, principal)
        return sid

    async def found(self, address: Address, principal: str) -> tuple[str, tuple[str, ...]]:
        """Return the same as `of`, with the ids of sessions there that ended lately. Raises StoreError."""
        known = self._roots.get((address, principal))
        root, ended = (-1, list[tuple[str, int]]()) if known is None else (known.root, list(known.ended))
        while True:
            sid = await self._under(root, address, principal)
            holder = await self._store.holder(sid)
            if holder is None or (holder.principal == principal and holder.open):
                break
            if holder.principal == principal:
                ended.append((sid, holder.updated_at))
            root = _after(root, holder, principal)
        known = _InUse(root, tuple((one, at) for one, at in ended if self._clock.wall_ms() - at < LATELY_MS))
        # A session that has not begun is not remembered: the one before may be restored.
        if root >= 0 and holder is not None:
            self._remember(address, principal, known)
        return sid, self._lately(known)

    async def undeleted(self, address: Address, principal: str) -> str:
        """Return the id of a principal's session at an address that was not deleted, or of the next one to begin.

        An archived session counts: the address still names it. Raises StoreError.
        """
        known = self._roots.get((address, principal))
        root = -1 if known is None else known.root
        while True:
            sid = await self._under(root, address, principal)
            holder = await self._store.holder(sid)
            if holder is None or holder.status is not Status.DELETED:
                return sid
            root = _after(root, holder, principal)
            self._remember(address, principal, _InUse(root, ()))

    def _remember(self, address: Address, principal: str, known: _InUse) -> None:
        self._roots[address, principal] = known
        self._roots.move_to_end((address, principal))
        if len(self._roots) > _REMEMBERED:
            self._roots.popitem(last=False)

    def _lately(self, known: _InUse | None) -> tuple[str, ...]:
        now = self._clock.wall_ms()
        return () if known is None else tuple(sid for sid, at in known.ended if now - at < LATELY_MS)

    async def follower(self, sid: str, address: Address, principal: str) -> str | None:
        """Return the id under which its chat continues after a session, None for a session that no chat led to.

        Raises StoreError.
        """
        root = -1
        while (holder := await self._store.holder(one := await self._under(root, address, principal))) is not None:
            root = _after(root, holder, principal)
            if one == sid:
                return await self._under(root, address, principal)
        return None

    async def _under(self, root: int, address: Address, principal: str) -> str:
        """Return the id of the session under a root; -1 is the first session of an address, of any principal."""
        named = _Named(str(address)) if root < 0 else _Named(str(address), principal, root)
        return await self._id(named, begins=True)

    async def _id(self, named: _Named, *, begins: bool) -> str:
        """Return the id of a place under the key under which its session began, else under the newest."""
        await self._keys.fresh()
        keys = self._keys.all
        if len(keys) == 1:
            return session_id(keys[0], *named)
        if self._settled[0] is not keys:
            self._settled = (keys, OrderedDict[_Named, str]())
        _, settled = self._settled
        if (known := settled.get(named)) is not None:
            settled.move_to_end(named)
            return known
        ids = [session_id(key, *named) for key in keys]
        begun = await self._store.begun(ids, seal=begins)
        # An older one comes first: were there two, the conversation would go on where it was.
        found = next((sid for sid in reversed(ids) if sid in begun), None)
        if found is not None or begins:
            # It stays so: a session is never forgotten as a whole, and a sealed id gets none.
            settled[named] = found or ids[0]
            if len(settled) > _REMEMBERED:
                settled.popitem(last=False)
        return found or ids[0]


def _after(root: int, holder: Holder, principal: str) -> int:
    """Return the next root; where the first session belongs to another principal, a principal's own begin at 0."""
    return 1 if root < 0 and holder.principal == principal else root + 1
