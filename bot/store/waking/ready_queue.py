"""The queue of sessions that are marked ready, in which principals have turns in rotation (ADR 0060).

The script `mark_ready` gives each session its place. Its pool decides that: a principal's conversations are one pool,
and their background sessions another. This module makes the commands, and remembers the pools of sessions and the
places of those that this process took. Both are hints: a session of an unknown pool shares one with all such sessions.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from bot.store.calls import ScriptAnswer, ScriptCall, call
from bot.store.records.codec import raw, text
from bot.store.schema import READY, READY_POOLS
from bot.store.scripts.loader import Script
from bot.store.servers.connection import Reply

T = TypeVar("T")

_REMEMBERED: Final = 4096

_UNKNOWN: Final = "?"
"""The pool of sessions whose principal this process does not know."""

_DIGEST_BYTES: Final = 8


class ReadyQueue:
    """Places in the queue, as this process knows them."""

    def __init__(self) -> None:
        self._pools = OrderedDict[str, str]()
        self._taken = OrderedDict[str, int]()

    def know(self, sid: str, principal: str, *, background: bool) -> None:
        """Remember the pool of a session."""
        _keep(self._pools, sid, pool_name(principal, background=background))

    def know_by(self, sid: str, got: ScriptAnswer) -> None:
        """Remember the pool of a session, if a script answered whose it is."""
        if principal := got.text("principal"):
            self.know(sid, principal, background=got.flag("background"))

    def guess(self, sid: str, principal: str, *, background: bool) -> None:
        """Remember the pool of a session, unless one is known."""
        if sid not in self._pools:
            self.know(sid, principal, background=background)

    def took(self, entries: Iterable[Sequence[Reply]]) -> tuple[str, ...]:
        """Remember the places of sessions that this process took, pairs of id and place; return the sessions."""
        taken = [(text(member), int(float(place))) for member, place in entries]
        for sid, place in taken:
            _keep(self._taken, sid, place)
        return tuple(sid for sid, _ in taken)

    def mark(self, sids: Iterable[str]) -> ScriptCall:
        """Return the call that marks sessions ready, each behind the others of its pool."""
        for sid in sids:
            self._taken.pop(sid, None)
        return self.give_back(sids)

    def give_back(self, sids: Iterable[str]) -> ScriptCall:
        """Return the call that marks sessions ready again, those that this process took at their earlier places."""
        named = [[raw(sid), self._pools.get(sid, _UNKNOWN), *self._place(sid)] for sid in sids]
        return call(Script.MARK_READY, {"ready": READY, "pools": READY_POOLS}, {"sessions": named})

    def _place(self, sid: str) -> tuple[int, ...]:
        place = self._taken.pop(sid, None)
        return () if place is None else (place,)


def pool_name(principal: str, *, background: bool) -> str:
    """Return the name of a pool at the store: a digest, as the store need not know principals once more."""
    kind = b"background" if background else b"conversation"
    return hashlib.blake2b(kind + b"/" + raw(principal), digest_size=_DIGEST_BYTES).hexdigest()


def _keep(known: OrderedDict[str, T], sid: str, value: T) -> None:
    known[sid] = value
    known.move_to_end(sid)
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
