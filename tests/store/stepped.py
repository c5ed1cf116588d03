"""A server whose time and whose exchanges a test decides, for all that is asked about budgets.

Each exchange waits until the test lets it go, so that calls meet in any order. The scripts are those of the program,
but for the clock: they read the time from a key.
"""

# pyright: reportPrivateUsage=false

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

from bot.core.clock import SystemClock
from bot.core.ids import Ids
from bot.sessions.budgets import DAY_MS, Spender
from bot.store.budgets import RedisBudgets
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.records.codec import pairs, text
from bot.store.records.form import unpack
from bot.store.records.kinds import PORTION, RESERVATION, SPENT
from bot.store.schema import GRANTS, budget_keys, chat_account, person_account
from bot.store.scripts.loader import KEYS, Script, load_scripts
from bot.store.servers.connection import Arg, Command, Connection, Reply
from bot.store.servers.embedded_server import Supervisor
from bot.store.shared import Shared
from tests.store.world import KEY

LIFE: Final = 60_000
PEOPLE: Final = ("ann", "bob", "cyd")
CHAT: Final = "chat:room::team:"
ACCOUNTS: Final = (*map(person_account, (*PEOPLE, "dan")), chat_account(CHAT))
_TIME: Final = """local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)"""
_SCRIPTS: Final = {
    script: known.text.replace(_TIME, "return tonumber(redis.call('GET', 'now'))").encode()
    for script, known in load_scripts().items()
    if "spending" in KEYS[script] or "grants" in KEYS[script]
}
_DIGESTS: Final = {script: hashlib.sha1(text, usedforsecurity=False).hexdigest() for script, text in _SCRIPTS.items()}


@dataclass
class Exchange:
    """Something asked of the server that waits to be let go: the keys that it is about, and where its reply goes."""

    run: Callable[[], Awaitable[Reply]]
    keys: Sequence[str]
    task: "asyncio.Task[Any] | None"
    reply: "asyncio.Future[Reply]"


@dataclass
class Server:
    """The one server: lets exchanges go one at a time, and knows what time it is. By itself it lets all go at once.

    `asked` are the round trips so far: the script, or the first command.
    """

    connection: Connection
    now: int = 20_000 * DAY_MS + 1
    waiting: list[Exchange] | None = None
    asked: list[str] = field(default_factory=list[str])

    async def begin(self) -> None:
        # What it holds is never read again, so that it need not wait for a disk.
        await self.connection.commands(("CONFIG", "SET", "appendfsync", "no"), ("FLUSHALL",), ("SET", "now", self.now))
        await self.connection.commands(*(("SCRIPT", "LOAD", script) for script in _SCRIPTS.values()))

    def later(self, what: str) -> int:
        """Return when what is set aside lapses, when it is evening and some of it does not, or when a day begins."""
        midnight = (self.now // DAY_MS + 1) * DAY_MS
        match what:
            case "lapse":
                return self.now + LIFE + 1
            case "evening":
                return max(self.now, midnight - LIFE // 2)
            case _:
                return midnight + 1

    async def pass_time(self, till: int) -> None:
        self.now = till
        await self.connection.commands(("SET", "now", self.now))

    async def ask(self, keys: Sequence[str], run: Callable[[], Awaitable[Reply]]) -> Reply:
        if self.waiting is None:
            return await run()
        exchange = Exchange(run, keys, asyncio.current_task(), asyncio.get_running_loop().create_future())
        self.waiting.append(exchange)
        return await exchange.reply


class Stepped:
    """A process's connection to that server."""

    name = "p-test"

    def __init__(self, server: Server) -> None:
        self._server = server

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg], *_: Command) -> Reply:
        self._server.asked.append(script.value)
        return await self._run(script, keys, args)

    async def _run(self, script: Script, keys: Sequence[str], args: Sequence[Arg]) -> Reply:
        asked = ("EVALSHA", _DIGESTS[script], len(keys), *keys, *args)

        async def run() -> Reply:
            return (await self._server.connection.commands(asked))[0]

        return await self._server.ask(keys, run)

    async def scripts(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Reply]:
        """Run the calls one after another: on a Cluster, and in a pipeline too, others come in between."""
        if calls:
            self._server.asked.append(script.value)
        return [await self._run(script, keys, args) for keys, args in calls]

    async def commands(self, *commands: Command) -> list[Reply]:
        self._server.asked.append(str(commands[0][0]))

        async def run() -> list[Reply]:
            replies = await self._server.connection.commands(*commands)
            clock = [str(self._server.now // 1000).encode(), str(self._server.now % 1000 * 1000).encode()]
            return [clock if words[0] == "TIME" else reply for words, reply in zip(commands, replies, strict=True)]

        return await self._server.ask((), run)


def process(server: Server) -> RedisBudgets:
    """Return the budgets as a process knows them that begins now."""
    connection = cast("Connection", cast("object", Stepped(server)))
    return RedisBudgets(Shared(connection, options=StoreOptions(), audit_key=KEY, clock=SystemClock(), ids=Ids()))


@dataclass
class Account:
    """What is stored of an account: what it may use, what was used by pool, and what is set aside by reservation."""

    granted: int
    used: int
    pools: Counter[str]
    aside: dict[str, tuple[str, int]]

    @property
    def total(self) -> int:
        return self.used + sum(tokens for _, tokens in self.aside.values())


@dataclass
class Seen:
    """What is stored, of each account, and of what the centre granted."""

    accounts: dict[str, Account]
    portions: dict[str, dict[str, Any]]

    @property
    def grants(self) -> dict[str, int]:
        """What the centre granted, with the sum of all."""
        return {name: one["granted"] for name, one in self.portions.items()}

    @property
    def total(self) -> int:
        return sum(one.total for name, one in self.accounts.items() if name[0] == "p")


async def look(server: Server) -> Seen:
    """Read what is stored from the server, as it counts now."""
    asked = [("HGETALL", key) for one in map(budget_keys, ACCOUNTS) for key in (one.spent, one.spending)]
    *flat, grants = await server.connection.commands(*asked, ("HGETALL", GRANTS))
    accounts = {
        name: account_of(pairs(spent), pairs(spending), server.now)
        for name, spent, spending in zip(ACCOUNTS, flat[::2], flat[1::2], strict=True)
    }
    return Seen(accounts, {text(name): unpack(PORTION, one) for name, one in pairs(grants).items()})


def accounts_of(spender: Spender) -> list[str]:
    """Return the accounts in which a spender's tokens are counted."""
    return [person_account(spender.person), *([chat_account(spender.chat)] if spender.chat else [])]


def account_of(spent: dict[bytes, bytes], spending: dict[bytes, bytes], now: int) -> Account:
    own = unpack(PORTION, spent.pop(b"portion")) if spent else {"granted": 0, "used": 0, "day": 0}
    opened = {text(name): unpack(RESERVATION, stored) for name, stored in spending.items()}
    aside = {name: (one["pool"], one["tokens"]) for name, one in opened.items() if one["lapses"] >= now}
    if own["day"] < now // DAY_MS:
        return Account(min(own["granted"], sum(one for _, one in aside.values())), 0, Counter(), aside)
    pools = Counter({text(pool): unpack(SPENT, stored)["tokens"] for pool, stored in spent.items()})
    return Account(own["granted"], own["used"], pools, aside)


@asynccontextmanager
async def emptied(supervisor: Supervisor) -> AsyncGenerator[Server]:
    """Empty the server for one example."""
    store = await open_store(audit_key=KEY, url=supervisor.url)
    try:
        server = Server(store._shared.connection)
        await server.begin()
        yield server
    finally:
        await store.close()
