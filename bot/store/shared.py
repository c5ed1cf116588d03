"""What the parts of the store share: the connection, the options, and how audit rows are chained before a write."""

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
from bot.store import codec
from bot.store.codec import Fetched, dump, raw, refs, text
from bot.store.connection import WALKED, Arg, Command, Connection, Reply
from bot.store.options import StoreOptions
from bot.store.schema import AUDIT, POLICY, READY, STATES, SessionKeys
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


class Shared:
    """What all parts of one store share: the connection, and what this process last saw at the store.

    `heads` are the heads of audit chains as last seen: a wrong one costs a round trip, never a wrong chain, as the
    scripts compare. `moved` are those that are new since they were anchored. `places` is where sessions are filed for
    listings. `ahead` is how many milliseconds the store's clock is ahead of ours: audit rows are stamped before they
    are sent. `policy` is the head of the policy in force. `outside` is held by the one that writes to the chain
    `audit`.
    """

    def __init__(
        self, connection: Connection, *, options: StoreOptions, audit_key: bytes, clock: Clock, ids: Ids
    ) -> None:
        self.connection = connection
        self.options = options
        self.audit_key = audit_key
        self.clock = clock
        self.ids = ids
        self.heads: OrderedDict[str, Head] = OrderedDict()
        self.moved: dict[str, Head] = {}
        self.places: OrderedDict[str, Place] = OrderedDict()
        self.ahead = 0
        self.policy: PolicyHead | None = None
        self.outside = asyncio.Lock()

    @property
    def process(self) -> str:
        """This process's name at the store."""
        return self.connection.name

    def saw_head(self, chain: str, head: Head) -> None:
        """Keep the head of a chain, as a write is made to follow it."""
        if head[0] and self.heads.get(chain) != head:
            self.moved[chain] = head
        self.heads[chain] = head
        self.heads.move_to_end(chain)
        if len(self.heads) > _HEADS:
            self.heads.popitem(last=False)

    def saw_policy(self, reply: Reply) -> None:
        """Keep what was read of the policy in force; of two answers that overtook one another, the newer counts."""
        version, digest, at, process, over = reply
        if version is None:
            self.policy = None
            return
        codec.check_version(version)
        seen = PolicyHead(text(digest), int(at), text(process), int(over or 0))
        if self.policy is None or (seen.at, seen.over) >= (self.policy.at, self.policy.over):
            self.policy = seen

    def saw_now(self, now: int) -> None:
        """Keep how far the store's clock is ahead; `now` is what it says, in milliseconds."""
        self.ahead = now - self.clock.wall_ms()

    async def chaining(
        self, chain: str, rows: Sequence[AuditRow], script: Callable[[list[Arg]], Awaitable[list[Reply]]]
    ) -> list[Reply]:
        """Chain rows to the head we know, run the script, and chain again as long as the head had moved.

        All sessions of all processes write to the chain `audit`, so one of a process writes there at a time.
        """
        async with self.outside if chain == AUDIT and rows else nullcontext():
            for _ in range(_CHAIN_TRIES):
                reply = await script(self.audit_args(chain, rows))
                if reply[0] != b"head":
                    return reply
                self.saw_head(chain, (int(reply[1]), text(reply[2])))
        raise StoreError("the audit chain moves faster than this process can follow", next_step="try again")

    def audit_args(self, chain: str, rows: Sequence[AuditRow]) -> list[Arg]:
        """Return rows as scripts take them, chained to the head we know."""
        if not rows:
            return [0]
        head = self.heads.get(chain, EMPTY)
        args: list[Arg] = [len(rows), head[0], head[1]]
        for record in chained(self.audit_key, chain, head, rows, ts=self.clock.wall_ms() + self.ahead):
            args += [record.ts, raw(record.kind), raw(record.actor), dump(record.body), record.hash]
        return args

    async def fetch(self, keys: SessionKeys, bodies: Sequence[bytes]) -> Fetched:
        """Read the large bodies that these stand for."""
        wanted = refs(bodies)
        if not wanted:
            return {}
        (found,) = await self.connection.commands(("MGET", *(keys.body(text(ref)) for ref in wanted)))
        return {ref: body for ref, body in zip(wanted, found, strict=True) if body is not None}

    async def state_pages(self, *, idly: bool = False) -> AsyncIterator[list[bytes]]:
        """Walk the keys of all sessions' records; one may come twice.

        A walk that is done `idly` rests nine times as long as it worked, so that nobody waits for it.
        """
        cursor, loop = b"", asyncio.get_running_loop()
        while cursor != WALKED:
            begin, most = loop.time(), _PAGE // 5 if idly else _PAGE
            cursor, found = await self.connection.walk(cursor or WALKED, STATES, most)
            if found:
                yield found
            if idly:
                await asyncio.sleep(_REST * (loop.time() - begin))

    def ready_hint(self, sid: str) -> Command:
        """Return the command that marks a session ready."""
        return ("ZADD", READY, self.clock.wall_ms(), raw(sid))

    async def mark_ready(self, sid: str, ready: int) -> None:
        """Mark a session ready if a script said that it is."""
        if ready:
            await self.connection.commands(self.ready_hint(sid))
