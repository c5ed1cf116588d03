"""The store on the Redis protocol: all ports on one connection pool."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bot.core.clock import Clock
from bot.core.errors import StoreError, StoreGoneError, StoreRefusedError
from bot.core.ids import Ids
from bot.core.keys import KeySeries
from bot.sessions.installation.clocks import NodeClock
from bot.store.agents import RedisAgents
from bot.store.approvals import RedisAlternatives, RedisApprovals, RedisQuestionCopies
from bot.store.audit import RedisAudit
from bot.store.background.delegation import RedisDelegation
from bot.store.background.record_keys import RedisRecordKeys
from bot.store.background.runs import RedisRuns
from bot.store.background.schedules import RedisSchedules
from bot.store.backup.backups import RedisBackups
from bot.store.budgets import RedisBudgets
from bot.store.calls import call
from bot.store.coordination import RedisCounts, RedisInstallationKeys, RedisQuarantine, RedisRights, RedisUses
from bot.store.inbox.observed import RedisObserved
from bot.store.inbox.queue import RedisQueue
from bot.store.knowledge.memories import RedisMemories
from bot.store.knowledge.skills import RedisSkills
from bot.store.lifecycle import Eraser, RedisLifecycle
from bot.store.losses.losses import RedisLosses
from bot.store.options import StoreOptions
from bot.store.outbox import RedisOutbox, RedisRateLimits
from bot.store.policy import RedisAccess, RedisPolicy
from bot.store.programs.changes import RedisChanges
from bot.store.programs.tokens import RedisTokens
from bot.store.programs.webhooks import RedisWebhooks
from bot.store.records import codec
from bot.store.servers.clocks import StoreTime, clocks
from bot.store.servers.connection import Connection
from bot.store.servers.durability import called, durability, reported
from bot.store.servers.embedded_server import Supervisor
from bot.store.session_index import Filing, RedisSessionIndex
from bot.store.sessions import RedisSessions
from bot.store.shared import Shared
from bot.store.wake import RedisWake
from bot.store.workflows.logs import RedisWorkflows
from channels.port import VaultError

if TYPE_CHECKING:
    from bot.store.vault import Vault
from typing import Final

from bot.store.records.form import check_version
from bot.store.schema import AUDIT_HEAD, CHANGED, RESTORING, right_key
from bot.store.scripts.loader import Script


class RedisStore:
    """Implements `Store` of `bot.sessions.ports.store`, all parts on one connection. Made by `open_store`."""

    def __init__(
        self,
        connection: Connection,
        *,
        options: StoreOptions,
        audit_key: bytes | KeySeries,
        clock: Clock,
        ids: Ids,
        server: Supervisor | None = None,
    ) -> None:
        """Take a connection; `server` is the embedded server to leave on closing."""
        shared = Shared(connection, options=options, audit_key=audit_key, clock=clock, ids=ids)
        filing = Filing(shared)
        self._shared = shared
        self._server = server
        self.losses = RedisLosses(shared)
        self.sessions = RedisSessions(shared, filing, self.losses)
        self.agents = RedisAgents(shared)
        self.index = RedisSessionIndex(shared, filing)
        self.queue = RedisQueue(shared)
        self.approvals = RedisApprovals(shared)
        self.webhooks = RedisWebhooks(shared)
        self.runs = RedisRuns(shared, filing)
        eraser = Eraser(shared, filing, self.webhooks, self.runs)
        self.lifecycle = RedisLifecycle(shared, filing, eraser)
        self.wake = RedisWake(shared, filing, eraser)
        self.outbox = RedisOutbox(shared, filing)
        self.audit = RedisAudit(shared)
        self.policy = RedisPolicy(shared)
        self.access = RedisAccess(shared)
        self.tokens = RedisTokens(shared)
        self.delegation = RedisDelegation(shared, filing)
        self.schedules = RedisSchedules(shared)
        self.memories = RedisMemories(shared)
        self.skills = RedisSkills(shared)
        self.workflows = RedisWorkflows(shared)
        self.observed = RedisObserved(shared)
        self.rate_limits = RedisRateLimits(shared)
        self.rights = RedisRights(shared)
        self.alternatives = RedisAlternatives(shared)
        self.question_copies = RedisQuestionCopies(shared)
        self.counts = RedisCounts(shared)
        self.uses = RedisUses(shared)
        self.installation_keys = RedisInstallationKeys(shared)
        self.quarantine = RedisQuarantine(shared)
        self.budgets = RedisBudgets(shared)
        self.record_keys = RedisRecordKeys(shared)
        self.changes = RedisChanges(connection)
        self.backups = RedisBackups(shared, filing)

    @property
    def process(self) -> str:
        """This process's name at the store."""
        return self._shared.process

    @property
    def time(self) -> StoreTime:
        """The store's time, as the rest of the program uses it."""
        return self._shared.time

    @property
    def server(self) -> Supervisor | None:
        """The embedded server this process is attached to, if it is the embedded store."""
        return self._server

    def vault(self, keys: Sequence[bytes]) -> "Vault":
        """Return the vault of adapters, under these keys, the newest first; the library is loaded only then."""
        from bot.store.vault import Vault

        return Vault(self._shared.connection, self._shared.ids, keys)

    async def renew_vault(self, keys: Sequence[bytes]) -> None:
        """Encrypt the values of adapters anew under the first of these keys.

        Raises StoreError: they cannot be read or written.
        """
        try:
            await self.vault(keys).renew()
        except VaultError as error:
            # The store's own error tells how to mend it.
            raise error.__cause__ if isinstance(error.__cause__, StoreError) else StoreError(str(error)) from None

    async def complaints(self) -> list[StoreRefusedError]:
        """Return why the servers are unfit, and why they cannot write now, see `fitness`; doctor shows them."""
        return [*await complaints(self._shared.connection), *await proof(self._shared.connection)]

    async def durability(self) -> tuple[list[StoreRefusedError], str]:
        """Return the dangers to records that are written, and how often the servers sync; doctor shows them."""
        return await durability(self._shared.connection)

    async def clocks(self) -> tuple[NodeClock, ...]:
        """Return how far the clock of each server is ahead of that of this machine; the store's time follows them."""
        found = await clocks(self._shared.connection, self._shared.clock)
        for one in found:
            self._shared.time.saw(self._shared.clock.wall_ms() + one.ahead_ms)
        return found

    async def meet(self) -> None:
        """Refuse a store that a program of another version wrote, or that a backup is being put back into.

        Raises:
            SchemaError: Another version wrote it.
            StoreRefusedError: A restore has not ended.
            StoreError: It cannot be read.
        """
        asked = ("HGET", AUDIT_HEAD, *codec.stored_fields("version"))
        version, restoring = await self._shared.connection.commands(asked, ("EXISTS", RESTORING))
        if restoring:
            raise StoreRefusedError(
                "a restore into this store has not ended",
                next_step="wait for it, or repeat `lockgate restore FILE --replace`",
            )
        if version is not None:
            codec.reading(lambda: check_version(version))

    async def check(self) -> None:
        """Refuse a server that is unfit.

        Raises:
            StoreRefusedError: The first of its complaints.
            StoreGoneError: It does not answer.
        """
        found = await complaints(self._shared.connection)
        if found:
            raise found[0]

    async def close(self) -> None:
        """Close the connections and leave the embedded server; the last to leave stops it."""
        await self._shared.connection.close()
        if self._server is not None:
            await self._server.detach()


_LOADS_SECONDS: Final = 60.0
"""How long a server is waited for that loads its records."""

_LOOK_SECONDS: Final = 0.1

_OLDEST_REDIS: Final = (7, 4)


_OLDEST_VALKEY: Final = (9, 0)


async def complaints(connection: Connection) -> list[StoreRefusedError]:
    """Return why servers are unfit, worst first: too old, evicting, or not persistent. Doctor shows it.

    A server that does not let us ask (`CONFIG` forbidden, as on hosted ones) is trusted. While one loads its records it
    reports that it keeps no writes, so it is asked again. Raises StoreGoneError: one does not answer, or loads long.
    """
    for _ in range(round(_LOADS_SECONDS / _LOOK_SECONDS)):
        every = [(called(name), reported(info)) for name, info in await connection.everywhere(("INFO",))]
        if all(facts.get("loading", "0") == "0" for _, facts in every):
            return [one for who, facts in every for one in _complaints(facts, who)]
        await asyncio.sleep(_LOOK_SECONDS)
    raise StoreGoneError("the store still loads its records", next_step="wait until that is done, then try again")


def _complaints(facts: dict[str, str], who: str) -> Iterator[StoreRefusedError]:
    """Yield why a server is unfit, by the `facts` that it reports."""
    if "sentinel" in {facts.get("server_mode"), facts.get("redis_mode")}:
        yield StoreRefusedError(
            "`store.url` names a Sentinel and not a store",
            next_step="write it as `redis+sentinel://host:26379,host:26379/service`",
        )
        return
    valkey = facts.get("valkey_version", "")
    version = _numbers(valkey or facts.get("redis_version", "0"))
    if version < (_OLDEST_VALKEY if valkey else _OLDEST_REDIS):
        yield StoreRefusedError(
            f"{who} runs version {valkey or facts.get('redis_version', 'unknown')}, which is too old",
            next_step="use Redis 7.4 or Valkey 9, or newer",
        )
    if facts.get("maxmemory_policy", "noeviction") != "noeviction":
        yield StoreRefusedError(
            f"{who} evicts records (`maxmemory-policy` is `{facts['maxmemory_policy']}`)",
            next_step="set `maxmemory-policy noeviction`",
        )
    if facts.get("aof_enabled", "1") != "1":
        yield StoreRefusedError(
            f"{who} does not keep the writes that it acknowledges (`appendonly` is off)",
            next_step="set `appendonly yes` and choose `appendfsync`",
        )


async def proof(connection: Connection) -> list[StoreRefusedError]:
    """Return why servers cannot run a script that writes, or publish; nothing if they can do both.

    It leaves no data there.

    Raises StoreGoneError: one does not answer.
    """
    refusals = dict[str, StoreRefusedError]()
    for name in await connection.one_on_each(_proof_key):
        try:
            for life in (1000, 0):
                asked = call(Script.HOLD, {"right": _proof_key(name)}, {"owner": connection.name, "life": life})
                await connection.script(asked.script, asked.keys, asked.args)
            await connection.commands(("PUBLISH", CHANGED, ""))
        except StoreRefusedError as refusal:
            refusals.setdefault(str(refusal), refusal)
    return list(refusals.values())


def _proof_key(name: str) -> str:
    return right_key(f"proof{name}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
