"""The common base of the store's parts: the connection, the options, and the execution of scripts with audit rows."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from bot.audit.chain import EMPTY, Head, chained
from bot.core.clock import Clock
from bot.core.errors import StoreError
from bot.core.ids import Ids
from bot.core.keys import KeySeries
from bot.sessions.audit import AuditRow, PolicyHead
from bot.sessions.log.events import Event
from bot.store.calls import Arguments, ScriptAnswer, ScriptCall, answer, call, nested, session_call
from bot.store.options import StoreOptions
from bot.store.records import codec
from bot.store.records.codec import Bodies, Fetched, StreamEntry, referred, text
from bot.store.records.form import check_version
from bot.store.records.kinds import EVENT
from bot.store.records.marks import LogMarks
from bot.store.schema import (
    AUDIT,
    AUDIT_CHAIN,
    AUDIT_HEAD,
    POLICY,
    STATES,
    SessionKeys,
    audit_op,
    session_keys,
)
from bot.store.scripts.loader import Script
from bot.store.servers.clocks import StoreTime
from bot.store.servers.connection import WALKED, Command, Connection, Reply
from bot.store.waking.ready_queue import ReadyQueue
from policy.labels import Label

Place = tuple[str, Label]
"""Where a session is filed for listings: its principal and its visibility."""


_POLICY_FIELDS: Final = ("version", "digest", "time", "process", "changes")

POLICY_ASKED: Final = ("HMGET", POLICY, *_POLICY_FIELDS)
"""The command that reads which policy is in force; its reply goes to `saw_policy`."""


_HEADS: Final = 4096


_CHAIN_TRIES: Final = 200
"""How often a head may move before a write: as often as four processes that write without a pause may move it."""


_PAGE: Final = 1000


_LONGEST_WRITE_REST: Final = 0.05
"""How many seconds a process rests at most after a write to the chain `audit`."""


_REST: Final = 9


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A script that changes the session `sid`; `op` names the call where its answer is kept.

    `bodies` has the large texts of the call.
    """

    script: Script
    sid: str
    args: Arguments
    op: str = ""
    bodies: Bodies | None = None


class Shared:
    """The state that all parts of one store share: the connection, and this process's last view of the store.

    `heads` are the heads of audit chains as last seen: a wrong one costs a round trip, never a wrong chain, as the
    scripts compare. `moved` are the heads that are new since the last anchoring. `places` tells where sessions are
    filed for listings. `marks` are the newest states of sessions that are known. `time` is the store's: audit rows get
    their time before they are sent. `queue` is the queue of ready sessions. `policy` is the head of the policy in
    force. `barred` is why this process may sign no rows, and `agree` is called before it signs the first.
    """

    def __init__(
        self, connection: Connection, *, options: StoreOptions, audit_key: bytes | KeySeries, clock: Clock, ids: Ids
    ) -> None:
        self.connection = connection
        self.options = options
        self.audit_keys = KeySeries.of(audit_key)
        self.clock = clock
        self.ids = ids
        self.heads: OrderedDict[str, Head] = OrderedDict()
        self.moved: dict[str, Head] = {}
        self.places: OrderedDict[str, Place] = OrderedDict()
        self.marks = LogMarks()
        self.time = StoreTime(clock)
        self.queue = ReadyQueue()
        self.policy: PolicyHead | None = None
        self._writing, self._rested = asyncio.Lock(), 0.0
        self.barred: StoreError | None = None
        self.agree: Callable[[], Awaitable[None]] | None = None

    @property
    def audit_key(self) -> bytes:
        """The audit key that signs now."""
        return self.audit_keys.current

    @property
    def process(self) -> str:
        """This process's name at the store."""
        return self.connection.name

    async def run(self, asked: ScriptCall, *hints: Command) -> ScriptAnswer:
        """Run a script; `hints` are written after it.

        Raises StoreError.
        """
        return answer(await self.connection.script(asked.script, asked.keys, asked.args, *hints))

    async def run_all(self, asked: Sequence[ScriptCall]) -> list[ScriptAnswer | None]:
        """Run one script several times in one round trip; None for a session whose record cannot be read."""
        calls = [(one.keys, one.args) for one in asked]
        replies = await self.connection.scripts(asked[0].script, calls) if asked else []
        return [None if reply is None else answer(reply) for reply in replies]

    async def run_asking(self, asked: ScriptCall, *hints: Command) -> ScriptAnswer:
        """Run a script as `run` does, and read after it which policy is in force."""
        reply, policy = await self.connection.script_asking(asked.script, asked.keys, asked.args, POLICY_ASKED, *hints)
        self.saw_policy(policy)
        return answer(reply)

    def saw_head(self, chain: str, head: Head, noted: int = 0) -> None:
        """Keep the head of a chain, so that the next write follows it; `noted` is as in `HeadMark`."""
        self.marks.saw_head(chain, head, noted)
        if head[0] and self.heads.get(chain) != head:
            self.moved[chain] = head
        self.heads[chain] = head
        self.heads.move_to_end(chain)
        if len(self.heads) > _HEADS:
            self.heads.popitem(last=False)

    def saw_policy(self, reply: Sequence[Reply]) -> None:
        """Keep the policy head that was read; of two answers that overtook one another, the newer counts."""
        version, digest, at, process, changes = reply
        if version is None:
            self.policy = None
            return
        codec.reading(lambda: check_version(version))
        seen = PolicyHead(text(digest), int(at), text(process), int(changes or 0))
        if self.policy is None or (seen.at, seen.over) >= (self.policy.at, self.policy.over):
            self.policy = seen

    def saw_policy_of(self, got: ScriptAnswer) -> None:
        """Keep the policy head that a script answered."""
        self.saw_policy([got.value(name) for name in _POLICY_FIELDS])

    def latest(self, now: int) -> int:
        """Note a server's time, and return the later one of it and the store's time, by which rights end; in ms."""
        self.time.saw(now)
        return max(now, self.time.wall_ms())

    def doubt(self) -> int:
        """Return when another server may last have taken over, in ms on the store's clock, 0 for never.

        It may not know that a delivery from before was sent, and workers may have lost their turns by it.
        """
        ago = self.connection.failed
        return 0 if ago is None else self.time.wall_ms() - round(ago * 1000)

    async def chaining(
        self, chain: str, rows: Sequence[AuditRow], run: Callable[[Arguments | None], Awaitable[ScriptAnswer]]
    ) -> ScriptAnswer:
        """Chain rows to the head we know, run a script with them, and chain again as long as the head had moved.

        All sessions of all processes write to the chain `audit`, so a process does one such write at a time.
        """
        if rows and self.agree is not None:
            await self.agree()
            self.agree = None
        async with self._outside() if chain == AUDIT and rows else nullcontext():
            await self.audit_keys.fresh()
            for _ in range(_CHAIN_TRIES):
                if self.barred is not None and rows:
                    raise self.barred
                got = await run(self.audit_argument(chain, rows))
                if got.value("audit_seq") is not None or got.word == "head":
                    head = codec.head(got.value("audit_seq"), got.value("audit_hash"))
                    self.saw_head(chain, head, got.number("truncated"))
                if got.word != "head":
                    return got
        raise StoreError("the audit chain moves faster than this process can follow", next_step="try again")

    @asynccontextmanager
    async def _outside(self) -> AsyncGenerator[None]:
        """Write to the chain `audit`, alone in this process, and rested.

        A process rests as long as its write took: one that writes without a pause moves the head before any other can
        follow it.
        """
        loop = asyncio.get_running_loop()
        async with self._writing:
            await asyncio.sleep(self._rested - loop.time())
            begun = loop.time()
            try:
                yield
            finally:
                ended = loop.time()
                self._rested = ended + min(ended - begun, _LONGEST_WRITE_REST)

    async def change(self, change: SessionChange, rows: Sequence[AuditRow], *hints: Command) -> ScriptAnswer:
        """Run a script on one session with audit rows for that session's chain."""
        keys = session_keys(change.sid)

        async def run(audit: Arguments | None) -> ScriptAnswer:
            args = {**change.args, "audit": audit}
            return await self.run(session_call(change.script, keys, args, op=change.op, bodies=change.bodies), *hints)

        return await self.chaining(change.sid, rows, run)

    async def change_outside(
        self, script: Script, keys: Mapping[str, str], args: Arguments, rows: Sequence[AuditRow]
    ) -> ScriptAnswer:
        """Run a script that concerns no session with audit rows for the chain `audit`."""
        names = {"head": AUDIT_HEAD, "audit": AUDIT_CHAIN, "op": audit_op(self.ids.op()), **keys}

        async def run(audit: Arguments | None) -> ScriptAnswer:
            return await self.run(call(script, names, {**args, "audit": audit}))

        return await self.chaining(AUDIT, rows, run)

    def audit_argument(self, chain: str, rows: Sequence[AuditRow]) -> Arguments | None:
        """Return rows as scripts take them, chained to the head we know; None for no rows."""
        if not rows:
            return None
        seq, before = self.heads.get(chain, EMPTY)
        records = chained(self.audit_key, chain, (seq, before), rows, ts=self.time.wall_ms())
        told = [codec.audit_record(one) for one in records]
        return nested({"seq": seq, "hash": before, "rows": told, "head": records[-1].hash})

    async def fetch(self, keys: SessionKeys, bodies: Sequence[str]) -> Fetched:
        """Read the large bodies that these references stand for."""
        wanted = referred(bodies)
        if not wanted:
            return {}
        (found,) = await self.connection.commands(("MGET", *map(keys.body, wanted)))
        return {ref: text(body) for ref, body in zip(wanted, found, strict=True) if body is not None}

    async def events(self, keys: SessionKeys, entries: Sequence[StreamEntry]) -> tuple[Event, ...]:
        """Read events from the entries of a log. Raises SchemaError."""
        got = codec.reading(lambda: [codec.entry(EVENT, entry) for entry in entries])
        fetched = await self.fetch(keys, [body for _, one in got for body in codec.event_bodies(one)])
        return codec.reading(lambda: tuple([codec.event(name, one, fetched) for name, one in got]))

    async def state_pages(self, *, idly: bool = False) -> AsyncIterator[list[bytes]]:
        """Walk the keys of all sessions' records; a key may come twice.

        A walk done `idly` pauses nine times as long as it worked, to leave the store to others.
        """
        cursor, loop = b"", asyncio.get_running_loop()
        while cursor != WALKED:
            begin, most = loop.time(), _PAGE // 5 if idly else _PAGE
            cursor, found = await self.connection.walk(cursor or WALKED, STATES, most)
            if found:
                yield found
            if idly:
                await asyncio.sleep(_REST * (loop.time() - begin))

    def ready_hint(self, *sids: str, again: bool = False) -> Command:
        """Return the command that marks sessions ready; a session that is marked keeps its place.

        With `again` those that this process took from the queue get their places back.
        """
        marked = self.queue.give_back(sids) if again else self.queue.mark(sids)
        return self.connection.command(marked.script, marked.keys, marked.args)

    async def mark_ready(self, sid: str, got: ScriptAnswer, *, again: bool = False) -> None:
        """Mark a session ready if a script answered that it is."""
        self.queue.know_by(sid, got)
        if got.flag("ready"):
            await self.connection.commands(self.ready_hint(sid, again=again))
