"""What the parts of the store share: the link, the options, and how audit rows are chained before a script runs."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Final

from bot.audit.chain import EMPTY, Head, chained
from bot.core.clock import Clock
from bot.core.errors import StoreError
from bot.core.ids import Ids
from bot.sessions.audit import AuditRow, PolicyHead
from bot.store import wire
from bot.store.keys import AUDIT, POLICY, READY, STATES, SessionKeys
from bot.store.link import Arg, Command, Link, Reply
from bot.store.options import StoreOptions
from bot.store.wire import Fetched, dump, raw, refs, text
from policy.labels import Label

Place = tuple[str, Label]
"""Where a session is filed for listings: its principal and its visibility."""

POLICY_ASKED: Final = ("HMGET", POLICY, "v", "digest", "at", "process", "over")
"""The command that reads which policy is in force; its reply goes to `_saw_policy`."""

_HEADS: Final = 4096
_CHAIN_TRIES: Final = 200
"""How often a head may have moved before a write: as often as four processes that write without a pause may do it."""
_PAGE: Final = 1000
_REST: Final = 9


class Part:
    """One part of the store; all parts of a store share one instance's state."""

    def __init__(self, link: Link, *, options: StoreOptions, audit_key: bytes, clock: Clock, ids: Ids) -> None:
        self._link = link
        self._options = options
        self._audit_key = audit_key
        self._clock = clock
        self._ids = ids
        # Heads as last seen; wrong ones cost a round trip, never a wrong chain: the scripts compare.
        self._heads: OrderedDict[str, Head] = OrderedDict()
        # Those of them that are new since somebody anchored them.
        self._moved: dict[str, Head] = {}
        # Where sessions are filed for listings, as this process did it last or found them.
        self._places: OrderedDict[str, Place] = OrderedDict()
        # How far the store's clock is ahead of ours, as last seen; audit rows are stamped before they are sent.
        self._ahead = 0
        self._policy: PolicyHead | None = None
        self._outside = asyncio.Lock()

    @property
    def process(self) -> str:
        """This process's name at the store."""
        return self._link.name

    def _saw_head(self, chain: str, head: Head) -> None:
        if head[0] and self._heads.get(chain) != head:
            self._moved[chain] = head
        self._heads[chain] = head
        self._heads.move_to_end(chain)
        if len(self._heads) > _HEADS:
            self._heads.popitem(last=False)

    def _saw_policy(self, reply: Reply) -> None:
        """Keep what was read of the policy in force; of two answers that overtook one another, the newer counts."""
        version, digest, at, process, over = reply
        if version is None:
            self._policy = None
            return
        wire.check_version(version)
        seen = PolicyHead(text(digest), int(at), text(process), int(over or 0))
        if self._policy is None or (seen.at, seen.over) >= (self._policy.at, self._policy.over):
            self._policy = seen

    def _saw_now(self, now: int) -> None:
        self._ahead = now - self._clock.wall_ms()

    async def _chaining(
        self, chain: str, rows: Sequence[AuditRow], script: Callable[[list[Arg]], Awaitable[list[Reply]]]
    ) -> list[Reply]:
        """Chain rows to the head we know, run the script, and chain again as long as the head had moved.

        All sessions of all processes write to the chain `audit`, so one of a process writes there at a time.
        """
        async with self._outside if chain == AUDIT and rows else nullcontext():
            for _ in range(_CHAIN_TRIES):
                reply = await script(self._audit_args(chain, rows))
                if reply[0] != b"head":
                    return reply
                self._saw_head(chain, (int(reply[1]), text(reply[2])))
        raise StoreError("the audit chain moves faster than this process can follow", next_step="try again")

    def _audit_args(self, chain: str, rows: Sequence[AuditRow]) -> list[Arg]:
        if not rows:
            return [0]
        head = self._heads.get(chain, EMPTY)
        args: list[Arg] = [len(rows), head[0], head[1]]
        for record in chained(self._audit_key, chain, head, rows, ts=self._clock.wall_ms() + self._ahead):
            args += [record.ts, raw(record.kind), raw(record.actor), dump(record.body), record.hash]
        return args

    async def _fetch(self, keys: SessionKeys, bodies: Sequence[bytes]) -> Fetched:
        """Read the large bodies that these stand for."""
        wanted = refs(bodies)
        if not wanted:
            return {}
        (found,) = await self._link.commands(("MGET", *(keys.body(text(ref)) for ref in wanted)))
        return {ref: body for ref, body in zip(wanted, found, strict=True) if body is not None}

    async def _state_pages(self, *, idly: bool = False) -> AsyncIterator[list[bytes]]:
        """Walk the keys of all sessions' records; one may come twice.

        A walk that is done `idly` rests nine times as long as it worked, so that nobody waits for it.
        """
        cursor, loop = b"", asyncio.get_running_loop()
        while cursor != b"0":
            begin, most = loop.time(), _PAGE // 5 if idly else _PAGE
            ((cursor, found),) = await self._link.commands(("SCAN", cursor or 0, "MATCH", STATES, "COUNT", most))
            if found:
                yield found
            if idly:
                await asyncio.sleep(_REST * (loop.time() - begin))

    def _ready_hint(self, sid: str) -> Command:
        return ("ZADD", READY, self._clock.wall_ms(), raw(sid))

    async def _mark_ready(self, sid: str, ready: int) -> None:
        if ready:
            await self._link.commands(self._ready_hint(sid))
